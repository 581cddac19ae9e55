/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/event/tracepoint.h"

#include "oci/base/fd.h"
#include "tests/unit/support/skip.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))

/* As block:block_rq_issue, sched:sched_process_exec and others have it (kernel 6.18). */
static const char format[] = "name: made_up\nID: 1234\nformat:\n"
			     "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
			     "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n"
			     "\n"
			     "\tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;\n"
			     "\tfield:sector_t sector;\toffset:16;\tsize:8;\tsigned:0;\n"
			     "\tfield:long ret;\toffset:24;\tsize:8;\tsigned:1;\n"
			     "\tfield:char rwbs[10];\toffset:32;\tsize:10;\tsigned:0;\n"
			     "\tfield:char one[1];\toffset:42;\tsize:1;\tsigned:0;\n"
			     "\tfield:__data_loc char[] cmd;\toffset:44;\tsize:4;\tsigned:0;\n"
			     "\tfield:const char * filename;\toffset:48;\tsize:8;\tsigned:0;\n"
			     "\tfield:bool ok;\toffset:56;\tsize:1;\tsigned:0;\n"
			     "\tfield:struct big it;\toffset:60;\tsize:12;\tsigned:0;\n"
			     "\nprint fmt: \"field:x; %d,%d\", REC->dev, REC->sector\n";

static const struct {
	const char *field;
	uint16_t at;
	uint8_t size, is_signed;
} numbers[] = {
	{"dev", 8, 4, 0},
	{"sector", 16, 8, 0},
	{"ret", 24, 8, 1},
	{"ok", 56, 1, 0},
	{"common_pid", 4, 4, 1},
};

START_TEST(fields_that_are_numbers)
{
	struct event_spec s = {0};
	struct err e = {0};
	int r = tracepoint_field(format, numbers[_i].field, "a:b", &s, &e);
	ck_assert_msg(r == 0, "%s", e.text);
	ck_assert_uint_eq(s.value_at, numbers[_i].at);
	ck_assert_uint_eq(s.value_size, numbers[_i].size);
	ck_assert_uint_eq(s.value_signed, numbers[_i].is_signed);
}
END_TEST

static const struct {
	const char *field;
	int code;
	const char *sentence;
} others[] = {
	{"rwbs", -EINVAL, "tracepoint a:b: its field rwbs is no number but \"char rwbs[10]\""},
	{"one", -EINVAL, "tracepoint a:b: its field one is no number but \"char one[1]\""},
	{"cmd", -EINVAL, "tracepoint a:b: its field cmd is no number but \"__data_loc char[] cmd\""},
	{"filename", -EINVAL, "tracepoint a:b: its field filename is no number but \"const char * filename\""},
	{"it", -EINVAL, "tracepoint a:b: its field it is no number but \"struct big it\""},
	{"de", -ENOENT, "tracepoint a:b: it has no field de; those that are numbers: dev, sector, ret, ok"},
	{"x", -ENOENT, "tracepoint a:b: it has no field x; those that are numbers: dev, sector, ret, ok"},
};

START_TEST(fields_that_are_none)
{
	struct event_spec s = {0};
	struct err e = {0};
	ck_assert_int_eq(tracepoint_field(format, others[_i].field, "a:b", &s, &e), others[_i].code);
	ck_assert_str_eq(e.text, others[_i].sentence);
	ck_assert_uint_eq(s.value_size, 0);
}
END_TEST

START_TEST(a_format_that_ends_anywhere)
{
	struct event_spec s;
	for (size_t n = 0; n < sizeof(format); n++) {
		char *cut = strndup(format, n);
		tracepoint_field(cut, "sector", "a:b", &s, NULL);
		tracepoint_field(cut, "no", "a:b", &s, NULL);
		free(cut);
	}
}
END_TEST

static bool tracefs_is_ours(void)
{
	fd_auto fd = fd_open(AT_FDCWD, "/sys/kernel/tracing/events/sched/sched_switch/id", O_RDONLY, 0);
	return fd >= 0;
}

static struct target_desc ask(const char *events)
{
	static struct target_desc d;
	size_t n;
	bool clamped;
	memset(&d, 0, sizeof(d));
	ck_assert_int_eq(event_spec_parse(events, 0, d.events, &n, &clamped, NULL), 0);
	d.n_events = (uint32_t)n;
	return d;
}

START_TEST(those_of_this_kernel)
{
	struct err e = {0};
	int fds = fd_count();
	struct target_desc d = ask("cpu,tracepoint:sched:sched_switch.prev_prio,tracepoint:no:such,page-faults");
	int r = tracepoints_find(&d, &e);
	ck_assert_msg(r == 0, "%s", e.text);
	if (tracefs_is_ours()) {
		ck_assert_uint_eq(d.n_events, 3);
		ck_assert(d.events[1].config > 0 && d.events[1].value_size == 4 && d.events[1].value_signed);
		ck_assert_str_eq(d.notes, "left out: there is no tracepoint no:such in this kernel");
	} else {
		ck_assert_uint_eq(d.n_events, 2);
		ck_assert(strstr(d.notes, "left out: tracepoint sched:sched_switch.prev_prio: tracefs is "));
	}
	ck_assert_str_eq(event_name(&d.events[0]), "cpu");
	ck_assert_str_eq(event_name(&d.events[d.n_events - 1]), "page-faults");
	d = ask("tracepoint:no:such");
	ck_assert_int_lt(tracepoints_find(&d, &e), 0);
	ck_assert_msg(strstr(e.text, "no:such"), "%s", e.text);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

/* In a mount namespace of its own, whose /sys is empty. */
static bool enter_empty_sys(void)
{
	return unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
	       mount("none", "/sys", "tmpfs", 0, NULL) == 0;
}

static int without_tracefs(void)
{
	struct err e = {0};
	struct target_desc d = ask("tracepoint:sched:sched_switch");
	if (!enter_empty_sys())
		return 2;
	return tracepoints_find(&d, &e) == -ENOENT && strstr(e.text, "tracefs is not mounted") ? 0 : 1;
}

static bool put_file(const char *path, const char *text)
{
	fd_auto fd = fd_open(AT_FDCWD, path, O_WRONLY | O_CREAT, 0600);
	return fd >= 0 && fd_write_all(fd, text, strlen(text)) == 0;
}

/* Whatever this kernel has: what is there is as tracefs would have it. */
static int with_tracepoints(void)
{
	static const char *const dirs[] = {"/sys/kernel", "/sys/kernel/tracing", "/sys/kernel/tracing/events",
		"/sys/kernel/tracing/events/made", "/sys/kernel/tracing/events/made/up"};
	struct err e = {0};
	struct target_desc whole = ask("tracepoint:made:up"), ret = ask("tracepoint:made:up.ret"),
			   none = ask("tracepoint:made:up.no");
	if (!enter_empty_sys())
		return 2;
	for (size_t i = 0; i < LENGTH(dirs); i++)
		if (mkdir(dirs[i], 0700) < 0)
			return 2;
	if (!put_file("/sys/kernel/tracing/events/made/up/id", "1234\n") ||
		!put_file("/sys/kernel/tracing/events/made/up/format", format))
		return 2;
	if (tracepoints_find(&whole, &e) < 0 || whole.events[0].config != 1234 || whole.events[0].value_size)
		return 1;
	if (tracepoints_find(&ret, &e) < 0 || ret.events[0].config != 1234 || ret.events[0].value_at != 24)
		return 1;
	return tracepoints_find(&none, &e) == -ENOENT && strstr(e.text, "made:up.no: it has no field no;") ? 0 : 1;
}

static void in_a_child(int (*fn)(void))
{
	int status;
	pid_t pid = fork();
	if (pid == 0)
		_exit(fn());
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 2)
		skip("no mount namespace to be had");
	else
		ck_assert_int_eq(status, 0);
}

START_TEST(where_tracefs_is_not_mounted)
{
	in_a_child(without_tracefs);
}
END_TEST

START_TEST(where_tracefs_is_mounted)
{
	in_a_child(with_tracepoints);
}
END_TEST

UNIT_SUITE(tracepoint)
{
	Suite *s = suite_create("tracepoint");
	TCase *t = tcase_create("tracepoint");
	tcase_add_loop_test(t, fields_that_are_numbers, 0, LENGTH(numbers));
	tcase_add_loop_test(t, fields_that_are_none, 0, LENGTH(others));
	tcase_add_test(t, a_format_that_ends_anywhere);
	tcase_add_test(t, those_of_this_kernel);
	tcase_add_test(t, where_tracefs_is_not_mounted);
	tcase_add_test(t, where_tracefs_is_mounted);
	suite_add_tcase(s, t);
	return s;
}
