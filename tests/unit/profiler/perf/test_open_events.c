/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/perf/open_events.h"

#include "oci/base/fd.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))

static int fds;
static struct open_events *streams;

static void begin(void)
{
	fds = fd_count();
	ck_assert_int_eq(open_events_new(&streams), 0);
}

static void end(void)
{
	streams = open_events_free(streams);
	ck_assert_ptr_null(streams);
	ck_assert_int_eq(fd_count(), fds);
}

/* Ids that fall into one bucket, and the ends of their range. */
static const uint64_t ids[] = {0, 1, 65536, 65537, 131072, 1ull << 40, UINT64_MAX, UINT64_MAX - 65536};

START_TEST(found_until_removed_in_any_order)
{
	struct open_event s[LENGTH(ids)] = {0};

	for (size_t i = 0; i < LENGTH(ids); i++) {
		ck_assert_ptr_null(open_events_find(streams, ids[i]));
		s[i].id = ids[i];
		ck_assert_int_eq(open_events_add(streams, &s[i]), 0);
	}
	for (size_t i = 0; i < LENGTH(ids); i++)
		ck_assert_ptr_eq(open_events_find(streams, ids[i]), &s[i]);
	ck_assert_ptr_null(open_events_find(streams, 2));
	ck_assert_ptr_null(open_events_find(streams, 196608)); /* an empty place in a full bucket */
	/* beginning anywhere in the chain */
	for (size_t n = 0; n < LENGTH(ids); n++) {
		size_t gone = (n + (size_t)_i) % LENGTH(ids);
		open_events_remove(streams, &s[gone]);
		ck_assert_ptr_null(open_events_find(streams, ids[gone]));
		open_events_remove(streams, &s[gone]); /* no longer in it: nothing happens */
		for (size_t left = n + 1; left < LENGTH(ids); left++) {
			size_t i = (left + (size_t)_i) % LENGTH(ids);
			ck_assert_ptr_eq(open_events_find(streams, ids[i]), &s[i]);
		}
	}
}
END_TEST

START_TEST(an_id_twice)
{
	struct open_event a = {.id = 7, .cpu = 1}, b = {.id = 7, .cpu = 2};
	ck_assert_int_eq(open_events_add(streams, &a), 0);
	ck_assert_int_eq(open_events_add(streams, &b), -EEXIST);
	ck_assert_ptr_eq(open_events_find(streams, 7), &a);
	open_events_remove(streams, &a);
	ck_assert_int_eq(open_events_add(streams, &b), 0);
	ck_assert_ptr_eq(open_events_find(streams, 7), &b);
	open_events_remove(streams, &b);
}
END_TEST

START_TEST(as_many_as_a_node_has)
{
	const uint64_t n = 100000;
	struct open_event *all = calloc(n, sizeof(*all));
	for (uint64_t i = 0; i < n; i++) {
		all[i].id = 1000 + i;
		ck_assert_int_eq(open_events_add(streams, &all[i]), 0);
	}
	for (uint64_t i = 0; i < n; i++)
		ck_assert_ptr_eq(open_events_find(streams, 1000 + i), &all[i]);
	for (uint64_t i = 0; i < n; i++)
		open_events_remove(streams, &all[i]);
	ck_assert_ptr_null(open_events_find(streams, 1000));
	free(all);
}
END_TEST

UNIT_SUITE(open_events)
{
	Suite *s = suite_create("open_events");
	TCase *t = tcase_create("open_events");

	tcase_add_checked_fixture(t, begin, end);
	tcase_add_loop_test(t, found_until_removed_in_any_order, 0, LENGTH(ids));
	tcase_add_test(t, an_id_twice);
	tcase_add_test(t, as_many_as_a_node_has);
	suite_add_tcase(s, t);
	return s;
}
