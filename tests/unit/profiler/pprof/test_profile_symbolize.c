/* SPDX-License-Identifier: Apache-2.0 */
/*
 * symbolize: profiles by hand, of a small program that lies here with, without and with somebody else's debug
 * information. The network is tests/integration/suite_symbolize.sh's.
 */
#include "profiler/pprof/profile_symbolize.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "profiler/symbol/forkserver.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))
#define ID "b1a2c3d4e5f60718293a4b5c6d7e8f9012345678"
#define BASE (1ull << 40)
#define CODE 0x1000ull /* of outer, into which inner is inlined */

static char dir[64];
static int fds_before;
static struct profile_symbolize *symbolize;

static void must(const char *command)
{
	char line[1024];
	snprintf(line, sizeof(line), "cd %s && { %s; }", dir, command);
	ck_assert_msg(system(line) == 0, "%s", command);
}

static void build(void)
{
	static const char source[] =
		"volatile int sink;\n"
		"static inline __attribute__((always_inline)) void inner(int n) { sink = n; sink = n + 1; }\n"
		"void outer(int n) { inner(n); }\n";
	snprintf(dir, sizeof(dir), "/tmp/test_symbolize.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	fd_auto at = fd_open_dir(AT_FDCWD, dir);
	fd_auto fd = fd_open(at, "a.c", O_WRONLY | O_CREAT, 0600);
	ck_assert_int_eq(fd_write_all(fd, source, strlen(source)), 0);
	must("link() { gcc -O2 -g -fcf-protection=none -nostdlib -static -Wl,-eouter,-Ttext=0x1000,--build-id=0x$1 -o "
	     "$2 a.c; };"
	     "link " ID " whole && link 0102030405060708 other && strip -g -o symbols whole && strip -o bare whole &&"
	     "head -c 5000 whole >cut && mkfifo fifo && mkdir directory && ln -s whole link");
}

static void unbuild(void)
{
	char command[128];
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	ck_assert_int_eq(system(command), 0);
}

static void setup(void)
{
	struct err e = {0};
	fds_before = fd_count();
	ck_assert_msg(profile_symbolize_open(false, &symbolize, &e) == 0, "%s", e.text);
}

static void teardown(void)
{
	symbolize = profile_symbolize_close(symbolize);
	ck_assert_int_eq(fd_count(), fds_before);
	while (waitpid(-1, NULL, __WALL) > 0) /* the server ends */
		;
}

/* A profile with one location in outer; `file` in our directory. */
static struct profile *profile_of(const char *file, const char *id, const char *name, const char *source)
{
	struct profile_info info = {.n_types = 1, .types = (struct profile_type[]){{"samples", "count"}}};
	char path[256];
	struct profile *p;
	ck_assert_int_eq(profile_new(&info, &p), 0);
	snprintf(path, sizeof(path), "%s%s%s", file[0] == '[' ? "" : dir, file[0] == '[' ? "" : "/", file);
	int64_t map = profile_mapping(p, BASE + CODE, BASE + CODE + 0x1000, CODE, path, id, 0);
	int64_t fn = name[0] ? profile_function(p, &(struct profile_function){.name = name, .file = source}) : 0;
	int64_t at = profile_location(
		p, (uint32_t)map, BASE + CODE, &(struct profile_line){.function = (uint32_t)fn}, name[0] != 0);
	ck_assert_int_eq(at, 0);
	ck_assert_int_eq(profile_sample(p, &(uint32_t){0}, 1, &(int64_t){7}, NULL, 0), 0);
	return p;
}

static void say(const struct profile *p, char *text, size_t size)
{
	struct profile_location l;
	struct profile_function f;
	size_t used = 0;
	text[0] = 0;
	profile_location_get(p, 0, &l);
	for (size_t i = 0; i < l.n; i++) {
		profile_function_get(p, l.lines[i].function, &f);
		const char *slash = strrchr(f.file, '/');
		used += (size_t)snprintf(text + used, size - used, "%s%s@%s:%u", i ? " " : "", f.name,
			slash ? slash + 1 : f.file, l.lines[i].line);
	}
}

static const struct {
	const char *scenario, *file, *id, *name, *source;
	const char *text;   /* of the location afterwards; NULL: the profile stays */
	const char *report; /* what it has */
} rows[] = {
	{"no name, with debug information", "whole", ID, "", "", "inner@a.c:2 outer@a.c:3",
		"1 of 1 addresses named by /"},
	{"a symbol's name, with debug information", "whole", ID, "outer", "", "inner@a.c:2 outer@a.c:3", "1 of 1"},
	{"through a link", "link", ID, "", "", "inner@a.c:2 outer@a.c:3", "1 of 1"},
	{"no name, symbols alone", "symbols", ID, "", "", "outer@:0",
		"1 of 1 addresses named, no debug information, symbols of /"},
	{"module and offset, symbols alone", "symbols", ID, "symbols+0x1000", "", "outer@:0", "1 of 1"},
	{"unreadable then, symbols alone", "symbols", ID, "[unreadable] symbols+0x1000", "", "outer@:0", "1 of 1"},
	{"a symbol's name, symbols alone", "symbols", ID, "from elsewhere", "", NULL, "1 of 1"},
	{"nothing in it", "bare", ID, "", "", NULL, "0 of 1 addresses named, no debug information\n"},
	{"it has lines", "whole", ID, "outer", "b.c", NULL, ""},
	{"the kernel", "[kernel]", ID, "outer", "", NULL, ""},
	{"no build-id", "whole", "", "", "", NULL, ""},
	{"a build-id of Go", "whole", "x0Yz/abc", "", "", NULL, ""},
	{"half a byte of a build-id", "whole", "b1a2c", "", "", NULL, ""},
	{"a long build-id", "whole", ID "00", "", "", NULL, ""},
	{"the build-id of another", "other", ID, "", "", NULL, "it has another build-id"},
	{"a part of it", "cut", ID, "", "", NULL, "it is no whole ELF file, or has no build-id"},
	{"no ELF file", "a.c", ID, "", "", NULL, "it is no whole ELF file, or has no build-id"},
	{"no file", "none", ID, "", "", NULL, "0 of 1 addresses named, no debug information\n"},
	{"a FIFO", "fifo", ID, "", "", NULL, "0 of 1"},
	{"a directory", "directory", ID, "", "", NULL, "0 of 1"},
};

START_TEST(of_one_module)
{
	struct profile *p = profile_of(rows[_i].file, rows[_i].id, rows[_i].name, rows[_i].source), *fresh;
	struct profile_symbolize_sums sums;
	struct err e = {0};
	char text[256], report[1024] = "";
	ck_assert_msg(profile_symbolize_run(symbolize, p, &fresh, &e) == 0, "%s", e.text);
	ck_assert_msg(!fresh == !rows[_i].text, "%s", rows[_i].scenario);
	if (fresh) {
		say(fresh, text, sizeof(text));
		ck_assert_str_eq(text, rows[_i].text);
		ck_assert_int_eq(profile_total(fresh, 0), 7);
	}
	FILE *out = fmemopen(report, sizeof(report), "w");
	profile_symbolize_report(symbolize, out, &sums);
	fclose(out);
	ck_assert_msg(strstr(report, rows[_i].report), "%s: %s", rows[_i].scenario, report);
	ck_assert_uint_eq(sums.modules, rows[_i].report[0] != 0);
	profile_free(fresh);
	profile_free(p);
}
END_TEST

/* An address is asked about once, in whatever number of profiles it is: the second needs nobody to answer. */
START_TEST(twice)
{
	struct profile *p = profile_of("whole", ID, "", ""), *fresh;
	struct profile_symbolize_sums sums;
	struct err e = {0};
	char text[256], report[1024] = "";
	ck_assert_int_eq(profile_symbolize_run(symbolize, p, &fresh, &e), 0);
	profile_free(fresh);
	must("mv whole away");
	ck_assert_int_eq(profile_symbolize_run(symbolize, p, &fresh, &e), 0);
	must("mv away whole");
	say(fresh, text, sizeof(text));
	ck_assert_str_eq(text, "inner@a.c:2 outer@a.c:3");
	FILE *out = fmemopen(report, sizeof(report), "w");
	profile_symbolize_report(symbolize, out, &sums);
	fclose(out);
	ck_assert_msg(strstr(report, "whole b1a2c3d4e5f6: 1 of 1 addresses"), "%s", report);
	profile_free(fresh);
	profile_free(p);
}
END_TEST

static pid_t child_of(pid_t pid)
{
	char path[64], children[64];
	long child = 0;
	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)pid);
	for (int64_t deadline = deadline_in(5 * NSEC_PER_SEC); !child && clock_now() < deadline; usleep(1000))
		child = fd_read_text(AT_FDCWD, path, children, sizeof(children)) < 0 ? 0 : strtol(children, NULL, 10);
	ck_assert(child > 0);
	return (pid_t)child;
}

START_TEST(the_symbolizer_dies)
{
	struct profile *p = profile_of("whole", ID, "", ""), *fresh;
	struct err e = {0};
	kill(child_of(child_of(getpid())), SIGKILL);
	ck_assert_int_eq(profile_symbolize_run(symbolize, p, &fresh, &e), -EPIPE);
	ck_assert_msg(strstr(e.text, "symbolizer"), "%s", e.text);
	ck_assert_ptr_null(fresh);
	profile_free(p);
}
END_TEST

UNIT_SUITE(profile_symbolize)
{
	Suite *s = suite_create("profile_symbolize");
	TCase *t = tcase_create("profile_symbolize");
	tcase_add_unchecked_fixture(t, build, unbuild);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 30);
	tcase_add_loop_test(t, of_one_module, 0, LENGTH(rows));
	tcase_add_test(t, twice);
	tcase_add_test(t, the_symbolizer_dies);
	suite_add_tcase(s, t);
	return s;
}
