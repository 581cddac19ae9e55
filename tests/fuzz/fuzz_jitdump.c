/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jitdump: a file that is appended to in two steps. What is found around every piece of code and every line is what a
 * second, simpler reader of the same bytes says.
 */
#include "profiler/symbol/jitdump.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SIZE_MAX_HERE (4u << 20)
#define CODE_MAX 8192

struct piece {
	uint64_t start, last, index;
	const uint8_t *name, *lines; /* lines: the record that they stand in */
};
static struct piece pieces[CODE_MAX];
static size_t n_pieces;
static uint64_t shift;

static uint32_t u32(const uint8_t *p)
{
	uint32_t v;
	memcpy(&v, p, sizeof(v));
	return v;
}

static uint64_t u64(const uint8_t *p)
{
	uint64_t v;
	memcpy(&v, p, sizeof(v));
	return v;
}

static const struct piece *piece_at(uint64_t address)
{
	for (size_t i = n_pieces; i > 0; i--)
		if (address >= pieces[i - 1].start && address <= pieces[i - 1].last)
			return &pieces[i - 1];
	return NULL;
}

static void add(uint64_t start, uint64_t size, uint64_t index, const uint8_t *name, const uint8_t *lines)
{
	uint64_t reach = (size < UINT32_MAX ? size : UINT32_MAX) - 1;
	if (size && n_pieces < CODE_MAX)
		pieces[n_pieces++] = (struct piece){
			start, reach > UINT64_MAX - start ? UINT64_MAX : start + reach, index, name, lines};
}

static void parse(const uint8_t *data, size_t size)
{
	const uint8_t *lines = NULL;
	n_pieces = 0;
	if (size < 40 || u32(data) != 0x4a695444 || u32(data + 4) != 1 || u32(data + 8) < 40 || u32(data + 8) > 4096)
		return;
	shift = u32(data + 16) == 0xdeadbeef ? 64 : 0;
	for (size_t at = u32(data + 8); at <= size && size - at >= 16;) {
		const uint8_t *r = data + at;
		uint32_t id = u32(r), total = u32(r + 4);
		if (total < 16 || total > size - at)
			return;
		bool named = total > 56 && (total - 56 > JITDUMP_NAME_MAX + 1 || memchr(r + 56, 0, total - 56));
		if (id == 0 && named && u64(r + 40)) {
			add(u64(r + 32), u64(r + 40), u64(r + 48), r + 56,
				lines && u64(lines + 16) == u64(r + 32) ? lines : NULL);
			lines = NULL;
		} else if (id == 1 && total >= 64) {
			const struct piece *old = piece_at(u64(r + 32));
			if (old && old->index == u64(r + 56)) {
				struct piece p = *old;
				add(u64(r + 40), u64(r + 48), p.index, p.name, p.lines);
			}
		} else if (id == 2) {
			lines = total < 32 || total > JITDUMP_LINES_MAX ? NULL : r;
		}
		at += total;
	}
}

/* The line of the address that is `offset` behind the beginning of the code. */
static uint32_t line_at(const uint8_t *record, uint64_t offset, const char **ret_file)
{
	const uint8_t *p = record + 32, *end = record + u32(record + 4);
	const char *file = NULL;
	uint64_t last = 0;
	uint32_t line = 0;
	*ret_file = NULL;
	for (uint64_t n = u64(record + 24); n > 0 && end - p > 16; n--) {
		const uint8_t *nul = memchr(p + 16, 0, (size_t)(end - p) - 16);
		uint64_t here = u64(p) - u64(record + 16) - shift;
		if (!nul || nul - p > 16 + JITDUMP_FILE_MAX)
			break;
		if (nul - p != 17 || p[16] != 0xff)
			file = (const char *)p + 16;
		if (file && here <= UINT32_MAX && here >= last) {
			last = here;
			if (here <= offset) {
				*ret_file = file;
				line = u32(p + 8) > INT32_MAX ? 0 : u32(p + 8);
			}
		}
		p = nul + 1;
	}
	return line;
}

static void compare(const struct jitdump *d, uint64_t address)
{
	struct jitdump_place p;
	const struct piece *want = piece_at(address);
	const char *file = NULL;
	if (jitdump_find(d, address, &p) != (want != NULL))
		abort();
	if (!want)
		return;
	uint32_t line = want->lines ? line_at(want->lines, address - want->start, &file) : 0;
	if (strncmp(p.name, (const char *)want->name, JITDUMP_NAME_MAX) || p.offset != address - want->start)
		abort();
	if (p.line != line || !p.file != !file || (file && strcmp(file, p.file)))
		abort();
}

static void append(struct jitdump *d, int fd, const uint8_t *data, size_t size)
{
	struct file f;
	int r = 1;
	if (write(fd, data, size) != (ssize_t)size || file_on(fd, &f) < 0)
		abort();
	while (r == 1)
		r = jitdump_read(d, &f, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct jitdump *d;
	if (!size || size > SIZE_MAX_HERE)
		return 0;
	int fd = memfd_create("jit.dump", MFD_CLOEXEC);
	if (fd < 0 || jitdump_new(64 << 20, &d) < 0)
		abort();
	parse(data, size);
	size_t first = data[size - 1] * size / 256;
	append(d, fd, data, first);
	append(d, fd, data + first, size - first);
	for (size_t i = 0; i < n_pieces && n_pieces < CODE_MAX && !jitdump_truncated(d); i++) {
		uint64_t start = pieces[i].start, last = pieces[i].last;
		for (uint64_t k = 0; k < 16 && k <= last - start; k++)
			compare(d, start + k);
		for (uint64_t k = 0; k < 64 && k < (last - start) / 29; k++)
			compare(d, start + 29 * k);
		compare(d, last);
		compare(d, start - 1);
		compare(d, last + 1);
	}
	jitdump_free(d);
	close(fd);
	return 0;
}
