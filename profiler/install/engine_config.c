#include "profiler/install/engine_config.h"

#include "profiler/install/hooks_dir.h"
#include "profiler/install/templates.h"
#include "shim/attach/app_inside.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const char *const dirs[] = {"/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin", "/bin", "/sbin"};

/* --- what comes of a file ------------------------------------------------------------------------------------ */

void registration_by_hand(struct registration *r, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vfprintf(r->out, fmt, ap);
	va_end(ap);
	putc('\n', r->out);
	r->by_hand++;
}

bool registration_tell(struct registration *r, const char *path, int how)
{
	if (how == HOSTFILE_EDITED)
		registration_by_hand(r,
			"left as it is: %s, which was edited since it was installed (without it, install writes a new "
			"one)",
			path);
	else
		fprintf(r->out, "%s %s\n", how == HOSTFILE_SAME ? "as it is:" : r->dry ? "would write" : "wrote", path);
	r->written += how == HOSTFILE_WRITTEN;
	return how == HOSTFILE_WRITTEN;
}

int registration_put(struct registration *r, const struct hostfile_change *c, bool *ret_written, struct err *e)
{
	struct err why = {0};
	bool written = false;
	int n = hostfiles_put(r->files, c, &why);
	if (n == REGISTRATION_REFUSED) {
		fprintf(r->out, "not written: %s: %s\n", c->path, why.text);
		r->refused++;
	} else if (n < 0) {
		return err_say(e, n, "%s", why.text);
	} else {
		written = registration_tell(r, c->path, n);
	}
	if (ret_written)
		*ret_written = written;
	return 0;
}

/* --- hooks.d ------------------------------------------------------------------------------------------------- */

static int check_hooksd(const char *text, struct err *e)
{
	char program[PATH_MAX];
	int r = hooksd_check(text, strlen(text), program, e);
	return r < 0 ? err_wrap(e, r, "what would be " HOOKSD_NAME " is not valid") : 0;
}

static int put_hooksd(struct registration *r, const char *program, struct err *e)
{
	const struct template_word words[] = {{"@HOOK@", REGISTRATION_HOOK}, {0}};
	if (r->hooksd)
		return 0;
	r->hooksd = true;
	char *text = template_fill(TEMPLATE_HOOKSD, words);
	int n = text ? check_hooksd(text, e) : err_set(e, -ENOMEM, HOOKSD_NAME);
	if (n == 0) {
		const struct hostfile_change c = {
			.path = HOOKSD_DIR "/" HOOKSD_NAME, .data = text, .len = strlen(text), .mode = 0644};
		n = registration_put(r, &c, NULL, e);
	}
	free(text);
	return n;
}

/* --- CDI ----------------------------------------------------------------------------------------------------- */

static int put_cdi(struct registration *r, struct err *e)
{
	const struct template_word words[] = {{"@HOOK@", REGISTRATION_HOOK}, {"@LIBRARY@", REGISTRATION_LIBRARY},
		{"@INSIDE@", APP_INSIDE_LIBRARY}, {"@SOCKET@", APP_INSIDE_SOCKET}, {0}};
	char *text = template_fill(TEMPLATE_CDI, words);
	if (!text)
		return err_set(e, -ENOMEM, "CDI");
	const struct hostfile_change c = {
		.path = "/etc/cdi/pillion.json", .data = text, .len = strlen(text), .mode = 0644};
	int n = registration_put(r, &c, NULL, e);
	free(text);
	return n;
}

/* --- the engines --------------------------------------------------------------------------------------------- */

static const struct engine {
	const char *name, *program;
	int (*put)(struct registration *r, const char *program, struct err *e);
} engines[] = {
	{"podman", "podman", put_hooksd},
	{"CRI-O", "crio", registration_crio},
	{"containerd", "containerd", registration_containerd},
	{"Docker", "dockerd", registration_docker},
};
#define N_ENGINES (sizeof(engines) / sizeof(engines[0]))

static bool find_program(const struct hostfiles *h, const char *name, char *buf, size_t size)
{
	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
		snprintf(buf, size, "%s/%s", dirs[i], name);
		if (hostfiles_exists(h, buf))
			return true;
	}
	return false;
}

const char *registration_engines(const struct hostfiles *h, char *buf, size_t size)
{
	char path[64];
	buf[0] = 0;
	for (size_t i = 0, at = 0; i < N_ENGINES; i++)
		if (find_program(h, engines[i].program, path, sizeof(path)) && at < size)
			at += (size_t)snprintf(buf + at, size - at, "%s%s", at ? ", " : "", engines[i].name);
	return buf;
}

bool registration_has(const struct registration *r, const char *program)
{
	return (r->dry && r->brought) || hostfiles_exists(r->files, program);
}

int registration_install(struct registration *r, struct err *e)
{
	char program[64];
	int n = registration_has(r, REGISTRATION_HOOK)
			? 0
			: err_say(e, -ENOENT,
				  "there is no " REGISTRATION_HOOK
				  ": install the package, or name a directory with the programs (--from DIR)");
	for (size_t i = 0; n == 0 && i < N_ENGINES; i++) {
		if (!find_program(r->files, engines[i].program, program, sizeof(program)))
			continue;
		r->engines++;
		n = engines[i].put(r, program, e);
	}
	if (n == 0 && r->engines)
		n = put_cdi(r, e);
	return n;
}

/* CRI-O reads what podman reads, unless its configuration says otherwise. */
int registration_crio(struct registration *r, const char *program, struct err *e)
{
	int n = put_hooksd(r, program, e);
	return n < 0 ? n : registration_crio_dirs(r, program, e);
}
