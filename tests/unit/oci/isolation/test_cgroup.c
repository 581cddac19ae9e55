/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/isolation/cgroup.h"

#include "oci/base/fd.h"
#include "tests/unit/support/child.h"
#include "tests/unit/support/skip.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <fcntl.h>
#include <glob.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))

static int fds;
static bool base_was_there;
static char prefix[32];

static bool each_base(void (*fn)(const char *path))
{
	static const char *const places[] = {"/sys/fs/cgroup/" CGROUP_BASE, "/sys/fs/cgroup/*/" CGROUP_BASE};
	bool any = false;
	for (size_t p = 0; p < LENGTH(places); p++) {
		glob_t g;
		if (glob(places[p], 0, NULL, &g) == 0) {
			for (size_t i = 0; i < g.gl_pathc; i++, any = true)
				if (fn)
					fn(g.gl_pathv[i]);
			globfree(&g);
		}
	}
	return any;
}

static void remove_base(const char *path)
{
	rmdir(path); /* somebody else's cgroups in it keep it */
}

/* A task that was reaped may stay in its cgroup for a moment (kernel/cgroup/cgroup.c cgroup_task_dead). */
static int sweep(const char *what)
{
	int64_t deadline = deadline_in(5 * NSEC_PER_SEC);
	int r;
	while ((r = cgroup_sweep(what)) == -EBUSY && clock_now() < deadline)
		usleep(1000);
	return r;
}

static bool gets_empty(const struct cgroup *c)
{
	int64_t deadline = deadline_in(5 * NSEC_PER_SEC);
	while (!cgroup_is_empty(c) && clock_now() < deadline)
		usleep(1000);
	return cgroup_is_empty(c);
}

static void begin(void)
{
	fds = fd_count();
	base_was_there = each_base(NULL);
}

static void end(void)
{
	ck_assert_int_ge(sweep(prefix), 0);
	if (!base_was_there)
		each_base(remove_base);
}

/* In the process that runs the tests: also what a test left that failed. */
static void sweep_all(void)
{
	sweep(prefix);
}

/* A cgroup named after this program, or false with the reason printed. */
static bool make(const char *suffix, const struct cgroup_limits *l, struct cgroup *ret)
{
	struct err e = {0};
	char name[64];
	snprintf(name, sizeof(name), "%s.%s", prefix, suffix);
	if (cgroup_create(name, l, ret, &e) == 0)
		return true;
	skip(e.text);
	return false;
}

static pid_t sleeper(void)
{
	pid_t pid = fork();
	if (pid == 0) {
		pause();
		_exit(0);
	}
	return pid;
}

static void finish(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* The directory in the v2 hierarchy, or -1. */
static int v2_of(const struct cgroup *c)
{
	for (unsigned i = 0; i < c->n; i++)
		if (faccessat(c->dirs[i], "cgroup.events", F_OK, 0) == 0)
			return c->dirs[i];
	return -1;
}

/* --- one of our own */

static const struct {
	const char *file, *value;
} limits[] = {
	{"memory.limit_in_bytes", "67108864"},
	{"memory.max", "67108864"},
	{"memory.swap.max", "0"},
	{"pids.max", "20"},
	{"cpu.cfs_quota_us", "50000"},
	{"cpu.cfs_period_us", "100000"},
	{"cpu.max", "50000 100000"},
};

START_TEST(limits_are_set_wherever_there_is_a_file_for_them)
{
	static const struct cgroup_limits l = {.memory = 64 << 20, .cpu_percent = 50, .pids = 20};
	struct cgroup c;
	char text[64];
	unsigned seen = 0;

	if (!make("limits", &l, &c))
		return;
	for (unsigned d = 0; d < c.n; d++)
		for (size_t i = 0; i < LENGTH(limits); i++)
			if (fd_read_text(c.dirs[d], limits[i].file, text, sizeof(text)) == 0) {
				ck_assert_str_eq(text, limits[i].value);
				seen++;
			}
	ck_assert_uint_gt(seen, 0);
	cgroup_done(&c);
	ck_assert_uint_eq(c.n, 0);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

START_TEST(enter_leave_and_sweep)
{
	static const struct cgroup_limits l = {0};
	struct cgroup c, again, other;
	struct err e;
	char path[64], text[4096], name[64];

	if (!make("a", &l, &c) || !make("a", &l, &again) || !make("b", &l, &other))
		return;
	ck_assert_uint_eq(again.n, c.n); /* the same one, opened */
	snprintf(name, sizeof(name), CGROUP_BASE "/%s.a", prefix);
	ck_assert_str_eq(c.name, name);
	ck_assert(cgroup_is_empty(&c));

	pid_t pid = sleeper();
	ck_assert_int_eq(cgroup_enter(&c, pid, &e), 0);
	ck_assert(!cgroup_is_empty(&c) && !cgroup_is_empty(&again) && cgroup_is_empty(&other));
	snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
	ck_assert_int_eq(fd_read_text(AT_FDCWD, path, text, sizeof(text)), 0);
	unsigned n = 0;
	for (char *at = text; (at = strstr(at, name)); at++)
		n++;
	ck_assert_uint_eq(n, c.n);
	ck_assert_int_eq(cgroup_sweep(prefix), -EBUSY); /* `b` is gone already, `a` is not */

	finish(pid);
	ck_assert(gets_empty(&c));
	ck_assert_int_eq(cgroup_enter(&c, pid, &e), -ESRCH);
	ck_assert_ptr_eq(strstr(e.text, "cannot enter the cgroup pillion/unit-"), e.text);
	ck_assert_int_ge(sweep(prefix), 0);
	ck_assert_int_eq(cgroup_sweep(prefix), 0);
	ck_assert(cgroup_is_empty(&c)); /* removed: nobody is in it */
	cgroup_done(&c);
	cgroup_done(&again);
	cgroup_done(&other);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

START_TEST(a_sweep_takes_what_the_prefix_says)
{
	static const struct cgroup_limits l = {0};
	struct cgroup a, b;
	char one[64];

	if (!make("a", &l, &a) || !make("b", &l, &b))
		return;
	snprintf(one, sizeof(one), "%s.a", prefix);
	ck_assert_int_eq(cgroup_sweep(one), (int)a.n);
	ck_assert_int_eq(cgroup_sweep(one), 0);
	ck_assert_int_eq(cgroup_sweep(prefix), (int)b.n);
	cgroup_done(&a);
	cgroup_done(&b);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

static void enter_ourselves(const void *arg)
{
	const struct cgroup *c = arg;
	struct err e;
	MUST(cgroup_enter(c, 0, &e) == 0);
	MUST(!cgroup_is_empty(c));
}

START_TEST(zero_is_the_caller)
{
	static const struct cgroup_limits l = {0};
	struct cgroup c;

	if (!make("self", &l, &c))
		return;
	ck_assert_int_eq(in_child(enter_ourselves, &c), 0);
	ck_assert(gets_empty(&c));
	cgroup_done(&c);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

static void enter_our_own(const void *arg)
{
	static const struct cgroup_limits l = {0};
	struct err e = {0};
	char name[64], path[4096];
	snprintf(name, sizeof(name), "%s.own", prefix);
	MUST(cgroup_enter_own(name, &l, true, &e) == 0);
	MUST(fd_read_text(AT_FDCWD, "/proc/self/cgroup", path, sizeof(path)) == 0 && strstr(path, name));
	MUST(cgroup_enter_own(name, &l, true, &e) == -EALREADY && strstr(e.text, name));
	MUST(cgroup_enter_own(name, &l, false, &e) == 0);
}

START_TEST(one_of_our_own)
{
	static const struct cgroup_limits l = {0};
	struct cgroup c;

	if (!make("own", &l, &c))
		return;
	ck_assert_int_eq(in_child(enter_our_own, NULL), 0);
	ck_assert(gets_empty(&c));
	cgroup_done(&c);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

static void create_as_nobody(const void *arg)
{
	static const struct cgroup_limits l = {0};
	struct cgroup c;
	struct err e = {0};
	MUST(setresgid(65534, 65534, 65534) == 0 && setresuid(65534, 65534, 65534) == 0);
	MUST(cgroup_create("unit-nobody", &l, &c, &e) < 0);
	MUST(strstr(e.text, "cannot make the cgroup pillion/unit-nobody: ") == e.text);
	MUST(c.n == 0);
	MUST(cgroup_is_empty(&c));
}

START_TEST(a_plain_user_is_told_why)
{
	if (geteuid() == 0)
		ck_assert_int_eq(in_child(create_as_nobody, NULL), 0);
	else
		skip("becoming a plain user needs root");
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

/* --- a container's */

/* perf looks at v2 unless it has a v1 hierarchy, where we make no cgroups. */
static bool perf_is_on_v2(const struct cgroup *c)
{
	if (v2_of(c) >= 0 && access("/sys/fs/cgroup/perf_event", F_OK) < 0)
		return true;
	skip("perf is not on v2 here");
	return false;
}

static void *wait_in_a_thread(void *arg)
{
	pause();
	return NULL;
}

static void with_threads(void)
{
	pthread_t t;
	for (int i = 0; i < 3; i++)
		MUST(pthread_create(&t, NULL, wait_in_a_thread, NULL) == 0);
	pause();
}

static void find_in(const void *arg)
{
	const struct cgroup *c = arg;
	struct cgroup_target t;
	struct err e;
	uint64_t usage;

	/* we move, so that ours is not the root; children begin beside us */
	MUST(cgroup_enter(&c[1], 0, &e) == 0);
	pid_t init = fork();
	if (init == 0)
		with_threads();
	pid_t second = sleeper();
	int before = fd_count();
	cgroup_find(init, &t);
	MUST(t.perf_dir == -1 && t.events_dir == -1);
	MUST(strstr(t.reason, "it has no cgroup of its own (/") == t.reason && strstr(t.reason, "unit-"));

	fd_auto root = fd_open_dir(v2_of(c), "../..");
	char number[16];
	snprintf(number, sizeof(number), "%d", (int)init);
	MUST(fd_write_text(root, "cgroup.procs", number) == 0);
	root = fd_close(root);
	cgroup_find(init, &t);
	MUST(t.perf_dir == -1 && t.events_dir == -1 && !strcmp(t.reason, "it has no cgroup of its own (/)"));

	MUST(cgroup_enter(c, init, &e) == 0);
	cgroup_find(init, &t);
	MUST(t.perf_dir >= 0 && t.events_dir >= 0 && !t.reason[0] && strstr(t.path, c->name));
	MUST(fcntl(t.perf_dir, F_GETFD) == FD_CLOEXEC && fcntl(t.events_dir, F_GETFD) == FD_CLOEXEC);
	fd_auto stat = fd_open(t.events_dir, "cpu.stat", O_RDONLY, 0);
	MUST(cgroup_cpu_usage(stat, &usage) == 0);
	stat = fd_close(stat);
	cgroup_target_done(&t);
	MUST(t.perf_dir == -1 && t.events_dir == -1);

	MUST(cgroup_enter(c, second, &e) == 0);
	cgroup_find(init, &t);
	MUST(t.perf_dir == -1 && t.events_dir == -1);
	MUST(strstr(t.reason, "its cgroup /") == t.reason && strstr(t.reason, " also holds other processes"));

	finish(second);
	finish(init);
	cgroup_find(init, &t);
	MUST(t.perf_dir == -1 && !strcmp(t.reason, "its cgroup cannot be read: No such process"));
	cgroup_target_done(&t);
	MUST(fd_count() == before);
}

START_TEST(a_container_is_found_by_its_own_cgroup_only)
{
	static const struct cgroup_limits l = {0};
	struct cgroup c[2];

	if (!make("target", &l, &c[0]) || !make("us", &l, &c[1]))
		return;
	if (perf_is_on_v2(c))
		ck_assert_int_eq(in_child(find_in, c), 0);
	cgroup_done(&c[0]);
	cgroup_done(&c[1]);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

START_TEST(populated_until_the_last_one_left)
{
	static const struct cgroup_limits l = {0};
	struct cgroup c;
	struct err e;

	if (!make("events", &l, &c))
		return;
	int dir = v2_of(&c), events = dir < 0 ? -1 : fd_open(dir, "cgroup.events", O_RDONLY, 0);
	if (events >= 0) {
		ck_assert_int_eq(cgroup_populated(events), 0);
		pid_t pid = sleeper();
		ck_assert_int_eq(cgroup_enter(&c, pid, &e), 0);
		ck_assert_int_eq(fd_wait(events, POLLPRI, deadline_in(5 * NSEC_PER_SEC)), 1);
		ck_assert_int_eq(cgroup_populated(events), 1);
		ck_assert_int_eq(fd_wait(events, POLLPRI, deadline_in(20 * NSEC_PER_MSEC)), 0); /* read: quiet */
		finish(pid);
		ck_assert_int_eq(fd_wait(events, POLLPRI, deadline_in(5 * NSEC_PER_SEC)), 1);
		ck_assert_int_eq(cgroup_populated(events), 0);
		ck_assert_int_ge(sweep(prefix), 0);
		ck_assert_int_eq(cgroup_populated(events), -ENODEV);
		fd_close(events);
	} else {
		skip("no v2 here");
	}
	cgroup_done(&c);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

static const struct {
	const char *scenario, *text;
	int result;
} events[] = {
	{"populated", "populated 1\nfrozen 0\n", 1},
	{"empty", "frozen 0\npopulated 0\n", 0},
	{"another file", "frozen 1\n", -ENODATA},
	{"nothing", "", -ENODATA},
	{"cut", "populated", -ENODATA},
};

START_TEST(what_cgroup_events_says)
{
	fd_auto fd = memfd_create("events", MFD_CLOEXEC);
	ck_assert_int_eq(fd_write_all(fd, events[_i].text, strlen(events[_i].text)), 0);
	ck_assert_msg(cgroup_populated(fd) == events[_i].result, "%s", events[_i].scenario);
	ck_assert_msg(cgroup_populated(fd) == events[_i].result, "%s, again", events[_i].scenario);
	fd = fd_close(fd);
	ck_assert_int_eq(cgroup_populated(-1), -EBADF);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

static void burn(const void *arg)
{
	struct err e;
	MUST(cgroup_enter(arg, 0, &e) == 0);
	while (clock() < CLOCKS_PER_SEC / 20) /* of our own time: the machine may be busy */
		;
}

START_TEST(cpu_time_that_was_used)
{
	static const struct cgroup_limits l = {0};
	struct cgroup c;
	uint64_t before, after;

	if (!make("usage", &l, &c))
		return;
	int dir = v2_of(&c);
	fd_auto stat = dir < 0 ? -1 : fd_open(dir, "cpu.stat", O_RDONLY, 0);
	if (dir >= 0) {
		ck_assert_int_eq(cgroup_cpu_usage(stat, &before), 0);
		ck_assert_int_eq(in_child(burn, &c), 0);
		ck_assert_int_eq(cgroup_cpu_usage(stat, &after), 0);
		ck_assert_uint_ge(after - before, 40000);
		ck_assert_uint_le(after - before, 10000000);
	} else {
		skip("no v2 here");
	}
	cgroup_done(&c);
	stat = fd_close(stat);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

UNIT_SUITE(cgroup)
{
	Suite *s = suite_create("cgroup");
	TCase *t = tcase_create("cgroup");

	tcase_set_timeout(t, 40);
	snprintf(prefix, sizeof(prefix), "unit-%d", (int)getpid());
	tcase_add_unchecked_fixture(t, NULL, sweep_all);
	tcase_add_checked_fixture(t, begin, end);
	tcase_add_test(t, limits_are_set_wherever_there_is_a_file_for_them);
	tcase_add_test(t, enter_leave_and_sweep);
	tcase_add_test(t, a_sweep_takes_what_the_prefix_says);
	tcase_add_test(t, zero_is_the_caller);
	tcase_add_test(t, one_of_our_own);
	tcase_add_test(t, a_plain_user_is_told_why);
	tcase_add_test(t, a_container_is_found_by_its_own_cgroup_only);
	tcase_add_test(t, populated_until_the_last_one_left);
	tcase_add_loop_test(t, what_cgroup_events_says, 0, LENGTH(events));
	tcase_add_test(t, cpu_time_that_was_used);
	suite_add_tcase(s, t);
	return s;
}
