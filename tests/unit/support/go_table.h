/* SPDX-License-Identifier: Apache-2.0 */
/* A gopclntab by hand. */
#pragma once

#include <stdint.h>
#include <string.h>

#define TEXT 0x401000u

/*
 * Two functions: main.f of 0x40 bytes, whose frame has 24 bytes from its 4th instruction byte to its 0x30th; and
 * runtime.goexit of 0x10.
 */
static size_t make(uint8_t table[512], uint32_t magic)
{
	static const uint8_t deltas[] = {2, 4, 48, 0x2c, 47, 0x10, 0, 2, 0x10, 0}; /* -1 + 1, + 24, - 24 */
	const uint64_t names = 80, pcs = 120, funcs = 160;
	uint64_t words[] = {2, 0, TEXT, names, 0, 0, pcs, funcs};
	uint32_t functab[] = {0, 20, 0x40, 60, 0x50};
	memset(table, 0, 512);
	memcpy(table, &magic, 4);
	table[6] = 1;
	table[7] = 8;
	memcpy(table + 8, words, sizeof(words));
	memcpy(table + names + 1, "main.f", 7);
	memcpy(table + names + 8, "runtime.goexit", 15);
	memcpy(table + pcs + 1, deltas, sizeof(deltas));
	memcpy(table + funcs, functab, sizeof(functab));
	uint32_t f[2][5] = {{0, 1, 0, 0, 1}, {0x40, 8, 0, 0, 8}};
	memcpy(table + funcs + 20, f[0], sizeof(f[0]));
	memcpy(table + funcs + 60, f[1], sizeof(f[1]));
	return funcs + 80;
}
