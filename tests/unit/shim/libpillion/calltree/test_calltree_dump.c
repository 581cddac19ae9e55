/* SPDX-License-Identifier: Apache-2.0 */
/* tree_dump, tree_setting: what is written is what `pillion tree` reads; what cannot be written leaves nothing. */
#include "shim/libpillion/calltree/calltree_dump.h"

#include "oci/base/fd.h"
#include "profiler/view/calltree_file.h"
#include "shim/libpillion/calltree/calltree.h"
#include "shim/libpillion/calltree/calltree_env.h"
#include "shim/libpillion/core/text_writer.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define N(a) (sizeof(a) / sizeof((a)[0]))

static const struct calltree_memory memory = {.size = 4u << 20, .own = 4u << 20};
static char dir[40];
static int fds;

static void begin(void)
{
	fds = fd_count();
	snprintf(dir, sizeof(dir), "/tmp/test_tree_dump.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	ck_assert_int_eq(chdir(dir), 0);
}

static int entries(void)
{
	int n = 0;
	DIR *d = opendir(".");
	while (readdir(d))
		n++;
	closedir(d);
	return n - 2;
}

static void end(void)
{
	calltree_reset();
	ck_assert_int_eq(fd_count(), fds);
	unlink("tree");
	rmdir("there");
	ck_assert_int_eq(rmdir(dir), 0);
}

static void call(uint64_t fn, uint64_t sp)
{
	calltree_enter(fn, 0x1000, sp, 1);
}

START_TEST(written_and_read)
{
	struct calltree_file *f;
	struct err e = {0};
	char *text;
	size_t len;
	uint64_t code = (uint64_t)(uintptr_t)call;
	ck_assert_int_eq(calltree_start(_i ? TREE_CLOCK_KERNEL : TREE_CLOCK_NONE, &memory), 0);
	call(code, 0x9000);
	for (int i = 0; i < 3; i++)
		call(code + 1, 0x8f00);
	calltree_stop();
	ck_assert_int_eq(tree_dump("tree"), 0);
	ck_assert_int_eq(entries(), 1);
	int fd = fd_open(AT_FDCWD, "tree", O_RDONLY, 0);
	ck_assert_int_eq(fd_slurp(fd, CALLTREE_FILE_MAX, &text, &len), 0);
	fd_close(fd);
	ck_assert_msg(calltree_file_parse(text, len, &f, &e) == 0, "%s", e.text);
	ck_assert_int_eq((int)f->pid, getpid());
	ck_assert_int_eq(f->timed, _i);
	ck_assert_uint_eq(f->n_nodes, 2);
	ck_assert_uint_eq(f->nodes[0].fn, code);
	ck_assert_uint_eq(f->nodes[1].calls, 3);
	ck_assert_uint_eq(f->nodes[1].parent, 0);
	const struct calltree_file_mapping *m = calltree_file_find(f, &code, 0);
	ck_assert_ptr_nonnull(m);
	ck_assert_ptr_nonnull(strstr(m->path, "/units"));
	ck_assert_uint_ge(strlen(m->build_id), 16);
	calltree_file_free(f);
}
END_TEST

START_TEST(not_written)
{
	char path[8192];
	memset(path, 'a', sizeof(path) - 1);
	path[sizeof(path) - 1] = 0;
	ck_assert_int_eq(tree_dump("tree"), -ENODATA); /* never begun */
	ck_assert_int_eq(calltree_start(TREE_CLOCK_NONE, &memory), 0);
	ck_assert_int_eq(tree_dump("tree"), -ENODATA); /* no call */
	call(1000, 0x9000);
	ck_assert_int_eq(mkdir("there", 0755), 0);
	ck_assert_int_eq(tree_dump("there"), -EINVAL);
	ck_assert_int_eq(tree_dump("nowhere/tree"), -ENOENT);
	ck_assert_int_eq(tree_dump(path), -ENAMETOOLONG);
	ck_assert_int_eq(entries(), 1);
}
END_TEST

static const struct {
	const char *file;
	bool forked;
	unsigned size;
	const char *expect; /* NULL: it is too long */
} paths[] = {
	{"/a/tree", false, 64, "/a/tree"},
	{"/a/tree", true, 64, "/a/tree.4711"},
	{"/a/%p.tree", false, 64, "/a/4711.tree"},
	{"/a/%p.tree", true, 64, "/a/4711.tree"},
	{"/a/%%p%", false, 64, "/a/%4711%"},
	{"%p%p", false, 64, "47114711"},
	{"%p%p", false, 9, "47114711"},
	{"%p%p", false, 8, NULL},
	{"/a/tree", true, 12, NULL},
	{"/a/tree", true, 13, "/a/tree.4711"},
	{"", false, 64, NULL},
};

START_TEST(a_path)
{
	char buf[64];
	int r = calltree_env_path(paths[_i].file, 4711, paths[_i].forked, buf, paths[_i].size);
	ck_assert_msg(r == (paths[_i].expect ? 0 : -ENAMETOOLONG), "%s: %d", paths[_i].file, r);
	if (paths[_i].expect)
		ck_assert_str_eq(buf, paths[_i].expect);
}
END_TEST

START_TEST(numbers)
{
	char buf[64];
	struct text_writer o = {.memory = buf, .size = sizeof(buf)};
	text_put_decimal(&o, 0);
	text_put(&o, " ");
	text_put_decimal(&o, UINT64_MAX);
	text_put(&o, " ");
	text_put_hex(&o, 0xa0, 4);
	text_put(&o, " ");
	text_put_hex(&o, 0, 1);
	ck_assert_str_eq(buf, "0 18446744073709551615 00a0 0");
	ck_assert_uint_eq(text_hex("7fab10-8"), 0x7fab10);
	text_put(&o, "this is more than there is room for");
	ck_assert_int_eq(o.error, -ENOSPC);
}
END_TEST

UNIT_SUITE(calltree_dump)
{
	Suite *s = suite_create("calltree_dump");
	TCase *t = tcase_create("calltree_dump");

	tcase_add_checked_fixture(t, begin, end);
	tcase_add_loop_test(t, written_and_read, 0, 2);
	tcase_add_test(t, not_written);
	tcase_add_loop_test(t, a_path, 0, N(paths));
	tcase_add_test(t, numbers);
	suite_add_tcase(s, t);
	return s;
}
