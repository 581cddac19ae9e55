/* SPDX-License-Identifier: Apache-2.0 */
/*
 * name_cache - the names of addresses of one module: the function, the callers that it was inlined into, files and
 * lines. It is a cache: the symbolizer (profiler/symbol/symbolizer_client.h) is asked once for an address, however many
 * samples hit it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NAME_CACHE_LINES_MAX 64 /* of an address */

struct symbol_line {
	const char *name;     /* as a person writes it; "" unknown */
	const char *linkage;  /* as the linker knows it; "" the same */
	const char *file;     /* "" unknown */
	uint32_t line, start; /* of the code; of the function's declaration; 0 unknown */
};

struct name_cache;
int name_cache_new(struct name_cache **ret);
struct name_cache *name_cache_free(struct name_cache *n); /* NULL is fine */
size_t name_cache_memory(const struct name_cache *n);
/* lines: innermost first, copied; count 0: nothing is known. -ENOMEM */
int name_cache_put(struct name_cache *n, uint64_t vaddr, const struct symbol_line *lines, size_t count);
/* False: never asked. *ret is valid until name_cache_free. */
bool name_cache_get(const struct name_cache *n, uint64_t vaddr, const struct symbol_line **ret, size_t *ret_count);
