/*
 * perf_map - names of code that a program made at run time, from the file that it writes for perf(1):
 * /tmp/perf-PID.map, lines "START SIZE NAME" with numbers in hex (Linux, tools/perf/Documentation/jit-interface.txt).
 *
 * The file is read as it grows. Of lines that overlap the later one counts, for room is used again; what it leaves of
 * an earlier one stays valid. Names are not looked into, only cut at PERFMAP_NAME_MAX bytes. The content is hostile: a
 * line that makes no sense is left out; what is read and what is held have limits, and once one is met nothing further
 * is taken and perfmap_truncated() says so.
 */
#pragma once

#include "oci/base/err.h"
#include "profiler/elf/target_file.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PERFMAP_NAME_MAX 511
#define PERFMAP_BYTES_MAX (256u << 20) /* of a file */

struct perfmap;

int perfmap_new(size_t cap_bytes, struct perfmap **ret); /* -ENOMEM */
struct perfmap *perfmap_free(struct perfmap *m);	 /* NULL is fine; returns NULL */
/*
 * What was appended since the last time, some 256 KiB at most (a few milliseconds). 1: there is more, call again. 0:
 * that was all; a last line without its newline waits. A file that is not the one of the last time (see file_tail.h) is
 * read from its beginning, and what the other one said is forgotten. Or the errno of a read.
 */
int perfmap_read(struct perfmap *m, const struct file *f, struct err *e);
/* The name, valid until perfmap_free(), or NULL. */
const char *perfmap_find(const struct perfmap *m, uint64_t address);
bool perfmap_truncated(const struct perfmap *m);
size_t perfmap_memory(const struct perfmap *m); /* bytes held; at most cap_bytes, and what an empty one takes */
