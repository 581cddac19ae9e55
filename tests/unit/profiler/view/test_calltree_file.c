/* SPDX-License-Identifier: Apache-2.0 */
/* treefile, calls, calltree: files as the library writes them, and as nobody does; from there to what people see. */
#include "profiler/view/call_tree_text.h"
#include "profiler/view/calltree_profile.h"

#include "oci/base/fd.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N(a) (sizeof(a) / sizeof((a)[0]))
#define HEAD "pillion-tree 1\n"

static int parse(const char *text, struct calltree_file **ret, struct err *e)
{
	return calltree_file_parse(strdup(text), strlen(text), ret, e);
}

static const struct {
	const char *scenario, *text;
	int result;
	const char *says;
	size_t nodes;
} files[] = {
	{"nothing", "", -EBADMSG, "no calling-context tree", 0},
	{"another version", "pillion-tree 2\nend 0\n", -EBADMSG, "no calling-context tree that we know", 0},
	{"no node", HEAD "end 0\n", 0, NULL, 0},
	{"a node", HEAD "pid 1\nclock tsc\nunplaced 0\nnode 65 0 1000 2000 3 4 0\nend 1\n", 0, NULL, 1},
	{"a kind that we do not know", HEAD "colour blue\nnode 65 0 1000 2000 3 4 0\nend 1\n", 0, NULL, 1},
	{"a parent that was being made", HEAD "node 65 64 1000 2000 3 4 0\nend 1\n", 0, NULL, 1},
	{"cut off in a line", HEAD "node 65 0 1000 2000 3 4 0\nen", -EBADMSG, "it is cut off", 0},
	{"cut off between lines", HEAD "node 65 0 1000 2000 3 4 0\n", -EBADMSG, "it is cut off", 0},
	{"another number of nodes", HEAD "node 65 0 1000 2000 3 4 0\nend 2\n", -EBADMSG,
		"line 3: there are more or fewer", 0},
	{"something behind the end", HEAD "end 0\nend 0\n", -EBADMSG, "line 3: something is behind", 0},
	{"its own parent", HEAD "node 65 65 1000 2000 3 4 0\nend 1\n", -EBADMSG, "line 2: a node out of order", 0},
	{"a parent behind it", HEAD "node 65 66 1 1 1 1 0\nnode 66 0 1 1 1 1 0\nend 2\n", -EBADMSG, "line 2", 0},
	{"twice the same", HEAD "node 65 0 1 1 1 1 0\nnode 65 0 1 1 1 1 0\nend 2\n", -EBADMSG, "line 3", 0},
	{"a negative count", HEAD "node 65 0 1 1 -1 1 0\nend 1\n", -EBADMSG, "without its numbers", 0},
	{"a count past all bounds", HEAD "node 65 0 1 1 9223372036854775808 1 0\nend 1\n", -EBADMSG,
		"without its numbers", 0},
	{"a number past 64 bits", HEAD "node 65 0 10000000000000000 1 1 1 0\nend 1\n", -EBADMSG, "without its numbers",
		0},
	{"too few numbers", HEAD "node 65 0 1 1 1\nend 1\n", -EBADMSG, "without its numbers", 0},
	{"no mapping", HEAD "map hello\nend 0\n", -EBADMSG, "line 2: it is no mapping", 0},
	{"no build-id", HEAD "map 1000-2000 r-xp 0 8:1 5 /a\nid xyz\nend 0\n", -EBADMSG, "line 3: it is no build-id",
		0},
	{"a build-id of nothing", HEAD "id 00\nend 0\n", 0, NULL, 0},
};

START_TEST(a_file)
{
	struct calltree_file *f = NULL;
	struct err e = {0};
	int r = parse(files[_i].text, &f, &e);
	ck_assert_msg(r == files[_i].result, "%s: %d %s", files[_i].scenario, r, e.text);
	if (r < 0)
		ck_assert_msg(strstr(e.text, files[_i].says) != NULL, "%s: %s", files[_i].scenario, e.text);
	else
		ck_assert_uint_eq(f->n_nodes, files[_i].nodes);
	calltree_file_free(r < 0 ? NULL : f);
}
END_TEST

START_TEST(addresses)
{
	static const char text[] =
		HEAD "map 5000-6000 r-xp 00000000 fd:01 5 /c\nmap 1000-3000 r-xp 00001000 fd:01 12 /a\n"
		     "id 0123\nmap 3000-4000 rw-p 0 fd:01 12 /a\n"
		     "gone 2 7000-8000 r-xp 0 fd:01 14 /two\ngone 1 7000-9000 r-xp 0 fd:01 13 /one\n"
		     "end 0\n";
	static const struct {
		uint64_t address;
		uint32_t gone;
		const char *path;
	} rows[] = {
		{0xfff, 0, NULL},
		{0x1000, 0, "/a"},
		{0x2fff, 0, "/a"},
		{0x3000, 0, NULL}, /* data */
		{0x5fff, 0, "/c"},
		{0x6000, 0, NULL},
		{0x7000, 0, NULL}, /* nothing is there now */
		{1ull << 63 | 0x7000, 1, "/one"},
		{1ull << 63 | 0x7000, 2, "/two"},
		{1ull << 63 | 0x7000, 9, "/two"},
		{1ull << 63 | 0x8000, 2, "/one"},
		{1ull << 63 | 0x1000, 2, NULL},
		{UINT64_MAX, UINT32_MAX, NULL},
	};
	struct calltree_file *f;
	struct err e = {0};
	ck_assert_int_eq(parse(text, &f, &e), 0);
	for (size_t i = 0; i < N(rows); i++) {
		uint64_t address = rows[i].address;
		const struct calltree_file_mapping *m = calltree_file_find(f, &address, rows[i].gone);
		ck_assert_msg(m ? rows[i].path && !strcmp(m->path, rows[i].path) : !rows[i].path, "row %zu", i);
	}
	ck_assert_str_eq(f->mappings[0].build_id, "0123");
	calltree_file_free(f);
}
END_TEST

/* --- from files to text -------------------------------------------------------------------------------- */

#define MAP "map 1000-3000 r-xp 00000000 fd:01 12 /nowhere/a\n"
static const struct {
	const char *scenario, *files[2], *expect;
} trees[] = {
	{"nothing", {HEAD "end 0\n"}, "       calls   function\n"},
	{"calls",
		{HEAD "clock none\n" MAP
		      "node 65 0 1010 0 1 0 0\nnode 66 65 1020 0 3 0 0\nnode 67 65 1030 0 5 0 0\nend 3\n"},
		"       calls   function\n"
		"           1   a+0x10\n"
		"           5     a+0x30\n"
		"           3     a+0x20\n"},
	{"times", {HEAD "clock tsc\n" MAP "node 65 0 1010 0 1 1000000 0\nnode 66 65 1020 0 3 2000000 0\nend 2\n"},
		"       calls        total         self  function\n"
		"           1          3ms          1ms  a+0x10\n"
		"           3          2ms          2ms    a+0x20\n"},
	{"two threads, and two processes",
		{HEAD MAP "clock none\nnode 65 0 1010 0 1 0 0\nnode 129 0 1010 0 2 0 0\nend 2\n", HEAD
			"map 7000-8000 r-xp 00000000 fd:01 12 /nowhere/a\nclock none\nnode 65 0 7010 0 4 0 0\nend 1\n"},
		"       calls   function\n"
		"           7   a+0x10\n"},
	{"what there was no room for, and what is nowhere",
		{HEAD "clock none\nunplaced 9\nnode 65 0 1010 0 1 0 0\nnode 66 65 full 0 3 0 0\nend 2\n"},
		"       calls   function\n"
		"           9   [threads without a tree]\n"
		"           1   [unknown]\n"
		"           3     [tree full]\n"},
};

START_TEST(a_tree)
{
	struct calltree_file *list[2];
	struct profile *p;
	struct err e = {0};
	char *text;
	size_t size, n = 0;
	int fds = fd_count();
	for (; n < 2 && trees[_i].files[n]; n++)
		ck_assert_msg(parse(trees[_i].files[n], &list[n], &e) == 0, "%s: %s", trees[_i].scenario, e.text);
	ck_assert_int_eq(calltree_profile(list, n, NULL, false, &p, &e), 0);
	FILE *out = open_memstream(&text, &size);
	ck_assert_int_eq(call_tree_text_write(p, out), 0);
	fclose(out);
	ck_assert_msg(!strcmp(text, trees[_i].expect), "%s:\n%s", trees[_i].scenario, text);
	free(text);
	profile_free(p);
	while (n > 0)
		calltree_file_free(list[--n]);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

/* A path of a hundred thousand: bounded, and its end is what stays. */
START_TEST(a_deep_file)
{
	struct calltree_file *f;
	struct profile *p;
	struct err e = {0};
	char *text;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	fputs(HEAD "clock none\n" MAP, out);
	for (int i = 0; i < 20000; i++)
		fprintf(out, "node %d %d %x 0 1 0 0\n", i + 65, i ? i + 64 : 0, 0x1000 + i % 7);
	fputs("end 20000\n", out);
	fclose(out);
	ck_assert_int_eq(calltree_file_parse(text, size, &f, &e), 0);
	ck_assert_int_eq(calltree_profile(&f, 1, NULL, false, &p, &e), 0);
	ck_assert_int_eq(profile_total(p, 0), 20000);
	profile_free(p);
	calltree_file_free(f);
}
END_TEST

UNIT_SUITE(calltree_file)
{
	Suite *s = suite_create("calltree_file");
	TCase *t = tcase_create("calltree_file");

	tcase_set_timeout(t, 30);
	tcase_add_loop_test(t, a_file, 0, N(files));
	tcase_add_test(t, addresses);
	tcase_add_loop_test(t, a_tree, 0, N(trees));
	tcase_add_test(t, a_deep_file);
	suite_add_tcase(s, t);
	return s;
}
