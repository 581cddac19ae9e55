/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forkserver: symbolizers of it are as many as are asked for, each by itself; what is left when one of them, or it, is
 * killed; and the supervisor's side of a server that ends (symbolizing).
 */
#include "profiler/symbol/forkserver.h"

#include "oci/base/clock.h"
#include "oci/base/clock_driven.h"
#include "oci/base/fd.h"
#include "oci/base/log.h"
#include "oci/base/process/child_process.h"
#include "profiler/daemon/symbolizer_manager.h"

#include "profiler/target/symbolizer_link.h"
#include "tests/unit/support/forked.h"
#include "tests/unit/support/skip.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SECONDS(n) ((n)*NSEC_PER_SEC)
#define AWAITED SECONDS(120) /* whatever else the machine does: it is there at once on an idle one */
#define MANY 12

static const struct symbolizer_limits limits = {.jobs = 1, .memory = 64 << 20};
static struct event_loop *loop;
static struct forked forked[MANY];
static struct forkserver *from;
static int fds_before;

static bool is_alive(pid_t pid)
{
	char state[32];
	return proc_status_field(pid, "State", state, sizeof(state)) == 0 && state[0] != 'Z';
}

static bool ends(pid_t pid)
{
	int64_t deadline = deadline_in(AWAITED);
	while (is_alive(pid) && clock_now() < deadline)
		usleep(1000);
	return !is_alive(pid);
}

/* Reaps a killed child that its parent gave up waiting for: without a CPU it dies later. */
static bool is_gone(pid_t pid)
{
	char state[32];
	int64_t deadline = deadline_in(AWAITED);
	while (proc_status_field(pid, "State", state, sizeof(state)) == 0 && clock_now() < deadline) {
		if (state[0] == 'Z')
			waitpid(pid, NULL, WNOHANG | __WALL);
		usleep(1000);
	}
	return clock_now() < deadline;
}

static void setup(void)
{
	struct err e = {0};
	fds_before = fd_count();
	signal(SIGPIPE, SIG_IGN);
	for (int i = 0; i < MANY; i++)
		forked[i] = (struct forked){.from = FORKSERVER_NONE, .sockets = {-1, -1}};
	from = &forked[0].from;
	ck_assert_int_eq(event_loop_new(&loop), 0);
	ck_assert_msg(forkserver_start(&limits, from, &e) == 0, "%s", e.text);
}

/* No process is left, and no descriptor. */
static void teardown(void)
{
	pid_t pid = from->pid;
	for (int i = 0; i < MANY; i++)
		symbolizer_close(&forked[i].sockets);
	forkserver_end(from);
	ck_assert_msg(is_gone(pid), "the fork server is left");
	for (int i = 0; i < MANY; i++)
		ck_assert_msg(!forked[i].server || ends(forked[i].server), "server %d is left", i);
	loop = event_loop_free(loop);
	ck_assert_int_eq(fd_count(), fds_before);
}

/* A server of it, as `i`. */
static void more(int i)
{
	struct forked f = {.from = *from};
	forked_more(&f);
	forked[i].sockets = f.sockets;
	forked[i].server = f.server;
}

/* --- questions and readers --- */

static bool done;

static void on_answer(void *arg, uint64_t vaddr, const struct symbol_line *lines, size_t n)
{
	*(bool *)arg = n == 1 && !strcmp(lines[0].name, "f()");
}

static void on_done(void *arg, enum symbolizer_outcome outcome)
{
	done = true;
}

static int until_done(void *arg)
{
	int64_t deadline = *(int64_t *)arg;
	if (done || clock_now() >= deadline)
		event_loop_stop(loop);
	return deadline_left_ms(deadline);
}

static bool answers(struct symbolizer *s)
{
	static const uint64_t vaddr = 1;
	static const char *const name = "_Z1fv";
	bool good = false;
	struct symbolizer_request q = {.n = 1, .vaddrs = &vaddr, .names = &name};
	struct symbolizer_callbacks a = {on_answer, on_done, &good};
	struct job *job;
	size_t taken;
	int64_t deadline = deadline_in(AWAITED);
	done = false;
	if (symbolizer_ask(s, loop, &q, &a, &taken, &job) < 0)
		return false;
	ck_assert_int_eq(event_loop_run(loop, until_done, &deadline), 0);
	ck_assert(done);
	return good;
}

static bool asked(int i)
{
	struct symbolizer *s;
	ck_assert_int_eq(symbolizer_new(dup(forked[i].sockets.questions), &s), 0);
	bool good = answers(s);
	symbolizer_free(s);
	return good;
}

/* A reader may take as long to be there as the machine likes. */
static bool reads(int i)
{
	struct clock_driven stands = {.leaps = false};
	struct target_files *files;
	struct file f;
	clock_drive(&stands);
	struct target_files_account account = {.name = "test", .born = clock_now()};
	fd_auto root = fd_open(AT_FDCWD, "/", O_PATH | O_DIRECTORY, 0);
	ck_assert_int_eq(target_files_new(dup(forked[i].sockets.readers), &files), 0);
	int r = target_files_open(files, &(struct target_files_place){root, -1, NULL, false}, &account, "/bin/sh", &f);
	if (r == 0)
		file_close(&f);
	target_files_free(files);
	clock_drive(NULL);
	return r == 0;
}

/* --- any number of them ------------------------------------------------------------------------------------- */

START_TEST(as_many_as_are_asked_for)
{
	char text[32];
	for (int i = 0; i < MANY; i++) {
		more(i);
		ck_assert_int_eq(proc_status_field(forked[i].server, "PPid", text, sizeof(text)), 0);
		ck_assert_int_eq(atoi(text), from->pid);
		for (int k = 0; k < i; k++)
			ck_assert_int_ne(forked[k].server, forked[i].server);
	}
	for (int i = 0; i < MANY; i++)
		ck_assert(asked(i) && reads(i));
}
END_TEST

/* What is a server's it does not keep (its own: stdio, the socket, its score), and a server nothing of another's. */
START_TEST(it_holds_one_socket)
{
	char command[128];
	if (geteuid() != 0) {
		skip("descriptors of a process that is not dumpable: root alone sees them");
		return;
	}
	more(0);
	more(1);
	snprintf(command, sizeof(command), "test $(ls /proc/%d/fd | wc -l) = 5 && test $(ls /proc/%d/fd | wc -l) = 5",
		from->pid, forked[1].server);
	/* it closes a server's descriptors when the server is there already */
	int64_t deadline = deadline_in(AWAITED);
	while (system(command) != 0 && clock_now() < deadline)
		usleep(1000);
	ck_assert_int_eq(system(command), 0);
}
END_TEST

START_TEST(one_that_dies_is_reaped_and_the_others_serve)
{
	more(0);
	more(1);
	ck_assert_int_eq(kill(forked[0].server, SIGKILL), 0);
	ck_assert_msg(is_gone(forked[0].server), "a zombie is left");
	ck_assert(!asked(0));
	ck_assert(asked(1) && reads(1));
	more(2);
	ck_assert(asked(2) && reads(2));
}
END_TEST

START_TEST(one_that_is_stopped_is_killed)
{
	ck_assert_int_eq(forkserver_fork(from, &forked[0].sockets), 0);
	ck_assert_int_eq(fd_wait(forked[0].sockets.questions, POLLIN, deadline_in(AWAITED)), 1);
	char path[64], text[32];
	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", from->pid, from->pid);
	ck_assert_int_eq(fd_read_text(AT_FDCWD, path, text, sizeof(text)), 0);
	pid_t pid = atoi(text);
	ck_assert_int_eq(kill(pid, SIGSTOP), 0);
	symbolizer_kill(forked[0].sockets.questions);
	ck_assert(is_gone(pid));
	/* a reader that it has just forked lets go of the socket a moment later */
	ck_assert_int_eq(fd_wait(forked[0].sockets.questions, POLLIN, deadline_in(AWAITED)), 1);
	ck_assert_int_eq(symbolizer_process(forked[0].sockets.questions), -EPIPE);
}
END_TEST

/* As pilliond ends by a signal while its worker goes on. */
START_TEST(servers_outlive_it)
{
	bool by_force = _i;
	more(0);
	if (by_force)
		ck_assert_int_eq(kill(from->pid, SIGKILL), 0);
	forkserver_end(from);
	ck_assert(asked(0) && reads(0));
	ck_assert_int_eq(forkserver_fork(from, &forked[1].sockets), -EPIPE);
	ck_assert_int_eq(forked[1].sockets.questions, -1);
}
END_TEST

START_TEST(who_asks_it_when_it_is_gone_hears_so)
{
	ck_assert_int_eq(kill(from->pid, SIGKILL), 0);
	ck_assert(ends(from->pid));
	ck_assert_int_eq(forkserver_fork(from, &forked[1].sockets), -EPIPE);
}
END_TEST

START_TEST(nonsense_does_not_end_it)
{
	int fds[] = {2, 2, 2};
	ck_assert_int_eq(fd_send(from->sock, "", 1, NULL, 0), 0);
	ck_assert_int_eq(fd_send(from->sock, "", 1, fds, 1), 0);
	more(0);
	ck_assert(asked(0));
}
END_TEST

/* --- a supervisor's ------------------------------------------------------------------------------------------ */

static struct symbolizer_manager x;
static int64_t until;
static bool (*awaited)(void);

static int due(void *arg)
{
	int wait = symbolizer_manager_round(&x);
	if (awaited() || clock_now() >= until)
		event_loop_stop(loop);
	return event_loop_sooner(wait, deadline_left_ms(until));
}

static bool comes(bool (*what)(void), int64_t ns)
{
	awaited = what;
	until = clock_now() + ns;
	ck_assert_int_eq(event_loop_run(loop, due, NULL), 0);
	return what();
}

static bool is_there(void)
{
	return x.pidfd >= 0;
}
static bool is_news(void)
{
	return x.news == SYMBOLIZER_MANAGER_SOCKETS && x.pidfd >= 0;
}
static bool is_none(void)
{
	return x.news == SYMBOLIZER_MANAGER_STATE && x.sockets.questions < 0;
}
static bool is_final(void)
{
	return x.news && !(symbolizer_manager_state(&x) & SYMBOLIZER_RENEWABLE);
}

static void supervise(void)
{
	x = (struct symbolizer_manager)SYMBOLIZER_MANAGER_NONE;
	x.from = from;
	ck_assert_int_eq(forkserver_watch(from, loop), 0);
	symbolizer_manager_start(&x, loop);
	ck_assert(comes(is_there, AWAITED));
	ck_assert_uint_eq(symbolizer_manager_state(&x), SYMBOLIZER_THERE | SYMBOLIZER_RENEWABLE);
}

static pid_t kill_it(void)
{
	pid_t pid = forked_pid(x.pidfd);
	x.news = SYMBOLIZER_MANAGER_TOLD;
	ck_assert_int_eq(kill(pid, SIGKILL), 0);
	return pid;
}

START_TEST(another_one_comes)
{
	supervise();
	pid_t pid = kill_it();
	ck_assert(comes(is_news, AWAITED));
	ck_assert_int_ne(forked_pid(x.pidfd), pid);
	forked[0].sockets = (struct symbolizer_sockets){dup(x.sockets.questions), dup(x.sockets.readers)};
	ck_assert(asked(0) && reads(0));
	symbolizer_manager_close(&x);
	ck_assert(is_gone(pid));
}
END_TEST

/* No loop of forks: what waits for names is told that there is none, and the next one comes later each time. */
START_TEST(those_that_die_at_once_come_later_each_time)
{
	supervise();
	for (int i = 0; i < 6; i++) { /* each at its own time or, on a busy machine, later: so by the least alone */
		int64_t began = clock_now();
		kill_it();
		ck_assert(i < 2 || comes(is_none, AWAITED));
		ck_assert(comes(is_news, AWAITED));
		int64_t took = clock_now() - began;
		ck_assert_msg(i < 3 || took > 90 * NSEC_PER_MSEC << (i - 2), "death %d: %lld ns", i, (long long)took);
	}
	x.restart.started -= SECONDS(61); /* one that lived for long */
	kill_it();
	ck_assert(comes(is_news, AWAITED));
	ck_assert_uint_eq(x.restart.failures, 1); /* as after the first */
	symbolizer_manager_close(&x);
}
END_TEST

/* One of several whose symbolizers are forked by one that somebody else watches. */
START_TEST(who_has_its_socket_alone_learns_of_its_end)
{
	struct forkserver socket_alone = FORKSERVER_NONE;
	socket_alone.sock = dup(from->sock);
	x = (struct symbolizer_manager)SYMBOLIZER_MANAGER_NONE;
	x.from = &socket_alone;
	symbolizer_manager_start(&x, loop);
	ck_assert(comes(is_there, AWAITED));
	ck_assert_int_eq(kill(from->pid, SIGKILL), 0);
	ck_assert(ends(from->pid));
	kill_it();
	ck_assert(comes(is_none, AWAITED));
	ck_assert_uint_eq(symbolizer_manager_state(&x), 0);
	ck_assert_int_eq(symbolizer_manager_round(&x), -1); /* it is not tried again */
	symbolizer_manager_close(&x);
	fd_close(socket_alone.sock);
}
END_TEST

START_TEST(what_is_there_goes_on_without_a_fork_server)
{
	supervise();
	x.news = SYMBOLIZER_MANAGER_TOLD;
	ck_assert_int_eq(kill(from->pid, SIGKILL), 0);
	ck_assert(comes(is_final, AWAITED));
	ck_assert_uint_eq(symbolizer_manager_state(&x), SYMBOLIZER_THERE);
	forked[0].sockets = (struct symbolizer_sockets){dup(x.sockets.questions), dup(x.sockets.readers)};
	ck_assert(asked(0) && reads(0));
	symbolizer_close(&forked[0].sockets);
	kill_it();
	ck_assert(comes(is_none, AWAITED));
	ck_assert_uint_eq(symbolizer_manager_state(&x), 0);
	ck_assert_int_eq(symbolizer_manager_round(&x), -1); /* and nobody waits for another one */
	symbolizer_manager_close(&x);
}
END_TEST

/* Of another supervisor: its process is not known, its end is seen all the same. */
START_TEST(one_that_was_taken_over)
{
	more(0);
	x = (struct symbolizer_manager)SYMBOLIZER_MANAGER_NONE;
	x.from = from;
	symbolizer_manager_adopt(
		&x, &(struct symbolizer_sockets){dup(forked[0].sockets.questions), dup(forked[0].sockets.readers)});
	symbolizer_manager_start(&x, loop);
	ck_assert_int_eq(x.news, SYMBOLIZER_MANAGER_TOLD);
	ck_assert_int_eq(kill(forked[0].server, SIGKILL), 0);
	ck_assert(comes(is_news, AWAITED));
	symbolizer_manager_close(&x);
}
END_TEST

START_TEST(a_stopped_one_ends_with_its_supervisor)
{
	supervise();
	pid_t pid = forked_pid(x.pidfd);
	ck_assert_int_eq(kill(pid, SIGSTOP), 0);
	symbolizer_manager_close(&x);
	ck_assert(is_gone(pid));
}
END_TEST

UNIT_SUITE(forkserver)
{
	log_level(LOG_EMERG);
	Suite *s = suite_create("forkserver");
	TCase *t = tcase_create("servers"), *p = tcase_create("supervisor");
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 600);
	tcase_add_test(t, as_many_as_are_asked_for);
	tcase_add_test(t, it_holds_one_socket);
	tcase_add_test(t, one_that_dies_is_reaped_and_the_others_serve);
	tcase_add_test(t, one_that_is_stopped_is_killed);
	tcase_add_loop_test(t, servers_outlive_it, 0, 2);
	tcase_add_test(t, who_asks_it_when_it_is_gone_hears_so);
	tcase_add_test(t, nonsense_does_not_end_it);
	suite_add_tcase(s, t);
	tcase_add_checked_fixture(p, setup, teardown);
	tcase_set_timeout(p, 600);
	tcase_add_test(p, another_one_comes);
	tcase_add_test(p, those_that_die_at_once_come_later_each_time);
	tcase_add_test(p, who_has_its_socket_alone_learns_of_its_end);
	tcase_add_test(p, what_is_there_goes_on_without_a_fork_server);
	tcase_add_test(p, one_that_was_taken_over);
	tcase_add_test(p, a_stopped_one_ends_with_its_supervisor);
	suite_add_tcase(s, p);
	return s;
}
