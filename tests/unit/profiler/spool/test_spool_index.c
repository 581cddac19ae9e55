/* SPDX-License-Identifier: Apache-2.0 */
/* index: one line for each profile that is in the spool, whatever became of index and spool meanwhile. */
#include "profiler/spool/spool_index.h"

#include "oci/base/clock.h"
#include "oci/base/clock_driven.h"
#include "oci/base/fd.h"
#include "oci/base/json/json_parse.h"
#include "tests/unit/support/child.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <fcntl.h>
#include <stdlib.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))

static char dir[64];
static int fds;
static struct spool *spool;

static void must(const char *command)
{
	char line[1024];
	snprintf(line, sizeof(line), "cd %s && { %s; }", dir, command);
	ck_assert_msg(system(line) == 0, "%s", command);
}

static struct spool *open_spool(void)
{
	struct spool *s = NULL;
	struct err e = {0};
	ck_assert_msg(spool_open_take(fd_open_dir(AT_FDCWD, dir), 0, 0, &s, &e) == 0, "%s", e.text);
	return s;
}

static void setup(void)
{
	fds = fd_count();
	snprintf(dir, sizeof(dir), "/tmp/test_index.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	spool = open_spool();
}

static void teardown(void)
{
	char command[96];
	spool = spool_close(spool);
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	ck_assert_int_eq(system(command), 0);
	ck_assert_int_eq(fd_count(), fds);
}

static struct export_profile profile(unsigned seq)
{
	struct export_profile p = {
		.bytes = 3, .samples = 7, .start_ns = 1767225600123456789, .duration_ns = 5, .seq = seq};
	strcpy(p.event, "cpu");
	strcpy(p.id, "8f2e");
	strcpy(p.name, "web");
	return p;
}

/* Into the spool; its path. */
static const char *write_file(struct spool *s, unsigned seq)
{
	static char path[128];
	struct export_profile p = profile(seq);
	ck_assert_int_eq(
		spool_write(s, p.name, p.start_ns, seq, p.event, &seq, sizeof(seq), path, sizeof(path), NULL), 0);
	return path;
}

static void put(unsigned seq)
{
	struct export_profile p = profile(seq);
	const char *path = write_file(spool, seq);
	ck_assert_int_eq(spool_index_append(spool_dir(spool), &p, path, 4), 0);
}

static size_t matched(void)
{
	size_t n = 999;
	ck_assert_int_eq(spool_index_match(spool, &n), 0);
	return n;
}

/* The whole file; each line is an object. Lines: *ret_n. */
static char *read_index(size_t *ret_n)
{
	char path[96], *text;
	size_t len, n = 0;
	snprintf(path, sizeof(path), "%s/" SPOOL_INDEX_FILE, dir);
	fd_auto fd = fd_open(AT_FDCWD, path, O_RDONLY, 0);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(fd_slurp(fd, 16 << 20, &text, &len), 0);
	for (char *at = text; *at; n++) {
		char *newline = strchr(at, '\n');
		struct json *o;
		ck_assert_ptr_nonnull(newline);
		ck_assert_msg(json_parse(at, (size_t)(newline - at), &o, NULL) == 0, "%.*s",
			(int)(newline - at < 300 ? newline - at : 300), at);
		ck_assert_ptr_nonnull(json_text(json_member(o, "file"), NULL));
		json_free(o);
		at = newline + 1;
	}
	*ret_n = n;
	return text;
}

static void has(size_t lines, const char *text, const char * not )
{
	size_t n;
	char *all = read_index(&n);
	ck_assert_msg(n == lines, "%zu lines: %.800s", n, all);
	ck_assert_msg(!text || strstr(all, text), "no \"%s\": %.800s", text, all);
	ck_assert_msg(!not || !strstr(all, not ), "\"%s\": %.800s", not, all);
	free(all);
}

#define WEB(seq) "web/20260101T000000Z-00000" #seq "-cpu.pb.gz"

START_TEST(a_line_says_all_that_is_known)
{
	struct stat st;
	put(1);
	has(1,
		"{\"file\":\"" WEB(
			1) "\",\"id\":\"8f2e\",\"name\":\"web\",\"pod\":\"\",\"namespace\":\"\",\"event\":\"cpu\","
			   "\"seq\":1,\"start_ns\":1767225600123456789,\"duration_ns\":5,\"samples\":7,\"bytes\":4}\n",
		NULL);
	ck_assert(fstatat(spool_dir(spool), SPOOL_INDEX_FILE, &st, 0) == 0 && (st.st_mode & 0777) == 0640);
}
END_TEST

START_TEST(an_empty_spool_stays_empty)
{
	struct stat st;
	ck_assert_uint_eq(matched(), 0);
	ck_assert_int_lt(fstatat(spool_dir(spool), SPOOL_INDEX_FILE, &st, 0), 0);
}
END_TEST

START_TEST(what_matches_is_not_written)
{
	struct stat before, after;
	put(1);
	put(2);
	ck_assert_int_eq(fstatat(spool_dir(spool), SPOOL_INDEX_FILE, &before, 0), 0);
	ck_assert_uint_eq(matched(), 2);
	ck_assert_int_eq(fstatat(spool_dir(spool), SPOOL_INDEX_FILE, &after, 0), 0);
	ck_assert(before.st_ino == after.st_ino && before.st_mtim.tv_nsec == after.st_mtim.tv_nsec);
}
END_TEST

static const struct {
	const char *scenario, *command;
	size_t lines;
	const char *text, *not ; /* then */
} damages[] = {
	{"it is gone", "rm index.jsonl", 3, "\"file\":\"" WEB(1) "\",\"id\":null", "8f2e"},
	{"a file is gone", "rm " WEB(2), 2, WEB(1), WEB(2)},
	{"the last line was cut", "truncate -s -20 index.jsonl", 3, "\"file\":\"" WEB(3) "\",\"id\":null", NULL},
	{"cut, and one behind it", "truncate -s -20 index.jsonl; echo '{\"file\":\"x/y\"}' >>index.jsonl", 3, WEB(3),
		"x/y"},
	{"a line twice", "head -n 1 index.jsonl >>index.jsonl", 3, WEB(1), NULL},
	{"a poorer line before it", "sed -i '1i {\"file\":\"" WEB(2) "\",\"id\":null}' index.jsonl", 3,
		WEB(2) "\",\"id\":\"8f2e\"", "null"},
	{"no JSON", "head -c 5000 /dev/urandom | tr -d '\\n' >>index.jsonl", 3, WEB(1), NULL},
	{"zeros", "head -c 5000 /dev/zero >>index.jsonl; echo >>index.jsonl", 3, WEB(1), NULL},
	{"a path that leads out", "echo '{\"file\":\"../../etc/passwd\"}' >>index.jsonl", 3, WEB(1), "passwd"},
	{"an absolute path", "echo '{\"file\":\"/etc/passwd\"}' >>index.jsonl", 3, WEB(1), "passwd"},
	{"a path with an escape", "echo '{\"file\":\"web\\/x\"}' >>index.jsonl", 3, WEB(1), "x\""},
	{"a path without end", "echo '{\"file\":\"web' >>index.jsonl", 3, WEB(1), "\"web\n"},
	{"a directory", "mkdir d; echo '{\"file\":\"d\"}' >>index.jsonl", 3, WEB(1), "\"d\""},
	{"empty lines", "echo >>index.jsonl; echo >>index.jsonl", 3, WEB(1), NULL},
	{"more than anybody reads", "yes '{\"file\":\"a/b\"}' | head -c 68000000 >>index.jsonl", 3, "null", "a/b"},
	{"another's file",
		"mkdir db; echo >db/20260101T000000Z-000001-cpu.pb.gz; "
		"echo '{\"file\":\"db/20260101T000000Z-000001-cpu.pb.gz\",\"id\":\"x\"}' >>index.jsonl",
		4, "db/20260101T000000Z-000001-cpu.pb.gz\",\"id\":\"x\"", NULL},
};

START_TEST(it_is_made_right)
{
	for (unsigned i = 1; i <= 3; i++)
		put(i);
	must(damages[_i].command);
	size_t n = matched();
	ck_assert_msg(n == damages[_i].lines, "%s: %zu", damages[_i].scenario, n);
	has(damages[_i].lines, damages[_i].text, damages[_i].not );
	must("! ls -A | grep writing");
}
END_TEST

START_TEST(what_came_without_a_word_is_known_by_its_name)
{
	write_file(spool, 4);
	ck_assert_uint_eq(matched(), 1);
	has(1,
		"{\"file\":\"" WEB(
			4) "\",\"id\":null,\"name\":null,\"pod\":null,\"namespace\":null,\"event\":\"cpu\",\"seq\":4,"
			   "\"start_ns\":1767225600000000000,\"duration_ns\":null,\"samples\":null,\"bytes\":4}\n",
		NULL);
}
END_TEST

START_TEST(somebody_who_holds_the_lock_and_is_stopped)
{
	put(1);
	fd_auto fd = fd_open(spool_dir(spool), SPOOL_INDEX_FILE, O_RDONLY, 0);
	ck_assert_int_eq(flock(fd, LOCK_EX), 0);
	struct clock_driven leaping = {.leaps = true};
	clock_drive(&leaping);
	int64_t start = clock_now();
	put(2);
	ck_assert_int_eq(clock_now() - start, 100 * NSEC_PER_MSEC);
	clock_drive(NULL);
	has(2, WEB(2), NULL);
}
END_TEST

/* A wait for the lock has no end then, however long the other one takes. */
static void stop_clock(void)
{
	static struct clock_driven still;
	clock_drive(&still);
}

static void append_one(const void *arg)
{
	struct export_profile p = profile(2);
	MUST(spool_index_append(spool_dir(spool), &p, WEB(2), 4) == 0);
}

START_TEST(one_that_waits_while_it_is_replaced)
{
	int status;
	put(1);
	fd_auto fd = fd_open(spool_dir(spool), SPOOL_INDEX_FILE, O_RDONLY, 0);
	ck_assert_int_eq(flock(fd, LOCK_EX), 0);
	pid_t pid = fork();
	if (pid == 0) {
		stop_clock();
		append_one(NULL);
		_exit(0);
	}
	usleep(20000); /* it waits for us */
	must("cp index.jsonl other && mv other index.jsonl");
	ck_assert_int_eq(flock(fd, LOCK_UN), 0);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	has(2, WEB(2), NULL);
}
END_TEST

START_TEST(a_disk_that_is_full)
{
	struct export_profile p = profile(2);
	struct stat before, after;
	put(1);
	ck_assert_int_eq(fstatat(spool_dir(spool), SPOOL_INDEX_FILE, &before, 0), 0);
	signal(SIGXFSZ, SIG_IGN);
	struct rlimit l = {(rlim_t)before.st_size + 50, RLIM_INFINITY}; /* a part of a line, as of a full disk */
	setrlimit(RLIMIT_FSIZE, &l);					/* of the library's own file as well */
	int r = spool_index_append(spool_dir(spool), &p, WEB(2), 4);
	l.rlim_cur = RLIM_INFINITY;
	setrlimit(RLIMIT_FSIZE, &l);
	ck_assert_int_lt(r, 0);
	ck_assert_int_eq(fstatat(spool_dir(spool), SPOOL_INDEX_FILE, &after, 0), 0);
	ck_assert_int_eq(before.st_size, after.st_size);
	has(1, WEB(1), NULL);
}
END_TEST

#define WRITERS 3
#define EACH 150

static void write_many(const void *arg)
{
	struct export_profile p = profile(0);
	struct spool *s = open_spool();
	snprintf(p.name, sizeof(p.name), "w%d", *(const int *)arg);
	for (unsigned i = 0; i < EACH; i++) {
		char path[128];
		MUST(spool_write(s, p.name, p.start_ns, i, "cpu", &i, sizeof(i), path, sizeof(path), NULL) == 0);
		MUST(spool_index_append(spool_dir(s), &p, path, 4) == 0);
		if (i % 10 == 0)
			MUST(spool_index_match(s, NULL) == 0);
	}
	spool_close(s);
}

START_TEST(several_write_and_rewrite_at_once)
{
	pid_t pids[WRITERS];
	size_t n;
	for (int i = 0; i < WRITERS; i++)
		if ((pids[i] = fork()) == 0) {
			stop_clock();
			write_many(&i);
			_exit(0);
		}
	for (int i = 0; i < WRITERS; i++) {
		int status;
		ck_assert_int_eq(waitpid(pids[i], &status, 0), pids[i]);
		ck_assert_int_eq(status, 0);
	}
	char *all = read_index(&n);
	ck_assert_uint_eq(n, WRITERS * EACH);
	ck_assert_ptr_null(strstr(all, "null")); /* none was lost and made again */
	free(all);
}
END_TEST

UNIT_SUITE(spool_index)
{
	Suite *s = suite_create("spool_index");
	TCase *t = tcase_create("spool_index");

	tcase_set_timeout(t, 60);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, a_line_says_all_that_is_known);
	tcase_add_test(t, an_empty_spool_stays_empty);
	tcase_add_test(t, what_matches_is_not_written);
	tcase_add_loop_test(t, it_is_made_right, 0, LENGTH(damages));
	tcase_add_test(t, what_came_without_a_word_is_known_by_its_name);
	tcase_add_test(t, somebody_who_holds_the_lock_and_is_stopped);
	tcase_add_test(t, one_that_waits_while_it_is_replaced);
	tcase_add_test(t, a_disk_that_is_full);
	tcase_add_test(t, several_write_and_rewrite_at_once);
	suite_add_tcase(s, t);
	return s;
}
