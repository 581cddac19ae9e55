/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pages - memory for a large buffer of a check, which is there until the check ends. As a static variable it would cost
 * every check of every suite: at the end of each, AddressSanitizer's leak checker reads all static variables of the
 * program.
 */
#pragma once

#include <err.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* Zeros; right behind them is a page that faults, if `bytes` is a number of whole pages. */
static inline void *pages_new(size_t bytes)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE), whole = (bytes + page - 1) / page * page;
	char *memory =
		mmap(NULL, whole + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED || mprotect(memory + whole, page, PROT_NONE) < 0)
		err(EXIT_FAILURE, "no memory for a buffer of %zu bytes", bytes);
	return memory;
}
