#include "oci/base/clock.h"

#include "oci/base/fd.h"
#include "suite.h"

#include <check.h>
#include <limits.h>
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

UNIT_SUITE(clock)
{
	Suite *s = suite_create("clock");
	TCase *t = tcase_create("clock");

	tcase_add_checked_fixture(t, count_fds, NULL);
	tcase_add_test(t, monotonic_goes_on_and_real_is_the_wall_clock);
	tcase_add_loop_test(t, milliseconds_left, 0, LENGTH(cases));
	tcase_add_test(t, something_is_left_until_the_deadline_is_there);
	suite_add_tcase(s, t);
	return s;
}
