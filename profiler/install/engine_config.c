/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/install/engine_config.h"

#include "profiler/install/hooks_dir.h"
#include "profiler/install/templates.h"
#include "shim/attach/app_socket_container.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const char *const dirs[] = {"/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin", "/bin", "/sbin"};

/* --- putting a file ------------------------------------------------------------------------------------------ */

void engine_config_by_hand(struct engine_config *r, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vfprintf(r->out, fmt, ap);
	va_end(ap);
	putc('\n', r->out);
	r->by_hand++;
}

bool engine_config_tell(struct engine_config *r, const char *path, int how)
{
	if (how == HOSTFILE_EDITED)
		engine_config_by_hand(r,
			"left as it is: %s, which was edited since it was installed (without it, install writes a new "
			"one)",
			path);
	else
		fprintf(r->out, "%s %s\n", how == HOSTFILE_SAME ? "as it is:" : r->dry ? "would write" : "wrote", path);
	r->written += how == HOSTFILE_WRITTEN;
	return how == HOSTFILE_WRITTEN;
}

int engine_config_put(struct engine_config *r, const struct file_change *c, bool *ret_written, struct err *e)
{
	struct err why = {0};
	bool written = false;
	int n = file_changes_put(r->files, c, &why);
	if (n == ENGINE_CONFIG_REFUSED) {
		fprintf(r->out, "not written: %s: %s\n", c->path, why.text);
		r->refused++;
	} else if (n < 0) {
		return err_say(e, n, "%s", why.text);
	} else {
		written = engine_config_tell(r, c->path, n);
	}
	if (ret_written)
		*ret_written = written;
	return 0;
}

/* --- hooks.d ------------------------------------------------------------------------------------------------- */

static int check_hooksd(const char *text, struct err *e)
{
	char program[PATH_MAX];
	int r = hooks_dir_check(text, strlen(text), program, e);
	return r < 0 ? err_wrap(e, r, "what would be " HOOKS_DIR_FILE " is not valid") : 0;
}

static int put_hooksd(struct engine_config *r, const char *program, struct err *e)
{
	const struct template_word words[] = {{"@HOOK@", ENGINE_CONFIG_HOOK}, {0}};
	if (r->hooksd)
		return 0;
	r->hooksd = true;
	char *text = template_fill(TEMPLATE_HOOKSD, words);
	int n = text ? check_hooksd(text, e) : err_set(e, -ENOMEM, HOOKS_DIR_FILE);
	if (n == 0) {
		const struct file_change c = {
			.path = HOOKS_DIR "/" HOOKS_DIR_FILE, .data = text, .len = strlen(text), .mode = 0644};
		n = engine_config_put(r, &c, NULL, e);
	}
	free(text);
	return n;
}

/* --- CDI ----------------------------------------------------------------------------------------------------- */

static int put_cdi(struct engine_config *r, struct err *e)
{
	const struct template_word words[] = {{"@HOOK@", ENGINE_CONFIG_HOOK}, {"@LIBRARY@", ENGINE_CONFIG_LIBRARY},
		{"@INSIDE@", APP_CONTAINER_LIBRARY}, {"@SOCKET@", APP_CONTAINER_SOCKET}, {0}};
	char *text = template_fill(TEMPLATE_CDI, words);
	if (!text)
		return err_set(e, -ENOMEM, "CDI");
	const struct file_change c = {.path = "/etc/cdi/pillion.json", .data = text, .len = strlen(text), .mode = 0644};
	int n = engine_config_put(r, &c, NULL, e);
	free(text);
	return n;
}

/* --- the engines --------------------------------------------------------------------------------------------- */

static const struct engine {
	const char *name, *program;
	int (*put)(struct engine_config *r, const char *program, struct err *e);
} engines[] = {
	{"podman", "podman", put_hooksd},
	{"CRI-O", "crio", engine_config_crio},
	{"containerd", "containerd", engine_config_containerd},
	{"Docker", "dockerd", engine_config_docker},
};
#define N_ENGINES (sizeof(engines) / sizeof(engines[0]))

static bool find_program(const struct file_changes *h, const char *name, char *buf, size_t size)
{
	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
		snprintf(buf, size, "%s/%s", dirs[i], name);
		if (file_changes_exists(h, buf))
			return true;
	}
	return false;
}

const char *engine_config_engines(const struct file_changes *h, char *buf, size_t size)
{
	char path[64];
	buf[0] = 0;
	for (size_t i = 0, at = 0; i < N_ENGINES; i++)
		if (find_program(h, engines[i].program, path, sizeof(path)) && at < size)
			at += (size_t)snprintf(buf + at, size - at, "%s%s", at ? ", " : "", engines[i].name);
	return buf;
}

bool engine_config_has(const struct engine_config *r, const char *program)
{
	return (r->dry && r->brought) || file_changes_exists(r->files, program);
}

int engine_config_install(struct engine_config *r, struct err *e)
{
	char program[64];
	int n = engine_config_has(r, ENGINE_CONFIG_HOOK)
			? 0
			: err_say(e, -ENOENT,
				  "there is no " ENGINE_CONFIG_HOOK
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

/* CRI-O reads podman's directory, unless its configuration names others. */
int engine_config_crio(struct engine_config *r, const char *program, struct err *e)
{
	int n = put_hooksd(r, program, e);
	return n < 0 ? n : engine_config_crio_dirs(r, program, e);
}
