/* SPDX-License-Identifier: Apache-2.0 */
/*
 * apps: processes with libpillion at a target's socket, where nothing else tells of them, and those among them that are
 * hostile. (What programs have of it is in tests/integration: suite_alloc, suite_timers, suite_calls.)
 */
#include "profiler/inproc/inproc.h"

#include "oci/base/clock.h"
#include "oci/base/clock_driven.h"
#include "profiler/inproc/inproc_process.h"
#include "profiler/process/supervisor_link.h"
#include "profiler/target/target_inproc.h"
#include "tests/unit/support/fed.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>

static struct clock_driven driven; /* what has ended is known until its grace is over */
static int fds;
static struct engine engine;
static struct target *target;
static struct sockaddr_un at = {.sun_family = AF_UNIX};

static void begin(void)
{
	socklen_t len = sizeof(at);
	clock_drive(&driven);
	fed_engine(&engine); /* what it keeps is there from then on */
	fed_engine_done(&engine);
	fds = fd_count();
	fed_n_events = 1;
	fed_engine(&engine);
	target = fed_target(&engine, 1);
	target->desc.strategy = STRATEGY_TIMERS;
	target->app = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	ck_assert_int_eq(
		bind(target->app, (struct sockaddr *)&at, sizeof(at.sun_family)), 0); /* a name of the kernel's */
	ck_assert_int_eq(getsockname(target->app, (struct sockaddr *)&at, &len), 0);
	ck_assert_int_eq(listen(target->app, 64), 0);
	ck_assert_int_eq(target_inproc_new(target), 0);
}

static void end(void)
{
	fed_engine_done(&engine);
	clock_drive(NULL);
	ck_assert_int_eq(fd_count(), fds);
}

/* --- processes ---------------------------------------------------------------------------------------------- */

static int area_of(uint32_t pid, uint64_t cookie)
{
	const struct shm_head h = {.magic = SHM_MAGIC, .version = SHM_VERSION, .pid = pid, .cookie = cookie};
	const int memory = memfd_create("area", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	ck_assert(memory >= 0 && ftruncate(memory, (off_t)SHM_SIZE) == 0);
	ck_assert_int_eq(fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	ck_assert_int_eq(pwrite(memory, &h, sizeof(h), 0), sizeof(h));
	return memory;
}

static int say_hello(int memory)
{
	const struct shm_hello hello = {SHM_MAGIC, SHM_VERSION, SHM_SIZE};
	const int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(connect(sock, (struct sockaddr *)&at, sizeof(sa_family_t) + 6), 0);
	ck_assert_int_eq(fd_send(sock, &hello, sizeof(hello), &memory, 1), 0);
	return sock;
}

static void hear_all(void)
{
	inproc_drain(target->apps, clock_now(), true);
}

static unsigned known(void)
{
	return target->apps->n;
}

/* --- rows ----------------------------------------------------------------------------------------------------- */

START_TEST(who_comes_again_while_last_words_are_heard)
{
	const int memory = area_of(7, 99), first = say_hello(memory);
	hear_all();
	ck_assert_uint_eq(known(), 1);
	const int again = say_hello(memory);
	hear_all();
	ck_assert_uint_eq(known(), 1);
	ck_assert_uint_eq(inproc_seen(target->apps), 1);
	close(first);
	close(again);
	close(memory);
}
END_TEST

START_TEST(an_area_without_sense_when_its_pid_is_anothers)
{
	const uint64_t tail = UINT64_MAX;
	const int bad = area_of(7, 1), good = area_of(7, 2), first = say_hello(bad);
	hear_all();
	ck_assert_int_eq(pwrite(bad, &tail, sizeof(tail), offsetof(struct shm_head, tail)), sizeof(tail));
	const int next = say_hello(good);
	hear_all();
	ck_assert_uint_eq(known(), 1);
	ck_assert_uint_eq(target->apps->first->inbox.cookie, 2);
	close(first);
	close(next);
	close(bad);
	close(good);
}
END_TEST

/* An area that changes its cookie is not two. */
START_TEST(one_area_under_two_names)
{
	const uint64_t cookie = 2;
	const int memory = area_of(7, 1), first = say_hello(memory);
	hear_all();
	ck_assert_int_eq(pwrite(memory, &cookie, sizeof(cookie), offsetof(struct shm_head, cookie)), sizeof(cookie));
	const int second = say_hello(memory);
	hear_all();
	ck_assert_uint_eq(known(), 1);
	ck_assert_uint_eq(target->apps->first->inbox.cookie, 1);
	close(first);
	close(second);
	close(memory);
}
END_TEST

START_TEST(more_processes_than_there_are_places_for)
{
	const unsigned n = 2 * INPROC_MAX;
	for (unsigned i = 0; i < n; i++) {
		const int memory = area_of(100 + i, i);
		close(say_hello(memory));
		close(memory);
		hear_all();
	}
	ck_assert_uint_eq(known(), INPROC_MAX);
	ck_assert_uint_eq(inproc_seen(target->apps), n);
	ck_assert_uint_ne(
		process_table_find(target->sampling.processes, 100)->exited, 0); /* its name and mappings go as well */
	ck_assert_uint_eq(process_table_find(target->sampling.processes, 100 + n - 1)->exited, 0);
}
END_TEST

/* There is nobody here who could close it for us: one stays, and no other is taken. */
START_TEST(what_is_no_memory)
{
	const int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	for (unsigned i = 0; i < 100; i++) {
		close(say_hello(file));
		hear_all();
	}
	close(file);
	ck_assert_uint_eq(known(), 0);
	fds++;
}
END_TEST

/* The worker is killed behind the first label: the next one has it, and the process has not said a word to it. */
START_TEST(labels_outlive_a_worker)
{
	static const struct shm_change change = {.number = 1, .time = 1000, .tid = 8, .set = 1};
	const struct shm_set set = {.size = 7, .text = "kind=a\n"};
	const uint64_t changes = 1;
	struct worker_request asked = {0};
	int channel[2], memory = area_of(7, 99ull << 32 | 5), passed = -1;
	size_t n = 0;
	ck_assert_int_eq(pwrite(memory, &set, sizeof(set), SHM_SETS_AT), sizeof(set));
	ck_assert_int_eq(pwrite(memory, &change, sizeof(change), SHM_CHANGES_AT), sizeof(change));
	ck_assert_int_eq(
		pwrite(memory, &changes, sizeof(changes), offsetof(struct shm_head, changes)), sizeof(changes));
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, channel), 0);
	inproc_free(target->apps);
	target->desc.strategy = STRATEGY_CGROUP;
	target->desc.running = true;
	ck_assert_int_eq(target_inproc_new(target), 0);
	engine.host.channel = channel[0];
	const int first = say_hello(memory);
	hear_all();
	ck_assert_int_eq(fd_recv(channel[1], &asked, sizeof(asked), &passed, 1, &n), sizeof(asked));
	ck_assert_uint_eq(asked.kind, REQUEST_KEEP_MEMORY);
	ck_assert_uint_eq(n, 1);
	engine.host.channel = -1; /* who is killed says nothing more */
	target->apps = inproc_free(target->apps);

	ck_assert_int_eq(target_inproc_new(target), 0);
	inproc_restore_memory(target->apps, passed);
	inproc_drain(target->apps, clock_now(), false);
	inproc_read_labels(target->apps, 0);
	ck_assert_str_eq(inproc_labels(target->apps, 7, 8, 999), "");
	ck_assert_str_eq(inproc_labels(target->apps, 7, 8, 1000), "kind=a\n");
	const int again = say_hello(memory);
	hear_all();
	inproc_read_labels(target->apps, 0);
	ck_assert_str_eq(inproc_labels(target->apps, 7, 8, 1000), "kind=a\n");
	ck_assert_uint_eq(known(), 1);
	ck_assert_uint_eq(inproc_seen(target->apps), 1);
	close(first);
	close(again);
	close(memory);
	close(channel[0]);
	close(channel[1]);
}
END_TEST

/* What processes allocated before the welcome is the target's at once, so that a worker's successor has it, too. */
START_TEST(memory_before_the_welcome)
{
	static const struct {
		uint64_t said[2], sum;
	} rows[] = {{{5000, 0}, 5000}, {{5000, 7}, 5007}, {{1ull << 63, 1ull << 63}, INT64_MAX},
		{{UINT64_MAX, 0}, INT64_MAX}};
	int memory[2], sock[2];
	for (unsigned i = 0; i < 2; i++) {
		memory[i] = area_of(7 + i, 99 + i);
		sock[i] = say_hello(memory[i]);
	}
	hear_all();
	ck_assert_uint_eq(known(), 2);
	target->sampling.changed = false;
	for (unsigned i = 0; i < 2; i++)
		ck_assert_int_eq(pwrite(memory[i], &rows[_i].said[i], 8, offsetof(struct shm_head, awaited)), 8);
	hear_all();
	ck_assert(target->sampling.changed);
	ck_assert_uint_eq(target->sampling.tally.inproc_awaited, rows[_i].sum);
	for (unsigned i = 0; i < 2; i++) {
		close(memory[i]);
		close(sock[i]);
	}
}
END_TEST

UNIT_SUITE(inproc)
{
	Suite *s = suite_create("inproc");
	TCase *t = tcase_create("inproc");
	tcase_set_timeout(t, 60);
	tcase_add_checked_fixture(t, begin, end);
	tcase_add_test(t, who_comes_again_while_last_words_are_heard);
	tcase_add_test(t, an_area_without_sense_when_its_pid_is_anothers);
	tcase_add_test(t, one_area_under_two_names);
	tcase_add_test(t, more_processes_than_there_are_places_for);
	tcase_add_test(t, what_is_no_memory);
	tcase_add_test(t, labels_outlive_a_worker);
	tcase_add_loop_test(t, memory_before_the_welcome, 0, 4);
	suite_add_tcase(s, t);
	return s;
}
