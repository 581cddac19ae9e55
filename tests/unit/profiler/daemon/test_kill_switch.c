/* SPDX-License-Identifier: Apache-2.0 */
/* killswitch: a file that comes and goes, in a directory that may come later, watched or looked for. */
#include "profiler/daemon/kill_switch.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[32], dir[64], off[128];
static struct event_loop *loop;
static struct kill_switch k;
static int turns, fds;

static void turned(void *arg)
{
	turns++;
}

static void begin(void)
{
	fds = fd_count();
	strcpy(root, "/tmp/killswitch.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(root));
	snprintf(dir, sizeof(dir), "%s/etc", root);
	snprintf(off, sizeof(off), "%s/off", dir);
	ck_assert_int_eq(event_loop_new(&loop), 0);
	k = (struct kill_switch){.turned = turned};
	turns = 0;
}

static void end(void)
{
	kill_switch_close(&k, loop);
	event_loop_free(loop);
	unlink(off);
	rmdir(dir);
	rmdir(root);
	ck_assert_int_eq(fd_count(), fds);
}

static void touch(void)
{
	fd_auto fd = fd_open(AT_FDCWD, off, O_WRONLY | O_CREAT, 0644);
	ck_assert_int_ge(fd, 0);
}

static int64_t by;

static int due(void *arg)
{
	int wait = kill_switch_round(&k);
	if (turns >= *(int *)arg || clock_now() > by)
		event_loop_stop(loop);
	return wait < 0 ? 100 : wait;
}

/* Within ten times what it may take. */
static void until_turned(int times)
{
	by = deadline_in(10 * NSEC_PER_SEC);
	ck_assert_int_eq(event_loop_run(loop, due, &times), 0);
	ck_assert_int_eq(turns, times);
}

START_TEST(it_comes_and_goes)
{
	ck_assert_int_eq(mkdir(dir, 0755), 0);
	kill_switch_open(&k, dir, loop);
	ck_assert(!k.off && k.fd >= 0 && turns == 0);
	touch();
	until_turned(1);
	ck_assert(k.off);
	ck_assert_int_eq(unlink(off), 0);
	until_turned(2);
	ck_assert(!k.off);
}
END_TEST

START_TEST(it_is_there_already)
{
	ck_assert_int_eq(mkdir(dir, 0755), 0);
	touch();
	kill_switch_open(&k, dir, loop);
	ck_assert(k.off && turns == 1);
}
END_TEST

START_TEST(a_link_to_nothing_is_one)
{
	ck_assert_int_eq(mkdir(dir, 0755), 0);
	kill_switch_open(&k, dir, loop);
	ck_assert_int_eq(symlink("/no/such/file", off), 0);
	until_turned(1);
	ck_assert(k.off);
}
END_TEST

START_TEST(its_directory_comes_later_and_goes)
{
	for (int i = 0; i < 2; i++) {
		if (i == 0)
			kill_switch_open(&k, dir, loop);
		ck_assert(!k.off && k.fd >= 0);
		ck_assert_int_eq(mkdir(dir, 0755), 0);
		touch();
		until_turned(2 * i + 1);
		ck_assert(k.off);
		ck_assert_int_eq(unlink(off), 0);
		until_turned(2 * i + 2);
		ck_assert_int_eq(rmdir(dir), 0);
	}
}
END_TEST

/* Neither the directory nor the one that it would be in: what comes there, nobody is told. */
START_TEST(what_cannot_be_watched_is_looked_for)
{
	char inner[80];
	snprintf(inner, sizeof(inner), "%s/in", dir);
	snprintf(off, sizeof(off), "%s/off", inner);
	kill_switch_open(&k, inner, loop);
	ck_assert(!k.off && k.fd < 0);
	ck_assert_int_eq(mkdir(dir, 0755), 0);
	ck_assert_int_eq(mkdir(inner, 0755), 0);
	touch();
	until_turned(1);
	ck_assert(k.off);
	unlink(off);
	rmdir(inner);
}
END_TEST

UNIT_SUITE(kill_switch)
{
	Suite *s = suite_create("kill_switch");
	TCase *t = tcase_create("kill_switch");
	tcase_set_timeout(t, 30);
	tcase_add_checked_fixture(t, begin, end);
	tcase_add_test(t, it_comes_and_goes);
	tcase_add_test(t, it_is_there_already);
	tcase_add_test(t, a_link_to_nothing_is_one);
	tcase_add_test(t, its_directory_comes_later_and_goes);
	tcase_add_test(t, what_cannot_be_watched_is_looked_for);
	suite_add_tcase(s, t);
	return s;
}
