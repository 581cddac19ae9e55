/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/symbol/kallsyms.h"

#include "oci/base/array.h"
#include "oci/base/fd.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BYTES_MAX (128u << 20) /* 10 MB are usual */
#define SLICE (128u << 10)
/* No function is longer. Past the last one before a gap, no name is better than a wrong one. */
#define REACH_MAX (1u << 20)
/* The end of a module's last function is not told; what lies behind it may be another module's, without a symbol. */
#define LAST_REACH_MAX 4096

struct entry {
	uint64_t address;
	uint32_t name; /* offset into text */
	uint8_t rank;  /* of several names for one address the lowest wins */
};

struct kallsyms {
	struct entry *table; /* by address, each once */
	size_t count, room;
	bool sorted, zeros;		   /* as read so far */
	char *text;			   /* names; while it is read, behind them a part of the file */
	size_t named, filled, size, bytes; /* ends of names and of bytes read; size of text; bytes read in all */
};

/* --- one line: "ffffffff81000000 T name" and, for modules, "\t[module]" */

static const char *parse_hex(const char *p, uint64_t *ret)
{
	uint64_t v = 0;
	for (;; p++) {
		unsigned c = (unsigned char)*p, digit = c - '0';
		if (digit > 9) {
			digit = (c | 0x20) - 'a';
			if (digit > 5)
				break;
			digit += 10;
		}
		v = v << 4 | digit;
	}
	*ret = v;
	return p;
}

/* Global before weak before local, names of sections and of the C library's kind ("_text") last. */
static uint8_t rank_of(char type, char first)
{
	unsigned order = type == 'T' ? 0 : type == 't' ? 2 : 1;
	return (uint8_t)((first == '_' ? 4 : 0) + order);
}

/* The name of a text symbol and, behind it, its end; false for all other lines. `end` is the line's newline. */
static bool parse_line(const char *line, const char *end, struct entry *ret, const char **ret_name)
{
	const char *p = parse_hex(line, &ret->address);
	if (p == line || end - p < 4 || p[0] != ' ' || p[2] != ' ' || p[3] == '\t')
		return false;
	if (p[1] != 't' && p[1] != 'T' && p[1] != 'w' && p[1] != 'W')
		return false;
	*ret_name = p + 3;
	ret->rank = rank_of(p[1], p[3]);
	return true;
}

static int add_entry(struct kallsyms *k, const struct entry *entry)
{
	if (array_reserve(&k->table, &k->room, k->count + 1, sizeof(*k->table), 65536) < 0)
		return -ENOMEM;
	if (k->count && k->table[k->count - 1].address > entry->address)
		k->sorted = false;
	k->table[k->count++] = *entry;
	return 0;
}

/* Its name goes behind the others: it is shorter than its line, so they never meet. */
static int take_line(struct kallsyms *k, const char *line, const char *end)
{
	struct entry entry;
	const char *name;
	if (!parse_line(line, end, &entry, &name))
		return 0;
	if (!entry.address) {
		k->zeros = true;
		return 0;
	}
	entry.name = (uint32_t)k->named;
	int r = add_entry(k, &entry);
	if (r < 0)
		return r;
	char *out = k->text + k->named;
	size_t len = (size_t)(end - name);
	memmove(out, name, len);
	char *tab = memchr(out, '\t', len);
	if (tab)
		*tab = ' ';
	out[len] = 0;
	k->named += len + 1;
	return 0;
}

/* Turns the whole lines of text[from..filled) into names; the rest moves up behind them. */
static int take_lines(struct kallsyms *k, size_t from)
{
	const char *line = k->text + from, *stop = k->text + k->filled, *end;
	int r = 0;
	for (; r == 0 && (end = memchr(line, '\n', (size_t)(stop - line))); line = end + 1)
		r = take_line(k, line, end);
	memmove(k->text + k->named, line, (size_t)(stop - line));
	k->filled = k->named + (size_t)(stop - line);
	return r;
}

/* Bytes read, 0 at the end. */
static ssize_t read_slice(struct kallsyms *k, int fd)
{
	if (k->size - k->filled < SLICE) {
		size_t size = k->size * 2 + SLICE;
		char *bigger = realloc(k->text, size);
		if (!bigger)
			return -ENOMEM;
		k->text = bigger;
		k->size = size;
	}
	ssize_t n = fd_read_all(fd, k->text + k->filled, SLICE);
	if (n > 0) {
		k->filled += (size_t)n;
		k->bytes += (size_t)n;
	}
	return k->bytes > BYTES_MAX ? -EFBIG : n;
}

/* --- the table */

static int compare_entries(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;
	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	return x->name < y->name ? -1 : x->name > y->name; /* the first in the file */
}

static void sort_and_merge(struct kallsyms *k)
{
	/* the kernel proper is in order; modules and BPF programs follow in an order of their own */
	if (!k->sorted)
		qsort(k->table, k->count, sizeof(*k->table), compare_entries);
	size_t out = 0;
	for (size_t i = 0; i < k->count; i++) {
		struct entry *last = out ? &k->table[out - 1] : NULL;
		if (!last || last->address != k->table[i].address)
			k->table[out++] = k->table[i];
		else if (k->table[i].rank < last->rank)
			*last = k->table[i];
	}
	k->count = out;
	struct entry *tight = realloc(k->table, out * sizeof(*tight));
	k->table = tight ? tight : k->table;
}

static int finish_table(struct kallsyms *k, struct err *e)
{
	if (!k->count && k->zeros)
		return err_say(e, -EACCES, "kernel addresses are hidden (kernel.kptr_restrict, or no CAP_SYSLOG)");
	if (!k->count)
		return err_say(e, -EBADMSG, "no kernel symbols in the file");
	sort_and_merge(k);
	char *tight = realloc(k->text, k->named);
	k->text = tight ? tight : k->text;
	return 0;
}

static int start_reading(int fd, struct kallsyms **k)
{
	if (lseek(fd, 0, SEEK_SET) < 0)
		return -errno;
	*k = calloc(1, sizeof(**k));
	if (!*k)
		return -ENOMEM;
	(*k)->sorted = true;
	return 0;
}

int kallsyms_read_some(int fd, struct kallsyms **k, struct err *e)
{
	int r = *k ? 0 : start_reading(fd, k);
	size_t from = r == 0 ? (*k)->named : 0; /* of the part line that the last slice left */
	ssize_t n = r == 0 ? read_slice(*k, fd) : r;
	if (n > 0)
		n = (r = take_lines(*k, from)) < 0 ? r : 1;
	if (n < 0)
		err_set(e, (int)n, "cannot read kernel symbols");
	else if (n == 0)
		n = finish_table(*k, e);
	if (n < 0)
		*k = kallsyms_free(*k);
	return (int)n;
}

int kallsyms_read(int fd, struct kallsyms **ret, struct err *e)
{
	struct kallsyms *k = NULL;
	int r;
	while ((r = kallsyms_read_some(fd, &k, e)) == 1)
		;
	if (r == 0)
		*ret = k;
	return r;
}

struct kallsyms *kallsyms_free(struct kallsyms *k)
{
	if (k) {
		free(k->table);
		free(k->text);
		free(k);
	}
	return NULL;
}

/* Linker scripts put these behind the last byte of code: include/asm-generic/vmlinux.lds.h, arch's vmlinux.lds.S. */
static bool is_end_label(const char *name)
{
	return !strcmp(name, "_etext") || !strcmp(name, "_einittext");
}

const char *kallsyms_find(const struct kallsyms *k, uint64_t address)
{
	size_t low = 0, high = k->count; /* table[0..low) starts at or before address */
	while (low < high) {
		size_t mid = low + (high - low) / 2;
		if (k->table[mid].address <= address)
			low = mid + 1;
		else
			high = mid;
	}
	if (!low)
		return NULL;
	const char *name = k->text + k->table[low - 1].name;
	const char *next = low < k->count ? k->text + k->table[low].name : NULL;
	const bool last = !next || strcmp(strchrnul(name, ' '), strchrnul(next, ' ')) != 0;
	if (address - k->table[low - 1].address >= (last ? LAST_REACH_MAX : REACH_MAX) || is_end_label(name))
		return NULL;
	return name;
}
