/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/libpillion/maps/maps_format.h"

#include "shim/libpillion/core/syscall.h"
#include "shim/libpillion/maps/build_id.h"

#include <fcntl.h>
#include <stdbool.h>
#include <string.h>

#define PATH_SIZE 4096

struct mapped {		/* the last file whose beginning was mapped: its executable parts follow */
	char where[32]; /* device and inode */
	struct build_identity id;
};

/* Field n of "START-END PERMS OFFSET DEV INODE PATH", PERMS is 1, and the rest of the line; NULL: it is no such line */
static const char *find_field(const char *line, int n)
{
	while (n-- > 0 && line) {
		line = strchr(line, ' ');
		line = line ? line + 1 : NULL;
	}
	return line;
}

static void map_line(struct text_writer *o, struct mapped *m, const char *line)
{
	const char *perms = find_field(line, 1), *offset = find_field(line, 2), *where = find_field(line, 3),
		   *path = find_field(line, 5);
	if (!path)
		return;
	size_t n = (size_t)(path - where);
	bool same = n < sizeof(m->where) && !strncmp(m->where, where, n) && !m->where[n];
	if (!same && !strncmp(offset, "00000000 ", 9) && n < sizeof(m->where) && strchr(path, '/')) {
		memcpy(m->where, where, n);
		m->where[n] = 0;
		build_id_read(text_hex(line), &m->id);
		same = true;
	}
	if (perms[2] != 'x')
		return;
	text_put(o, "map ");
	text_put(o, line);
	text_put(o, "\n");
	if (same && m->id.size) {
		text_put(o, "id ");
		for (size_t i = 0; i < m->id.size; i++)
			text_put_hex(o, m->id.bytes[i], 2);
		text_put(o, "\n");
	}
}

/* A line that is longer than a path can be is left out. */
void maps_format_put(struct text_writer *o)
{
	char buf[PATH_SIZE + 256], *end;
	struct mapped m = {0};
	size_t have = 0;
	long fd = sys_call(open, "/proc/self/maps", O_RDONLY | O_CLOEXEC), n;
	while (fd >= 0 && (n = sys_call(read, fd, buf + have, sizeof(buf) - 1 - have)) > 0) {
		have += (size_t)n;
		buf[have] = 0;
		char *line = buf;
		for (; (end = strchr(line, '\n')); line = end + 1) {
			*end = 0;
			map_line(o, &m, line);
		}
		have -= (size_t)(line - buf);
		memmove(buf, line, have);
		if (have == sizeof(buf) - 1)
			have = 0;
	}
	if (fd >= 0)
		sys_call(close, fd);
}
