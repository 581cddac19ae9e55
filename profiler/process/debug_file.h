/* SPDX-License-Identifier: Apache-2.0 */
/*
 * debug_file - where the debug information of a module is: in its own file, or in a separate file of the same build-id,
 * found as gdb does ("Debugging Information in Separate Files"):
 *
 *	/usr/lib/debug/.build-id/ab/cdef….debug		beneath the target's tree, then on this host
 *	what .gnu_debuglink names: beside the file, in .debug/ beside it, below /usr/lib/debug; in the tree
 *
 * A file found must have the same build-id (or, where there is none, the checksum that .gnu_debuglink gives). What its
 * .gnu_debugaltlink names (dwz(1)) is found the same way.
 */
#pragma once

#include "profiler/elf/debuglink.h"
#include "profiler/process/module.h"

#include <limits.h>
#include <stdbool.h>

#define DEBUG_DIR "/usr/lib/debug"

struct debug_files {
	struct file debug; /* with .debug_info or .debug_line; not open: there is none */
	struct file alt;   /* not open: none is named, or it was not found */
	bool separate; /* its symbols are not those that the module has: another file, or it has none for want of room
			*/
};

/* How files are opened, as for modules_get. */
struct debug_places {
	target_file_open_fn *in_tree, *on_host;
	void *arg;
};

/*
 * m: a loaded module; what lies at its path must be the file that it was loaded from, by its build-id or, without one,
 * by its inode, size and time. The caller closes what comes back with debug_files_done. 0, or -errno when the file
 * cannot be looked at; *ret has nothing then.
 */
int debug_files_find(const struct module *m, const struct debug_places *places, struct debug_files *ret, struct err *e);
/* Of this host, by build-id: a regular file that nobody has looked into; -errno. Its path in `path`, of PATH_MAX. */
int debug_files_on_host(const struct build_id *id, char *path);
void debug_files_done(struct debug_files *f);
