/* SPDX-License-Identifier: Apache-2.0 */
/* heard: one place per thread, CPU and kind; all of a thread go together; a bound. */
#include "profiler/sample/event_dedup.h"

#include "oci/base/fd.h"
#include "tests/unit/support/suite.h"

#include <check.h>

static int fds;
static struct event_dedup *h;

static void begin(void)
{
	fds = fd_count();
	ck_assert_int_eq(event_dedup_new(&h), 0);
}

static void end(void)
{
	h = event_dedup_free(h);
	ck_assert_ptr_null(h);
	ck_assert_int_eq(fd_count(), fds);
}

START_TEST(places_are_apart)
{
	static const uint32_t tids[] = {1, 2, 4097, 8193}; /* three share a bucket */
	uint64_t n = 0;
	for (int pass = 0; pass < 2; pass++) {
		n = 0;
		for (unsigned t = 0; t < 4; t++)
			for (uint32_t cpu = 0; cpu < 3; cpu++)
				for (uint32_t spec = 0; spec < 2; spec++) {
					uint64_t *id = &event_dedup_by(h, tids[t], cpu, spec)->id;
					ck_assert_uint_eq(*id, pass ? ++n : 0);
					if (!pass)
						*id = ++n;
				}
	}
	ck_assert_uint_eq(event_dedup_count(h), 4 * 3 * 2);
}
END_TEST

START_TEST(a_thread_is_forgotten_on_all_cpus)
{
	for (uint32_t cpu = 0; cpu < 5; cpu++) {
		event_dedup_by(h, 7, cpu, 0)->id = 1;
		event_dedup_by(h, 4103, cpu, 0)->id = 2;
	}
	event_dedup_forget(h, 7);
	event_dedup_forget(h, 7);
	event_dedup_forget(h, 9);
	ck_assert_uint_eq(event_dedup_count(h), 5);
	for (uint32_t cpu = 0; cpu < 5; cpu++) {
		ck_assert_uint_eq(event_dedup_by(h, 4103, cpu, 0)->id, 2);
		ck_assert_uint_eq(event_dedup_by(h, 7, cpu, 0)->id, 0);
	}
}
END_TEST

START_TEST(a_flood_is_bounded)
{
	uint32_t tid = 1;
	while (event_dedup_by(h, tid, 0, 0))
		tid++;
	ck_assert_uint_eq(event_dedup_count(h), tid - 1);
	ck_assert_uint_le(tid, 1 << 20);
	ck_assert_ptr_nonnull(event_dedup_by(h, 1, 0, 0));
	event_dedup_forget(h, 1);
	ck_assert_ptr_nonnull(event_dedup_by(h, tid, 0, 0));
}
END_TEST

UNIT_SUITE(event_dedup)
{
	Suite *s = suite_create("event_dedup");
	TCase *t = tcase_create("event_dedup");

	tcase_add_checked_fixture(t, begin, end);
	tcase_add_test(t, places_are_apart);
	tcase_add_test(t, a_thread_is_forgotten_on_all_cpus);
	tcase_add_test(t, a_flood_is_bounded);
	suite_add_tcase(s, t);
	return s;
}
