/* SPDX-License-Identifier: Apache-2.0 */
/* pushqueue: what of a spool is to be sent, in which order, once, over restarts; and what was removed before. */
#include "profiler/push/push_queue.h"

#include "oci/base/fd.h"
#include "profiler/push/push_endpoint.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static char dir[64];
static int spool, fds;
static struct push_endpoint endpoint;
static struct push_queue *q;

static void must(const char *command)
{
	char line[512];
	snprintf(line, sizeof(line), "cd %s && { %s; }", dir, command);
	ck_assert_msg(system(line) == 0, "%s", command);
}

static void add(const char *path)
{
	char line[256];
	snprintf(line, sizeof(line), "mkdir -p $(dirname %s) && echo x >%s", path, path);
	must(line);
}

static bool wants(const void *arg, const char *event)
{
	return push_endpoint_wants(arg, event);
}

static int open_again(bool backlog)
{
	struct err e = {0};
	q = queue_close(q);
	return queue_open(spool, "here", wants, &endpoint, backlog, &q, &e);
}

static void scan(void)
{
	struct err e = {0};
	ck_assert_msg(queue_scan(q, &e) == 0, "%s", e.text);
}

static struct push_file *next_is(const char *target, const char *name)
{
	struct push_file *f = queue_next(q);
	ck_assert_msg(f, "nothing, where %s/%s was to be", target, name);
	ck_assert_str_eq(queue_target(f), target);
	ck_assert_str_eq(queue_name(f), name);
	return f;
}

static void sends(const char *target, const char *name)
{
	ck_assert_int_eq(queue_done(q, next_is(target, name)), 0);
}

static void setup(void)
{
	fds = fd_count();
	strcpy(dir, "/tmp/pillion-queue.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	spool = fd_open_dir(AT_FDCWD, dir);
	push_endpoint_default(&endpoint, "here");
}

static void teardown(void)
{
	char line[96];
	q = queue_close(q);
	spool = fd_close(spool);
	snprintf(line, sizeof(line), "rm -r %s", dir);
	ck_assert_int_eq(system(line), 0);
	ck_assert_int_eq(fd_count(), fds);
}

#define CPU(minute) "20260101T00" minute "00Z-0000" minute "-cpu.pb.gz"

START_TEST(a_new_endpoint_begins_with_what_comes)
{
	add("web/" CPU("00"));
	ck_assert_int_eq(open_again(false), 0);
	ck_assert_ptr_null(queue_next(q));
	add("web/" CPU("01"));
	add("db/" CPU("01"));
	ck_assert_ptr_null(queue_next(q)); /* nobody looked */
	scan();
	ck_assert_uint_eq(queue_waiting(q), 2);
	sends("db", CPU("01"));
	/* it has been here before: what came while it was away waits, what was there at the first time does not */
	add("web/" CPU("02"));
	ck_assert_int_eq(open_again(false), 0);
	sends("web", CPU("01"));
	sends("web", CPU("02"));
	ck_assert_ptr_null(queue_next(q));
	ck_assert_int_eq(open_again(false), 0);
	ck_assert_uint_eq(queue_waiting(q), 0);
}
END_TEST

START_TEST(with_its_backlog_all_that_is_there_comes_oldest_first)
{
	add("web/" CPU("02"));
	add("web/" CPU("00"));
	add("db/" CPU("01"));
	ck_assert_int_eq(open_again(true), 0);
	ck_assert_int_eq(queue_oldest(q), 1767225600);
	sends("web", CPU("00"));
	sends("db", CPU("01"));
	sends("web", CPU("02"));
	ck_assert_int_eq(queue_oldest(q), 0);
}
END_TEST

START_TEST(a_target_has_one_under_way_and_keeps_its_order)
{
	add("web/" CPU("00"));
	add("web/" CPU("01"));
	add("db/" CPU("05"));
	ck_assert_int_eq(open_again(true), 0);
	struct push_file *web = next_is("web", CPU("00")), *db = next_is("db", CPU("05"));
	ck_assert_ptr_null(queue_next(q));
	ck_assert_int_eq(queue_oldest(q), 1767225600);
	queue_back(q, web, (struct push_progress){5, 2}); /* it was not taken: it is the next one again */
	web = next_is("web", CPU("00"));
	ck_assert_uint_eq(queue_progress(web).samples, 5);
	ck_assert_uint_eq(queue_progress(web).requests, 2);
	ck_assert_uint_eq(queue_waiting(q), 3);
	ck_assert_int_eq(queue_done(q, web), 0);
	ck_assert_int_eq(queue_done(q, db), 0);
	sends("web", CPU("01"));
	ck_assert_uint_eq(queue_waiting(q), 0);
}
END_TEST

START_TEST(what_the_caps_removed_is_lost_and_counted)
{
	add("web/" CPU("00"));
	add("web/" CPU("01"));
	add("web/" CPU("02"));
	add("db/" CPU("03"));
	ck_assert_int_eq(open_again(true), 0);
	sends("web", CPU("00"));
	struct push_file *f = next_is("web", CPU("01"));
	must("rm -r web db");
	scan();
	ck_assert_uint_eq(queue_lost(q), 2); /* who sends one finds out himself */
	queue_gone(q, f);
	scan();
	ck_assert_uint_eq(queue_lost(q), 3);
	ck_assert_uint_eq(queue_waiting(q), 0);
	add("web/" CPU("09"));
	scan();
	sends("web", CPU("09"));
}
END_TEST

START_TEST(containers_of_kubernetes_are_targets_of_their_own)
{
	add("prod/shop-0/main/" CPU("00"));
	add("prod/shop-1/main/" CPU("01"));
	add("web/" CPU("02")); /* of an older version */
	ck_assert_int_eq(open_again(true), 0);
	sends("prod/shop-0/main", CPU("00"));
	struct push_file *f = next_is("prod/shop-1/main", CPU("01"));
	sends("web", CPU("02"));
	add("prod/shop-0/main/" CPU("03")); /* the directories above it do not change */
	add("prod/shop-2/main/" CPU("04"));
	add("web/" CPU("05"));
	scan();
	sends("prod/shop-0/main", CPU("03"));
	sends("prod/shop-2/main", CPU("04"));
	sends("web", CPU("05"));
	ck_assert_int_eq(queue_done(q, f), 0);
	ck_assert_int_eq(open_again(false), 0);
	ck_assert_uint_eq(queue_waiting(q), 0);
	add("prod/shop-0/main/" CPU("06"));
	scan();
	must("rm -r prod/shop-0");
	scan();
	ck_assert_uint_eq(queue_lost(q), 1);
	ck_assert_uint_eq(queue_waiting(q), 0);
}
END_TEST

/* A directory that has no directories is not listed for them again; when it gets one, it has changed. */
START_TEST(a_target_becomes_a_namespace_too)
{
	add("prod/" CPU("00"));
	must("touch -d '1 hour ago' prod");
	ck_assert_int_eq(open_again(true), 0);
	sends("prod", CPU("00"));
	scan();
	add("prod/shop-0/main/" CPU("01"));
	scan();
	sends("prod/shop-0/main", CPU("01"));
	must("touch -d '1 hour ago' prod");
	scan();
	scan();
	add("prod/shop-0/main/" CPU("02"));
	scan();
	sends("prod/shop-0/main", CPU("02"));
}
END_TEST

START_TEST(what_cannot_be_listed_for_now_is_not_gone)
{
	struct err e = {0};
	add("prod/shop-0/main/" CPU("00"));
	ck_assert_int_eq(open_again(true), 0);
	ck_assert_uint_eq(queue_waiting(q), 1);
	must("chmod -R a+rwX . && chmod 0 prod");
	ck_assert(geteuid() != 0 || seteuid(64999) == 0);
	const int r = queue_scan(q, &e);
	ck_assert(getuid() != 0 || seteuid(0) == 0);
	must("chmod 755 prod");
	ck_assert_int_eq(r, 0);
	ck_assert_str_eq(e.text, "what is in prod is not sent: cannot list it: Permission denied");
	ck_assert_uint_eq(queue_lost(q), 0);
	scan();
	sends("prod/shop-0/main", CPU("00"));
}
END_TEST

START_TEST(what_is_no_profile_or_not_the_administrators_is_not_seen)
{
	add("web/" CPU("00"));
	add(".users/1000/web/" CPU("00"));
	add("web/notes.txt");
	add("web/.20260101T000000Z-000000-cpu.pb.gz.1234.new");
	add("index.jsonl");
	must("ln -s web linked && ln -s /etc/passwd web/20260101T000100Z-000001-cpu.pb.gz");
	ck_assert_int_eq(open_again(true), 0);
	sends("web", CPU("00"));
	struct push_file *f = next_is("web", CPU("01")); /* a link: who opens it does not follow it */
	ck_assert_int_eq(queue_done(q, f), 0);
	ck_assert_ptr_null(queue_next(q));
}
END_TEST

START_TEST(events_that_are_not_wanted_are_as_sent)
{
	strcpy(endpoint.events, "cpu,alloc");
	add("web/" CPU("00"));
	add("web/20260101T000000Z-000000-offcpu.pb.gz");
	add("web/20260101T000000Z-000000-alloc.pb.gz");
	ck_assert_int_eq(open_again(true), 0);
	sends("web", "20260101T000000Z-000000-alloc.pb.gz");
	sends("web", CPU("00"));
	ck_assert_ptr_null(queue_next(q));
}
END_TEST

START_TEST(a_line_that_was_cut_off_is_no_line)
{
	add("web/" CPU("00"));
	add("web/" CPU("01"));
	must("mkdir .push && printf 'web/" CPU("00") "\\nweb/" CPU("01") "' >.push/here.sent");
	ck_assert_int_eq(open_again(false), 0);
	sends("web", CPU("01"));
	q = queue_close(q);
	must("test $(sort -u .push/here.sent | wc -l) = 2 && grep -qx 'web/" CPU("01") "' .push/here.sent");
	ck_assert_int_eq(open_again(false), 0);
	ck_assert_uint_eq(queue_waiting(q), 0);
}
END_TEST

START_TEST(lines_of_files_that_are_gone_go)
{
	must("mkdir .push && for i in $(seq 1000); do echo web/20250101T000000Z-$i-cpu.pb.gz; done >.push/here.sent");
	add("web/" CPU("00"));
	ck_assert_int_eq(open_again(false), 0);
	sends("web", CPU("00"));
	scan();
	must("test $(wc -l <.push/here.sent) = 1 && ! ls .push/*.new 2>/dev/null");
	ck_assert_int_eq(open_again(false), 0);
	ck_assert_uint_eq(queue_waiting(q), 0);
}
END_TEST

START_TEST(what_could_not_be_noted_is_noted_later)
{
	add("web/" CPU("00"));
	add("web/" CPU("01"));
	ck_assert_int_eq(open_again(true), 0);
	struct push_file *f = next_is("web", CPU("00"));
	/* the disk is full: as large as a file may be */
	const struct rlimit none = {0, RLIM_INFINITY};
	struct rlimit all;
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &all);
	setrlimit(RLIMIT_FSIZE, &none);
	ck_assert_int_lt(queue_done(q, f), 0);
	setrlimit(RLIMIT_FSIZE, &all);
	sends("web", CPU("01"));
	ck_assert_int_eq(open_again(false), 0);
	ck_assert_uint_eq(queue_waiting(q), 0);
}
END_TEST

START_TEST(on_a_full_disk_it_is_sent_on_and_that_is_said_once)
{
	const struct rlimit none = {0, RLIM_INFINITY};
	struct rlimit all;
	struct err e = {0};
	add("web/" CPU("00"));
	add("web/" CPU("01"));
	must("mkdir .push && printf 'web/" CPU("00") "\\nweb/2' >.push/here.sent"); /* as an end left it */
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &all);
	setrlimit(RLIMIT_FSIZE, &none);
	ck_assert_int_eq(open_again(false), 0);
	ck_assert_int_lt(queue_done(q, next_is("web", CPU("01"))), 0);
	ck_assert_int_eq(queue_scan(q, &e), 0);
	ck_assert_int_eq(e.code, 0); /* it was said when it was opened */
	setrlimit(RLIMIT_FSIZE, &all);
	scan();
	ck_assert_int_eq(open_again(false), 0);
	ck_assert_uint_eq(queue_waiting(q), 0);
}
END_TEST

START_TEST(a_new_endpoint_that_cannot_be_noted_is_new_the_next_time)
{
	const struct rlimit none = {0, RLIM_INFINITY};
	struct rlimit all;
	add("web/" CPU("00"));
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &all);
	setrlimit(RLIMIT_FSIZE, &none);
	ck_assert_int_lt(open_again(false), 0);
	setrlimit(RLIMIT_FSIZE, &all);
	ck_assert_int_eq(open_again(false), 0);
	ck_assert_uint_eq(queue_waiting(q), 0);
}
END_TEST

START_TEST(two_do_not_serve_one_endpoint)
{
	struct push_queue *other = NULL;
	struct err e = {0};
	ck_assert_int_eq(open_again(false), 0);
	ck_assert_int_eq(queue_open(spool, "here", wants, &endpoint, false, &other, &e), -EBUSY);
	ck_assert_str_eq(e.text, "another process pushes to here already");
	ck_assert_int_eq(queue_open(spool, "there", wants, &endpoint, false, &other, &e), 0);
	queue_close(other);
}
END_TEST

UNIT_SUITE(push_queue)
{
	Suite *s = suite_create("push_queue");
	TCase *t = tcase_create("all");
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, a_new_endpoint_begins_with_what_comes);
	tcase_add_test(t, with_its_backlog_all_that_is_there_comes_oldest_first);
	tcase_add_test(t, a_target_has_one_under_way_and_keeps_its_order);
	tcase_add_test(t, what_the_caps_removed_is_lost_and_counted);
	tcase_add_test(t, containers_of_kubernetes_are_targets_of_their_own);
	tcase_add_test(t, a_target_becomes_a_namespace_too);
	tcase_add_test(t, what_cannot_be_listed_for_now_is_not_gone);
	tcase_add_test(t, what_is_no_profile_or_not_the_administrators_is_not_seen);
	tcase_add_test(t, events_that_are_not_wanted_are_as_sent);
	tcase_add_test(t, a_line_that_was_cut_off_is_no_line);
	tcase_add_test(t, lines_of_files_that_are_gone_go);
	tcase_add_test(t, what_could_not_be_noted_is_noted_later);
	tcase_add_test(t, on_a_full_disk_it_is_sent_on_and_that_is_said_once);
	tcase_add_test(t, a_new_endpoint_that_cannot_be_noted_is_new_the_next_time);
	tcase_add_test(t, two_do_not_serve_one_endpoint);
	suite_add_tcase(s, t);
	return s;
}
