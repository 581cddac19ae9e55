/* SPDX-License-Identifier: Apache-2.0 */
/* windows: what a reader sees of a spool, and that no name leads out of it. */
#include "profiler/spool/spool_query.h"

#include "oci/base/fd.h"
#include "profiler/pprof/pprof.h"
#include "tests/unit/support/few_fds.h"
#include "tests/unit/support/no_memory.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[] = "/tmp/pillion-windows.XXXXXX";
static int spool, fds;

static void must(const char *command)
{
	char line[512];
	snprintf(line, sizeof(line), "cd %s && { %s; }", dir, command);
	ck_assert_msg(system(line) == 0, "%s", command);
}

static void write_window(const char *path, const char *type, int64_t value)
{
	const struct profile_info info = {
		.time_ns = 1, .duration_ns = 5, .n_types = 1, .types = (struct profile_type[]){{type, "count"}}};
	const struct profile_function f = {.name = "main"};
	struct profile *p;
	uint8_t *data;
	size_t len;
	ck_assert_int_eq(profile_new(&info, &p), 0);
	const struct profile_line line = {(uint32_t)profile_function(p, &f), 0};
	const uint32_t location = (uint32_t)profile_location(p, PROFILE_NONE, 0, &line, 1);
	ck_assert_int_eq(profile_sample(p, &location, 1, &value, NULL, 0), 0);
	ck_assert_int_eq(pprof_write(p, &data, &len), 0);
	int fd = fd_open(spool, path, O_WRONLY | O_CREAT | O_EXCL, 0600);
	ck_assert_int_eq(fd_write_all(fd, data, len), 0);
	fd_close(fd);
	free(data);
	profile_free(p);
}

static void setup(void)
{
	fds = fd_count();
	strcpy(dir, "/tmp/pillion-windows.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	spool = fd_open_dir(AT_FDCWD, dir);
	must("mkdir web empty .hidden && ln -s web linked && echo x >index.jsonl && echo secret >secret");
	write_window("web/20260101T000000Z-000000-cpu.pb.gz", "samples", 3);
	write_window("web/20260101T000100Z-000001-cpu.pb.gz", "samples", 4);
	write_window("web/20260101T000100Z-000001-offcpu.pb.gz", "samples", 50);
	write_window("web/20260101T000200Z-000002-cpu.pb.gz", "samples", 5);
	must("cp web/*000000-cpu.pb.gz .hidden/ && cd web && ln -s ../secret 20260101T000300Z-000003-cpu.pb.gz && echo "
	     "x >notes");
}

static void teardown(void)
{
	char line[64];
	snprintf(line, sizeof(line), "rm -r %s", dir);
	ck_assert_int_eq(system(line), 0);
	spool = fd_close(spool);
	ck_assert_int_eq(fd_count(), fds);
}

static struct spool_listing list_web(void)
{
	struct spool_listing w;
	ck_assert_int_eq(spool_query_list(spool, "web", &w), 0);
	return w;
}

START_TEST(targets_are_directories_with_windows)
{
	char **names;
	size_t n;
	ck_assert_int_eq(spool_query_targets(spool, &names, &n), 0);
	ck_assert_uint_eq(n, 1);
	ck_assert_str_eq(names[0], "web");
	spool_query_targets_done(names);
}
END_TEST

START_TEST(containers_of_kubernetes_are_targets_beside_others)
{
	static const char *const expect[] = {"prod", "prod/shop-0/main", "prod/shop-1/main", "web"};
	char **names;
	size_t n;
	struct spool_listing w;
	must("mkdir -p prod/shop-0/main prod/shop-1/main prod/shop-2/main && for i in 0 1; do cp web/*000000-cpu.pb.gz "
	     "prod/shop-$i/main; done && cp web/*000002-cpu.pb.gz prod");
	ck_assert_int_eq(spool_query_targets(spool, &names, &n), 0);
	ck_assert_uint_eq(n, sizeof(expect) / sizeof(expect[0]));
	for (size_t i = 0; i < n; i++)
		ck_assert_str_eq(names[i], expect[i]);
	ck_assert_ptr_null(names[n]);
	spool_query_targets_done(names);
	ck_assert_int_eq(spool_query_list(spool, "prod/shop-1/main", &w), 0);
	ck_assert_uint_eq(w.n, 1);
	fd_close(spool_query_open(&w, "20260101T000000Z-000000-cpu.pb.gz"));
	spool_query_done(&w);
	ck_assert_int_eq(spool_query_list(spool, "prod", &w), 0);
	ck_assert_uint_eq(w.n, 1);
	spool_query_done(&w);
}
END_TEST

START_TEST(many_targets_are_in_order)
{
	char **names, name[16];
	size_t n;
	must("for i in $(seq -w 100); do mkdir t$i && cp web/*000000-cpu.pb.gz t$i; done");
	ck_assert_int_eq(spool_query_targets(spool, &names, &n), 0);
	ck_assert_uint_eq(n, 101);
	for (unsigned i = 1; i <= 100; i++) {
		snprintf(name, sizeof(name), "t%03u", i);
		ck_assert_str_eq(names[i - 1], name);
	}
	spool_query_targets_done(names);
}
END_TEST

#define LONG_NAME 100
#define LONG_NAMES 16 /* beside "web" */
/* What all names take at least, and the two lists: for 16 names at first, then for 32. */
#define LISTED_BYTES (LONG_NAMES * (LONG_NAME + 1) + sizeof("web") + (16 + 32) * sizeof(char *))

static void list_with_memory(const void *left)
{
	const size_t bytes = *(const size_t *)left;
	char **names;
	size_t n;
	take_small_memory(bytes);
	int r = spool_query_targets(spool, &names, &n);
	MUST(r == (bytes < LISTED_BYTES ? -ENOMEM : 0));
	MUST(r < 0 || n == LONG_NAMES + 1);
}

START_TEST(without_memory_no_target_is_left_out)
{
	const size_t enough = 4 * LISTED_BYTES;
	char command[256], **names;
	size_t n;
	snprintf(command, sizeof(command),
		"for i in $(seq %d); do d=$(printf %%0%dd $i) && mkdir $d && cp web/*000000-cpu.pb.gz $d; done",
		LONG_NAMES, LONG_NAME);
	must(command);
	ck_assert_int_eq(spool_query_targets(spool, &names, &n), 0); /* what libc makes once is there now */
	ck_assert_uint_eq(n, LONG_NAMES + 1);
	spool_query_targets_done(names);
	for (size_t left = 0; left < LISTED_BYTES && memory_can_end(); left += 100)
		ck_assert_msg(in_child(list_with_memory, &left) == 0, "with %zu bytes", left);
	if (memory_can_end())
		ck_assert_int_eq(in_child(list_with_memory, &enough), 0);
}
END_TEST

START_TEST(without_descriptors_no_target_is_left_out)
{
	char **names;
	size_t n;
	unsigned refused = 0;
	must("mkdir -p prod/shop-1/main && cp web/*000000-cpu.pb.gz prod/shop-1/main");
	for (unsigned left = 0; left < 10; left++) {
		struct few_fds few = few_fds_begin(left);
		const int r = spool_query_targets(spool, &names, &n);
		few_fds_end(&few);
		ck_assert_msg(r == 0 || r == -EMFILE, "%u descriptors: %d", left, r);
		refused += r < 0;
		if (r < 0)
			continue;
		ck_assert_msg(n == 2, "%u descriptors: %zu targets", left, n);
		spool_query_targets_done(names);
	}
	ck_assert(refused > 0 && refused < 10);
}
END_TEST

START_TEST(no_name_leads_out)
{
	static const char *const names[] = {"", ".", "..", "../etc", "web/../web", "web/", "/etc", "linked", ".hidden",
		"index.jsonl", "nobody", "web/../web/x", "web/x/y", "linked/x/y", ".hidden/x/y"};
	struct spool_listing w;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		ck_assert_msg(spool_query_list(spool, names[i], &w) == -ENOENT, "%s", names[i]);
	must("mkdir web/20260101T000400Z-000004-cpu.pb.gz && mkfifo web/20260101T000500Z-000005-cpu.pb.gz");
	w = list_web();
	static const char *const files[] = {"", "..", "../secret", "notes", "20260101T000300Z-000003-cpu.pb.gz",
		"20260101T000400Z-000004-cpu.pb.gz", "20260101T000500Z-000005-cpu.pb.gz"};
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		ck_assert_msg(spool_query_open(&w, files[i]) == -ENOENT, "%s", files[i]);
	spool_query_done(&w);
}
END_TEST

START_TEST(windows_are_in_order_and_know_their_event)
{
	struct spool_listing w = list_web();
	ck_assert_uint_eq(w.n, 5);
	ck_assert_str_eq(w.files[2].event, "offcpu");
	ck_assert_int_eq(w.files[1].start_s - w.files[0].start_s, 60);
	ck_assert_str_eq(spool_query_last(&w, "offcpu")->name, "20260101T000100Z-000001-offcpu.pb.gz");
	ck_assert_ptr_null(spool_query_last(&w, "wall"));
	spool_query_done(&w);
}
END_TEST

static int64_t sum_of(const struct spool_listing *w, int64_t from, int64_t to, size_t *ret_comments, struct err *e)
{
	const int64_t first = w->files[0].start_s;
	const struct spool_query_range range = {"cpu", first + from, first + to};
	struct profile *p;
	size_t n;
	int r = spool_query_load(w, &range, &p, &n, e);
	if (r < 0)
		return r;
	int64_t sum = profile_total(p, 0);
	*ret_comments = profile_comments(p);
	profile_free(p);
	return sum;
}

START_TEST(a_range_includes_both_ends)
{
	struct spool_listing w = list_web();
	struct err e = {0};
	size_t comments;
	ck_assert_int_eq(sum_of(&w, 0, 60, &comments, &e), 7);
	ck_assert_int_eq(sum_of(&w, 1, 120, &comments, &e), 9);
	ck_assert_uint_eq(comments, 0);
	ck_assert_int_eq(sum_of(&w, 1, 59, &comments, &e), -ENOENT);
	ck_assert_str_eq(e.text, "there is no window of cpu in this range");
	spool_query_done(&w);
}
END_TEST

START_TEST(what_cannot_be_read_is_named)
{
	must("echo junk >web/20260101T000130Z-000007-cpu.pb.gz");
	struct spool_listing w = list_web();
	struct err e = {0};
	size_t comments;
	ck_assert_int_eq(sum_of(&w, 0, 120, &comments, &e), 12);
	ck_assert_uint_eq(comments, 1);
	ck_assert_int_eq(sum_of(&w, 80, 100, &comments, &e), -EBADMSG);
	ck_assert_msg(strstr(e.text, "20260101T000130Z-000007-cpu.pb.gz: "), "%s", e.text);
	spool_query_done(&w);
}
END_TEST

START_TEST(what_has_gone_was_none)
{
	struct spool_listing w = list_web();
	struct err e = {0};
	size_t comments;
	must("rm web/*000001-cpu.pb.gz");
	ck_assert_int_eq(sum_of(&w, 0, 120, &comments, &e), 8);
	ck_assert_uint_eq(comments, 0);
	spool_query_done(&w);
}
END_TEST

UNIT_SUITE(spool_query)
{
	Suite *s = suite_create("spool_query");
	TCase *c = tcase_create("spool_query");
	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c, targets_are_directories_with_windows);
	tcase_add_test(c, containers_of_kubernetes_are_targets_beside_others);
	tcase_add_test(c, many_targets_are_in_order);
	tcase_add_test(c, without_memory_no_target_is_left_out);
	tcase_add_test(c, without_descriptors_no_target_is_left_out);
	tcase_add_test(c, no_name_leads_out);
	tcase_add_test(c, windows_are_in_order_and_know_their_event);
	tcase_add_test(c, a_range_includes_both_ends);
	tcase_add_test(c, what_cannot_be_read_is_named);
	tcase_add_test(c, what_has_gone_was_none);
	suite_add_tcase(s, c);
	return s;
}
