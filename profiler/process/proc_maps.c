/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/process/proc_maps.h"

#include "oci/base/fd.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int from_octal(const char *s)
{
	int value = 0;
	for (int i = 0; i < 3; i++) {
		if (s[i] < '0' || s[i] > '7')
			return -1;
		value = value * 8 + s[i] - '0';
	}
	return value;
}

/* The kernel writes a newline in a name as \012 and nothing else so (fs/proc/task_mmu.c). */
static void unescape_newlines(char *name)
{
	char *to = name;
	for (const char *from = name; *from; from++)
		if (*from == '\\' && from_octal(from + 1) == '\n') {
			*to++ = '\n';
			from += 3;
		} else {
			*to++ = *from;
		}
	*to = 0;
}

int proc_maps_line(char *line, uint64_t *ret_start, uint64_t *ret_len, uint64_t *ret_pgoff, struct module_key *ret)
{
	uint64_t start, end, offset, ino;
	uint32_t maj, min;
	char perms[5];
	int at = 0;
	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %" SCNx32 ":%" SCNx32 " %" SCNu64 " %n", &start, &end,
		    perms, &offset, &maj, &min, &ino, &at) < 7 ||
		at == 0 || end <= start || strlen(perms) != 4)
		return -EINVAL;
	if (perms[2] != 'x')
		return 0;
	char *name = line + at;
	unescape_newlines(name);
	*ret_start = start;
	*ret_len = end - start;
	*ret_pgoff = offset;
	/*
	 * memory without a file has the name that MMAP2 records give it; " (deleted)" stays: another file may have the
	 * name now
	 */
	*ret = (struct module_key){.path = *name ? name : "//anon", .maj = maj, .min = min, .ino = ino};
	return 1;
}

int proc_maps_text(char *text, struct address_space *s, char *ret_exe, size_t size)
{
	char *save = NULL;
	int n = 0;
	ret_exe[0] = 0;
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		uint64_t start, bytes, pgoff;
		struct module_key key;
		if (proc_maps_line(line, &start, &bytes, &pgoff, &key) != 1 ||
			address_space_map(s, start, bytes, pgoff, &key) < 0)
			continue;
		if (!ret_exe[0] && key.path[0] == '/' && key.path[1] != '/')
			snprintf(ret_exe, size, "%s", key.path);
		n++;
	}
	return n;
}

int proc_maps_read(int fd, struct address_space *s, size_t *left, char *ret_exe, size_t size)
{
	char *text;
	size_t len, max = *left < PROC_MAPS_COPY_MAX ? *left : PROC_MAPS_COPY_MAX;
	struct stat st;
	int r = fstat(fd, &st) < 0 ? -errno : S_ISREG(st.st_mode) ? fd_slurp(fd, max, &text, &len) : -EINVAL;
	ret_exe[0] = 0;
	if (r < 0)
		return r;
	*left -= len;
	r = proc_maps_text(text, s, ret_exe, size);
	free(text);
	return r;
}
