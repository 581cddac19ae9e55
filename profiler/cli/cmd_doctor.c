/* SPDX-License-Identifier: Apache-2.0 */
/* doctor: the chain from the kernel to a profile, and why a container has none. */
#include "profiler/cli/command.h"

#include "oci/base/fd.h"
#include "oci/base/json/json_write.h"
#include "profiler/install/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#define EXIT_WARNINGS EXIT_NOTHING

static const char *const states[FINDING_STATES] = {"ok", "warning", "broken"};

struct report {
	bool json;
	struct jsonout *list;
	enum finding_state worst;
	int error;
};

static struct jsonout *make_result_json(const char *link, const struct check_result *f)
{
	struct jsonout *o = json_write_object();
	int r = json_write_add(o, "link", json_write_text(link));
	if (r == 0)
		r = json_write_add(o, "state", json_write_text(states[f->state]));
	if (r == 0)
		r = json_write_add(o, "what", json_write_text(f->what));
	if (r == 0 && f->way[0])
		r = json_write_add(o, "way_out", json_write_text(f->way));
	return r < 0 ? json_write_free(o) : o;
}

static void run_check(struct report *r, const struct doctor *d, const char *link, doctor_fn *fn)
{
	static struct check_result f;
	f = (struct check_result){.what = ""};
	fn(d, &f);
	command_clean(f.what);
	command_clean(f.way);
	r->worst = f.state > r->worst ? f.state : r->worst;
	if (r->json) {
		if (r->error == 0)
			r->error = json_write_add(r->list, NULL, make_result_json(link, &f));
		return;
	}
	printf("%-8s %-20s %s\n", states[f.state], link, f.what);
	if (f.way[0])
		printf("%-8s %-20s   %s\n", "", "", f.way);
}

/* Reads the settings as the hook does; a mistake in them is a finding. */
static void read_settings(struct doctor *d)
{
	struct options *o = &d->options;
	options_default(o);
	fd_auto policy = fd_open_beneath(file_changes_root(d->host), OPTIONS_ETC "/policy.conf", O_RDONLY | O_NONBLOCK);
	fd_auto file = fd_open_beneath(file_changes_root(d->host), OPTIONS_ETC "/pillion.conf", O_RDONLY | O_NONBLOCK);
	if (policy >= 0)
		options_read_fd(o, OPTION_POLICY, policy, "policy.conf", NULL);
	if (file >= 0)
		options_read_fd(o, OPTION_FILE, file, "pillion.conf", NULL);
}

static int run_checks(struct doctor *d, struct report *r)
{
	read_settings(d);
	for (const struct check *l = doctor_links; l->name; l++)
		if (d->here || !l->here)
			run_check(r, d, l->name, l->look);
	if (d->container)
		run_check(r, d, "container", doctor_container);
	if (r->json && r->error == 0)
		r->error = json_write_out(r->list, stdout);
	if (r->error < 0)
		return command_fail("doctor", EXIT_FAILED, "cannot write: %s", strerror(-r->error));
	return r->worst == FINDING_BROKEN ? EXIT_FAILED : r->worst == FINDING_WARNING ? EXIT_WARNINGS : EXIT_DONE;
}

static int run(int argc, char **argv)
{
	static struct doctor d;
	struct report r = {.list = NULL};
	struct err e = {0};
	const char *root = "/";
	const struct command_option options[] = {
		{.name = "--json", .on = &r.json}, {.name = "--root", .value = &root}, {0}};
	int n = command_options(argc, argv, options);
	if (n < 0)
		return EXIT_USAGE;
	if (n > 1)
		return command_fail(argv[0], EXIT_USAGE, "it takes one container, so '%s' is one too many", argv[2]);
	d.container = n ? argv[1] : NULL;
	d.here = !strcmp(root, "/");
	if (d.container && !d.here)
		return command_fail(argv[0], EXIT_USAGE, "a container of another tree than / cannot be looked at");
	if (file_changes_open(root, true, &d.host, &e) < 0)
		return command_fail(argv[0], EXIT_FAILED, "%s", e.text);
	r.list = r.json ? json_write_array() : NULL;
	int code = run_checks(&d, &r);
	json_write_free(r.list);
	file_changes_close(d.host);
	return code;
}

const struct command cmd_doctor = {
	.name = "doctor",
	.line = "why there is no profile: checks every step",
	.help = "usage: pillion doctor [CONTAINER|PID] [--json] [--root DIR]\n"
		"\n"
		"Checks every step from the kernel to a profile: each is well, a warning or an error, with a fix.\n"
		"Tells why a container, by name, id or pid, is profiled or is not. Changes nothing. Run it as root\n"
		"to have all checks. Exit status: 0 all is well, 1 an error, 3 warnings alone.\n"
		"\n"
		"  --json       an array with an object for each check instead\n"
		"  --root DIR   of another file tree than /: its engines, hooks and settings\n"
		"\n"
		"example: sudo pillion doctor my-container\n",
	.run = run,
};
