/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/base/event_loop.h"

#include "oci/base/clock.h"
#include "oci/base/clock_driven.h"
#include "oci/base/fd.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

static int fds;
static struct event_loop *loop;
static struct clock_driven leaping = {.leaps = true};

static void begin(void)
{
	fds = fd_count();
	ck_assert_int_eq(event_loop_new(&loop), 0);
	clock_drive(&leaping);
}

static void end(void)
{
	clock_drive(NULL);
	loop = event_loop_free(loop);
	ck_assert_ptr_null(loop);
	ck_assert_int_eq(fd_count(), fds);
}

/* An owner with its source in it, as users of the loop are. */
struct owner {
	struct event_loop_source source;
	int p[2];
	unsigned calls;
	uint32_t events;
	struct owner *victim;
};

static struct owner *owner_new(void)
{
	struct owner *o = calloc(1, sizeof(*o));
	ck_assert_int_eq(pipe2(o->p, O_CLOEXEC | O_NONBLOCK), 0);
	o->source.fd = -1;
	return o;
}

static void owner_free(struct owner *o)
{
	event_loop_del(loop, &o->source);
	fd_close(o->p[0]);
	fd_close(o->p[1]);
	free(o);
}

static void on_event(void *arg, uint32_t events)
{
	struct owner *o = arg;
	char c;
	o->calls++;
	o->events = events;
	if (read(o->p[0], &c, 1) == 0)
		event_loop_del(loop, &o->source); /* the end: or it would come for ever */
}

static void put(struct owner *o)
{
	ck_assert_int_eq(fd_write_all(o->p[1], "x", 1), 0);
}

static int rounds;

/* So many waits, of at most 10 ms each. */
static int stop_after_rounds(void *arg)
{
	if (rounds-- == 0)
		event_loop_stop(loop);
	return 10;
}

static void run(int n)
{
	rounds = n;
	ck_assert_int_eq(event_loop_run(loop, stop_after_rounds, NULL), 0);
	event_loop_free(loop); /* a loop that was stopped stays so: the next run needs another */
	ck_assert_int_eq(event_loop_new(&loop), 0);
}

START_TEST(a_source_is_called_for_each_event)
{
	struct owner *o = owner_new();
	ck_assert_int_eq(event_loop_add(loop, &o->source, o->p[0], EPOLLIN, on_event, o), 0);
	put(o);
	put(o);
	run(4);
	ck_assert_uint_eq(o->calls, 2);
	ck_assert_uint_eq(o->events, EPOLLIN);
	owner_free(o);
}
END_TEST

START_TEST(the_other_end_goes)
{
	struct owner *o = owner_new();
	ck_assert_int_eq(event_loop_add(loop, &o->source, o->p[0], EPOLLIN, on_event, o), 0);
	o->p[1] = fd_close(o->p[1]);
	run(5);
	ck_assert_uint_eq(o->calls, 1);
	ck_assert(o->events & EPOLLHUP);
	ck_assert_int_eq(o->source.fd, -1);
	owner_free(o);
}
END_TEST

static void drop_victim(void *arg, uint32_t events)
{
	struct owner *o = arg;
	on_event(o, events);
	if (o->victim)
		owner_free(o->victim);
	o->victim = NULL;
}

/* Both are ready in the same wait: whichever comes first frees the other, and nobody is called for it again. */
START_TEST(a_handler_frees_another_owner)
{
	struct owner *a = owner_new(), *b = owner_new();
	ck_assert_int_eq(event_loop_add(loop, &a->source, a->p[0], EPOLLIN, drop_victim, a), 0);
	ck_assert_int_eq(event_loop_add(loop, &b->source, b->p[0], EPOLLIN, on_event, b), 0);
	a->victim = b;
	put(a);
	put(b);
	run(4);
	ck_assert_uint_eq(a->calls, 1);
	owner_free(a);
}
END_TEST

static bool freed;

static void drop_myself(void *arg, uint32_t events)
{
	owner_free(arg);
	freed = true;
}

START_TEST(a_handler_frees_its_own_owner)
{
	struct owner *o = owner_new();
	ck_assert_int_eq(event_loop_add(loop, &o->source, o->p[0], EPOLLIN, drop_myself, o), 0);
	put(o);
	put(o);
	freed = false;
	run(3);
	ck_assert(freed);
}
END_TEST

static void stop(void *arg, uint32_t events)
{
	on_event(arg, events);
	event_loop_stop(loop);
}

static int never_due(void *arg)
{
	(*(unsigned *)arg)++;
	return -1;
}

START_TEST(a_handler_stops_it)
{
	struct owner *o = owner_new();
	unsigned asked = 0;
	ck_assert_int_eq(event_loop_add(loop, &o->source, o->p[0], EPOLLIN, stop, o), 0);
	put(o);
	put(o);
	ck_assert_int_eq(event_loop_run(loop, never_due, &asked), 0); /* waits without end until something happens */
	ck_assert_uint_eq(asked, 1);
	ck_assert_uint_eq(o->calls, 1);
	ck_assert_int_eq(event_loop_run(loop, never_due, &asked), 0); /* can be run again */
	ck_assert_uint_eq(asked, 2);
	ck_assert_uint_eq(o->calls, 2);
	owner_free(o);
}
END_TEST

START_TEST(what_is_due_is_asked_before_each_wait_and_after_each_time)
{
	int64_t began = clock_now();
	run(4);
	ck_assert_int_eq(clock_now() - began, 4 * 10 * NSEC_PER_MSEC);
	ck_assert_int_eq(rounds, -1);
}
END_TEST

static int stop_at_once(void *arg)
{
	event_loop_stop(loop);
	return -1;
}

START_TEST(what_is_due_stops_it_without_another_wait)
{
	ck_assert_int_eq(event_loop_run(loop, stop_at_once, NULL), 0);
}
END_TEST

/* One that is removed meanwhile, or paused again, is no trouble. */
START_TEST(a_source_that_is_not_heard_for_a_while)
{
	struct owner *o = owner_new(), *gone = owner_new();
	event_loop_pause(loop, &o->source, 10); /* not in it: nothing happens */
	ck_assert_int_eq(event_loop_add(loop, &o->source, o->p[0], EPOLLIN, on_event, o), 0);
	ck_assert_int_eq(event_loop_add(loop, &gone->source, gone->p[0], EPOLLIN, on_event, gone), 0);
	put(o);
	put(gone);
	event_loop_pause(loop, &gone->source, 20);
	event_loop_pause(loop, &o->source, 5000);
	event_loop_pause(loop, &o->source, 100);
	owner_free(gone);
	int64_t start = clock_now();
	while (!o->calls && clock_now() - start < NSEC_PER_SEC) {
		rounds = 1;
		ck_assert_int_eq(event_loop_run(loop, stop_after_rounds, NULL), 0);
	}
	ck_assert_uint_eq(o->calls, 1);
	ck_assert_int_eq(clock_now() - start, 100 * NSEC_PER_MSEC);
	put(o);
	run(2);
	ck_assert_uint_eq(o->calls, 2);
	owner_free(o);
}
END_TEST

START_TEST(what_cannot_be_waited_for)
{
	struct owner *o = owner_new();
	fd_auto file = fd_open(AT_FDCWD, "/proc/self/exe", O_RDONLY, 0);
	ck_assert_int_eq(event_loop_add(loop, &o->source, -1, EPOLLIN, on_event, o), -EBADF);
	ck_assert_int_eq(o->source.fd, -1);
	ck_assert_int_eq(event_loop_add(loop, &o->source, file, EPOLLIN, on_event, o), -EPERM);
	ck_assert_int_eq(o->source.fd, -1);
	event_loop_del(loop, &o->source); /* not in it: nothing happens */
	ck_assert_int_eq(event_loop_add(loop, &o->source, o->p[0], EPOLLIN, on_event, o), 0);
	struct event_loop_source twice;
	ck_assert_int_eq(event_loop_add(loop, &twice, o->p[0], EPOLLIN, on_event, o), -EEXIST);
	event_loop_del(loop, &o->source);
	event_loop_del(loop, &o->source);
	ck_assert_int_eq(event_loop_add(loop, &o->source, o->p[0], EPOLLIN, on_event, o), 0); /* and in again */
	put(o);
	run(2);
	ck_assert_uint_eq(o->calls, 1);
	owner_free(o);
	file = fd_close(file);
	ck_assert_ptr_null(event_loop_free(NULL));
}
END_TEST

UNIT_SUITE(event_loop)
{
	Suite *s = suite_create("event_loop");
	TCase *t = tcase_create("event_loop");

	tcase_add_checked_fixture(t, begin, end);
	tcase_add_test(t, a_source_is_called_for_each_event);
	tcase_add_test(t, the_other_end_goes);
	tcase_add_test(t, a_handler_frees_another_owner);
	tcase_add_test(t, a_handler_frees_its_own_owner);
	tcase_add_test(t, a_handler_stops_it);
	tcase_add_test(t, what_is_due_is_asked_before_each_wait_and_after_each_time);
	tcase_add_test(t, what_is_due_stops_it_without_another_wait);
	tcase_add_test(t, a_source_that_is_not_heard_for_a_while);
	tcase_add_test(t, what_cannot_be_waited_for);
	suite_add_tcase(s, t);
	return s;
}
