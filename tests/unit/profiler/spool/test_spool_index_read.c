/* SPDX-License-Identifier: Apache-2.0 */
/* What an index says of one target, among lines of others, half written ones and what is no line. */
#include "profiler/spool/spool_index_read.h"

#include "oci/base/fd.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[64];
static int dir;

static void begin(void)
{
	snprintf(path, sizeof(path), "/tmp/index_read.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(path));
	dir = fd_open_dir(AT_FDCWD, path);
	ck_assert_int_ge(dir, 0);
}

static void end(void)
{
	close(dir);
	char command[128];
	snprintf(command, sizeof(command), "rm -r %s", path);
	ck_assert_int_eq(system(command), 0);
}

static void write_index(const char *text)
{
	fd_auto fd = fd_open(dir, "index.jsonl", O_WRONLY | O_CREAT | O_TRUNC, 0640);
	ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
}

#define LINE(file, id, start, samples)                                                                                 \
	"{\"file\":\"" file "\",\"id\":\"" id "\",\"start_ns\":" start ",\"samples\":" samples "}\n"

static const struct {
	const char *text;
	uint64_t profiles, samples;
	const char *file;
} indexes[] = {
	{"", 0, 0, ""},
	{LINE("a/1", "x", "100", "7"), 1, 7, "a/1"},
	{LINE("a/1", "x", "100", "7") LINE("a/2", "x", "101", "8"), 2, 15, "a/2"},
	{LINE("a/1", "x", "99", "7"), 0, 0, ""}, /* an older one of the same name */
	{LINE("a/1", "x", "100", "7") LINE("b/1", "y", "100", "8"), 1, 7, "a/1"},
	{LINE("a/1", "x", "100", "null"), 1, 0, "a/1"}, /* its number of samples is unknown */
	{LINE("a/1", "x", "100", "-7"), 1, 0, "a/1"},
	{"{\"file\":\"a/1\"}\n{}\n[]\nx\n\n" LINE("a/2", "x", "100", "7"), 1, 7, "a/2"},
	{LINE("a/1", "x", "100", "7") "{\"file\":\"a/2\",\"id\":\"x\",\"start_ns\":100,\"samp", 1, 7, "a/1"},
	{"{\"file\":\"a/2\",\"id\":\"x\",\"start_ns\":100,\"samp", 0, 0, ""},
};

START_TEST(of_one_target)
{
	struct spool_index_target of;
	write_index(indexes[_i].text);
	ck_assert_int_eq(spool_index_read_target(dir, "x", 100, &of), 0);
	ck_assert_uint_eq(of.profiles, indexes[_i].profiles);
	ck_assert_uint_eq(of.samples, indexes[_i].samples);
	ck_assert_str_eq(of.file, indexes[_i].file);
}
END_TEST

START_TEST(no_index)
{
	struct spool_index_target of = {.profiles = 1};
	ck_assert_int_eq(spool_index_read_target(dir, "x", 0, &of), -ENOENT);
	ck_assert_uint_eq(of.profiles, 0);
	ck_assert_int_eq(symlinkat("/etc/passwd", dir, "index.jsonl"), 0);
	ck_assert_int_eq(spool_index_read_target(dir, "x", 0, &of), -ELOOP);
}
END_TEST

UNIT_SUITE(spool_index_read)
{
	Suite *s = suite_create("spool_index_read");
	TCase *t = tcase_create("spool_index_read");
	tcase_add_checked_fixture(t, begin, end);
	tcase_add_loop_test(t, of_one_target, 0, sizeof(indexes) / sizeof(indexes[0]));
	tcase_add_test(t, no_index);
	suite_add_tcase(s, t);
	return s;
}
