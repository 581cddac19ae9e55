/* SPDX-License-Identifier: Apache-2.0 */
/* spool_target: what a target's directory is called, and that all of them are found, those of one level and of three.
 */
#include "profiler/spool/spool_target.h"

#include "oci/base/fd.h"
#include "tests/unit/support/few_fds.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define N(a) (sizeof(a) / sizeof((a)[0]))
#define TEN(x) x x x x x x x x x x
#define L63 TEN("abcdef") "abc"
#define L64 TEN("abcdef") "abcd"
#define P170 TEN("abcdefgh.abcdefgh") /* a subdomain */
#define P173 P170 "xyz"

static char dir[] = "/tmp/pillion-targets.XXXXXX";
static int spool, fds;

static void must(const char *command)
{
	char line[1024];
	snprintf(line, sizeof(line), "cd %s && { %s; }", dir, command);
	ck_assert_msg(system(line) == 0, "%s", command);
}

static void setup(void)
{
	fds = fd_count();
	strcpy(dir, "/tmp/pillion-targets.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	spool = fd_open_dir(AT_FDCWD, dir);
}

static void teardown(void)
{
	char line[128];
	snprintf(line, sizeof(line), "chmod -R u+rwx %s; rm -r %s", dir, dir);
	ck_assert_int_eq(system(line), 0);
	spool = fd_close(spool);
	ck_assert_int_eq(fd_count(), fds);
}

/* --- names */

static const struct {
	const char *scenario, *pod_namespace, *pod, *name, *expect;
} names[] = {
	{"a container of Kubernetes", "prod", "shop-7d9f-x2", "main", "prod/shop-7d9f-x2/main"},
	{"a Pod's name is a subdomain", "prod", "etcd.node-1.example", "etcd", "prod/etcd.node-1.example/etcd"},
	{"digits first", "0", "0.0", "1", "0/0.0/1"},
	{"no Pod", "", "", "main", "main"},
	{"a Pod without a namespace", "", "shop-0", "main", "main"},
	{"a namespace without a Pod", "prod", "", "main", "main"},
	{"no name", "prod", "shop-0", "", "8f2e"},
	{"a name that leads out", "prod", "..", "main", "main"},
	{"another", "..", "shop-0", "main", "main"},
	{"a hidden one", ".users", "1000", "main", "main"},
	{"a hidden Pod", "prod", ".push", "main", "main"},
	{"dots at the end", "prod", "shop.", "main", "main"},
	{"two dots", "prod", "a..b", "main", "main"},
	{"a dot in a namespace", "prod.x", "shop-0", "main", "main"},
	{"a dot in a container's", "prod", "shop-0", "main.x", "main.x"},
	{"a '-' at an edge", "prod", "shop.-x", "main", "main"},
	{"a '-' at the other edge", "prod-", "shop-0", "main", "main"},
	{"capitals", "Prod", "shop-0", "main", "main"},
	{"an underscore", "prod", "shop_0", "main", "main"},
	{"a '/'", "prod", "shop-0", "main/x", "main_x"},
	{"a '/' that looks like levels", "", "", "prod/shop-0/main", "prod_shop-0_main"},
	{"not ASCII", "prod", "caf\xc3\xa9", "main", "main"},
	{"a newline", "prod", "shop\n0", "main", "main"},
	{"a namespace as long as one may be", L63, "p", "c", L63 "/p/c"},
	{"one that is longer", L64, "p", "c", "c"},
	{"a container as long as one may be", "n", "p", L63, "n/p/" L63},
	{"one that is longer", "n", "p", L64, L64},
	{"a Pod as long as fits", L63, P170 "xy", L63, L63 "/" P170 "xy/" L63},
	{"one that does not fit with the others", L63, P173, L63, L63},
};

START_TEST(a_target_has_a_directory)
{
	char path[SPOOL_TARGET_MAX + 1];
	spool_target_path("8f2e", names[_i].name, names[_i].pod, names[_i].pod_namespace, path);
	ck_assert_msg(!strcmp(path, names[_i].expect), "%s: %s", names[_i].scenario, path);
	ck_assert_msg(spool_target_is_nested(path) == !!strchr(path, '/'), "%s", names[_i].scenario);
}
END_TEST

static const char *const no_containers[] = {"", "a", "a/b", "a/b/c/d", "a/b/", "/a/b", "a//b", "a/b/c/", "/a/b/c",
	"a/../c", "a/./c", "../b/c", "a/b/..", "a/b/.c", "a/b/c ", "a/b/C"};

START_TEST(other_paths_are_no_containers)
{
	ck_assert_msg(!spool_target_is_nested(no_containers[_i]), "%s", no_containers[_i]);
}
END_TEST

START_TEST(a_long_name_is_cut)
{
	char path[SPOOL_TARGET_MAX + 1], name[400];
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	spool_target_path("8f2e", name, "", "", path);
	ck_assert_uint_eq(strlen(path), SPOOL_NAME_MAX);
	spool_target_path("8f2e", name, name, name, path);
	ck_assert_uint_eq(strlen(path), SPOOL_NAME_MAX);
}
END_TEST

/* --- opening */

static const struct {
	const char *path;
	int result; /* 0: it is opened */
} opened[] = {
	{"web", 0},
	{"prod/shop-0/main", 0},
	{"prod", 0},
	{"prod/shop-0", -ENOENT},
	{"prod/shop-0/db", -ENOENT},
	{"prod/shop-1/main", -ENOENT}, /* each level may be a link: its Pod's ... */
	{"prod/shop-0/linked", -ENOENT},
	{"linked/shop-0/main", -ENOENT},
	{"linked", -ENOENT},
	{"prod/../web", -ENOENT},
	{"prod/../../etc", -ENOENT},
	{"..", -ENOENT},
	{".users", -ENOENT},
	{".users/1000/web", -ENOENT},
	{"", -ENOENT},
	{"/etc", -ENOENT},
	{"file", -ENOENT},
};

START_TEST(no_link_is_followed_and_no_name_leads_out)
{
	must("mkdir -p web prod/shop-0/main .users/1000/web && ln -s shop-0 prod/shop-1 && ln -s main "
	     "prod/shop-0/linked && "
	     "ln -s prod linked && echo x >file");
	const int r = spool_target_open(spool, opened[_i].path);
	ck_assert_msg((r < 0 ? r : 0) == opened[_i].result, "%s: %d", opened[_i].path, r);
	fd_close(r);
}
END_TEST

/* --- all of them */

struct walked {
	char text[2048];  /* "web prod/shop-0/main " in order */
	const char *leaf; /* has no directories */
	const char *stop;
};

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int note(void *arg, int target, const char *path)
{
	struct walked *w = arg;
	const size_t at = strlen(w->text);
	struct stat st;
	ck_assert(target < 0 || (fstat(target, &st) == 0 && S_ISDIR(st.st_mode)));
	snprintf(w->text + at, sizeof(w->text) - at, "%s%s ", path, target < 0 ? "!" : "");
	if (w->stop && !strcmp(w->stop, path))
		return -ECANCELED;
	return w->leaf && !strcmp(w->leaf, path) ? SPOOL_NO_DIRECTORIES : 0;
}

static void walk_is(struct walked w, int result, const char *expect)
{
	char *words[32], sorted[2048] = "", *rest = w.text, *word;
	size_t n = 0;
	ck_assert_int_eq(spool_each_target(spool, note, &w), result);
	while ((word = strsep(&rest, " ")))
		if (*word)
			words[n++] = word;
	qsort(words, n, sizeof(*words), by_text);
	for (size_t i = 0; i < n; i++)
		strcat(strcat(sorted, i ? " " : ""), words[i]);
	ck_assert_str_eq(sorted, expect);
}

START_TEST(targets_of_one_level_and_of_three_are_found)
{
	walk_is((struct walked){0}, 0, "");
	must("mkdir -p web prod/shop-0/main prod/shop-0/db prod/shop-1/main test/shop-0/main My_App/x/y "
	     ".users/1000/web .push "
	     "prod/.hidden/main prod/shop-0/.hidden prod/Shop/main "
	     "prod/shop-0/Main crashes && echo x >index.jsonl && echo x >prod/file "
	     "&& "
	     "ln -s web linked && ln -s ../test prod/linked && ln -s main prod/shop-0/linked && mkdir "
	     "prod/shop-0/main/below");
	const char *all =
		"My_App crashes prod prod/shop-0/db prod/shop-0/main prod/shop-1/main test test/shop-0/main web";
	walk_is((struct walked){0}, 0, all);
	walk_is((struct walked){.leaf = "prod"}, 0, "My_App crashes prod test test/shop-0/main web");
	struct walked stopped = {.stop = "prod"};
	ck_assert_int_eq(spool_each_target(spool, note, &stopped), -ECANCELED);
	ck_assert_ptr_null(strstr(stopped.text, "prod/"));
}
END_TEST

START_TEST(a_path_that_is_too_long_is_no_target)
{
	must("mkdir -p " L63 "/" P170 "xy/" L63 " " L63 "/" P173 "/" L63);
	walk_is((struct walked){0}, 0, L63 " " L63 "/" P170 "xy/" L63);
}
END_TEST

START_TEST(what_cannot_be_opened_is_told)
{
	must("mkdir -p web prod/shop-0/main prod/shop-1/main test/shop-0/main && chmod 0 web prod/shop-1 "
	     "test/shop-0/main");
	if (geteuid() == 0 && (setegid(64999) < 0 || chown(dir, 64999, 64999) < 0))
		ck_abort_msg("another user");
	if (geteuid() == 0)
		must("chown -R 64999 .");
	const uid_t was = geteuid();
	ck_assert(was || seteuid(64999) == 0);
	walk_is((struct walked){0}, 0, "prod prod/shop-0/main prod/shop-1! test test/shop-0/main! web!");
	ck_assert(was || (seteuid(0) == 0 && setegid(0) == 0));
}
END_TEST

/* The spool's, a namespace's, its Pod's: what is below is not known then. */
START_TEST(what_cannot_be_listed_is_told)
{
	/* a level takes two, the directory and that it is listed by; the spool's directory is there */
	static const struct {
		unsigned fds;
		const char *text;
	} expect[] = {
		{1, "prod!"},
		{2, "prod prod!"},
		{3, "prod prod/shop-0!"},
		{4, "prod prod/shop-0!"},
		{5, "prod prod/shop-0/main!"},
		{6, "prod prod/shop-0/main"},
	};
	must("mkdir -p prod/shop-0/main");
	for (size_t i = 0; i < N(expect); i++) {
		struct few_fds few = few_fds_begin(expect[i].fds);
		walk_is((struct walked){0}, 0, expect[i].text);
		few_fds_end(&few);
	}
	struct few_fds none = few_fds_begin(0);
	walk_is((struct walked){0}, -EMFILE, "");
	few_fds_end(&none);
}
END_TEST

UNIT_SUITE(spool_target)
{
	Suite *s = suite_create("spool_target");
	TCase *t = tcase_create("all");
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_loop_test(t, a_target_has_a_directory, 0, N(names));
	tcase_add_loop_test(t, other_paths_are_no_containers, 0, N(no_containers));
	tcase_add_test(t, a_long_name_is_cut);
	tcase_add_loop_test(t, no_link_is_followed_and_no_name_leads_out, 0, N(opened));
	tcase_add_test(t, targets_of_one_level_and_of_three_are_found);
	tcase_add_test(t, a_path_that_is_too_long_is_no_target);
	tcase_add_test(t, what_cannot_be_opened_is_told);
	tcase_add_test(t, what_cannot_be_listed_is_told);
	suite_add_tcase(s, t);
	return s;
}
