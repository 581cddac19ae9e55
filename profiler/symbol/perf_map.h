/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perf_map - names of code that a program made at run time, from the file that it writes for perf(1):
 * /tmp/perf-PID.map, lines "START SIZE NAME" with numbers in hex (Linux, tools/perf/Documentation/jit-interface.txt).
 *
 * The file is read as it grows. Where lines overlap, the later one counts, as memory is used again; the rest of an
 * earlier one stays valid. Names are not parsed, only cut at PERF_MAP_NAME_MAX bytes. The content is hostile: a
 * senseless line is left out. The bytes read and the bytes held are limited; at a limit reading ends and
 * perf_map_truncated() is true.
 */
#pragma once

#include "oci/base/err.h"
#include "profiler/elf/target_file.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PERF_MAP_NAME_MAX 511
#define PERF_MAP_BYTES_MAX (256u << 20) /* of a file */

struct perf_map;

int perf_map_new(size_t cap_bytes, struct perf_map **ret); /* -ENOMEM */
struct perf_map *perf_map_free(struct perf_map *m);	   /* NULL is fine; returns NULL */
/*
 * Reads the bytes that were appended since the last call, some 256 KiB at most (a few milliseconds). 1: there is more,
 * call again. 0: all is read; a last line without its newline waits. A file that is not the one of the last call (see
 * file_tail.h) is read from its beginning, and the names from the other one are dropped. Or the errno of a read.
 */
int perf_map_read(struct perf_map *m, const struct file *f, struct err *e);
/* The name, valid until perf_map_free(), or NULL. */
const char *perf_map_find(const struct perf_map *m, uint64_t address);
bool perf_map_truncated(const struct perf_map *m);
size_t perf_map_memory(const struct perf_map *m); /* bytes held; at most cap_bytes, and the size of an empty one */
