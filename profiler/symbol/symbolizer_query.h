/* SPDX-License-Identifier: Apache-2.0 */
/*
 * symbolizer_query - asks the symbolizer (profiler/symbol/symbolizer_client.h) and waits for its answer, for a command
 * that has nothing else to do. A question may take longer than a profiler would wait, and a large file gets the memory
 * that it needs.
 */
#pragma once

#include "oci/base/err.h"
#include "profiler/elf/debuglink.h"
#include "profiler/symbol/name_cache.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct symbolizer_query;
struct symbolizer_query_files { /* open; -1: none */
	int debug, alt;
	bool separate; /* as debug_files.separate */
};
/*
 * Starts the symbolizer, which is this program executed again: main() must begin with forkserver_main(). The process
 * must have one thread so far.
 */
int symbolizer_query_open(struct symbolizer_query **ret, struct err *e);
struct symbolizer_query *symbolizer_query_close(struct symbolizer_query *q); /* NULL is fine; returns NULL */
/* Reads the debug_facts of an open file; all zero: it is no ELF file, or is damaged. */
int symbolizer_query_facts(struct symbolizer_query *q, int fd, struct debug_facts *ret, struct err *e);
/*
 * Looks up the names at these addresses and adds them to `to`. Sorted addresses are answered sooner. -ENODATA: some
 * were not answered, as the file is damaged or needs more time or memory than allowed.
 */
int symbolizer_query_names(struct symbolizer_query *q, const struct symbolizer_query_files *f, const uint64_t *vaddrs,
	size_t n, struct name_cache *to, struct err *e);
