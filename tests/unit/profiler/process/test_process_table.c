/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/process/process_table.h"

#include "oci/base/fd.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>

#define SECOND 1000000000ull

static int fds;
static struct process_table *tasks;
static uint64_t now;

static struct module *resolve_nothing(void *arg, const struct module_key *key)
{
	return NULL;
}

static void begin(void)
{
	fds = fd_count();
	now = 1000 * SECOND;
	ck_assert_int_eq(process_table_new(resolve_nothing, NULL, &tasks), 0);
}

static void end(void)
{
	tasks = process_table_free(tasks);
	ck_assert_ptr_null(tasks);
	ck_assert_int_eq(fd_count(), fds);
}

/* --- what the kernel tells */

static void comm(uint32_t pid, uint32_t tid, const char *name, bool exec)
{
	struct record r = {.type = PERF_RECORD_COMM, .time = now, .pid = pid, .tid = tid};
	r.comm.name = name;
	r.comm.exec = exec;
	process_table_record(tasks, &r);
}

static void task(uint32_t type, uint32_t pid, uint32_t tid, uint32_t ppid, uint32_t ptid)
{
	struct record r = {.type = type, .time = now, .pid = pid, .tid = tid};
	r.task.ppid = ppid;
	r.task.ptid = ptid;
	process_table_record(tasks, &r);
}

static void fork_of(uint32_t parent, uint32_t pid)
{
	task(PERF_RECORD_FORK, pid, pid, parent, parent);
}

static void thread_of(uint32_t pid, uint32_t by, uint32_t tid)
{
	task(PERF_RECORD_FORK, pid, tid, pid, by);
}

static void ends(uint32_t pid, uint32_t tid)
{
	task(PERF_RECORD_EXIT, pid, tid, 1, 1);
}

static void map(uint32_t pid, uint64_t start, const char *path, bool exec)
{
	struct record r = {.type = PERF_RECORD_MMAP2, .time = now, .pid = pid, .tid = pid};
	r.mmap = (struct record_mmap){.start = start, .len = 0x1000, .ino = 7, .path = path, .exec = exec};
	process_table_record(tasks, &r);
}

/* Some exit of somebody who lives on: that is when it is looked for the dead. */
static void look(void)
{
	process_table_get(tasks, 1);
	ends(1, 99);
}

/* --- what is known then */

static const char *name_of(uint32_t pid, uint32_t tid)
{
	return process_table_thread_name(process_table_get(tasks, pid), tid);
}

static const char *mapped(uint32_t pid, uint64_t at)
{
	const struct mapping *m = address_space_find(process_table_get(tasks, pid)->space, at);
	return m ? mapping_key(m)->path : "";
}

START_TEST(an_exec_begins_anew)
{
	comm(7, 7, "runc:[2:INIT]", false);
	map(7, 0x1000, "/usr/bin/runc", true);
	thread_of(7, 7, 8);
	comm(7, 8, "helper", false);
	ck_assert_str_eq(process_table_get(tasks, 7)->exe, "runc");
	comm(7, 7, "perl", true);
	ck_assert_str_eq(name_of(7, 7), "perl");
	ck_assert_str_eq(name_of(7, 8), "perl"); /* exec ended the other threads */
	ck_assert_str_eq(mapped(7, 0x1000), "");
	ck_assert_str_eq(process_table_get(tasks, 7)->exe, "");
	map(7, 0x2000, "/usr/bin/perl5.36", true);
	map(7, 0x3000, "/lib/libc.so.6", true);
	ck_assert_str_eq(process_table_get(tasks, 7)->exe, "perl5.36"); /* the first one */
	ck_assert_str_eq(mapped(7, 0x3fff), "/lib/libc.so.6");
	ck_assert_uint_eq(process_table_count(tasks), 1);
}
END_TEST

START_TEST(only_code_is_mapped)
{
	map(7, 0x1000, "/etc/passwd", false);
	ck_assert_uint_eq(process_table_count(tasks), 0);
	map(7, 0x1000, "[vdso]", true);
	map(7, 0x2000, "//anon", true);
	ck_assert_str_eq(mapped(7, 0x1000), "[vdso]");
	ck_assert_str_eq(
		process_table_get(tasks, 7)->exe, "anon"); /* begins with a slash; whoever shows it knows better */
}
END_TEST

START_TEST(a_long_program_name_is_cut)
{
	char path[200] = "/";
	memset(path + 1, 'x', sizeof(path) - 2);
	comm(7, 7, "a name longer than the kernel's", true);
	map(7, 0x1000, path, true);
	ck_assert_uint_eq(strlen(process_table_get(tasks, 7)->exe), 63);
	ck_assert_str_eq(process_table_get(tasks, 7)->comm, "a name longer t");
}
END_TEST

START_TEST(a_fork_inherits_and_goes_its_own_way)
{
	comm(7, 7, "sh", true);
	map(7, 0x1000, "/bin/sh", true);
	fork_of(7, 9);
	ck_assert_str_eq(name_of(9, 9), "sh");
	ck_assert_str_eq(process_table_get(tasks, 9)->exe, "sh");
	ck_assert_str_eq(mapped(9, 0x1000), "/bin/sh");
	map(9, 0x1000, "/lib/plugin.so", true); /* over it, in the child alone */
	ck_assert_str_eq(mapped(7, 0x1000), "/bin/sh");
	ck_assert_str_eq(mapped(9, 0x1000), "/lib/plugin.so");
	comm(9, 9, "ls", true);
	ck_assert_str_eq(mapped(9, 0x1000), "");
	ck_assert_str_eq(name_of(7, 7), "sh");
	ck_assert_uint_eq(process_table_count(tasks), 2);
}
END_TEST

START_TEST(threads_have_names_of_their_own)
{
	comm(7, 7, "java", true);
	thread_of(7, 7, 8);
	ck_assert_str_eq(name_of(7, 8), "java"); /* as the one that made it */
	comm(7, 8, "worker", false);
	thread_of(7, 8, 10);
	ck_assert_str_eq(name_of(7, 10), "worker");
	comm(7, 7, "main", false);
	ck_assert_str_eq(name_of(7, 7), "main");
	ck_assert_str_eq(name_of(7, 8), "worker");
	ck_assert_str_eq(name_of(7, 99), "main"); /* never heard of */
	task(PERF_RECORD_FORK, 11, 11, 7, 8);	  /* a thread forks a process */
	ck_assert_str_eq(name_of(11, 11), "worker");
	ends(7, 8);
	ck_assert_str_eq(name_of(7, 8), "main");
	ck_assert_uint_eq(process_table_count(tasks), 2);
}
END_TEST

START_TEST(names_of_very_many_threads)
{
	char name[16];
	comm(7, 7, "java", true);
	for (uint32_t tid = 100; tid < 100 + 5000; tid++) {
		snprintf(name, sizeof(name), "t%u", tid);
		comm(7, tid, name, false);
	}
	ck_assert_str_eq(name_of(7, 100), "t100");
	ck_assert_str_eq(name_of(7, 100 + 4095), "t4195");
	ck_assert_str_eq(name_of(7, 100 + 4999), "java"); /* beyond what is kept */
	ends(7, 100);
	comm(7, 5099, "late", false); /* one went: there is room again */
	ck_assert_str_eq(name_of(7, 5099), "late");
}
END_TEST

START_TEST(the_dead_are_kept_for_a_while)
{
	comm(7, 7, "sh", true);
	map(7, 0x1000, "/bin/sh", true);
	fork_of(1, 9);
	ends(7, 7);
	now += PROCESS_TABLE_GRACE - 1;
	ends(9, 9);					/* exits are when it is looked */
	ck_assert_str_eq(mapped(7, 0x1000), "/bin/sh"); /* for a sample that is late */
	ck_assert_uint_eq(process_table_count(tasks), 3);
	now += PROCESS_TABLE_GRACE;
	look();
	now += PROCESS_TABLE_GRACE + 1;
	look();
	ck_assert_uint_eq(process_table_count(tasks), 1); /* 1 lives */
	ck_assert_str_eq(mapped(7, 0x1000), "");	  /* a new one by that number */
}
END_TEST

START_TEST(without_records_their_end_is_told)
{
	for (uint32_t pid = 2; pid < 3 * PROCESS_TABLE_MAX; pid++) {
		process_table_exec(tasks, pid);
		process_table_adopt(tasks, pid, pid, "short");
		ck_assert_str_eq(process_table_known(tasks, pid)->comm, "short");
		now += SECOND / 1000;
		process_table_ended(tasks, pid, now);
	}
	process_table_ended(tasks, 1, now); /* never heard of */
	ck_assert_ptr_null(process_table_find(tasks, 1));
	ck_assert_uint_lt(process_table_count(tasks), 10000);
}
END_TEST

START_TEST(a_leader_ends_before_its_threads)
{
	comm(7, 7, "go", true);
	map(7, 0x1000, "/bin/go", true);
	thread_of(7, 7, 8);
	ends(7, 7);
	now += 10 * PROCESS_TABLE_GRACE;
	look();
	ck_assert_str_eq(mapped(7, 0x1000), "/bin/go");
	ends(7, 8);
	now += 2 * PROCESS_TABLE_GRACE;
	look();
	ck_assert_uint_eq(process_table_count(tasks), 1);
}
END_TEST

START_TEST(a_number_is_used_again_at_once)
{
	comm(7, 7, "old", true);
	map(7, 0x1000, "/bin/old", true);
	fork_of(7, 9);
	ends(9, 9);
	comm(7, 7, "new", true);
	fork_of(7, 9);
	ck_assert_str_eq(name_of(9, 9), "new");
	ck_assert_str_eq(mapped(9, 0x1000), "");
	now += 2 * PROCESS_TABLE_GRACE;
	look();
	ck_assert_uint_eq(process_table_count(tasks), 3); /* alive again */
}
END_TEST

START_TEST(losses_are_remembered)
{
	ck_assert(!address_space_lossy(process_table_get(tasks, 7)->space));
	process_table_lossy(tasks);
	ck_assert(address_space_lossy(process_table_get(tasks, 7)->space));
	ck_assert(address_space_lossy(
		process_table_get(tasks, 8)->space)); /* made afterwards: it may have been there before */
	fork_of(7, 9);
	ck_assert(address_space_lossy(process_table_get(tasks, 9)->space));
	comm(7, 7, "perl", true);
	ck_assert(!address_space_lossy(process_table_get(tasks, 7)->space)); /* from an exec on everything was seen */
	process_table_lossy(tasks);
	ck_assert(address_space_lossy(process_table_get(tasks, 7)->space)); /* until more is lost */
}
END_TEST

START_TEST(strange_records)
{
	fork_of(7, 7);	      /* of itself, as a thread: no such thing */
	thread_of(7, 7, 7);   /* likewise */
	ends(12345, 12345);   /* of somebody never seen */
	ends(7, 99);	      /* a thread never seen */
	task(12, 7, 7, 7, 7); /* a type that is not ours */
	ck_assert_uint_eq(process_table_count(tasks), 1);
	fork_of(4294967295u, 4294967294u);
	ck_assert_uint_eq(process_table_count(tasks), 3);
	ck_assert_str_eq(name_of(4294967294u, 1), "");
}
END_TEST

static void fill(void)
{
	for (uint32_t pid = 1; pid <= PROCESS_TABLE_MAX; pid++)
		process_table_get(tasks, pid)->comm[0] = 'x';
	ck_assert_uint_eq(process_table_count(tasks), PROCESS_TABLE_MAX);
}

START_TEST(those_beyond_the_cap_share_one_that_says_nothing)
{
	fill();
	comm(1, 1, "x", false); /* some make room, and not again in this moment */
	for (uint32_t pid = 1; process_table_count(tasks) < PROCESS_TABLE_MAX; pid++)
		process_table_get(tasks, pid)->comm[0] = 'x';
	map(1, 0x1000, "/bin/sh", true);
	fork_of(1, 100001);
	comm(100002, 100002, "perl", true);
	comm(100002, 100003, "thread", false);
	map(100002, 0x1000, "/usr/bin/perl", true);
	fork_of(100002, 5);
	struct process *p = process_table_get(tasks, 100001);
	ck_assert_ptr_eq(process_table_get(tasks, 100002), p);
	ck_assert_uint_eq(p->pid, 0);
	ck_assert_str_eq(p->comm, "");
	ck_assert_str_eq(p->exe, "");
	ck_assert_uint_eq(address_space_count(p->space), 0);
	ck_assert_str_eq(name_of(100002, 100003), "");
	ck_assert_str_eq(name_of(5, 5), "x");
	ck_assert_uint_eq(process_table_count(tasks), PROCESS_TABLE_MAX + 1);
}
END_TEST

/* Nobody has told of their ends. */
START_TEST(at_the_cap_the_silent_make_room)
{
	comm(1, 1, "busy", true);
	for (uint32_t pid = 2; pid < 3 * PROCESS_TABLE_MAX; pid++) {
		now += SECOND;
		fork_of(1, pid);
		comm(pid, pid, "short", true);
		ck_assert_str_eq(process_table_known(tasks, pid)->comm, "short");
		process_table_get(tasks, 1); /* it has a sample */
	}
	ck_assert_str_eq(process_table_known(tasks, 1)->comm, "busy");
	ck_assert_uint_le(process_table_count(tasks), PROCESS_TABLE_MAX);
}
END_TEST

START_TEST(at_the_cap_the_dead_make_room)
{
	fill();
	for (uint32_t pid = 1; pid <= 100; pid++)
		ends(pid, pid);
	now += SECOND;
	for (uint32_t pid = 100001; pid <= 100050; pid++) {
		fork_of(200, pid);
		ck_assert_uint_eq(process_table_get(tasks, pid)->pid, pid);
		ck_assert_str_eq(name_of(pid, pid), "x");
	}
	ck_assert_uint_le(process_table_count(tasks), PROCESS_TABLE_MAX);
}
END_TEST

UNIT_SUITE(process_table)
{
	Suite *s = suite_create("process_table");
	TCase *t = tcase_create("process_table");

	tcase_set_timeout(t, 30);
	tcase_add_checked_fixture(t, begin, end);
	tcase_add_test(t, an_exec_begins_anew);
	tcase_add_test(t, only_code_is_mapped);
	tcase_add_test(t, a_long_program_name_is_cut);
	tcase_add_test(t, a_fork_inherits_and_goes_its_own_way);
	tcase_add_test(t, threads_have_names_of_their_own);
	tcase_add_test(t, names_of_very_many_threads);
	tcase_add_test(t, the_dead_are_kept_for_a_while);
	tcase_add_test(t, without_records_their_end_is_told);
	tcase_add_test(t, a_leader_ends_before_its_threads);
	tcase_add_test(t, a_number_is_used_again_at_once);
	tcase_add_test(t, losses_are_remembered);
	tcase_add_test(t, strange_records);
	tcase_add_test(t, those_beyond_the_cap_share_one_that_says_nothing);
	tcase_add_test(t, at_the_cap_the_silent_make_room);
	tcase_add_test(t, at_the_cap_the_dead_make_room);
	suite_add_tcase(s, t);
	return s;
}
