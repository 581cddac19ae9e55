/* SPDX-License-Identifier: Apache-2.0 */
/*
 * atomic_file - files beneath a root directory (an O_PATH descriptor), by absolute paths: no link on the way leads out
 * of it. The last component is never followed.
 *
 * A file comes whole or not at all: a temporary file, fsync, rename, fsync of the directory. For directories that other
 * programs read whole (named X.d) the temporary file is in the parent directory, where that is the same file system.
 */
#pragma once

#include "oci/base/err.h"

#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>

#define ATOMIC_FILE_FILE_MAX (256u << 20)

/* Opens the file's directory, which the caller closes; *ret_name is the last component of `path`. -errno. */
int atomic_file_parent(int root, const char *path, const char **ret_name);
/* Reads a file: *ret is malloc'ed, NUL behind it. -ENOENT (also of the directory) without a sentence, else with one. */
int atomic_file_read(int root, const char *path, char **ret, size_t *ret_len, struct stat *ret_st, struct err *e);

struct file_attributes {       /* owner, mode and times of a new file */
	const struct stat *st; /* NULL: ours, and `mode` */
	mode_t mode;
};
/* Called before the rename: `candidate` is the path of the temporary file beneath the root. */
struct file_validator {
	int (*fn)(void *arg, const char *candidate, struct err *e);
	void *arg;
};
int atomic_file_replace(int root, const char *path, const void *data, size_t len, const struct file_attributes *like,
	const struct file_validator *c, struct err *e);
int atomic_file_remove(int root, const char *path, struct err *e); /* 0 also where there is none */
void atomic_file_clean_up(int root, const char *path); /* removes the temporary files of a process that was killed */
