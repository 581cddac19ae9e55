/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/symbol/jit_symbols.h"

#include "profiler/symbol/jitdump.h"
#include "profiler/symbol/perf_map.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLICES 256    /* reads of a file in one refresh, of some milliseconds each at most */
#define PARENTS_MAX 8 /* generations of a process whose code is searched, its own included */

struct jit {
	unsigned refs;
	uint32_t pid;
	uint64_t serial;
	struct jit *parent;
	struct jit_room *room;
	char *dump_path; /* NULL: none is mapped */
	struct perf_map *map;
	struct jitdump *dump;
	bool map_denied, dump_denied;
	size_t held; /* of the room */
	int64_t refreshed;
};

/* Frees the generations that jit_find does not search: a program may fork without end. */
static void forget_ancestors(struct jit *j)
{
	for (int i = 1; j && i < PARENTS_MAX; i++)
		j = j->parent;
	if (j)
		j->parent = jit_unref(j->parent);
}

static struct jit *create_jit(uint32_t pid, struct jit *parent, struct jit_room *room)
{
	struct jit *j = calloc(1, sizeof(*j));
	if (j)
		*j = (struct jit){
			.refs = 1, .pid = pid, .serial = ++room->serial, .parent = jit_ref(parent), .room = room};
	forget_ancestors(j);
	return j;
}

static void update_memory_use(struct jit *j)
{
	size_t now = sizeof(*j) + (j->dump_path ? strlen(j->dump_path) : 0) + (j->map ? perf_map_memory(j->map) : 0) +
		     (j->dump ? jitdump_memory(j->dump) : 0);
	size_t all = j->room->left + j->held;
	j->room->left = all > now ? all - now : 0;
	j->held = all - j->room->left;
}

int jit_new(uint32_t pid, const char *dump_path, struct jit *parent, struct jit_room *room, struct jit **ret)
{
	struct jit *j = create_jit(pid, parent, room);
	if (!j)
		return -ENOMEM;
	j->dump_path = dump_path && dump_path[0] ? strdup(dump_path) : NULL;
	update_memory_use(j);
	*ret = j;
	return 0;
}

uint64_t jit_serial(const struct jit *j)
{
	return j ? j->serial : 0;
}

struct jit *jit_parent(const struct jit *j)
{
	return j->parent;
}

const char *jit_dump_path(const struct jit *j)
{
	return j->dump_path ? j->dump_path : "";
}

uint32_t jit_pid(const struct jit *j)
{
	return j->pid;
}

struct jit *jit_ref(struct jit *j)
{
	if (j)
		j->refs++;
	return j;
}

struct jit *jit_unref(struct jit *j)
{
	while (j && --j->refs == 0) {
		struct jit *parent = j->parent;
		j->room->left += j->held;
		perf_map_free(j->map);
		jitdump_free(j->dump);
		free(j->dump_path);
		free(j);
		j = parent;
	}
	return NULL;
}

static int read_map(struct jit *j, const struct file *f)
{
	struct err e = {0};
	int r = j->map ? 0 : perf_map_new(j->room->left, &j->map);
	return r < 0 ? r : perf_map_read(j->map, f, &e);
}

static int read_dump(struct jit *j, const struct file *f)
{
	struct err e = {0};
	int r = j->dump ? 0 : jitdump_new(j->room->left, &j->dump);
	return r < 0 ? r : jitdump_read(j->dump, f, &e);
}

/* False: it may not be opened. */
static bool read_on(struct jit *j, target_file_open_fn *open, void *arg, const char *path,
	int (*read_some)(struct jit *j, const struct file *f))
{
	struct file f;
	int r = open(arg, path, &f);
	if (r < 0)
		return r != -EACCES;
	r = 1;
	for (int i = 0; i < SLICES && r > 0; i++) {
		if (!j->room->left) {
			j->room->truncated++;
			break;
		}
		r = read_some(j, &f);
		update_memory_use(j);
	}
	file_close(&f);
	return true;
}

static void format_map_path(const struct jit *j, char *ret, size_t size)
{
	snprintf(ret, size, "/tmp/perf-%u.map", j->pid);
}

void jit_refresh(struct jit *j, int64_t now, target_file_open_fn *open, void *arg)
{
	char path[48];
	for (int i = 0; j && i < PARENTS_MAX && j->refreshed != now; i++, j = j->parent) {
		j->refreshed = now;
		format_map_path(j, path, sizeof(path));
		j->map_denied = !read_on(j, open, arg, path, read_map);
		j->dump_denied = j->dump_path && !read_on(j, open, arg, j->dump_path, read_dump);
	}
}

const char *jit_denied(const struct jit *j, char ret[static PATH_MAX])
{
	for (int i = 0; j && i < PARENTS_MAX; i++, j = j->parent) {
		if (j->dump_denied) {
			snprintf(ret, PATH_MAX, "%s", j->dump_path);
			return ret;
		}
		if (j->map_denied) {
			format_map_path(j, ret, PATH_MAX);
			return ret;
		}
	}
	return NULL;
}

bool jit_find(const struct jit *j, uint64_t address, const char **ret_name, const char **ret_file, uint32_t *ret_line)
{
	struct jitdump_place place;
	*ret_file = "";
	*ret_line = 0;
	for (int i = 0; j && i < PARENTS_MAX; i++, j = j->parent) {
		if (j->dump && jitdump_find(j->dump, address, &place)) {
			*ret_name = place.name;
			*ret_file = place.file ? place.file : "";
			*ret_line = place.line;
			return true;
		}
		if (j->map && (*ret_name = perf_map_find(j->map, address)))
			return true;
	}
	return false;
}
