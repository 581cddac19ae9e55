/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/attach/proc_maps_copy.h"

#include "oci/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ALL_MAX (64u << 20) /* of the file with all lines: memory that is used for a moment */

/* "start-end perms ...": is the third of perms an x? */
static bool is_code(const char *line, size_t len)
{
	const char *space = memchr(line, ' ', len);
	return space && space + 3 < line + len && space[3] == 'x';
}

/* Moves the executable lines to the beginning of the buffer. Returns its new length. */
static size_t keep_code(char *text, size_t len)
{
	size_t kept = 0;
	for (size_t at = 0; at < len;) {
		const char *end = memchr(text + at, '\n', len - at);
		size_t n = end ? (size_t)(end - text) + 1 - at : len - at;
		if (is_code(text + at, n) && kept + n <= PROC_MAPS_COPY_MAX) {
			memmove(text + kept, text + at, n);
			kept += n;
		}
		at += n;
	}
	return kept;
}

static int to_file(const char *text, size_t len)
{
	int fd = memfd_create("pillion-mappings", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	int r = fd_write_all(fd, text, len);
	if (r == 0 && lseek(fd, 0, SEEK_SET) < 0)
		r = -errno;
	return r < 0 ? fd_close(fd), r : fd;
}

int proc_maps_copy(pid_t pid, pid_t tid)
{
	char path[64], *text;
	size_t len;
	snprintf(path, sizeof(path), "/proc/%d/task/%d/maps", (int)pid, (int)tid);
	fd_auto fd = fd_open(AT_FDCWD, path, O_RDONLY, 0);
	if (fd < 0)
		return fd;
	int r = fd_slurp(fd, ALL_MAX, &text, &len);
	if (r < 0)
		return r;
	len = keep_code(text, len);
	r = len ? to_file(text, len) : -ENOENT;
	free(text);
	return r;
}
