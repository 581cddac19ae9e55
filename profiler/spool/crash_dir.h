/* SPDX-License-Identifier: Apache-2.0 */
/*
 * crash_dir - reports of crashes: <spool>/crashes/<UTC>-<target>-<pid>.json, mode 0640, one for each.
 *
 * A file appears whole or not at all. There are CRASH_DIR_TARGET_MAX at most of a target, CRASH_DIR_MAX in all: the
 * oldest go first, by the time in their names. Other files there are left alone.
 */
#pragma once

#include "oci/base/err.h"

#include <stddef.h>
#include <stdint.h>

#define CRASH_DIR "crashes"
#define CRASH_DIR_TARGET_MAX 100
#define CRASH_DIR_MAX 1000

/*
 * Writes a report. spool: the directory above it. ret_path: below that. 0, or -errno with a sentence. The same report
 * again goes to the same file.
 */
int crash_dir_write(int spool, const char *target, int64_t start_ns, uint32_t pid, const void *data, size_t len,
	char *ret_path, size_t size, struct err *e);
/*
 * Lists the reports of a directory, sorted by time: names, malloc'ed, NULL after the last one. 0, or -errno: -ENOENT:
 * there is no such directory.
 */
int crash_dir_list(int dir, char ***ret, size_t *ret_n);
void crash_dir_list_done(char **names);
