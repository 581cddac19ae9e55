/* SPDX-License-Identifier: Apache-2.0 */
/* space: what mmap does to what was there, forks, the cap, and who holds which file. */
#include "profiler/process/address_space.h"

#include "oci/base/fd.h"
#include "oci/base/journal.h"
#include "tests/unit/support/many.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fds_before;
static int asked; /* calls of the resolver */

static void setup(void)
{
	fds_before = fd_count();
	asked = 0;
}

static void teardown(void)
{
	ck_assert_int_eq(fd_count(), fds_before);
}

static struct module *resolve_nothing(void *arg, const struct module_key *key)
{
	asked++;
	return NULL;
}

static int map(struct address_space *s, uint64_t start, uint64_t end, uint64_t pgoff, const char *name)
{
	struct module_key key = {.path = name, .ino = (uint64_t)name[0]};
	return address_space_map(s, start, end - start, pgoff, &key);
}

/* "a:10-20@0 b:20-30@5": file, range and offset, in hexadecimal. */
static void map_all(struct address_space *s, const char *text)
{
	unsigned long long start, end, pgoff;
	char name[2] = "";
	int used;
	for (; sscanf(text, " %1[a-z]:%llx-%llx@%llx%n", name, &start, &end, &pgoff, &used) == 4; text += used)
		ck_assert_int_eq(map(s, start, end, pgoff, name), 0);
}

static void describe(const struct address_space *s, char *buf, size_t size)
{
	size_t n = 0;
	buf[0] = 0;
	for (size_t i = 0; i < address_space_count(s) && n < size; i++) {
		const struct mapping *m = address_space_at(s, i);
		n += (size_t)snprintf(buf + n, size - n, "%s%s:%llx-%llx@%llx", i ? " " : "", mapping_key(m)->path,
			(unsigned long long)m->start, (unsigned long long)m->end, (unsigned long long)m->pgoff);
	}
}

static const struct {
	const char *name, *maps, *expect;
} rows[] = {
	{"one mapping", "a:10-20@0", "a:10-20@0"},
	{"sorted whatever the order of arrival", "b:30-40@0 a:10-20@0", "a:10-20@0 b:30-40@0"},
	{"neighbours do not touch each other", "a:10-20@0 b:20-30@0", "a:10-20@0 b:20-30@0"},
	{"exactly over another replaces it", "a:10-20@0 b:10-20@7", "b:10-20@7"},
	{"a larger one swallows three", "a:10-20@0 b:20-30@0 c:38-40@0 d:8-48@0", "d:8-48@0"},
	{"over the end trims the end", "a:10-20@0 b:18-28@0", "a:10-18@0 b:18-28@0"},
	{"over the start moves start and offset", "a:10-20@4 b:8-18@0", "b:8-18@0 a:18-20@c"},
	{"a hole makes two of one", "a:10-40@0 b:20-30@0", "a:10-20@0 b:20-30@0 a:30-40@20"},
	{"across a border trims both sides", "a:10-20@0 b:20-30@0 c:18-28@0", "a:10-18@0 c:18-28@0 b:28-30@8"},
	{"the same again changes nothing", "a:10-20@0 a:10-20@0", "a:10-20@0"},
	{"a part of the same file in place changes nothing", "a:10-40@0 a:20-30@10", "a:10-40@0"},
	{"the same file at another offset is a change", "a:10-40@0 a:20-30@0", "a:10-20@0 a:20-30@0 a:30-40@20"},
	{"one byte at the top of memory", "a:fffffffffffffffe-ffffffffffffffff@0",
		"a:fffffffffffffffe-ffffffffffffffff@0"},
};

START_TEST(mapping_over_others)
{
	struct map_files *files;
	struct address_space *s;
	char is[512];
	ck_assert_int_eq(map_files_new(resolve_nothing, NULL, &files), 0);
	ck_assert_int_eq(address_space_new(files, &s), 0);
	map_all(s, rows[_i].maps);
	describe(s, is, sizeof(is));
	ck_assert_msg(!strcmp(is, rows[_i].expect), "%s: is %s, not %s", rows[_i].name, is, rows[_i].expect);
	address_space_free(s);
	ck_assert_uint_eq(map_files_count(files), 0);
	map_files_free(files);
}
END_TEST

START_TEST(finding_and_refusing)
{
	struct map_files *files;
	struct address_space *s;
	map_files_new(resolve_nothing, NULL, &files);
	address_space_new(files, &s);
	ck_assert_ptr_null(address_space_find(s, 0));
	map_all(s, "a:10-20@0 b:30-40@0");
	ck_assert_ptr_null(address_space_find(s, 0xf));
	ck_assert_ptr_eq(address_space_find(s, 0x10), address_space_at(s, 0));
	ck_assert_ptr_eq(address_space_find(s, 0x1f), address_space_at(s, 0));
	ck_assert_ptr_null(address_space_find(s, 0x20));
	ck_assert_ptr_eq(address_space_find(s, 0x3f), address_space_at(s, 1));
	ck_assert_ptr_null(address_space_find(s, UINT64_MAX));
	ck_assert_int_eq(map(s, 5, 5, 0, "c"), -EINVAL);
	ck_assert_int_eq(address_space_map(s, 5, UINT64_MAX, 0, mapping_key(address_space_at(s, 0))), -EINVAL);
	ck_assert_uint_eq(address_space_count(s), 2);
	address_space_free(s);
	map_files_free(files);
}
END_TEST

/* Every address against a model that is too simple to be wrong. */
START_TEST(random_mappings_agree_with_an_array)
{
	enum { PLACES = 200 };
	struct {
		char file;
		unsigned off;
	} model[PLACES] = {{0}};
	struct map_files *files;
	struct address_space *s;
	srand(1);
	map_files_new(resolve_nothing, NULL, &files);
	address_space_new(files, &s);
	for (int round = 0; round < MANY_OF(2000); round++) {
		unsigned start = (unsigned)rand() % (PLACES - 1), len = 1 + (unsigned)rand() % 30;
		unsigned off = (unsigned)rand() % 3;
		char name[2] = {(char)('a' + rand() % 3), 0};
		ck_assert_int_eq(map(s, start, start + len, off, name), 0);
		for (unsigned i = start; i < start + len && i < PLACES; i++) {
			model[i].file = name[0];
			model[i].off = off + i - start;
		}
		for (unsigned i = 0; i < PLACES; i++) {
			const struct mapping *m = address_space_find(s, i);
			ck_assert_int_eq(m ? mapping_key(m)->path[0] : 0, model[i].file);
			ck_assert(!m || m->pgoff + i - m->start == model[i].off);
		}
	}
	address_space_free(s);
	ck_assert_uint_eq(map_files_count(files), 0);
	map_files_free(files);
}
END_TEST

START_TEST(a_fork_shares_until_one_side_changes)
{
	struct map_files *files;
	struct address_space *parent, *child;
	char is[128];
	map_files_new(resolve_nothing, NULL, &files);
	address_space_new(files, &parent);
	map_all(parent, "a:10-20@0 b:20-30@0");
	ck_assert_int_eq(address_space_fork(parent, &child), 0);
	ck_assert_ptr_eq(address_space_at(parent, 0), address_space_at(child, 0));
	map_all(child, "a:10-20@0"); /* no change */
	ck_assert_ptr_eq(address_space_at(parent, 0), address_space_at(child, 0));
	map_all(child, "c:18-28@0");
	describe(parent, is, sizeof(is));
	ck_assert_str_eq(is, "a:10-20@0 b:20-30@0");
	parent = address_space_free(parent);
	describe(child, is, sizeof(is));
	ck_assert_str_eq(is, "a:10-18@0 c:18-28@0 b:28-30@8");
	ck_assert_uint_eq(map_files_count(files), 3);
	map_all(child, "c:0-100@0");
	ck_assert_uint_eq(map_files_count(files), 1);
	address_space_free(child);
	map_files_free(files);
}
END_TEST

START_TEST(a_module_is_asked_for_once_per_identity)
{
	struct map_files *files;
	struct address_space *s, *child;
	map_files_new(resolve_nothing, NULL, &files);
	address_space_new(files, &s);
	map_all(s, "a:10-20@0 a:30-40@0 b:50-60@0");
	address_space_fork(s, &child);
	map_all(child, "c:70-80@0");
	ck_assert_int_eq(asked, 0);
	mapping_module(address_space_find(s, 0x10));
	mapping_module(address_space_find(s, 0x30));
	mapping_module(address_space_find(child, 0x10));
	ck_assert_int_eq(asked, 1);
	address_space_free(s);
	address_space_free(child);
	map_files_free(files);
}
END_TEST

START_TEST(over_the_cap_the_oldest_goes)
{
	struct map_files *files;
	struct address_space *s;
	map_files_new(resolve_nothing, NULL, &files);
	address_space_new(files, &s);
	for (uint64_t i = 1; i <= ADDRESS_SPACE_MAPPINGS_MAX; i++)
		map(s, i * 16, i * 16 + 8, 0, "a");
	ck_assert_uint_eq(address_space_count(s), ADDRESS_SPACE_MAPPINGS_MAX);
	ck_assert(!address_space_lossy(s));
	map(s, 0, 8, 0, "b");
	ck_assert_uint_ge(address_space_dropped(s), 1);
	ck_assert_uint_le(address_space_dropped(s), ADDRESS_SPACE_MAPPINGS_MAX / 32);
	ck_assert_uint_eq(address_space_count(s) + address_space_dropped(s), ADDRESS_SPACE_MAPPINGS_MAX + 1);
	ck_assert(address_space_lossy(s));
	ck_assert_ptr_null(address_space_find(s, 16));
	ck_assert_ptr_nonnull(address_space_find(s, ADDRESS_SPACE_MAPPINGS_MAX / 2 * 16));
	ck_assert_ptr_nonnull(address_space_find(s, 0));
	address_space_free(s);
	map_files_free(files);
}
END_TEST

START_TEST(over_the_cap_code_made_at_run_time_goes_first)
{
	struct map_files *files;
	struct address_space *s;
	map_files_new(resolve_nothing, NULL, &files);
	address_space_new(files, &s);
	map(s, 0, 8, 0, "/lib/libc.so.6");
	for (uint64_t i = 1; i <= 4 * ADDRESS_SPACE_MAPPINGS_MAX; i++)
		map(s, i * 16, i * 16 + 8, 0, "//anon");
	ck_assert_uint_le(address_space_count(s), ADDRESS_SPACE_MAPPINGS_MAX);
	ck_assert_ptr_nonnull(address_space_find(s, 0));
	ck_assert_ptr_null(address_space_find(s, 16));
	address_space_free(s);
	map_files_free(files);
}
END_TEST

/* A child has its own as soon as it maps something: so many children have so many times what their parent has. */
START_TEST(all_spaces_of_a_table_have_a_cap)
{
	enum { PARENT = ADDRESS_SPACE_MAPPINGS_MAX, CHILDREN = 100 };
	struct map_files *files;
	struct address_space *s, *children[CHILDREN], *image;
	size_t all = 0;
	map_files_new(resolve_nothing, NULL, &files);
	address_space_new(files, &s);
	for (uint64_t i = 1; i <= PARENT; i++)
		map(s, i * 16, i * 16 + 8, 0, "a");
	for (unsigned i = 0; i < CHILDREN; i++) {
		ck_assert_int_eq(address_space_fork(s, &children[i]), 0);
		ck_assert_int_eq(map(children[i], 0, 8, 0, "b"), 0);
		const bool kept = address_space_find(children[i], 0);
		ck_assert(kept || (address_space_lossy(children[i]) && address_space_dropped(children[i]) == 1));
		ck_assert_ptr_nonnull(address_space_find(children[i], PARENT * 16));
		all += kept ? address_space_count(children[i]) : 0;
	}
	ck_assert_uint_gt(all, SPACES_MAPPINGS_MAX / 2);
	ck_assert_uint_le(all + PARENT, SPACES_MAPPINGS_MAX);
	address_space_free(children[0]); /* there is room again */
	ck_assert_int_eq(address_space_new(files, &image), 0);
	ck_assert_int_eq(map(image, 0, 8, 0, "c"), 0);
	ck_assert_ptr_nonnull(address_space_find(image, 0));
	address_space_free(image);
	for (unsigned i = 1; i < CHILDREN; i++)
		address_space_free(children[i]);
	address_space_free(s);
	map_files_free(files);
}
END_TEST

static int drops;

static void count_drop(struct unwind_cache *c)
{
	drops++;
}

START_TEST(what_was_derived_is_dropped_when_it_may_be_wrong)
{
	struct unwind_cache cache = {count_drop};
	struct map_files *files;
	struct address_space *s, *child;
	drops = 0;
	map_files_new(resolve_nothing, NULL, &files);
	address_space_new(files, &s);
	map_all(s, "a:10-20@0");
	*address_space_cache(s) = &cache;
	map_all(s, "a:10-20@0 b:20-30@0"); /* nothing that was known is wrong now */
	ck_assert_ptr_eq(*address_space_cache(s), &cache);
	address_space_fork(s, &child);
	ck_assert_ptr_eq(*address_space_cache(child), &cache);
	map_all(child, "c:18-20@0");
	ck_assert_ptr_null(*address_space_cache(child));
	ck_assert_int_eq(drops, 0); /* the parent goes on with it */
	map_all(s, "c:18-20@0");
	ck_assert_int_eq(drops, 1);
	ck_assert_ptr_null(*address_space_cache(s));
	*address_space_cache(child) = &cache;
	address_space_free(child);
	ck_assert_int_eq(drops, 2);
	address_space_free(s);
	map_files_free(files);
}
END_TEST

static uint8_t *put_number(uint8_t *at, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		*at++ = (uint8_t)value | 0x80;
	*at++ = (uint8_t)value;
	return at;
}

/* 0.1.0 kept four times as many mappings of a process: they are there, until the next one comes. */
START_TEST(a_journal_with_more_than_the_cap)
{
	const uint64_t n = 4 * ADDRESS_SPACE_MAPPINGS_MAX + (uint64_t)_i;
	uint8_t *bytes = malloc(16 * n + 64), *at = bytes;
	struct map_files *files;
	struct address_space *s;
	struct spaces_restored known = {0};
	ck_assert(bytes && map_files_new(resolve_nothing, NULL, &files) == 0);
	at = put_number(at, n);	       /* born */
	at = mempcpy(at, "\0\0\0", 3); /* nothing is dropped; a set of its own */
	at = put_number(at, n);
	for (uint64_t i = 0; i < n; i++) {
		at = mempcpy(at, "\0\20\0", 3); /* 16 bytes, behind the last one */
		at = put_number(at, i);
		*at++ = 0;
		if (!i)
			at = mempcpy(at, "\3/a\0\1\2\3\4\0", 9);
	}
	struct journal_reader from = {.at = bytes, .end = at};
	ck_assert_int_eq(address_space_restore(files, &known, &from, &s), _i ? -EBADMSG : 0);
	spaces_restored_done(&known);
	if (!_i) {
		ck_assert_uint_eq(address_space_count(s), n);
		ck_assert_int_eq(map(s, 16 * n, 16 * n + 16, 0, "b"), 0);
		ck_assert_uint_le(address_space_count(s), ADDRESS_SPACE_MAPPINGS_MAX);
		ck_assert_ptr_nonnull(address_space_find(s, 16 * n));
		address_space_free(s);
	}
	map_files_free(files);
	free(bytes);
}
END_TEST

UNIT_SUITE(address_space)
{
	Suite *suite = suite_create("address_space");
	TCase *t = tcase_create("address_space");
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, mapping_over_others, 0, sizeof(rows) / sizeof(*rows));
	tcase_add_test(t, finding_and_refusing);
	tcase_add_test(t, random_mappings_agree_with_an_array);
	tcase_add_test(t, a_fork_shares_until_one_side_changes);
	tcase_add_test(t, a_module_is_asked_for_once_per_identity);
	tcase_add_test(t, over_the_cap_the_oldest_goes);
	tcase_add_loop_test(t, a_journal_with_more_than_the_cap, 0, 2);
	tcase_add_test(t, over_the_cap_code_made_at_run_time_goes_first);
	tcase_add_test(t, all_spaces_of_a_table_have_a_cap);
	tcase_add_test(t, what_was_derived_is_dropped_when_it_may_be_wrong);
	suite_add_tcase(suite, t);
	return suite;
}
