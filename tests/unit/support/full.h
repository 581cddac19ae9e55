/* SPDX-License-Identifier: Apache-2.0 */
/* full - how much of what takes long: FULL in the environment is all of it; without, as much as finds the same faults.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

static inline size_t full(size_t whole, size_t part)
{
	const char *asked = getenv("FULL");
	return asked && *asked ? whole : part;
}

/* False where every byte costs ten times as much (a sanitizer's program) and FULL is not asked for: tests of many MB.
 */
static inline bool full_bytes(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	return full(1, 0);
#else
	return true;
#endif
}
