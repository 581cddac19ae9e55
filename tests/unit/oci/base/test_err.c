/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/base/err.h"

#include "oci/base/fd.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static int fds;

static void count_fds(void)
{
	fds = fd_count();
}

START_TEST(a_sentence_and_the_text_of_the_errno)
{
	struct err e = {0};

	ck_assert_int_eq(err_set(&e, -ENOENT, "cannot open %s", "x"), -ENOENT);
	ck_assert_int_eq(e.code, -ENOENT);
	ck_assert_str_eq(e.text, "cannot open x: No such file or directory");
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

START_TEST(a_sentence_alone)
{
	struct err e = {0};

	ck_assert_int_eq(err_say(&e, -EINVAL, "pid %d is not positive", -3), -EINVAL);
	ck_assert_int_eq(e.code, -EINVAL);
	ck_assert_str_eq(e.text, "pid -3 is not positive");
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

START_TEST(context_goes_in_front_and_the_code_is_the_callers)
{
	struct err e = {0};

	err_say(&e, -EINVAL, "no id");
	ck_assert_int_eq(err_wrap(&e, -EPROTO, "state of %s", "c1"), -EPROTO);
	ck_assert_int_eq(err_wrap(&e, -EPROTO, "stdin"), -EPROTO);
	ck_assert_int_eq(e.code, -EPROTO);
	ck_assert_str_eq(e.text, "stdin: state of c1: no id");
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

START_TEST(nobody_listens)
{
	ck_assert_int_eq(err_set(NULL, -EIO, "x"), -EIO);
	ck_assert_int_eq(err_say(NULL, -EIO, "x"), -EIO);
	ck_assert_int_eq(err_wrap(NULL, -EIO, "x"), -EIO);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

/* Lengths around the end of the text: what does not fit is cut, and there is always an end. */
START_TEST(a_long_sentence_is_cut)
{
	struct {
		struct err e;
		char behind[16];
	} x;
	char text[1024];
	const size_t room = sizeof(x.e.text);

	for (size_t n = room - 40; n < room + 40; n++) {
		memset(&x, '#', sizeof(x));
		memset(text, 'a', n);
		text[n] = 0;
		err_set(&x.e, -EACCES, "%s", text);
		ck_assert_uint_eq(strnlen(x.e.text, room), n + 19 < room ? n + 19 : room - 1);
		err_wrap(&x.e, -EACCES, "%s", "in front");
		ck_assert_int_eq(strncmp(x.e.text, "in front: aaa", 13), 0);
		ck_assert_uint_lt(strnlen(x.e.text, room), room);
		err_wrap(&x.e, -EACCES, "%s", text);
		ck_assert_uint_lt(strnlen(x.e.text, room), room);
		ck_assert_int_eq(x.behind[0], '#');
	}
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

UNIT_SUITE(err)
{
	Suite *s = suite_create("err");
	TCase *t = tcase_create("err");

	tcase_add_checked_fixture(t, count_fds, NULL);
	tcase_add_test(t, a_sentence_and_the_text_of_the_errno);
	tcase_add_test(t, a_sentence_alone);
	tcase_add_test(t, context_goes_in_front_and_the_code_is_the_callers);
	tcase_add_test(t, nobody_listens);
	tcase_add_test(t, a_long_sentence_is_cut);
	suite_add_tcase(s, t);
	return s;
}
