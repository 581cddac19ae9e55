#include "profiler/elf/debuglink.h"

#include "oci/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define LINK_MAX 4096		 /* bytes of .gnu_debuglink or .gnu_debugaltlink */
#define CHECKSUM_MAX (16u << 20) /* of a file; a longer one is not taken by its checksum */
#define CHECKSUM_AT_ONCE (256u << 10)

struct search {
	const struct debug_places *in;
	const char *path; /* of the file whose debug information is wanted */
};

/* --- what a file says of itself ------------------------------------------------------------------------- */

/* The section's bytes; malloc'ed, NULL: no such section, or none that makes sense. */
static uint8_t *link_section(struct elf_source src, const struct elf_tables *t, const char *name, size_t *ret_size)
{
	const Elf64_Shdr *s = elf_tables_section_any(t, name);
	uint8_t *bytes = NULL;
	if (!s || s->sh_size > LINK_MAX || elf_bytes(src, s->sh_offset, s->sh_size, name, &bytes, NULL) < 0)
		return NULL;
	*ret_size = s->sh_size;
	return bytes;
}

/* A name, padding to 4, a checksum. A name with a slash is an attempt at something. */
static void read_link(struct elf_source src, const struct elf_tables *t, struct debug_facts *f)
{
	size_t size, len;
	char *bytes = (char *)link_section(src, t, ".gnu_debuglink", &size);
	if (!bytes)
		return;
	len = strnlen(bytes, size);
	size_t at = (len + 4) & ~3ul;
	if (len && len <= NAME_MAX && at + 4 <= size && !strchr(bytes, '/') && strcmp(bytes, "..") != 0) {
		memcpy(f->link, bytes, len + 1);
		memcpy(&f->link_crc, bytes + at, 4);
	}
	free(bytes);
}

/* A path, its NUL, a build-id. */
static void read_alt(struct elf_source src, const struct elf_tables *t, struct debug_facts *f)
{
	size_t size, len;
	char *bytes = (char *)link_section(src, t, ".gnu_debugaltlink", &size);
	if (!bytes)
		return;
	len = strnlen(bytes, size);
	if (len && len + 1 < size && len < sizeof(f->alt) && size - len - 1 <= ELF_BUILD_ID_MAX) {
		memcpy(f->alt, bytes, len + 1);
		f->alt_id.len = size - len - 1;
		memcpy(f->alt_id.bytes, bytes + len + 1, f->alt_id.len);
	}
	free(bytes);
}

static void read_segments(const struct elf_tables *t, struct debug_facts *f)
{
	for (size_t i = 0; i < t->n_segments && f->n_segments < DEBUG_SEGMENTS_MAX; i++) {
		const Elf64_Phdr *p = &t->segments[i];
		if (p->p_type == PT_LOAD && p->p_flags & PF_X)
			f->segments[f->n_segments++] =
				(struct debug_segment){p->p_vaddr, p->p_offset, p->p_filesz, p->p_memsz};
	}
}

int debug_facts_read(struct elf_source src, struct debug_facts *ret, struct err *e)
{
	struct elf_tables t;
	memset(ret, 0, sizeof(*ret));
	int r = elf_tables_read(src, &t, e);
	if (r < 0)
		return r;
	r = elf_tables_build_id(src, &t, ret->id.bytes, &ret->id.len, e);
	if (r == 0) {
		static const char *const names[] = {
			".debug_info", ".debug_line", ".zdebug_info", ".zdebug_line" /* Go until 1.18 */};
		for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
			ret->has_debug |= elf_tables_section_any(&t, names[i]) != NULL;
		ret->is_go = elf_tables_gopclntab(&t) != NULL;
		read_link(src, &t, ret);
		read_alt(src, &t, ret);
		read_segments(&t, ret);
	}
	elf_tables_done(&t);
	return r;
}

bool build_id_equal(const struct build_id *a, const struct build_id *b)
{
	return a->len == b->len && !memcmp(a->bytes, b->bytes, a->len);
}

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

/* The file there, open, if it is the one that is wanted. `id` NULL: by the checksum. */
static bool open_wanted(const struct search *s, enum where where, const char *path, const struct build_id *id,
	uint32_t crc, struct file *ret, struct debug_facts *ret_facts)
{
	struct err e = {0};
	module_open_fn *open = where == IN_TREE ? s->in->in_tree : s->in->on_host;
	if (open(s->in->arg, path, ret) < 0) {
		ret->fd = -1;
		return false;
	}
	if (debug_facts_read(file_source(ret), ret_facts, &e) == 0 &&
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

/* A relative path is meant from the file that names it, whose place is not kept: the usual ones are absolute. */
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

/* The module's own file, open. */
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
