/* SPDX-License-Identifier: Apache-2.0 */
/*
 * debugfile: a tree in which the same bytes lie wherever something is looked for: they are the program, its separate
 * file and its alternative one. What is found is a regular file, and nothing stays open.
 */
#include "profiler/process/debug_file.h"

#include "oci/base/fd.h"
#include "tests/unit/support/here.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct tree {
	int file;
	unsigned opened;
};

static int open_file(void *arg, const char *path, struct file *ret)
{
	struct tree *t = arg;
	char own[32];
	size_t len = strlen(path);
	if (path[0] != '/' || len > 2 * 4096 || ++t->opened > 16)
		abort();
	snprintf(own, sizeof(own), "/proc/self/fd/%d", t->file);
	return file_take(fd_open(AT_FDCWD, own, O_RDONLY | O_NONBLOCK, 0), ret);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct tree t = {.file = memfd_create("fuzz", MFD_CLOEXEC)};
	struct module_key key = {.path = "/usr/bin/program"};
	struct debug_places places = {open_file, open_file, &t};
	struct debug_files f;
	struct err e;
	struct modules *modules;
	struct module *m;
	int before = fd_count();
	if (t.file < 0 || fd_write_all(t.file, data, size) < 0)
		abort();
	if (modules_new(64 << 20, &modules) < 0 || modules_get(modules, &key, open_file, &t, &m) < 0)
		abort();
	t.opened = 0;
	if (debug_files_find(m, &places, &f, &e) < 0 && (file_is_open(&f.debug) || file_is_open(&f.alt) || f.separate))
		abort();
	if ((f.separate || file_is_open(&f.alt)) && !file_is_open(&f.debug))
		abort();
	debug_files_done(&f);
	module_unref(m);
	modules_free(modules);
	if (fd_count() != before)
		abort();
	fd_close(t.file);
	return 0;
}
