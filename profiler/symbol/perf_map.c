/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/symbol/perf_map.h"

#include "oci/base/interval_map.h"
#include "oci/base/string_table.h"
#include "profiler/elf/file_tail.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK (64u << 10)
#define SLICE (256u << 10)

struct perf_map {
	size_t cap;
	struct file_tail tail;
	struct string_table names; /* with their NUL; kept until perf_map_free */
	struct interval_map code;
	bool truncated, in_long; /* in_long: amidst a line longer than a chunk, of which the beginning was taken */
};

int perf_map_new(size_t cap_bytes, struct perf_map **ret)
{
	struct perf_map *m = calloc(1, sizeof(*m));
	if (!m)
		return -ENOMEM;
	m->cap = cap_bytes;
	*ret = m;
	return 0;
}

struct perf_map *perf_map_free(struct perf_map *m)
{
	if (m) {
		string_table_done(&m->names);
		interval_map_done(&m->code);
		free(m);
	}
	return NULL;
}

/* --- one line */

static unsigned hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return (unsigned)(c - '0');
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10 : 16;
}

/* Hex digits, perhaps behind "0x", and the blanks behind them; NULL if there are none of either, or too many. */
static const char *take_number(const char *p, const char *end, uint64_t *ret)
{
	if (end - p > 2 && p[0] == '0' && (p[1] | 0x20) == 'x')
		p += 2;
	const char *first = p;
	*ret = 0;
	for (unsigned digit; p < end && (digit = hex_digit(*p)) < 16; p++) {
		if (*ret >> 60)
			return NULL;
		*ret = *ret << 4 | digit;
	}
	if (p == first || p == end || *p != ' ')
		return NULL;
	while (p < end && *p == ' ')
		p++;
	return p;
}

/* -ENOSPC: it does not fit. */
static int add_name(struct perf_map *m, const char *name, size_t len)
{
	char text[PERF_MAP_NAME_MAX + 1];
	if (len > PERF_MAP_NAME_MAX)
		len = PERF_MAP_NAME_MAX;
	memcpy(text, name, len);
	text[len++] = 0;
	int64_t known = string_table_find(&m->names, text, len);
	if (known >= 0)
		return (int)known;
	if (perf_map_memory(m) + string_table_growth(&m->names, len) > m->cap || m->names.count >= INT32_MAX)
		return -ENOSPC;
	return (int)string_table_add(&m->names, text, len);
}

static int take_line(struct perf_map *m, const char *line, const char *end)
{
	uint64_t start, size;
	const char *p = take_number(line, end, &start);
	if (p)
		p = take_number(p, end, &size);
	if (p && end > p && end[-1] == '\r')
		end--;
	if (!p || p == end || !*p || !size)
		return 0;
	int name = add_name(m, p, (size_t)(end - p));
	if (name < 0)
		return name;
	size_t rest = perf_map_memory(m) - interval_map_memory(&m->code);
	return interval_map_add(&m->code, start, size, (uint32_t)name, m->cap > rest ? m->cap - rest : 0);
}

/* --- the file */

static int take_lines(struct perf_map *m, const char *text, size_t n, size_t *ret_taken)
{
	const char *line = text, *stop = text + n, *end;
	int r = 0;
	if (m->in_long) {
		end = memchr(line, '\n', n);
		m->in_long = !end;
		line = end ? end + 1 : stop;
	}
	for (; r == 0 && (end = memchr(line, '\n', (size_t)(stop - line))); line = end + 1)
		r = take_line(m, line, end);
	if (r == 0 && line == text && n == CHUNK) {
		r = take_line(m, line, stop);
		m->in_long = true;
		line = stop;
	}
	*ret_taken = (size_t)(line - text);
	return r;
}

/* 0: read to the end; 1: read one slice. */
static int take_slice(struct perf_map *m, const struct file *f)
{
	char text[CHUNK];
	for (uint64_t stop = m->tail.offset + SLICE; m->tail.offset < stop;) {
		uint64_t left = PERF_MAP_BYTES_MAX - m->tail.offset;
		ssize_t n = file_read(f, text, left < CHUNK ? left : CHUNK, m->tail.offset);
		size_t taken = 0;
		int r = n < 0 ? (int)n : take_lines(m, text, (size_t)n, &taken);
		if (r < 0)
			return r;
		if (!taken) {
			m->truncated = (size_t)n == left;
			return 0;
		}
		size_t seen = taken < FILE_TAIL_SEEN ? taken : FILE_TAIL_SEEN;
		m->tail.offset += taken - seen;
		file_tail_seen(&m->tail, text + taken - seen, seen);
		m->tail.offset += seen;
	}
	return 1;
}

int perf_map_read(struct perf_map *m, const struct file *f, struct err *e)
{
	int r = 0;
	if (!file_tail_look(&m->tail, f)) {
		interval_map_done(&m->code);
		m->truncated = m->in_long = false;
	}
	r = m->truncated ? 0 : take_slice(m, f);
	if (r == -ENOSPC) {
		m->truncated = true;
		return 0;
	}
	return r < 0 ? err_set(e, r, "cannot read the perf map") : r;
}

const char *perf_map_find(const struct perf_map *m, uint64_t address)
{
	uint32_t name;
	return interval_map_find(&m->code, address, &name) ? m->names.items[name].data : NULL;
}

bool perf_map_truncated(const struct perf_map *m)
{
	return m->truncated;
}

size_t perf_map_memory(const struct perf_map *m)
{
	return sizeof(*m) + string_table_memory(&m->names) + interval_map_memory(&m->code);
}
