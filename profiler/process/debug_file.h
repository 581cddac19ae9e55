/* SPDX-License-Identifier: Apache-2.0 */
/*
 * debug_file - where the debug information of a module is: in its own file, or in a separate file of the same build-id,
 * found as gdb does ("Debugging Information in Separate Files"):
 *
 *	/usr/lib/debug/.build-id/ab/cdef….debug		beneath the target's tree, then on this host
 *	the name in .gnu_debuglink			beside the file, in .debug/, below /usr/lib/debug; in the tree
 *
 * A file found must have the same build-id (or, where there is none, the checksum that .gnu_debuglink gives). The file
 * in its .gnu_debugaltlink (dwz(1)) is found the same way.
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
	bool separate; /* its symbols are not the module's: it is another file, or the module had no room for them */
};

/* How files are opened, as for modules_get. */
struct debug_places {
	target_file_open_fn *in_tree, *on_host;
	void *arg;
};

/*
 * Finds the debug files of a loaded module. The file at its path must be the one that it was loaded from, by its
 * build-id or, without one, by its inode, size and time. The caller closes *ret with debug_files_done. Returns 0, or
 * -errno if that file cannot be used; *ret is empty then.
 */
int debug_files_find(const struct module *m, const struct debug_places *places, struct debug_files *ret, struct err *e);
/*
 * Opens a debug file of this host, by build-id: returns the fd of a regular file, contents not checked, or -errno. Its
 * path goes to `path`, of PATH_MAX.
 */
int debug_files_on_host(const struct build_id *id, char *path);
void debug_files_done(struct debug_files *f);
