/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/target/target_open.h"

#include "oci/base/clock.h"
#include "profiler/process/debug_file.h"

#include <errno.h>
#include <string.h>

static int open_file(struct target *t, const char *path, bool no_links, struct file *ret)
{
	struct target_files_place p = {t->fs.tree, t->fs.exe, &t->fs.opener, no_links};
	return t->fs.tree < 0 ? -ENOENT : target_files_open(t->engine->symbols.files, &p, &t->fs.account, path, ret);
}

int target_open_file(void *arg, const char *path, struct file *ret)
{
	return open_file(arg, path, false, ret);
}

int target_open_named(void *arg, const char *path, struct file *ret)
{
	return open_file(arg, path, true, ret);
}

int target_open_on_host(void *arg, const char *path, struct file *ret)
{
	struct engine *g = ((struct target *)arg)->engine;
	struct target_files_place p = {g->symbols.root, -1, NULL, false};
	bool beneath = !strncmp(path, DEBUG_DIR "/", sizeof(DEBUG_DIR));
	return g->symbols.root < 0 || !beneath ? -ENOENT
					       : target_files_open(g->symbols.files, &p, &g->symbols.host_files,
							 path + sizeof(DEBUG_DIR) - 1, ret);
}

int target_module(struct target *t, const struct module_key *key, target_file_open_fn *open, struct module **ret)
{
	struct module_key own = *key;
	/* the file is found by its path in this target's tree, where another may lie by now: no other target shares
	 * the module */
	if (!own.build_id_len && module_has_file(own.path)) {
		own.generation = t->serial;
		t->fs.has_own_modules = true;
	}
	int64_t cpu = clock_cpu();
	int r = modules_get(t->engine->symbols.modules, &own, open, t, ret);
	t->engine->rates.loading += clock_cpu() - cpu;
	return r;
}
