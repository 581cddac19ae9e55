/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jitdump - names and lines of code that a program made at run time, from the file jit-PID.dump that it writes for
 * perf(1): a header, then records of code that was made or moved and of the lines that it came from (Linux,
 * tools/perf/Documentation/jitdump-specification.txt). The copies of the code in it are ignored.
 *
 * The file is read as it grows. Where code overlaps, the later record counts; the rest of an earlier one stays valid.
 * The content is hostile: a record with senseless fields is left out. The bytes read and the bytes held are limited; at
 * a limit reading ends and jitdump_truncated() is true.
 */
#pragma once

#include "oci/base/err.h"
#include "profiler/elf/target_file.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JITDUMP_NAME_MAX 511	       /* a longer name is cut */
#define JITDUMP_FILE_MAX 4095	       /* at a longer one the lines of its function end */
#define JITDUMP_BYTES_MAX (1ull << 30) /* of a file */
#define JITDUMP_LINES_MAX (1u << 20)   /* bytes of a record of lines; a larger one is left out */

struct jitdump;

struct jitdump_place {
	const char *name; /* both valid until jitdump_free() */
	const char *file; /* NULL: unknown */
	uint32_t line;	  /* 0: unknown */
	uint64_t offset;  /* from where the function begins */
};

int jitdump_new(size_t cap_bytes, struct jitdump **ret); /* -ENOMEM */
struct jitdump *jitdump_free(struct jitdump *d);	 /* NULL is fine; returns NULL */
/*
 * Reads the bytes that were appended since the last call, for some milliseconds at most. 1: there is more, call again.
 * 0: all is read; an incomplete last record waits. A file that is not the one of the last call (see file_tail.h) is
 * read from its beginning, and the names from the other one are dropped. -EBADMSG: no jitdump of version 1 in this
 * machine's byte order, or damaged; this stays so until it is another file. Or the errno of a read.
 */
int jitdump_read(struct jitdump *d, const struct file *f, struct err *e);
bool jitdump_find(const struct jitdump *d, uint64_t address, struct jitdump_place *ret);
bool jitdump_truncated(const struct jitdump *d);
size_t jitdump_memory(const struct jitdump *d); /* bytes held; at most cap_bytes, and the size of an empty one */
