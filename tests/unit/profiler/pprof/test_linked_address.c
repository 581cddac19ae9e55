/* SPDX-License-Identifier: Apache-2.0 */
/* place: mappings as pillion writes them and as the kernel makes them, of files as linkers and objcopy write them. */
#include "profiler/pprof/linked_address.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <stdlib.h>

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))
#define BASE (3ull << 40) /* of pillion's third module */
#define LOAD 0x7f1234500000ull
#define NOWHERE UINT64_MAX

/* What program headers have of code: of GNU ld, of lld, of a program at a fixed address, with code in two places. */
#define LD                                                                                                             \
	{                                                                                                              \
		0x1000, 0x1000, 0x2b9, 0x2b9                                                                           \
	}
#define LD_DEBUG                                                                                                       \
	{                                                                                                              \
		0x1000, 0, 0, 0x2b9                                                                                    \
	}
#define LLD                                                                                                            \
	{                                                                                                              \
		0x1660, 0x660, 0x160, 0x160                                                                            \
	}
#define LLD_DEBUG                                                                                                      \
	{                                                                                                              \
		0x1660, 0x660, 0, 0x160                                                                                \
	}
#define FIXED                                                                                                          \
	{                                                                                                              \
		0x401000, 0x1000, 0x2b9, 0x2b9                                                                         \
	}
#define OLD                                                                                                            \
	{                                                                                                              \
		0x0, 0x0, 0x5123, 0x5123                                                                               \
	} /* headers, read-only data and code in one */
#define OLD_DEBUG                                                                                                      \
	{                                                                                                              \
		0x0, 0x0, 0x39c, 0x5123                                                                                \
	}
#define SECOND                                                                                                         \
	{                                                                                                              \
		0x9000, 0x8000, 0x100, 0x100                                                                           \
	}
#define SECOND_DEBUG                                                                                                   \
	{                                                                                                              \
		0x9000, 0, 0, 0x100                                                                                    \
	}

static const struct {
	const char *scenario;
	struct debug_segment segments[2];
	uint64_t start, limit, offset; /* of the mapping */
	uint64_t address, vaddr;
} rows[] = {
	{"pillion, GNU ld", {LD}, BASE + 0x1000, BASE + 0x12b9, 0x1000, BASE + 0x1234, 0x1234},
	{"pillion, GNU ld, debug file", {LD_DEBUG}, BASE + 0x1000, BASE + 0x12b9, 0x1000, BASE + 0x1234, 0x1234},
	{"pillion, lld", {LLD}, BASE + 0x1660, BASE + 0x17c0, 0x660, BASE + 0x1700, 0x1700},
	{"pillion, lld, debug file", {LLD_DEBUG}, BASE + 0x1660, BASE + 0x17c0, 0x660, BASE + 0x1700, 0x1700},
	{"pillion, one segment", {OLD}, BASE, BASE + 0x5123, 0, BASE + 0x5000, 0x5000},
	{"pillion, one segment, debug file", {OLD_DEBUG}, BASE, BASE + 0x5123, 0, BASE + 0x5000, 0x5000},
	{"pillion, fixed", {FIXED}, BASE + 0x401000, BASE + 0x4012b9, 0x1000, BASE + 0x401234, 0x401234},
	{"pillion, a file that it could not read", {LLD}, BASE, BASE + (1ull << 39), 0, BASE + 0x700, 0x1700},
	{"the same, debug file: nobody knows", {LLD_DEBUG}, BASE, BASE + (1ull << 39), 0, BASE + 0x700, NOWHERE},
	{"kernel, GNU ld", {LD}, LOAD + 0x1000, LOAD + 0x2000, 0x1000, LOAD + 0x1234, 0x1234},
	{"kernel, GNU ld, debug file", {LD_DEBUG}, LOAD + 0x1000, LOAD + 0x2000, 0x1000, LOAD + 0x1234, 0x1234},
	{"kernel, lld", {LLD}, LOAD + 0x1000, LOAD + 0x2000, 0, LOAD + 0x1700, 0x1700},
	{"kernel, lld, debug file", {LLD_DEBUG}, LOAD + 0x1000, LOAD + 0x2000, 0, LOAD + 0x1700, 0x1700},
	{"kernel, fixed", {FIXED}, 0x401000, 0x402000, 0x1000, 0x401234, 0x401234},
	{"kernel, one segment, debug file", {OLD_DEBUG}, LOAD, LOAD + 0x6000, 0, LOAD + 0x5000, 0x5000},
	{"kernel, a part of it", {OLD}, LOAD + 0x4000, LOAD + 0x6000, 0x4000, LOAD + 0x5000, 0x5000},
	{"kernel, a part of it, debug file: nobody knows", {OLD_DEBUG}, LOAD + 0x4000, LOAD + 0x6000, 0x4000,
		LOAD + 0x5000, NOWHERE},
	{"kernel, the second place", {LD, SECOND}, LOAD + 0x9000, LOAD + 0xa000, 0x8000, LOAD + 0x9010, 0x9010},
	{"kernel, either place, debug file: nobody knows", {LD_DEBUG, SECOND_DEBUG}, LOAD + 0x9000, LOAD + 0xa000,
		0x8000, LOAD + 0x9010, NOWHERE},
	{"before the mapping", {LD}, LOAD + 0x1000, LOAD + 0x2000, 0x1000, LOAD + 0xfff, NOWHERE},
	{"behind the mapping", {LD}, LOAD + 0x1000, LOAD + 0x2000, 0x1000, LOAD + 0x2000, NOWHERE},
	{"behind the code", {LD}, LOAD + 0x1000, LOAD + 0x9000, 0x1000, LOAD + 0x8000, NOWHERE},
	{"no code at all", {{0}}, LOAD, LOAD + 0x1000, 0, LOAD + 1, NOWHERE},
	{"no mapping at all", {LD}, 0, 0, 0, 0, NOWHERE},
	{"numbers that overflow", {{UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX}}, 1, UINT64_MAX, UINT64_MAX, 2,
		NOWHERE},
};

START_TEST(places)
{
	struct debug_facts *f = calloc(1, sizeof(*f));
	const struct profile_mapping m = {rows[_i].start, rows[_i].limit, rows[_i].offset, "", "", 0};
	uint64_t vaddr = 0;
	for (int i = 0; i < 2; i++)
		if (rows[_i].segments[i].memsz)
			f->segments[f->n_segments++] = rows[_i].segments[i];
	bool found = linked_address_find(f, &m, rows[_i].address, &vaddr);
	ck_assert_msg(found == (rows[_i].vaddr != NOWHERE) && (!found || vaddr == rows[_i].vaddr), "%s: %d, %lx",
		rows[_i].scenario, found, (unsigned long)vaddr);
	free(f);
}
END_TEST

UNIT_SUITE(linked_address)
{
	Suite *s = suite_create("linked_address");
	TCase *t = tcase_create("linked_address");
	tcase_add_loop_test(t, places, 0, LENGTH(rows));
	suite_add_tcase(s, t);
	return s;
}
