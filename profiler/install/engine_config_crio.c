/* SPDX-License-Identifier: Apache-2.0 */
/* CRI-O: a drop-in, where it does not read our hooks.d anyway. Later files win, in the order of their names. */
#include "profiler/install/engine_config.h"

#include "oci/base/fd.h"
#include "profiler/install/engine_exec.h"
#include "profiler/install/hooks_dir.h"
#include "profiler/install/templates.h"
#include "profiler/install/toml_scan.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#define MAIN "/etc/crio/crio.conf"
#define DROP_INS "/etc/crio/crio.conf.d"
#define OURS DROP_INS "/99-pillion.conf"

static void look_into(const struct file_changes *h, const char *path, struct toml_words *dirs, bool *found)
{
	char *text = NULL;
	size_t len;
	if (strcmp(path, OURS) != 0 && file_changes_read(h, path, &text, &len, NULL) == 0)
		*found = toml_scan_list(text, "hooks_dir", dirs) || *found;
	free(text);
}

/* Returns `dirs` of the last file that sets hooks_dir. */
static bool find_dirs(const struct file_changes *h, struct toml_words *dirs)
{
	char path[sizeof(DROP_INS) + 256];
	struct dirent **names = NULL;
	bool found = false;
	look_into(h, MAIN, dirs, &found);
	fd_auto dir = fd_open_beneath(file_changes_root(h), DROP_INS, O_RDONLY | O_DIRECTORY);
	int n = dir < 0 ? 0 : scandirat(dir, ".", &names, NULL, alphasort);
	for (int i = 0; i < n; i++) {
		snprintf(path, sizeof(path), DROP_INS "/%s", names[i]->d_name);
		look_into(h, path, dirs, &found);
		free(names[i]);
	}
	free(names);
	return found;
}

static bool reads_ours(const struct toml_words *dirs)
{
	for (size_t i = 0; i < dirs->n; i++)
		if (!strcmp(dirs->words[i], HOOKS_DIR))
			return true;
	return false;
}

struct crio {
	const struct engine_config *r;
	const char *program;
	bool unasked; /* CRI-O could not be asked */
};

/* `crio config` prints its effective configuration. Exit status, or -errno. */
static int dump_config(const struct crio *c, const char *config, char **ret)
{
	const char *const with[] = {c->program, "--config", config, "config", NULL};
	const char *const without[] = {c->program, "config", NULL};
	return engine_exec(file_changes_root(c->r->files), config ? with : without, 1, ret);
}

/* Has the engine check the file, unless it complains without our file, too. */
static int check_candidate(void *arg, const char *candidate, struct err *e)
{
	char *said = NULL;
	struct crio *c = arg;
	int n = dump_config(c, NULL, &said);
	if (n == 0) {
		free(said);
		said = NULL;
		n = dump_config(c, candidate, &said);
		if (n > 0)
			err_say(e, ENGINE_CONFIG_REFUSED, "CRI-O refuses it: %.200s", engine_exec_last_line(said));
	} else {
		c->unasked = true;
		n = 0;
	}
	free(said);
	return n > 0 ? ENGINE_CONFIG_REFUSED : 0;
}

int engine_config_crio_dirs(struct engine_config *r, const char *program, struct err *e)
{
	static struct toml_words dirs;
	char list[4096] = "";
	size_t at = 0;
	struct crio crio = {.r = r, .program = program};
	bool written;
	if (!find_dirs(r->files, &dirs) || reads_ours(&dirs))
		return 0;
	for (size_t i = 0; i < dirs.n && at < sizeof(list) - 300; i++)
		at += (size_t)snprintf(list + at, sizeof(list) - at, "\"%s\", ", dirs.words[i]);
	snprintf(list + at, sizeof(list) - at, "\"" HOOKS_DIR "\"");
	const struct template_word words[] = {{"@DIRS@", list}, {0}};
	char *text = template_fill(TEMPLATE_CRIO, words);
	if (!text)
		return err_set(e, -ENOMEM, "%s", OURS);
	const struct file_change c = {
		.path = OURS, .data = text, .len = strlen(text), .mode = 0644, .check = check_candidate, .arg = &crio};
	int n = engine_config_put(r, &c, &written, e);
	free(text);
	if (n == 0 && written && crio.unasked)
		fprintf(r->out, "not checked: '%s config' cannot be run here\n", program);
	if (n == 0 && written)
		engine_config_by_hand(
			r, "CRI-O reads hooks_dir as it starts: 'systemctl restart crio' (containers go on)");
	return n;
}
