/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/process/debug_file.h"

#include "oci/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define CHECKSUM_MAX (16u << 20) /* of a file; a longer one is not taken by its checksum */
#define CHECKSUM_AT_ONCE (256u << 10)

struct search {
	const struct debug_places *in;
	const char *path; /* of the file that needs debug information */
};

static bool has_checksum(const struct file *f, uint32_t wanted)
{
	uint8_t *bytes = malloc(CHECKSUM_AT_ONCE);
	uLong crc = crc32(0, NULL, 0);
	ssize_t got = -1;
	uint64_t at = 0;
	while (bytes && at <= CHECKSUM_MAX && (got = file_read(f, bytes, CHECKSUM_AT_ONCE, at)) > 0) {
		crc = crc32(crc, bytes, (uInt)got);
		at += (uint64_t)got;
	}
	free(bytes);
	return got == 0 && (uint32_t)crc == wanted;
}

/* --- looking for files ---------------------------------------------------------------------------------- */

enum where { IN_TREE, ON_HOST };

/* Opens the file there, if it is the wanted one. `id` NULL: by the checksum. */
static bool open_wanted(const struct search *s, enum where where, const char *path, const struct build_id *id,
	uint32_t crc, struct file *ret, struct debug_facts *ret_facts)
{
	struct err e = {0};
	target_file_open_fn *open = where == IN_TREE ? s->in->in_tree : s->in->on_host;
	if (open(s->in->arg, path, ret) < 0) {
		ret->fd = -1;
		return false;
	}
	if (debug_facts_read(file_source(ret), ret_facts, &e) == 0 && !ret_facts->is_cut &&
		(id ? build_id_equal(&ret_facts->id, id) : has_checksum(ret, crc)))
		return true;
	file_close(ret);
	return false;
}

static void build_id_path(const struct build_id *id, char *path)
{
	int at = snprintf(path, PATH_MAX, "%s/.build-id/%02x/", DEBUG_DIR, id->bytes[0]);
	for (size_t i = 1; i < id->len; i++)
		at += snprintf(path + at, PATH_MAX - (size_t)at, "%02x", id->bytes[i]);
	snprintf(path + at, PATH_MAX - (size_t)at, ".debug");
}

int debug_files_on_host(const struct build_id *id, char *path)
{
	struct file f;
	if (id->len < 2)
		return -ENOENT;
	build_id_path(id, path);
	int fd = fd_open(AT_FDCWD, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0), r = fd < 0 ? fd : file_on(fd, &f);
	if (fd >= 0 && r < 0)
		fd_close(fd);
	return r < 0 ? r : fd;
}

static bool by_build_id(
	const struct search *s, const struct build_id *id, struct file *ret, struct debug_facts *ret_facts)
{
	char path[PATH_MAX];
	if (id->len < 2)
		return false;
	build_id_path(id, path);
	return open_wanted(s, IN_TREE, path, id, 0, ret, ret_facts) ||
	       open_wanted(s, ON_HOST, path, id, 0, ret, ret_facts);
}

static bool by_link(
	const struct search *s, const struct debug_facts *of, struct file *ret, struct debug_facts *ret_facts)
{
	static const char *const places[] = {"%.*s/%s", "%.*s/.debug/%s", DEBUG_DIR "%.*s/%s"};
	const char *slash = strrchr(s->path, '/');
	char path[PATH_MAX + NAME_MAX + 32];
	if (!of->link[0] || !slash)
		return false;
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		snprintf(path, sizeof(path), places[i], (int)(slash - s->path), s->path, of->link);
		if (!open_wanted(s, IN_TREE, path, of->id.len ? &of->id : NULL, of->link_crc, ret, ret_facts))
			continue;
		if (ret_facts->has_debug)
			return true;
		file_close(ret); /* the file's own name */
	}
	return false;
}

/*
 * A relative path starts from the file that names it, and that file's place is not kept: the usual ones are absolute.
 */
static void find_alt(const struct search *s, const struct debug_facts *of, struct file *ret)
{
	struct debug_facts found;
	bool debug_dir = !strncmp(of->alt, DEBUG_DIR "/", sizeof(DEBUG_DIR)) && !strstr(of->alt, "/../");
	if (!of->alt[0])
		return;
	if (of->alt[0] == '/' && open_wanted(s, IN_TREE, of->alt, &of->alt_id, 0, ret, &found))
		return;
	if (!debug_dir || !open_wanted(s, ON_HOST, of->alt, &of->alt_id, 0, ret, &found))
		by_build_id(s, &of->alt_id, ret, &found);
}

static void find_separate(const struct search *s, const struct debug_facts *own, struct debug_files *ret)
{
	struct debug_facts found;
	ret->separate = by_build_id(s, &own->id, &ret->debug, &found) || by_link(s, own, &ret->debug, &found);
	if (ret->separate)
		find_alt(s, &found, &ret->alt);
}

/* Opens the module's own file. */
static int open_own(
	const struct search *s, const struct module *m, struct file *ret, struct debug_facts *ret_facts, struct err *e)
{
	const struct elf *elf = module_elf(m);
	struct build_id loaded = {.len = elf ? elf->build_id_len : 0};
	if (elf)
		memcpy(loaded.bytes, elf->build_id, elf->build_id_len);
	int r = s->in->in_tree(s->in->arg, s->path, ret);
	if (r < 0)
		return err_set(e, r, "cannot open %s", s->path);
	r = debug_facts_read(file_source(ret), ret_facts, e);
	if (r == 0 && (!build_id_equal(&loaded, &ret_facts->id) || (!loaded.len && !module_is_file(m, &ret->id))))
		r = err_say(e, -ESTALE, "%s is another file than what was loaded", s->path);
	if (r < 0)
		file_close(ret);
	return r;
}

int debug_files_find(const struct module *m, const struct debug_places *places, struct debug_files *ret, struct err *e)
{
	struct search s = {places, module_name(m)};
	struct debug_facts own;
	struct file f;
	*ret = (struct debug_files){FILE_NONE, FILE_NONE, false};
	int r = open_own(&s, m, &f, &own, e);
	if (r < 0)
		return r;
	if (!own.has_debug)
		find_separate(&s, &own, ret);
	if (!file_is_open(&ret->debug) && (own.has_debug || own.is_go || module_symbols_elsewhere(m))) {
		find_alt(&s, &own, &ret->alt);
		ret->separate = module_symbols_elsewhere(m);
		ret->debug = f;
	} else {
		file_close(&f);
	}
	return 0;
}

void debug_files_done(struct debug_files *f)
{
	if (file_is_open(&f->debug))
		file_close(&f->debug);
	if (file_is_open(&f->alt))
		file_close(&f->alt);
}
