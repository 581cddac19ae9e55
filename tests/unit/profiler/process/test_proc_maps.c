/* SPDX-License-Identifier: Apache-2.0 */
/* maps: lines as the kernel writes them, lines as nobody does, and our own file. */
#include "profiler/process/proc_maps.h"

#include "oci/base/fd.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))

static int fds;

static void begin(void)
{
	fds = fd_count();
}

static void end(void)
{
	ck_assert_int_eq(fd_count(), fds);
}

static const struct {
	const char *scenario, *line;
	int result;
	uint64_t start, len, pgoff, ino;
	uint32_t maj, min;
	const char *path;
} lines[] = {
	{"code", "55d0a1000000-55d0a1002000 r-xp 00001000 fd:01 1234                       /usr/bin/cat", 1,
		0x55d0a1000000, 0x2000, 0x1000, 1234, 0xfd, 1, "/usr/bin/cat"},
	{.scenario = "data",
		.line = "55d0a1000000-55d0a1002000 rw-p 00001000 fd:01 1234                       /usr/bin/cat",
		.result = 0},
	{"shared code", "1000-2000 r-xs 00000000 00:1a 7 /a", 1, 0x1000, 0x1000, 0, 7, 0, 0x1a, "/a"},
	{"memory that runs", "7f0000000000-7f0000001000 rwxp 00000000 00:00 0 ", 1, 0x7f0000000000, 0x1000, 0, 0, 0, 0,
		"//anon"},
	{"the vdso", "7ffd4b7fe000-7ffd4b800000 r-xp 00000000 00:00 0                          [vdso]", 1,
		0x7ffd4b7fe000, 0x2000, 0, 0, 0, 0, "[vdso]"},
	{"vsyscall, at the end of all addresses", "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]",
		1, 0xffffffffff600000, 0x1000, 0, 0, 0, 0, "[vsyscall]"},
	{"a path with spaces", "1000-2000 r-xp 0 8:1 5     /a b  c", 1, 0x1000, 0x1000, 0, 5, 8, 1, "/a b  c"},
	{"a path with a newline", "1000-2000 r-xp 0 8:1 5 /a\\012b\\012", 1, 0x1000, 0x1000, 0, 5, 8, 1, "/a\nb\n"},
	{"a path that only looks escaped", "1000-2000 r-xp 0 8:1 5 /a\\01\\0x12\\", 1, 0x1000, 0x1000, 0, 5, 8, 1,
		"/a\\01\\0x12\\"},
	{"a file that is gone", "1000-2000 r-xp 0 8:1 5 /a (deleted)", 1, 0x1000, 0x1000, 0, 5, 8, 1, "/a (deleted)"},
	{.scenario = "nothing", .line = "", .result = -EINVAL},
	{.scenario = "backwards", .line = "2000-1000 r-xp 0 8:1 5 /a", .result = -EINVAL},
	{.scenario = "empty", .line = "1000-1000 r-xp 0 8:1 5 /a", .result = -EINVAL},
	{.scenario = "short permissions", .line = "1000-2000 x 0 8:1 5 /a", .result = -EINVAL},
	{.scenario = "cut", .line = "1000-2000 r-xp 0 8:1", .result = -EINVAL},
	{.scenario = "words", .line = "hello world", .result = -EINVAL},
};

START_TEST(one_line)
{
	char line[256];
	uint64_t start, len, pgoff;
	struct module_key key;
	snprintf(line, sizeof(line), "%s", lines[_i].line);
	int r = proc_maps_line(line, &start, &len, &pgoff, &key);
	ck_assert_msg(r == lines[_i].result, "%s: %d", lines[_i].scenario, r);
	if (r != 1)
		return;
	ck_assert_msg(
		start == lines[_i].start && len == lines[_i].len && pgoff == lines[_i].pgoff, "%s", lines[_i].scenario);
	ck_assert_msg(key.ino == lines[_i].ino && key.maj == lines[_i].maj && key.min == lines[_i].min, "%s",
		lines[_i].scenario);
	ck_assert_str_eq(key.path, lines[_i].path);
}
END_TEST

static struct module *nothing(void *arg, const struct module_key *key)
{
	return NULL;
}

START_TEST(our_own)
{
	struct map_files *files;
	struct address_space *s;
	char exe[64], self[64];
	size_t left = PROC_MAPS_OF_TARGET;
	ck_assert_int_eq(map_files_new(nothing, NULL, &files), 0);
	ck_assert_int_eq(address_space_new(files, &s), 0);
	int fd = proc_maps_copy(getpid(), getpid());
	ck_assert_int_gt(proc_maps_read(fd, s, &left, exe, sizeof(exe)), 2);
	fd_close(fd);
	const struct mapping *m = address_space_find(s, (uint64_t)(uintptr_t)begin);
	ck_assert_ptr_nonnull(m);
	ck_assert_int_gt((int)strlen(exe), 0);
	/* the buffer may be too short for the path: it begins as ours does */
	char link[4096];
	ssize_t n = readlink("/proc/self/exe", link, sizeof(link) - 1);
	ck_assert_int_gt((int)n, 0);
	link[n] = 0;
	snprintf(self, sizeof(self), "%.63s", link);
	ck_assert_str_eq(exe, self);
	ck_assert_str_eq(mapping_key(m)->path, link);
	address_space_free(s);
	map_files_free(files);
}
END_TEST

START_TEST(rubbish_is_no_mapping)
{
	struct map_files *files;
	struct address_space *s;
	char exe[64];
	size_t left = 100;
	static const char text[] = "x\n1000-2000 r-xp 0 8:1 5 /a\n\n\n9999\n3000-4000 r-xp 0 8:1 5 /a";
	int fd = memfd_create("maps", MFD_CLOEXEC);
	ck_assert_int_eq(fd_write_all(fd, text, sizeof(text) - 1), 0);
	lseek(fd, 0, SEEK_SET);
	ck_assert_int_eq(map_files_new(nothing, NULL, &files), 0);
	ck_assert_int_eq(address_space_new(files, &s), 0);
	ck_assert_int_eq(proc_maps_read(fd, s, &left, exe, sizeof(exe)), 2);
	ck_assert_str_eq(exe, "/a");
	ck_assert_uint_eq(address_space_count(s), 2);
	ck_assert_uint_eq(left, 100 - (sizeof(text) - 1));
	/* no room for it, and nothing that may make us wait */
	lseek(fd, 0, SEEK_SET);
	ck_assert_int_eq(proc_maps_read(fd, s, &left, exe, sizeof(exe)), -EFBIG);
	ck_assert_str_eq(exe, "");
	fd_close(fd);
	int ends[2];
	ck_assert_int_eq(pipe(ends), 0);
	ck_assert_int_eq(proc_maps_read(ends[0], s, &left, exe, sizeof(exe)), -EINVAL);
	fd_close(ends[1]);
	fd = ends[0];
	fd_close(fd);
	address_space_free(s);
	map_files_free(files);
}
END_TEST

UNIT_SUITE(proc_maps)
{
	Suite *s = suite_create("proc_maps");
	TCase *t = tcase_create("proc_maps");

	tcase_add_checked_fixture(t, begin, end);
	tcase_add_loop_test(t, one_line, 0, LENGTH(lines));
	tcase_add_test(t, our_own);
	tcase_add_test(t, rubbish_is_no_mapping);
	suite_add_tcase(s, t);
	return s;
}
