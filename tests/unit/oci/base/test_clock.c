/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/base/clock.h"
#include "oci/base/clock_driven.h"

#include "oci/base/fd.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <limits.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))

static int fds;

static void count_fds(void)
{
	fds = fd_count();
}

START_TEST(monotonic_goes_on_and_real_is_the_wall_clock)
{
	int64_t before = clock_now(), second = time(NULL);
	usleep(2000);
	ck_assert_int_ge(clock_now() - before, 2 * NSEC_PER_MSEC);
	ck_assert_int_ge(clock_real() / NSEC_PER_SEC, second);
	ck_assert_int_le(clock_real() / NSEC_PER_SEC, second + 10);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

static const struct {
	const char *scenario;
	int64_t in;
	int least, most; /* milliseconds left */
} cases[] = {
	{"long past", -3600 * NSEC_PER_SEC, 0, 0},
	{"just past", -1, 0, 0},
	{"now", 0, 0, 0},
	{"half a millisecond is rounded up, so that poll sleeps and does not spin", NSEC_PER_MSEC / 2, 0, 1},
	{"a minute", 60 * NSEC_PER_SEC, 59000, 60000},
	{"more than poll can count", INT64_C(1) << 60, INT_MAX, INT_MAX},
};

START_TEST(milliseconds_left)
{
	int left = deadline_left_ms(deadline_in(cases[_i].in));
	ck_assert_msg(left >= cases[_i].least && left <= cases[_i].most, "%s: %d", cases[_i].scenario, left);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

START_TEST(something_is_left_until_the_deadline_is_there)
{
	int64_t deadline = deadline_in(3 * NSEC_PER_MSEC);
	for (;;) {
		int left = deadline_left_ms(deadline);
		int64_t now = clock_now();
		if (left == 0) {
			ck_assert_int_ge(now, deadline);
			break;
		}
	}
	ck_assert_int_eq(deadline_left_ms(INT64_MAX), INT_MAX);
	ck_assert_int_eq(deadline_left_ms(0), 0);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

/* --- a driven clock */

static struct clock_driven still, leaping = {.leaps = true};

START_TEST(a_driven_clock_goes_on_as_it_is_moved)
{
	int64_t before = clock_now(), real_before = clock_real();
	clock_drive(&still);
	int64_t began = clock_now(), real = clock_real();
	ck_assert_int_ge(began, before);
	ck_assert_int_ge(real, real_before - NSEC_PER_SEC);
	usleep(2000);
	ck_assert_int_eq(clock_now(), began);
	ck_assert_int_eq(clock_real(), real);
	int64_t deadline = deadline_in(7 * NSEC_PER_MSEC);
	ck_assert_int_eq(deadline_left_ms(deadline), 7);
	clock_move(7 * NSEC_PER_MSEC - 1);
	ck_assert_int_eq(deadline_left_ms(deadline), 1);
	clock_move(1);
	ck_assert_int_eq(deadline_left_ms(deadline), 0);
	ck_assert_int_eq(clock_now() - began, 7 * NSEC_PER_MSEC);
	ck_assert_int_eq(clock_real() - real, 7 * NSEC_PER_MSEC);
	clock_drive(NULL);
	int64_t kernel = clock_now();
	usleep(2000);
	ck_assert_int_gt(clock_now(), kernel);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

static const struct {
	struct clock_driven *clock;
	int ms, blocks, moved; /* ms */
} waits[] = {
	{NULL, -1, -1, 0},
	{NULL, 0, 0, 0},
	{NULL, 700, 700, 0},
	{&still, -1, 1, 0},
	{&still, 0, 0, 0},
	{&still, 700, 1, 0},
	{&leaping, -1, -1, 0}, /* only what it waits for ends it */
	{&leaping, 0, 0, 0},
	{&leaping, 700, 0, 700},
};

START_TEST(a_wait_by_a_driven_clock)
{
	clock_drive(waits[_i].clock);
	int64_t began = clock_now();
	ck_assert_int_eq(clock_block_ms(waits[_i].ms), waits[_i].blocks);
	clock_blocked(waits[_i].ms);
	if (waits[_i].clock)
		ck_assert_int_eq(clock_now() - began, waits[_i].moved * NSEC_PER_MSEC);
	clock_drive(NULL);
}
END_TEST

/* A day is over at once, to the millisecond; what is ready takes no time. */
START_TEST(a_wait_for_a_descriptor_leaps)
{
	int p[2];
	ck_assert_int_eq(pipe(p), 0);
	clock_drive(&leaping);
	int64_t began = clock_now(), day = 86400 * NSEC_PER_SEC;
	ck_assert_int_eq(fd_wait(p[0], POLLIN, deadline_in(day)), 0);
	ck_assert_int_eq(clock_now() - began, day);
	ck_assert_int_eq(fd_write_all(p[1], "x", 1), 0);
	ck_assert_int_eq(fd_wait(p[0], POLLIN, deadline_in(day)), 1);
	ck_assert_int_eq(clock_now() - began, day);
	clock_drive(NULL);
	fd_close(p[0]);
	fd_close(p[1]);
}
END_TEST

/* A child waits until its parent has moved the clock that they share. */
START_TEST(children_share_it)
{
	int p[2];
	struct clock_driven *shared =
		mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(shared, MAP_FAILED);
	ck_assert_int_eq(pipe(p), 0);
	clock_drive(shared);
	int64_t deadline = deadline_in(3600 * NSEC_PER_SEC);
	pid_t pid = fork();
	if (pid == 0) {
		close(p[1]);
		_exit(fd_wait(p[0], POLLIN, deadline) == 0 && clock_now() == deadline ? 0 : 1);
	}
	int status;
	clock_move(3600 * NSEC_PER_SEC);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	clock_drive(NULL);
	munmap(shared, sizeof(*shared));
	fd_close(p[0]);
	fd_close(p[1]);
}
END_TEST

UNIT_SUITE(clock)
{
	Suite *s = suite_create("clock");
	TCase *t = tcase_create("clock");

	tcase_add_checked_fixture(t, count_fds, NULL);
	tcase_add_test(t, monotonic_goes_on_and_real_is_the_wall_clock);
	tcase_add_loop_test(t, milliseconds_left, 0, LENGTH(cases));
	tcase_add_test(t, something_is_left_until_the_deadline_is_there);
	tcase_add_test(t, a_driven_clock_goes_on_as_it_is_moved);
	tcase_add_loop_test(t, a_wait_by_a_driven_clock, 0, LENGTH(waits));
	tcase_add_test(t, a_wait_for_a_descriptor_leaps);
	tcase_add_test(t, children_share_it);
	suite_add_tcase(s, t);
	return s;
}
