/* SPDX-License-Identifier: Apache-2.0 */
/* slots: what is in use is found by its address, and what is not costs one look at a counter that is zero. */
#include "shim/libpillion/alloc/live_slots.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static struct shm area;
static void *mapped;

static void begin(void)
{
	mapped = mmap(NULL, SHM_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	ck_assert_ptr_ne(mapped, MAP_FAILED);
	shm_on(mapped, &area);
	memset(live_slots_filter, 0, sizeof(live_slots_filter));
}

static void end(void)
{
	munmap(mapped, SHM_SIZE);
}

static void *address(uint64_t i)
{
	return (void *)(uintptr_t)(0x7f0000000000 + i * 48); // NOLINT(performance-no-int-to-ptr)
}

static bool remove_it(void *p)
{
	const uint32_t slot = live_slots_maybe(p) ? live_slots_find(&area, p) : 0;
	live_slots_empty(&area, slot, p);
	return slot;
}

static bool any_counter(void)
{
	for (size_t i = 0; i < sizeof(live_slots_filter); i++)
		if (live_slots_filter[i])
			return true;
	return false;
}

START_TEST(found_until_it_is_freed)
{
	ck_assert(!live_slots_maybe(address(1)));
	const uint64_t id = live_slots_add(&area, address(1), 100);
	ck_assert_uint_ne(id, 0);
	ck_assert(live_slots_maybe(address(1)));
	ck_assert_uint_eq(area.slots[live_slots_find(&area, address(1)) - 1].bytes, 100);
	ck_assert_uint_eq(live_slots_find(&area, address(2)), 0);
	ck_assert(remove_it(address(1)));
	ck_assert(!remove_it(address(1)));
	ck_assert(!any_counter());
	ck_assert_uint_ne(live_slots_add(&area, address(1), 100), id);
}
END_TEST

/* realloc(3) empties behind the call: by then the address may be another thread's. */
START_TEST(the_slot_of_another_at_the_same_address_stays)
{
	live_slots_add(&area, address(1), 1);
	const uint32_t old = live_slots_find(&area, address(1));
	live_slots_add(&area, address(1), 2);
	live_slots_empty(&area, old, address(1));
	const uint32_t left = live_slots_find(&area, address(1));
	ck_assert_uint_ne(left, 0);
	ck_assert_uint_ne(left, old);
	live_slots_empty(&area, old, address(1));
	ck_assert_uint_eq(live_slots_find(&area, address(1)), left);
}
END_TEST

START_TEST(many)
{
	static const uint64_t rows[] = {1000, 6000, 100000, 400000};
	const uint64_t n = rows[_i];
	uint64_t without = 0;
	for (uint64_t i = 0; i < n; i++)
		without += !live_slots_add(&area, address(i), i);
	ck_assert_uint_le(without, n / 1000);
	ck_assert_uint_le(area.head->slots, SHM_SLOTS);
	if (n <= 1000) /* a few pages, not all of it */
		ck_assert_uint_le(area.head->slots, 8192);
	for (uint64_t i = 0; i < n; i++)
		without -= !remove_it(address(i));
	ck_assert_uint_eq(without, 0);
	for (uint64_t i = 0; i < n; i++)
		ck_assert_uint_eq(live_slots_find(&area, address(i)), 0);
}
END_TEST

/* So many with one counter that it is full: it stays, and what is found is right all the same. */
START_TEST(a_counter_that_is_full)
{
	unsigned in = 0;
	for (uint64_t i = 0; i < 2000; i++)
		if (live_slots_counter(address(i * 4096)) == live_slots_counter(address(0)))
			in += live_slots_add(&area, address(i * 4096), 1) != 0;
	ck_assert_uint_ge(in, 1);
	*live_slots_counter(address(0)) = UINT8_MAX;
	ck_assert(remove_it(address(0)));
	ck_assert(live_slots_maybe(address(0)));
	ck_assert(!remove_it(address(0)));
}
END_TEST

static void *churn(void *arg)
{
	const uint64_t base = (uintptr_t)arg * 1000000;
	uint64_t failed = 0;
	for (unsigned round = 0; round < 200; round++) {
		for (uint64_t i = 0; i < 100; i++)
			live_slots_add(&area, address(base + i), i);
		for (uint64_t i = 0; i < 100; i++)
			failed += !remove_it(address(base + i));
	}
	return (void *)(uintptr_t)failed; // NOLINT(performance-no-int-to-ptr)
}

START_TEST(several_at_once)
{
	pthread_t threads[4];
	for (uintptr_t i = 0; i < 4; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, churn, (void *)i), 0); // NOLINT
	for (int i = 0; i < 4; i++) {
		void *failed;
		pthread_join(threads[i], &failed);
		ck_assert_ptr_null(failed);
	}
	ck_assert(!any_counter());
}
END_TEST

UNIT_SUITE(live_slots)
{
	Suite *s = suite_create("live_slots");
	TCase *c = tcase_create("live_slots");
	tcase_set_timeout(c, 60);
	tcase_add_checked_fixture(c, begin, end);
	tcase_add_test(c, found_until_it_is_freed);
	tcase_add_test(c, the_slot_of_another_at_the_same_address_stays);
	tcase_add_loop_test(c, many, 0, 4);
	tcase_add_test(c, a_counter_that_is_full);
	tcase_add_test(c, several_at_once);
	suite_add_tcase(s, c);
	return s;
}
