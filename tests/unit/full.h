/* full - how much of what takes long: FULL in the environment is all of it; without, as much as finds the same faults.
 */
#pragma once

#include <stddef.h>
#include <stdlib.h>

static inline size_t full(size_t whole, size_t part)
{
	const char *asked = getenv("FULL");
	return asked && *asked ? whole : part;
}
