/* SPDX-License-Identifier: Apache-2.0 */
/* The links between the hook and a profile. */
#include "profiler/install/doctor.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "profiler/push/push_endpoint.h"
#include "profiler/push/push_status.h"
#include "profiler/view/target_table.h"
#include "shim/protocol/service_client.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define ASK_NS (2 * NSEC_PER_SEC)

void doctor_switch(const struct doctor *d, struct check_result *f)
{
	const bool off = file_changes_exists(d->host, OPTIONS_ETC "/off");
	check_report(f, off ? FINDING_BROKEN : FINDING_OK,
		off ? "there is " OPTIONS_ETC "/off: nothing is profiled on this host" : "on");
	if (off)
		check_suggest_fix(f, "sudo pillion on");
}

/* Reads a file of options for its errors. 0, also when there is none. */
static int read_file(const struct doctor *d, enum option_source source, const char *path, struct err *e)
{
	static struct options unused;
	options_default(&unused);
	fd_auto fd = fd_open_beneath(file_changes_root(d->host), path, O_RDONLY | O_NONBLOCK);
	return fd == -ENOENT ? 0
	       : fd < 0	     ? err_set(e, fd, "cannot open %s", path)
			     : options_read_fd(&unused, source, fd, path, e);
}

void doctor_settings(const struct doctor *d, struct check_result *f)
{
	struct err e = {0};
	if (read_file(d, OPTION_FILE, OPTIONS_ETC "/pillion.conf", &e) < 0) {
		check_report(f, FINDING_BROKEN, "%s: no container is profiled", e.text);
		check_suggest_fix(f, "correct that line");
	} else if (!d->options.settings.enabled) {
		check_report(f, FINDING_BROKEN, OPTIONS_ETC "/pillion.conf says enabled = 0");
		check_suggest_fix(f, "remove that line");
	} else {
		check_report(f, FINDING_OK, "a start is held up for %u ms at most", d->options.settings.budget_ms);
	}
}

void doctor_policy(const struct doctor *d, struct check_result *f)
{
	const struct settings *s = &d->options.settings;
	struct err e = {0};
	size_t at = 0;
	if (read_file(d, OPTION_POLICY, OPTIONS_ETC "/policy.conf", &e) < 0) {
		check_report(f, FINDING_BROKEN, "%s: no container is profiled", e.text);
		check_suggest_fix(f, "correct that line");
		return;
	}
	check_report(f, s->policy.sample > 1 ? FINDING_WARNING : FINDING_OK, "%s",
		s->strict ? "strict: a failure to profile fails the start" : "open");
	const char *const rules[][2] = {{"namespaces", s->policy.allow_namespaces}, {"users", s->policy.allow_users},
		{"events", s->policy.allow_events}};
	for (size_t i = 0; i < 3; i++) {
		at = strlen(f->what);
		if (rules[i][1][0])
			snprintf(f->what + at, sizeof(f->what) - at, "; %s: %.100s", rules[i][0], rules[i][1]);
	}
	if (s->policy.sample > 1)
		check_suggest_fix(
			f, "one container of %u is profiled (policy.conf: sample_containers)", s->policy.sample);
}

void doctor_service(const struct doctor *d, struct check_result *f)
{
	const char *control = d->options.settings.paths.control;
	struct err e = {0};
	struct target_table l = {0};
	fd_auto sock = service_client_connect_anyway(control, &e);
	if (sock == -ENOENT || sock == -ENOTDIR) {
		check_report(f, FINDING_OK, "none at %s: each container has a session of its own", control);
	} else if (sock == -EACCES || sock == -EPERM) {
		check_report(f, FINDING_WARNING, "%s", e.text);
		check_suggest_fix(f, "ask as root");
	} else if (sock < 0) {
		check_report(f, FINDING_WARNING,
			"there is %s, and nobody listens: each container has a session of its own", control);
		check_suggest_fix(f, "systemctl restart pilliond.socket, or remove it");
	} else if (target_table_ask(sock, deadline_in(ASK_NS), &l, &e) < 0) {
		check_report(f, FINDING_BROKEN, "%s does not answer: %s", control, e.text);
		check_suggest_fix(f, "containers start without a profile, after a wait; systemctl restart pilliond");
	} else {
		check_report(f, FINDING_OK, "%s answers: %zu targets", control, l.n);
	}
	target_table_done(&l);
}

/* The longest part of `path` that exists. */
static void find_existing_ancestor(const char *path, char buf[1024])
{
	snprintf(buf, 1024, "%s", path);
	while (access(buf, F_OK) < 0 && strrchr(buf, '/') > buf)
		*strrchr(buf, '/') = 0;
	if (access(buf, F_OK) < 0)
		snprintf(buf, 1024, "/");
}

void doctor_spool(const struct doctor *d, struct check_result *f)
{
	const char *spool = d->options.settings.paths.spool;
	char path[1024];
	struct statvfs fs;
	struct stat st;
	find_existing_ancestor(spool, path);
	if (stat(path, &st) < 0 || statvfs(path, &fs) < 0) {
		check_report(f, FINDING_BROKEN, "%s: %s", spool, strerror(errno));
	} else if (!S_ISDIR(st.st_mode)) {
		check_report(f, FINDING_BROKEN, "%s is no directory, so %s cannot be one", path, spool);
		check_suggest_fix(f, "move it away");
	} else if ((fs.f_flag & ST_RDONLY) || (geteuid() == 0 && access(path, W_OK) < 0)) {
		check_report(f, FINDING_BROKEN, "%s cannot be written to", path);
		check_suggest_fix(f, "pillion.conf: spool = DIRECTORY, on a file system that can");
	} else if (fs.f_bavail == 0 || (fs.f_files && fs.f_favail == 0)) {
		check_report(f, FINDING_BROKEN, "the file system of %s is full", path);
		check_suggest_fix(f, "make room there: profiles are dropped meanwhile");
	} else if ((uint64_t)fs.f_bavail * fs.f_frsize < d->options.settings.spool_bytes / 8) {
		check_report(f, FINDING_WARNING, "%s has %llu MiB left", path,
			(unsigned long long)((uint64_t)fs.f_bavail * fs.f_frsize >> 20));
		check_suggest_fix(f, "pillion.conf: spool_size, or room");
	} else {
		check_report(f, FINDING_OK, "%s", spool);
	}
}

/* --- push ------------------------------------------------------------------------------------------------- */

#define PUSH_SILENT_S 120
#define PUSH_FAILING_S 60

static const struct push_status *find_pushed(const struct push_status *list, unsigned n, const char *name)
{
	for (unsigned i = 0; i < n; i++)
		if (!strcmp(list[i].name, name))
			return &list[i];
	return NULL;
}

/* False, with a report: the endpoint is not well. Only the first such one is reported. */
static bool is_well(const struct push_endpoint *p, const struct push_status *is, struct check_result *f)
{
	if (!is || is->heard_s > PUSH_SILENT_S) {
		check_report(f, FINDING_WARNING, "nobody pushes to %s (%s)", p->name, p->url);
		check_suggest_fix(f, "systemctl enable --now pillion-push");
	} else if (is->failing_s > PUSH_FAILING_S) {
		check_report(f, FINDING_WARNING, "%s has taken nothing for %llu s, and %llu wait: %s", p->name,
			(unsigned long long)is->failing_s, (unsigned long long)is->waiting, is->why);
		check_suggest_fix(
			f, "they are sent when it is well; spool_size and spool_age say how long they can wait");
	} else if (is->lost || is->refused) {
		check_report(f, FINDING_WARNING,
			"%s: %llu were refused, %llu removed by the spool's caps before they were sent", p->name,
			(unsigned long long)is->refused, (unsigned long long)is->lost);
		check_suggest_fix(f, "the log of pillion-push says which, and why");
	} else {
		return true;
	}
	return false;
}

void doctor_push(const struct doctor *d, struct check_result *f)
{
	struct push_status list[PUSH_STATUS_MAX];
	struct push_endpoint *endpoints;
	struct err e = {0};
	size_t n;
	uint64_t sent = 0;
	bool well = true;
	int r = endpoints_read(PUSH_ENDPOINT_DIR, &endpoints, &n, &e);
	if (r < 0) {
		check_report(f, r == -EACCES ? FINDING_WARNING : FINDING_BROKEN, "%s", e.text);
		check_suggest_fix(f, r == -EACCES ? "ask as root" : "correct it: nothing is pushed");
		return;
	}
	fd_auto spool = fd_open_dir(AT_FDCWD, d->options.settings.paths.spool);
	const unsigned n_pushed = spool < 0 ? 0 : push_status_read(spool, list);
	for (size_t i = 0; well && i < n; i++) {
		const struct push_status *is = find_pushed(list, n_pushed, endpoints[i].name);
		well = is_well(&endpoints[i], is, f);
		sent += is ? is->sent : 0;
	}
	if (well && n)
		check_report(f, FINDING_OK, "%zu endpoint%s, %llu profiles taken", n, n == 1 ? "" : "s",
			(unsigned long long)sent);
	else if (well)
		check_report(f, FINDING_OK, "to nobody: profiles stay in the spool");
	endpoints_free(endpoints, n);
}
