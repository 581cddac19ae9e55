/* SPDX-License-Identifier: Apache-2.0 */
/* names: what was put is what is got, texts are copied and kept once, and memory is told. */
#include "profiler/symbol/name_cache.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct name_cache *names;

static void setup(void)
{
	ck_assert_int_eq(name_cache_new(&names), 0);
}

static void teardown(void)
{
	names = name_cache_free(names);
	ck_assert_ptr_null(name_cache_free(NULL));
}

static const struct symbol_line two[] = {
	{"std::sort(int*)", "_ZSt4sortPi", "/usr/include/c++/12/bits/stl_algo.h", 4819, 4800},
	{"main", "", "/src/main.cc", 17, 0},
};

static void is(uint64_t vaddr, const struct symbol_line *want, size_t n)
{
	const struct symbol_line *got;
	size_t count;
	ck_assert(name_cache_get(names, vaddr, &got, &count));
	ck_assert_uint_eq(count, n);
	for (size_t i = 0; i < n; i++) {
		ck_assert_str_eq(got[i].name, want[i].name);
		ck_assert_str_eq(got[i].linkage, want[i].linkage);
		ck_assert_str_eq(got[i].file, want[i].file);
		ck_assert_uint_eq(got[i].line, want[i].line);
		ck_assert_uint_eq(got[i].start, want[i].start);
	}
}

START_TEST(never_asked)
{
	const struct symbol_line *got;
	size_t n;
	ck_assert(!name_cache_get(NULL, 1, &got, &n));
	ck_assert(!name_cache_get(names, 1, &got, &n));
	ck_assert_int_eq(name_cache_put(names, 1, two, 2), 0);
	ck_assert(!name_cache_get(names, 0, &got, &n));
	ck_assert(!name_cache_get(names, 2, &got, &n));
	ck_assert(!name_cache_get(names, UINT64_MAX, &got, &n));
}
END_TEST

START_TEST(what_was_put)
{
	ck_assert_int_eq(name_cache_put(names, 0, two, 2), 0);
	ck_assert_int_eq(name_cache_put(names, UINT64_MAX, two + 1, 1), 0);
	ck_assert_int_eq(name_cache_put(names, 7, NULL, 0), 0); /* asked, and there is nothing to be known */
	is(0, two, 2);
	is(UINT64_MAX, two + 1, 1);
	is(7, NULL, 0);
	ck_assert_int_eq(name_cache_put(names, 7, two, 1), 0); /* asked again: the later answer */
	ck_assert_int_eq(name_cache_put(names, 0, NULL, 0), 0);
	is(7, two, 1);
	is(0, NULL, 0);
}
END_TEST

START_TEST(texts_are_copied)
{
	char name[] = "name", linkage[] = "linkage", file[] = "file";
	struct symbol_line l = {name, linkage, file, 1, 2};
	const struct symbol_line *first, *second;
	size_t n;
	ck_assert_int_eq(name_cache_put(names, 1, &l, 1), 0);
	memset(name, 'x', 4);
	memset(linkage, 'x', 7);
	memset(file, 'x', 4);
	is(1, &(struct symbol_line){"name", "linkage", "file", 1, 2}, 1);
	ck_assert_int_eq(name_cache_put(names, 2, &(struct symbol_line){"name", "linkage", "file", 1, 2}, 1), 0);
	ck_assert(name_cache_get(names, 1, &first, &n) && name_cache_get(names, 2, &second, &n));
	ck_assert_ptr_eq(first, second); /* one copy of equal lines */
}
END_TEST

START_TEST(as_many_as_there_may_be)
{
	struct symbol_line many[NAME_CACHE_LINES_MAX + 1];
	char text[NAME_CACHE_LINES_MAX + 1][16];
	for (int i = 0; i <= NAME_CACHE_LINES_MAX; i++) {
		snprintf(text[i], sizeof(text[i]), "f%d", i);
		many[i] = (struct symbol_line){text[i], "", "", (uint32_t)i, UINT32_MAX};
	}
	ck_assert_int_eq(name_cache_put(names, 1, many, NAME_CACHE_LINES_MAX), 0);
	is(1, many, NAME_CACHE_LINES_MAX);
	ck_assert_int_eq(name_cache_put(names, 2, many, NAME_CACHE_LINES_MAX + 1), -EINVAL);
}
END_TEST

/* Pointers stay valid while tables grow; memory is what is held, give or take, and grows by little for what is known.
 */
START_TEST(many_addresses)
{
	const struct symbol_line *first, *got;
	size_t n, empty = name_cache_memory(names), before;
	ck_assert_int_eq(name_cache_put(names, 1, two, 2), 0);
	ck_assert(name_cache_get(names, 1, &first, &n));
	ck_assert_uint_gt(name_cache_memory(names), empty + 100);
	for (uint64_t a = 2; a < 100000; a++) {
		char text[32];
		snprintf(text, sizeof(text), "function %u", (unsigned)a % 1000);
		struct symbol_line l = {text, "", "/a/file", (uint32_t)a % 1000, 1};
		ck_assert_int_eq(name_cache_put(names, a, &l, 1), 0);
	}
	ck_assert(name_cache_get(names, 1, &got, &n));
	ck_assert_ptr_eq(got, first);
	ck_assert_str_eq(first[0].name, "std::sort(int*)");
	ck_assert(name_cache_get(names, 54321, &got, &n));
	ck_assert_str_eq(got->name, "function 321");
	ck_assert_uint_eq(got->line, 321);
	before = name_cache_memory(names);
	ck_assert_uint_gt(before, 100000 * (sizeof(uint64_t) + sizeof(uint32_t)));
	ck_assert_uint_lt(before, 100000 * 100);
	for (uint64_t a = 2; a < 100000; a++)
		ck_assert_int_eq(name_cache_put(names, a, two, 2), 0);
	ck_assert_uint_le(name_cache_memory(names), before + 200);
}
END_TEST

/* The copied bytes count, each text's once; what stands for them in tables is little. */
START_TEST(memory_is_the_bytes_that_were_copied)
{
	enum { LONG = 100000, LITTLE = 1000 };
	static char text[LONG];
	const struct symbol_line l = {text, text, "", 1, 1};
	size_t before = name_cache_memory(names);
	ck_assert_uint_lt(before, LITTLE);
	memset(text, 'a', LONG - 1);
	for (size_t i = 1; i <= 3; i++) {
		text[0] = (char)('a' + i);
		ck_assert_int_eq(name_cache_put(names, i, &l, 1), 0);
		ck_assert_uint_ge(name_cache_memory(names), before + LONG);
		ck_assert_uint_lt(name_cache_memory(names), before + LONG + LITTLE);
		before = name_cache_memory(names);
	}
	ck_assert_int_eq(name_cache_put(names, 4, &l, 1), 0);
	ck_assert_uint_gt(name_cache_memory(names), before);
	ck_assert_uint_lt(name_cache_memory(names), before + LITTLE);
	before = name_cache_memory(names);
	ck_assert_int_eq(name_cache_put(names, 4, &l, 1), 0);
	ck_assert_uint_eq(name_cache_memory(names), before);
}
END_TEST

UNIT_SUITE(name_cache)
{
	Suite *s = suite_create("name_cache");
	TCase *t = tcase_create("name_cache");

	tcase_set_timeout(t, 30);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, never_asked);
	tcase_add_test(t, what_was_put);
	tcase_add_test(t, texts_are_copied);
	tcase_add_test(t, as_many_as_there_may_be);
	tcase_add_test(t, many_addresses);
	tcase_add_test(t, memory_is_the_bytes_that_were_copied);
	suite_add_tcase(s, t);
	return s;
}
