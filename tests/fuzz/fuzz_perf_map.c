/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perfmap: a file that is appended to in two steps. What is found at both ends of every line is what a second, simpler
 * reader of the same lines says.
 */
#include "profiler/symbol/perf_map.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define LINES_MAX 4096

struct line {
	uint64_t start, last;
	char name[PERF_MAP_NAME_MAX + 1];
};
static struct line lines[LINES_MAX];

/* One of at most 16 significant digits, and blanks behind it. */
static char *number(char *p, uint64_t *ret)
{
	if (!strncasecmp(p, "0x", 2))
		p += 2;
	size_t n = strspn(p, "0123456789abcdefABCDEF"), zeros = strspn(p, "0");
	if (!n || n - zeros > 16 || p[n] != ' ')
		return NULL;
	*ret = strtoull(p, NULL, 16);
	return p + n + strspn(p + n, " ");
}

static bool parse(char *text, size_t len, struct line *ret)
{
	uint64_t size;
	char *p = number(text, &ret->start);
	p = p ? number(p, &size) : NULL;
	if (p && p < text + len && text[len - 1] == '\r')
		text[len - 1] = 0;
	if (!p || !*p || !size)
		return false;
	uint64_t reach = (size < UINT32_MAX ? size : UINT32_MAX) - 1;
	ret->last = reach > UINT64_MAX - ret->start ? UINT64_MAX : ret->start + reach;
	strncpy(ret->name, p, PERF_MAP_NAME_MAX);
	return true;
}

static size_t parse_all(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1), *line = text, *end;
	size_t n = 0;
	memcpy(text, data, size);
	for (; n < LINES_MAX && (end = memchr(line, '\n', size - (size_t)(line - text))); line = end + 1) {
		*end = 0;
		n += parse(line, (size_t)(end - line), &lines[n]);
	}
	free(text);
	return n;
}

static void compare(const struct perf_map *m, size_t n, uint64_t address)
{
	const char *name = perf_map_find(m, address);
	for (; n > 0; n--)
		if (address >= lines[n - 1].start && address <= lines[n - 1].last)
			break;
	if (n ? !name || strcmp(name, lines[n - 1].name) : !!name)
		abort();
}

static void append(struct perf_map *m, int fd, const uint8_t *data, size_t size)
{
	struct file f;
	if (write(fd, data, size) != (ssize_t)size || file_on(fd, &f) < 0 || perf_map_read(m, &f, NULL) != 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct perf_map *m;
	if (!size || size > 16384)
		return 0;
	int fd = memfd_create("perf.map", MFD_CLOEXEC);
	if (fd < 0 || perf_map_new(8 << 20, &m) < 0)
		abort();
	size_t first = data[0] * size / 256, n = parse_all(data, size);
	append(m, fd, data, first);
	append(m, fd, data + first, size - first);
	for (size_t i = 0; i < n && n < LINES_MAX; i++) {
		compare(m, n, lines[i].start);
		compare(m, n, lines[i].last);
		compare(m, n, lines[i].start - 1);
		compare(m, n, lines[i].last + 1);
	}
	perf_map_free(m);
	close(fd);
	return 0;
}
