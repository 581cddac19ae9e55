/* SPDX-License-Identifier: Apache-2.0 */
/* Docker: a runtime of daemon.json's. It has no drop-ins, so a member is put into the file and taken out again. */
#include "profiler/install/engine_config.h"

#include "oci/base/fd.h"
#include "oci/base/json/json_edit.h"
#include "profiler/install/engine_exec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FILE_ "/etc/docker/daemon.json"
#define RUNTIME "{\"path\": \"" ENGINE_CONFIG_WRAPPER "\"}"
#define ALONE "{\n\t\"runtimes\": {\"pillion\": " RUNTIME "}\n}\n"

struct docker {
	const struct engine_config *r;
	const char *program;
	bool unasked; /* dockerd could not be asked */
};

/*
 * Has dockerd validate the file. 1: valid; 0: dockerd cannot be asked (older than 23, or not to be run here); -EINVAL
 * with its sentence.
 */
static int validate_config(const struct docker *d, const char *path, struct err *e)
{
	char *said = NULL;
	const char *const argv[] = {d->program, "--validate", "--config-file", path, NULL};
	int n = engine_exec(file_changes_root(d->r->files), argv, 1, &said);
	if (n < 0)
		return 0;
	int r = n == 0 ? 1 : strstr(said, "unknown flag") ? 0 : -EINVAL;
	if (r < 0)
		err_say(e, r, "%.240s", engine_exec_last_line(said));
	free(said);
	return r;
}

static int check_candidate(void *arg, const char *candidate, struct err *e)
{
	struct docker *d = arg;
	struct err why = {0};
	const int r = validate_config(d, candidate, &why);
	d->unasked = r == 0;
	return r < 0 ? err_say(e, ENGINE_CONFIG_REFUSED, "Docker refuses it: %s", why.text) : 0;
}

/* Finds a runtime that is given by flag: with one by flag and one by file dockerd does not start. */
static const char *find_flag(const struct file_changes *h)
{
	static const char *const files[] = {"/etc/default/docker", "/etc/sysconfig/docker",
		"/etc/systemd/system/docker.service", "/etc/systemd/system/docker.service.d/override.conf",
		"/usr/lib/systemd/system/docker.service", "/lib/systemd/system/docker.service"};
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		char *text = NULL;
		size_t len;
		bool found = file_changes_read(h, files[i], &text, &len, NULL) == 0 && strstr(text, "--add-runtime");
		free(text);
		if (found)
			return files[i];
	}
	return NULL;
}

static int write_config(struct engine_config *r, struct docker *d, const char *text, struct err *e)
{
	bool written;
	const struct file_change c = {.path = FILE_,
		.data = text,
		.len = strlen(text),
		.mode = 0644,
		.member = "runtimes/pillion",
		.mine = ENGINE_CONFIG_WRAPPER,
		.check = check_candidate,
		.arg = d};
	int n = engine_config_put(r, &c, &written, e);
	if (n == 0 && written && d->unasked)
		fprintf(r->out, "not checked: %s cannot be asked here (--validate: Docker 23 and newer)\n", d->program);
	if (n == 0 && written)
		engine_config_by_hand(r, "Docker reads it at 'systemctl reload docker' (nothing is restarted); then: "
					 "docker run --runtime "
					 "pillion --annotation io.pillion.profile=cpu IMAGE");
	return n;
}

/* Adds our runtime. 1: *ret is the new text, malloc'ed; 0: it is there already. */
static int add_runtime(const char *old, size_t len, char **ret, struct err *e)
{
	static const char *const path[] = {"runtimes", "pillion", NULL};
	struct json_edit s;
	const char *had;
	size_t had_len;
	int r = json_edit_open(&s, old, len, e);
	if (r < 0)
		return r;
	r = json_edit_get(&s, path, &had, &had_len, e);
	if (r == -ENOENT) {
		r = json_edit_set(&s, path, RUNTIME, e);
		*ret = r == 0 ? strdup(s.text) : NULL;
		r = r < 0 ? r : *ret ? 1 : err_set(e, -ENOMEM, FILE_);
	}
	json_edit_done(&s);
	return r;
}

static int put_into(struct engine_config *r, struct docker *d, const char *old, size_t len, struct err *e)
{
	char *text = NULL;
	struct err why = {0};
	const bool empty = old[strspn(old, " \t\r\n")] == 0;
	int n = empty ? 0 : validate_config(d, FILE_, &why);
	if (n >= 0)
		n = empty ? 1 : add_runtime(old, len, &text, &why);
	if (n < 0) {
		fprintf(r->out, "not written: " FILE_ " is left as it is, for it is not valid: %s\n", why.text);
		r->refused++;
		n = n == -ENOMEM ? err_set(e, n, FILE_) : 0;
	} else if (n == 0) {
		fprintf(r->out, "as it is: " FILE_ "\n");
	} else {
		n = write_config(r, d, empty ? ALONE : text, e);
	}
	free(text);
	return n;
}

int engine_config_docker(struct engine_config *r, const char *program, struct err *e)
{
	struct docker d = {.r = r, .program = program};
	const char *flag = find_flag(r->files);
	char *old = NULL;
	size_t len;
	if (!engine_config_has(r, ENGINE_CONFIG_WRAPPER)) {
		engine_config_by_hand(r, "Docker: there is no " ENGINE_CONFIG_WRAPPER " to register");
		return 0;
	}
	if (flag) {
		engine_config_by_hand(r,
			"Docker: %s has --add-runtime, and dockerd takes no runtimes of daemon.json beside it: add "
			"--add-runtime pillion=" ENGINE_CONFIG_WRAPPER " there",
			flag);
		return 0;
	}
	int n = file_changes_read(r->files, FILE_, &old, &len, e);
	n = n == -ENOENT ? write_config(r, &d, ALONE, e) : n < 0 ? n : put_into(r, &d, old, len, e);
	free(old);
	return n;
}
