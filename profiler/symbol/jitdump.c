/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/symbol/jitdump.h"

#include "oci/base/interval_map.h"
#include "oci/base/string_table.h"
#include "profiler/elf/file_tail.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK (64u << 10)
#define SLICE (1u << 20) /* bytes read in one call */

/* --- the file's own (tools/perf/util/jitdump.h) */

#define MAGIC 0x4a695444u
#define MAGIC_OTHER_ENDIAN 0x4454694au
#define VERSION_KNOWN 1
#define HEADER_MAX 4096

struct header {
	uint32_t magic, version, total_size, elf_mach, pad1, pid;
	uint64_t timestamp, flags;
};

enum { CODE_LOAD = 0, CODE_MOVE = 1, CODE_DEBUG_INFO = 2 };

struct prefix {
	uint32_t id, total_size;
	uint64_t timestamp;
};

struct load {
	struct prefix p;
	uint32_t pid, tid;
	uint64_t vma, code_addr, code_size, code_index;
};

struct move {
	struct prefix p;
	uint32_t pid, tid;
	uint64_t vma, old_code_addr, new_code_addr, code_size, code_index;
};

struct debug_info {
	struct prefix p;
	uint64_t code_addr, nr_entry;
};

struct debug_entry {
	uint64_t addr;
	uint32_t line, discrim;
};
_Static_assert(sizeof(struct header) == 40 && sizeof(struct prefix) == 16, "as in the file");
_Static_assert(sizeof(struct load) == 56 && sizeof(struct move) == 64, "as in the file");
_Static_assert(sizeof(struct debug_info) == 32 && sizeof(struct debug_entry) == 16, "as in the file");

/*
 * V8 adds the size of the ELF header that "perf inject" will put in front of the code to every address of a line
 * (src/diagnostics/perf-jit.cc, kElfHeaderSize). V8 is recognized by the value in the header's padding.
 */
#define V8_PAD 0xdeadbeefu
#define V8_ELF_HEADER 0x40

/* --- the code and lines that are kept */

struct code {
	uint64_t start, index;
	uint32_t name, lines, n_lines;
};

struct line {
	uint32_t offset; /* ascending within a function */
	uint32_t file, line;
};

struct jitdump {
	size_t cap;
	struct file_tail tail;
	struct string_table names; /* of functions and files, with their NUL; never let go of before the end */
	struct interval_map where; /* -> code */
	struct code *code;
	struct line *lines;
	size_t n_code, room_code, n_lines, room_lines;
	uint64_t pending_for; /* the lines behind those of all code are for code at this address */
	size_t n_pending;
	uint32_t line_shift;
	bool truncated;
};

int jitdump_new(size_t cap_bytes, struct jitdump **ret)
{
	struct jitdump *d = calloc(1, sizeof(*d));
	if (!d)
		return -ENOMEM;
	d->cap = cap_bytes;
	*ret = d;
	return 0;
}

static void clear_tables(struct jitdump *d)
{
	interval_map_done(&d->where);
	free(d->code);
	free(d->lines);
	d->code = NULL;
	d->lines = NULL;
	d->n_code = d->room_code = d->n_lines = d->room_lines = d->n_pending = 0;
	d->truncated = false;
}

struct jitdump *jitdump_free(struct jitdump *d)
{
	if (d) {
		clear_tables(d);
		string_table_done(&d->names);
		free(d);
	}
	return NULL;
}

size_t jitdump_memory(const struct jitdump *d)
{
	return sizeof(*d) + string_table_memory(&d->names) + interval_map_memory(&d->where) +
	       d->room_code * sizeof(*d->code) + d->room_lines * sizeof(*d->lines);
}

static size_t memory_left(const struct jitdump *d)
{
	size_t held = jitdump_memory(d);
	return d->cap > held ? d->cap - held : 0;
}

/* Room for one more of `size` bytes in an array of `n`; the same array if there is. -ENOSPC: it does not fit. */
static int reserve_element(struct jitdump *d, void **array, size_t n, size_t *room, size_t size)
{
	size_t more = *room / 2 + 64;
	if (n < *room)
		return 0;
	if (more * size > memory_left(d))
		more = memory_left(d) / size / 2; /* the other arrays grow as well */
	if (!more || n >= UINT32_MAX - 1)
		return -ENOSPC;
	void *bigger = reallocarray(*array, *room + more, size);
	if (!bigger)
		return -ENOMEM;
	*array = bigger;
	*room += more;
	return 0;
}

static int add_code(struct jitdump *d, const struct code *c, uint64_t size)
{
	void *array = d->code;
	int r = reserve_element(d, &array, d->n_code, &d->room_code, sizeof(*d->code));
	d->code = array;
	if (r == 0)
		r = interval_map_add(&d->where, c->start, size, (uint32_t)d->n_code,
			memory_left(d) + interval_map_memory(&d->where));
	if (r == 0)
		d->code[d->n_code++] = *c;
	return r;
}

static int add_pending(struct jitdump *d, const struct line *line)
{
	void *array = d->lines;
	int r = reserve_element(d, &array, d->n_lines + d->n_pending, &d->room_lines, sizeof(*d->lines));
	d->lines = array;
	if (r == 0)
		d->lines[d->n_lines + d->n_pending++] = *line;
	return r;
}

/* Its number, or -ENOSPC, -ENOMEM. */
static int add_name(struct jitdump *d, const char *name, size_t len, size_t max)
{
	char text[JITDUMP_FILE_MAX + 1];
	if (len > max)
		len = max;
	memcpy(text, name, len);
	text[len++] = 0;
	int64_t known = string_table_find(&d->names, text, len);
	if (known >= 0)
		return (int)known;
	if (string_table_growth(&d->names, len) > memory_left(d) || d->names.count >= INT32_MAX)
		return -ENOSPC;
	return (int)string_table_add(&d->names, text, len);
}

/* --- reading */

struct window {
	const struct file *file;
	uint64_t at;
	size_t n, read; /* read: in all */
	char bytes[CHUNK];
};

/* n <= CHUNK bytes of the file at `at`; -errno, -ENODATA if they are not there. */
static int read_window(struct window *w, uint64_t at, size_t n, const char **ret)
{
	if (at < w->at || at - w->at > w->n || w->n - (size_t)(at - w->at) < n) {
		ssize_t got = file_read(w->file, w->bytes, sizeof(w->bytes), at);
		if (got < 0)
			return (int)got;
		w->at = at;
		w->n = (size_t)got;
		w->read += w->n;
		if (w->n < n)
			return -ENODATA;
	}
	*ret = w->bytes + (at - w->at);
	return 0;
}

/* --- records: `at` is where one begins, which the file holds as a whole */

static int take_load(struct jitdump *d, struct window *w, uint64_t at, uint32_t total)
{
	struct load l;
	const char *bytes;
	size_t room = sizeof(l) + JITDUMP_NAME_MAX + 1;
	if (total <= sizeof(l))
		return 0;
	if (room > total)
		room = total;
	int r = read_window(w, at, room, &bytes);
	if (r < 0)
		return r;
	memcpy(&l, bytes, sizeof(l));
	size_t len = strnlen(bytes + sizeof(l), room - sizeof(l));
	if ((len == room - sizeof(l) && room == total) || !l.code_size)
		return 0;
	int name = add_name(d, bytes + sizeof(l), len, JITDUMP_NAME_MAX);
	if (name < 0)
		return name;
	size_t n_lines = l.code_addr == d->pending_for ? d->n_pending : 0;
	d->n_pending = 0;
	r = add_code(d,
		&(struct code){l.code_addr, l.code_index, (uint32_t)name, (uint32_t)d->n_lines, (uint32_t)n_lines},
		l.code_size);
	if (r == 0)
		d->n_lines += n_lines;
	return r;
}

static int take_move(struct jitdump *d, struct window *w, uint64_t at, uint32_t total)
{
	struct move m;
	const char *bytes;
	uint32_t old;
	if (total < sizeof(m))
		return 0;
	int r = read_window(w, at, sizeof(m), &bytes);
	if (r < 0)
		return r;
	memcpy(&m, bytes, sizeof(m));
	/* the code has just been there: no earlier record can lie over it */
	if (!interval_map_find(&d->where, m.old_code_addr, &old) || d->code[old].index != m.code_index)
		return 0;
	struct code c = d->code[old];
	c.start = m.new_code_addr;
	return add_code(d, &c, m.code_size);
}

/* A line of the function at `pending_for`; *file is that of the one before. */
static int take_line(struct jitdump *d, const struct debug_entry *entry, const char *name, size_t len, int *file)
{
	uint64_t offset = entry->addr - d->pending_for - d->line_shift;
	if (len != 1 || (unsigned char)name[0] != 0xff) /* "\xff": as before */
		*file = add_name(d, name, len, JITDUMP_FILE_MAX);
	if (*file == -ENOSPC || *file == -ENOMEM)
		return *file;
	bool back = d->n_pending && offset < d->lines[d->n_lines + d->n_pending - 1].offset;
	if (*file < 0 || offset > UINT32_MAX || back)
		return 0;
	return add_pending(
		d, &(struct line){(uint32_t)offset, (uint32_t)*file, entry->line > INT32_MAX ? 0 : entry->line});
}

static int take_lines(struct jitdump *d, struct window *w, uint64_t at, uint32_t total)
{
	struct debug_info info;
	const char *bytes;
	d->n_pending = 0;
	if (total < sizeof(info) || total > JITDUMP_LINES_MAX)
		return 0;
	int r = read_window(w, at, sizeof(info), &bytes);
	if (r < 0)
		return r;
	memcpy(&info, bytes, sizeof(info));
	d->pending_for = info.code_addr;
	uint64_t end = at + total;
	int file = -ENOENT;
	at += sizeof(info);
	for (uint64_t i = 0; r == 0 && i < info.nr_entry && end - at > sizeof(struct debug_entry); i++) {
		struct debug_entry entry;
		size_t room = sizeof(entry) + JITDUMP_FILE_MAX + 1;
		if (room > end - at)
			room = (size_t)(end - at);
		r = read_window(w, at, room, &bytes);
		if (r < 0)
			return r;
		memcpy(&entry, bytes, sizeof(entry));
		size_t len = strnlen(bytes + sizeof(entry), room - sizeof(entry));
		if (len == room - sizeof(entry))
			return 0;
		r = take_line(d, &entry, bytes + sizeof(entry), len, &file);
		at += sizeof(entry) + len + 1;
	}
	return r;
}

/* 1: taken; 0: it is not there yet. */
static int take_record(struct jitdump *d, struct window *w, struct err *e)
{
	struct prefix p;
	const char *bytes;
	uint64_t at = d->tail.offset;
	int r = read_window(w, at, sizeof(p), &bytes);
	if (r < 0)
		return r == -ENODATA ? 0 : r;
	memcpy(&p, bytes, sizeof(p));
	if (p.total_size < sizeof(p))
		return err_say(e, -EBADMSG, "jitdump: a record of %u bytes", p.total_size);
	if (p.total_size > d->tail.size - at)
		return 0;
	file_tail_seen(&d->tail, bytes, sizeof(p));
	if (p.id == CODE_LOAD)
		r = take_load(d, w, at, p.total_size);
	else if (p.id == CODE_MOVE)
		r = take_move(d, w, at, p.total_size);
	else if (p.id == CODE_DEBUG_INFO)
		r = take_lines(d, w, at, p.total_size);
	if (r < 0)
		return r == -ENODATA ? 0 : r;
	d->tail.offset += p.total_size;
	return 1;
}

/* 1: taken; 0: it is not there yet. */
static int take_header(struct jitdump *d, struct window *w, struct err *e)
{
	struct header h;
	const char *bytes;
	int r = read_window(w, 0, sizeof(h), &bytes);
	if (r < 0)
		return r == -ENODATA ? 0 : r;
	memcpy(&h, bytes, sizeof(h));
	if (h.magic == MAGIC_OTHER_ENDIAN)
		return err_say(e, -EBADMSG, "jitdump: written in the other byte order");
	if (h.magic != MAGIC)
		return err_say(e, -EBADMSG, "jitdump: the file is none");
	if (h.version != VERSION_KNOWN)
		return err_say(e, -EBADMSG, "jitdump: version %u is not known", h.version);
	if (h.total_size < sizeof(h) || h.total_size > HEADER_MAX)
		return err_say(e, -EBADMSG, "jitdump: a header of %u bytes", h.total_size);
	if (h.total_size > d->tail.size)
		return 0;
	d->line_shift = h.pad1 == V8_PAD ? V8_ELF_HEADER : 0;
	file_tail_seen(&d->tail, bytes, sizeof(h));
	d->tail.offset = h.total_size;
	return 1;
}

static int take_slice(struct jitdump *d, const struct file *f, struct err *e)
{
	struct window w;
	w.file = f;
	w.at = 0;
	w.n = w.read = 0;
	int r = 1;
	while (r == 1 && w.read < SLICE) {
		if (d->tail.offset >= JITDUMP_BYTES_MAX)
			return -ENOSPC;
		r = d->tail.offset ? take_record(d, &w, e) : take_header(d, &w, e);
	}
	return r;
}

int jitdump_read(struct jitdump *d, const struct file *f, struct err *e)
{
	int r = 0;
	if (!file_tail_look(&d->tail, f))
		clear_tables(d);
	r = d->truncated ? 0 : take_slice(d, f, e);
	if (r == -ENOSPC) {
		d->truncated = true;
		return 0;
	}
	return r < 0 && r != -EBADMSG ? err_set(e, r, "cannot read the jitdump") : r;
}

/* --- searching */

static void find_line(const struct jitdump *d, const struct code *c, struct jitdump_place *place)
{
	size_t low = c->lines,
	       high = low + c->n_lines; /* of its lines those below low begin at or before the address */
	while (low < high) {
		size_t mid = low + (high - low) / 2;
		if (d->lines[mid].offset <= place->offset)
			low = mid + 1;
		else
			high = mid;
	}
	if (low == c->lines)
		return;
	place->file = d->names.items[d->lines[low - 1].file].data;
	place->line = d->lines[low - 1].line;
}

bool jitdump_find(const struct jitdump *d, uint64_t address, struct jitdump_place *ret)
{
	uint32_t i;
	if (!interval_map_find(&d->where, address, &i))
		return false;
	const struct code *c = &d->code[i];
	*ret = (struct jitdump_place){.name = d->names.items[c->name].data, .offset = address - c->start};
	find_line(d, c, ret);
	return true;
}

bool jitdump_truncated(const struct jitdump *d)
{
	return d->truncated;
}
