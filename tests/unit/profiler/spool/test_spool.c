/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/spool/spool.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define N(a) (sizeof(a) / sizeof((a)[0]))
#define DAY (86400 * NSEC_PER_SEC)
#define BLOCK 4096u

static char top[] = "/tmp/test_spool.XXXXXX";
static int fds;

static void setup(void)
{
	fds = fd_count();
	ck_assert_ptr_nonnull(mkdtemp(strcpy(top, "/tmp/test_spool.XXXXXX")));
}

static void teardown(void)
{
	char command[64];
	snprintf(command, sizeof(command), "rm -rf %s", top);
	ck_assert_int_eq(system(command), 0);
	ck_assert_int_eq(fd_count(), fds);
}

static struct spool *open_spool(uint64_t cap_bytes, uint32_t cap_age_s)
{
	struct spool *s = NULL;
	struct err e = {0};
	int r = spool_open_take(fd_open_dir(AT_FDCWD, top), cap_bytes, cap_age_s, &s, &e);
	ck_assert_msg(r == 0, "%s", e.text);
	return s;
}

static void write_ok(struct spool *s, const char *target, int64_t start_ns, unsigned seq, size_t len)
{
	static const char data[1 << 20];
	struct err e = {0};
	ck_assert_msg(spool_write(s, target, start_ns, seq, "cpu", data, len, NULL, 0, &e) == 0, "%s", e.text);
}

/* Files below the spool; those that a reader would see, or all. */
static size_t count_files(bool hidden_too)
{
	char command[128], answer[32];
	snprintf(command, sizeof(command), "find %s -type f %s | wc -l", top, hidden_too ? "" : "-name '[!.]*'");
	FILE *f = popen(command, "re");
	ck_assert_ptr_nonnull(fgets(answer, sizeof(answer), f));
	pclose(f);
	return (size_t)atol(answer);
}

static bool exists(const char *path)
{
	char full[256];
	snprintf(full, sizeof(full), "%s/%s", top, path);
	return access(full, F_OK) == 0;
}

static const struct {
	const char *scenario, *target, *kind, *expect;
	int64_t start_ns;
} names[] = {
	{"a plain name", "shop", "cpu", "shop/20231114T221320Z-000007-cpu.pb.gz", 1700000000 * NSEC_PER_SEC},
	{"a path", "../../etc/passwd", "cpu", "_._.._etc_passwd/20231114T221320Z-000007-cpu.pb.gz",
		1700000000 * NSEC_PER_SEC},
	{"the directory above", "..", "cpu", "_./20231114T221320Z-000007-cpu.pb.gz", 1700000000 * NSEC_PER_SEC},
	{"nothing", "", "", "_/20231114T221320Z-000007-_.pb.gz", 1700000000 * NSEC_PER_SEC},
	{"a kind with a slash", "shop", "a/b", "shop/20231114T221320Z-000007-a_b.pb.gz", 1700000000 * NSEC_PER_SEC},
	{"spaces and newlines", "a b\nc", "cpu", "a_b_c/20231114T221320Z-000007-cpu.pb.gz", 1700000000 * NSEC_PER_SEC},
	{"not ASCII", "caf\xc3\xa9", "cpu", "caf__/20231114T221320Z-000007-cpu.pb.gz", 1700000000 * NSEC_PER_SEC},
	{"a container of Kubernetes", "prod/shop-0/main", "cpu", "prod/shop-0/main/20231114T221320Z-000007-cpu.pb.gz",
		1700000000 * NSEC_PER_SEC},
	{"what is none", "prod/../main", "cpu", "prod_.._main/20231114T221320Z-000007-cpu.pb.gz",
		1700000000 * NSEC_PER_SEC},
	{"before the epoch", "shop", "cpu", "shop/19700101T000000Z-000007-cpu.pb.gz", -5 * NSEC_PER_SEC},
};

START_TEST(test_names)
{
	struct spool *s = open_spool(0, 0);
	char path[256];
	struct err e = {0};
	mode_t old = umask(077);
	ck_assert_int_eq(
		spool_write(s, names[_i].target, names[_i].start_ns, 7, names[_i].kind, "x", 1, path, sizeof(path), &e),
		0);
	umask(old);
	ck_assert_msg(!strcmp(path, names[_i].expect), "%s: %s", names[_i].scenario, path);
	struct stat st;
	char full[400];
	snprintf(full, sizeof(full), "%s/%s", top, path);
	ck_assert_msg(stat(full, &st) == 0 && st.st_size == 1, "%s: %s", names[_i].scenario, full);
	ck_assert_uint_eq(st.st_mode & 07777, 0640);
	ck_assert_uint_eq(count_files(true), 1);
	spool_close(s);
}
END_TEST

/* lost+found, where the spool is a file system of its own. */
START_TEST(test_a_directory_of_others_is_passed_over)
{
	char path[96];
	snprintf(path, sizeof(path), "%s/lost+found", top);
	ck_assert_int_eq(mkdir(path, 0700), 0);
	if (chown(top, 65534, 65534) < 0 || seteuid(65534) < 0) {
		fputs("skipped: to become another user needs root\n", stderr);
		return;
	}
	struct spool *s = open_spool(0, 0);
	write_ok(s, "web", 0, 0, 10);
	spool_close(s);
	ck_assert_int_eq(seteuid(0), 0);
	ck_assert_uint_eq(count_files(false), 1);
}
END_TEST

START_TEST(test_a_long_name_is_cut)
{
	struct spool *s = open_spool(0, 0);
	char target[4000], path[256];
	memset(target, 'x', sizeof(target) - 1);
	target[sizeof(target) - 1] = 0;
	ck_assert_int_eq(spool_write(s, target, 0, 1, target, "x", 1, path, sizeof(path), NULL), 0);
	ck_assert_ptr_eq(strchr(path, '/'), path + 128);
	spool_close(s);
}
END_TEST

START_TEST(test_a_name_that_is_taken_gets_the_next_number)
{
	struct spool *s = open_spool(0, 0);
	char path[256];
	write_ok(s, "shop", 0, 1, 10);
	ck_assert_int_eq(spool_write(s, "shop", 0, 1, "cpu", "new", 3, path, sizeof(path), NULL), 0);
	ck_assert_str_eq(path, "shop/19700101T000000Z-000002-cpu.pb.gz");
	ck_assert_uint_eq(spool_bytes(s), 3 * BLOCK); /* and the directory */
	spool_close(s);
}
END_TEST

static const struct {
	const char *scenario;
	unsigned others; /* of its name, before it */
	const char *bytes, *path;
	int result;
} again[] = {
	{"it is there", 0, "mine", "shop/19700101T000000Z-000001-cpu.pb.gz", 1},
	{"it is there, behind two others", 2, "mine", "shop/19700101T000000Z-000003-cpu.pb.gz", 1},
	{"another of as many bytes", 0, "nine", "shop/19700101T000000Z-000002-cpu.pb.gz", 0},
	{"a shorter one", 0, "min", "shop/19700101T000000Z-000002-cpu.pb.gz", 0},
	{"a longer one", 0, "mine?", "shop/19700101T000000Z-000002-cpu.pb.gz", 0},
};

START_TEST(test_the_same_bytes_are_the_same_profile)
{
	struct spool *s = open_spool(0, 0);
	char path[256];
	for (unsigned i = 0; i < again[_i].others; i++)
		write_ok(s, "shop", 0, 1, 4 + i);
	ck_assert_int_eq(spool_write(s, "shop", 0, 1, "cpu", "mine", 4, NULL, 0, NULL), 0);
	size_t files = spool_files(s), bytes = spool_bytes(s);
	const char *now = again[_i].bytes;
	ck_assert_msg(
		spool_write(s, "shop", 0, 1, "cpu", now, strlen(now), path, sizeof(path), NULL) == again[_i].result,
		"%s", again[_i].scenario);
	ck_assert_str_eq(path, again[_i].path);
	ck_assert_uint_eq(spool_files(s), files + !again[_i].result);
	ck_assert_uint_eq(spool_bytes(s), bytes + (again[_i].result ? 0 : BLOCK));
	ck_assert_uint_eq(count_files(true), files + !again[_i].result);
	spool_close(s);
}
END_TEST

/* Compared piece by piece, to the last byte of the last one. */
START_TEST(test_the_same_many_bytes_are_the_same_profile)
{
	static char bytes[40000];
	struct spool *s = open_spool(0, 0);
	memset(bytes, 'b', sizeof(bytes));
	ck_assert_int_eq(spool_write(s, "shop", 0, 1, "cpu", bytes, sizeof(bytes), NULL, 0, NULL), 0);
	ck_assert_int_eq(spool_write(s, "shop", 0, 1, "cpu", bytes, sizeof(bytes), NULL, 0, NULL), 1);
	bytes[sizeof(bytes) - 1] = 'e';
	ck_assert_int_eq(spool_write(s, "shop", 0, 1, "cpu", bytes, sizeof(bytes), NULL, 0, NULL), 0);
	spool_close(s);
}
END_TEST

START_TEST(test_caps_without_a_write)
{
	struct spool *s = open_spool(0, 3600);
	int64_t now = clock_real();
	write_ok(s, "a", now - 3000 * NSEC_PER_SEC, 1, 10);
	write_ok(s, "a", now, 2, 10);
	spool_tidy(s);
	ck_assert_uint_eq(spool_files(s), 2);
	spool_limit(s, 0, 1800);
	spool_tidy(s);
	ck_assert_uint_eq(spool_files(s), 1);
	ck_assert_uint_eq(spool_removed(s), 1);
	ck_assert_uint_eq(count_files(true), 1);
	spool_close(s);
}
END_TEST

START_TEST(test_retention_by_bytes)
{
	struct spool *s = open_spool(7 * BLOCK, 0);
	write_ok(s, "b", 20 * NSEC_PER_SEC, 1, BLOCK + 1);
	write_ok(s, "a", 10 * NSEC_PER_SEC, 1, 2 * BLOCK); /* comes later, is older */
	ck_assert_uint_eq(spool_bytes(s), 6 * BLOCK);
	write_ok(s, "b", 30 * NSEC_PER_SEC, 2, 2 * BLOCK);
	ck_assert_msg(!exists("a"), "the oldest went, and its empty directory");
	ck_assert_uint_eq(count_files(true), 2);
	ck_assert_uint_eq(spool_bytes(s), 5 * BLOCK);
	write_ok(s, "b", 40 * NSEC_PER_SEC, 3, 6 * BLOCK);
	ck_assert_uint_eq(count_files(true), 1);
	ck_assert_uint_eq(spool_bytes(s), 7 * BLOCK);
	struct err e = {0};
	static char big[6 * BLOCK + 1];
	ck_assert_int_eq(spool_write(s, "b", 0, 1, "cpu", big, sizeof(big), NULL, 0, &e), -EFBIG);
	ck_assert_str_eq(e.text, "a profile of b with 24577 bytes is lost: the spool may hold 28672");
	ck_assert_uint_eq(count_files(true), 1);
	spool_close(s);
}
END_TEST

START_TEST(test_retention_by_age)
{
	struct spool *s = open_spool(0, 3600);
	int64_t now = clock_real();
	write_ok(s, "a", now - DAY, 1, 10);
	write_ok(s, "a", now - 1800 * NSEC_PER_SEC, 2, 10);
	write_ok(s, "a", now, 3, 10); /* applied before a write */
	ck_assert_uint_eq(count_files(true), 2);
	ck_assert_uint_eq(spool_bytes(s), 3 * BLOCK);
	spool_close(s);
}
END_TEST

START_TEST(test_a_restart_counts_what_is_there)
{
	struct spool *s = open_spool(0, 0);
	for (int i = 0; i < 200; i++)
		write_ok(s, i % 2 ? "a" : "b", i * NSEC_PER_SEC, 1, 10);
	spool_close(s);
	char command[256];
	snprintf(command, sizeof(command),
		"cd %s && echo x >a/.writing && echo mine >a/notes.txt && mkdir c && echo x >c/.writing "
		"&& echo x >a/20231114-old.pb.gz && ln -s / link && ln -s /etc/passwd "
		"a/19990101T000000Z-000001-cpu.pb.gz",
		top);
	ck_assert_int_eq(system(command), 0);
	s = open_spool(12 * BLOCK, 0);
	ck_assert_uint_eq(spool_bytes(s), 202 * BLOCK);
	ck_assert_msg(!exists("a/.writing") && !exists("c"), "left-over temporary files are gone");
	write_ok(s, "a", 500 * NSEC_PER_SEC, 1, 10);
	ck_assert_uint_eq(spool_bytes(s), 11 * BLOCK); /* one is kept for a directory */
	ck_assert_msg(exists("a/notes.txt") && exists("a/20231114-old.pb.gz"), "what is not ours stays");
	ck_assert(exists("b/19700101T000318Z-000001-cpu.pb.gz"));
	ck_assert(!exists("b/19700101T000000Z-000001-cpu.pb.gz"));
	ck_assert(exists("a/19990101T000000Z-000001-cpu.pb.gz"));
	spool_close(s);
}
END_TEST

START_TEST(test_files_removed_by_others)
{
	struct spool *s = open_spool(3 * BLOCK, 0);
	char command[64];
	write_ok(s, "a", 0, 1, 90);
	snprintf(command, sizeof(command), "rm -rf %s/a", top);
	ck_assert_int_eq(system(command), 0);
	write_ok(s, "a", 0, 2, 90);
	ck_assert_uint_ge(spool_bytes(s), 2 * BLOCK);
	ck_assert_uint_le(spool_bytes(s), 3 * BLOCK); /* who removed the directory did not say so */
	ck_assert_uint_eq(count_files(true), 1);
	spool_close(s);
}
END_TEST

START_TEST(test_a_symlink_for_a_target_is_not_followed)
{
	struct spool *s = open_spool(0, 0);
	struct err e = {0};
	char link[64];
	snprintf(link, sizeof(link), "%s/shop", top);
	ck_assert_int_eq(symlink("/tmp", link), 0);
	ck_assert_int_lt(spool_write(s, "shop", 0, 1, "cpu", "x", 1, NULL, 0, &e), 0);
	ck_assert_uint_eq(spool_bytes(s), 0);
	spool_close(s);
}
END_TEST

/* --- directories of three levels */

#define A "prod/shop-0/main"
#define B "prod/shop-1/main"
#define C "prod/shop-1/db"

START_TEST(test_directories_above_a_target_go_with_their_last_file)
{
	struct spool *s = open_spool(0, 0);
	write_ok(s, A, 10 * NSEC_PER_SEC, 1, 10);
	write_ok(s, B, 20 * NSEC_PER_SEC, 1, 10);
	write_ok(s, C, 30 * NSEC_PER_SEC, 1, 10);
	write_ok(s, "prod", 40 * NSEC_PER_SEC, 1, 10); /* of one level, and a namespace's directory */
	ck_assert_uint_eq(spool_bytes(s), (4 + 6) * BLOCK);
	struct stat st;
	char path[64];
	snprintf(path, sizeof(path), "%s/prod/shop-0", top);
	ck_assert(stat(path, &st) == 0 && (st.st_mode & 07777) == 0750);
	spool_limit(s, 9 * BLOCK, 0);
	spool_tidy(s);
	ck_assert(!exists("prod/shop-0") && exists(B));
	ck_assert_uint_eq(spool_bytes(s), (3 + 4) * BLOCK);
	spool_limit(s, 6 * BLOCK, 0);
	spool_tidy(s);
	ck_assert(!exists(B) && exists(C));
	ck_assert_uint_eq(spool_bytes(s), (2 + 3) * BLOCK);
	spool_limit(s, 3 * BLOCK, 0);
	spool_tidy(s);
	ck_assert(!exists("prod/shop-1") && exists("prod"));
	ck_assert_uint_eq(spool_bytes(s), (1 + 1) * BLOCK);
	spool_limit(s, 1, 0);
	spool_tidy(s);
	ck_assert(!exists("prod"));
	ck_assert_uint_eq(spool_bytes(s), 0);
	spool_close(s);
}
END_TEST

START_TEST(test_what_is_not_ours_keeps_the_directories_above_it)
{
	struct spool *s = open_spool(0, 0);
	char command[128];
	write_ok(s, A, 10 * NSEC_PER_SEC, 1, 10);
	snprintf(command, sizeof(command), "echo mine >%s/prod/shop-0/notes.txt", top);
	ck_assert_int_eq(system(command), 0);
	spool_limit(s, 1, 0);
	spool_tidy(s);
	ck_assert(!exists(A) && exists("prod/shop-0/notes.txt"));
	spool_close(s);
}
END_TEST

START_TEST(test_a_restart_counts_three_levels_and_one)
{
	struct spool *s = open_spool(0, 0);
	const char *const targets[] = {"web", A, "prod", C, B, "test/shop-0/main", "shop"};
	for (size_t i = 0; i < N(targets); i++)
		for (int k = 0; k < 3; k++)
			write_ok(s, targets[i], (int64_t)(i + 10 * k) * NSEC_PER_SEC, 1, 10);
	ck_assert_uint_eq(spool_files(s), 21);
	const uint64_t bytes = spool_bytes(s);
	ck_assert_uint_eq(bytes, (21 + 2 + 1 + 5 + 3) * BLOCK);
	spool_close(s);
	char command[256];
	snprintf(command, sizeof(command),
		"cd %s && echo x >" A
		"/.writing && mkdir -p old/shop-0/main old/empty && echo x >old/shop-0/main/.writing && "
		"mkdir -p gone/shop-0/main && echo x >gone/shop-0/main/.writing",
		top);
	ck_assert_int_eq(system(command), 0);
	s = open_spool(0, 0);
	ck_assert_uint_eq(spool_files(s), 21);
	ck_assert_uint_eq(spool_bytes(s), bytes);
	ck_assert(!exists(A "/.writing") && !exists("old/shop-0") && exists("old/empty") && !exists("gone"));
	spool_limit(s, 1, 0);
	spool_tidy(s);
	ck_assert_uint_eq(spool_bytes(s), 0);
	ck_assert(!exists("prod") && !exists("web") && !exists("test"));
	spool_close(s);
}
END_TEST

START_TEST(test_no_level_is_a_link)
{
	static const char *const links[] = {"prod", "prod/shop-0", A};
	struct spool *s = open_spool(0, 0);
	char command[256];
	struct err e = {0};
	snprintf(command, sizeof(command),
		"cd %s && mkdir -p $(dirname %s) elsewhere/shop-0/main && ln -s %s/elsewhere %s", top, links[_i], top,
		links[_i]);
	ck_assert_int_eq(system(command), 0);
	ck_assert_int_lt(spool_write(s, A, 0, 1, "cpu", "x", 1, NULL, 0, &e), 0);
	ck_assert_uint_eq(count_files(true), 0);
	spool_close(s);
}
END_TEST

START_TEST(test_room_is_made_for_all_levels)
{
	struct spool *s = open_spool(7 * BLOCK, 0);
	struct err e = {0};
	static char big[4 * BLOCK + 1];
	write_ok(s, "a", 10 * NSEC_PER_SEC, 1, 3 * BLOCK);
	write_ok(s, A, 20 * NSEC_PER_SEC, 1, BLOCK);
	ck_assert(!exists("a")); /* 4 blocks, and 4 that were to come */
	ck_assert_uint_eq(spool_bytes(s), 4 * BLOCK);
	ck_assert_int_eq(spool_write(s, A, 0, 1, "cpu", big, sizeof(big), NULL, 0, &e), -EFBIG);
	spool_close(s);
}
END_TEST

START_TEST(test_directories_above_one_that_has_gone_go_too)
{
	struct spool *s = open_spool(0, 0);
	char command[64];
	write_ok(s, A, 0, 1, 10);
	snprintf(command, sizeof(command), "rm -r %s/" A, top);
	ck_assert_int_eq(system(command), 0);
	spool_limit(s, 1, 0);
	spool_tidy(s);
	ck_assert(!exists("prod"));
	spool_close(s);
}
END_TEST

/* As another session's retention does it, at any moment. */
static _Noreturn void take_empty_directories(void)
{
	static const char *const levels[] = {A, "prod/shop-0", "prod"};
	if (chdir(top) < 0)
		_exit(1);
	for (;; usleep(100))
		for (size_t i = 0; i < N(levels); i++)
			rmdir(levels[i]);
}

START_TEST(test_directories_that_another_one_takes_away_are_made_again)
{
	struct spool *s = open_spool(0, 0);
	const pid_t child = fork();
	if (child == 0)
		take_empty_directories();
	for (int64_t i = 0; i < 2000; i++) {
		spool_limit(s, 0, 0);
		write_ok(s, A, i * NSEC_PER_SEC, 1, 10);
		spool_limit(s, 1, 0);
		spool_tidy(s);
	}
	kill(child, SIGKILL);
	ck_assert_int_eq(waitpid(child, NULL, 0), child);
	ck_assert_uint_eq(count_files(true), 0);
	spool_close(s);
}
END_TEST

/* --- a disk that is full, a writer that dies */

/* In a mount namespace of its own: a file system of 256 KiB. */
static int on_a_full_disk(void)
{
	static char data[200 << 10];
	struct err e = {0};
	char path[128];
	snprintf(path, sizeof(path), "%s/a/19700101T000000Z-000001-cpu.pb.gz", top);
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		mount("none", top, "tmpfs", 0, "size=256k") < 0)
		return 77;
	struct spool *s = open_spool(0, 0);
	write_ok(s, "a", 0, 1, sizeof(data));
	if (spool_write(s, "b", 0, 2, "cpu", data, sizeof(data), NULL, 0, &e) != -ENOSPC)
		return 1;
	if (strcmp(e.text,
		    "a profile of b with 204800 bytes is lost: cannot write to the spool: No space left on device"))
		return 2;
	if (count_files(true) != 1 || spool_bytes(s) != sizeof(data) + BLOCK || exists("b"))
		return 3;
	unlinkat(AT_FDCWD, path, 0);
	if (spool_write(s, "b", 0, 3, "cpu", data, sizeof(data), NULL, 0, &e) != 0)
		return 4;
	spool_close(s);
	return fd_count() == fds ? 0 : 5;
}

START_TEST(test_full_disk)
{
	int status;
	pid_t child = fork();
	if (child == 0)
		_exit(on_a_full_disk());
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
		ck_assert_msg(!getenv("NO_SKIP"), "no mount namespace");
		fputs("skipped: a full disk needs a mount namespace with a tmpfs (root)\n", stderr);
		return;
	}
	ck_assert_int_eq(status, 0);
}
END_TEST

START_TEST(test_the_writer_dies_in_the_middle_of_a_file)
{
	int status;
	pid_t child = fork();
	if (child == 0) {
		/* SIGXFSZ ends the process inside write(2), behind the first 64 KiB */
		setrlimit(RLIMIT_FSIZE, &(struct rlimit){65536, 65536});
		setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
		signal(SIGXFSZ, SIG_DFL);
		write_ok(open_spool(0, 0), "a", 0, 1, 1 << 20);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ);
	ck_assert_uint_eq(count_files(false), 0);
	ck_assert_uint_eq(count_files(true), 1);
	spool_close(open_spool(0, 0));
	ck_assert_uint_eq(count_files(true), 0);
}
END_TEST

/* Are all visible files whole? */
static void check_whole(size_t len)
{
	char command[160], answer[32];
	snprintf(command, sizeof(command), "find %s -type f -name '[!.]*' -not -size %zuc | wc -l", top, len);
	FILE *f = popen(command, "re");
	ck_assert_ptr_nonnull(fgets(answer, sizeof(answer), f));
	pclose(f);
	ck_assert_msg(atol(answer) == 0, "%s files are cut off", answer);
}

START_TEST(test_kill_at_any_moment_leaves_whole_files)
{
	const size_t len = 1 << 20;
	/* later and later, until there was time for one */
	for (unsigned i = 0; i < 30 || (i < 300 && !count_files(false)); i++) {
		int status;
		pid_t child = fork();
		if (child == 0) {
			struct spool *s = open_spool(8 << 20, 0);
			for (unsigned k = 0;; k++)
				write_ok(s, "a", (int64_t)k * NSEC_PER_SEC, i, len);
		}
		usleep(1000 + i * 700);
		kill(child, SIGKILL);
		ck_assert_int_eq(waitpid(child, &status, 0), child);
		ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "status %x", (unsigned)status);
		check_whole(len);
	}
	spool_close(open_spool(8 << 20, 0));
	ck_assert_uint_eq(count_files(true), count_files(false));
	ck_assert_uint_gt(count_files(false), 0);
}
END_TEST

UNIT_SUITE(spool)
{
	Suite *s = suite_create("spool");
	TCase *t = tcase_create("spool");
	tcase_set_timeout(t, 60);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_loop_test(t, test_names, 0, N(names));
	tcase_add_test(t, test_a_directory_of_others_is_passed_over);
	tcase_add_test(t, test_a_long_name_is_cut);
	tcase_add_test(t, test_a_name_that_is_taken_gets_the_next_number);
	tcase_add_loop_test(t, test_the_same_bytes_are_the_same_profile, 0, N(again));
	tcase_add_test(t, test_the_same_many_bytes_are_the_same_profile);
	tcase_add_test(t, test_caps_without_a_write);
	tcase_add_test(t, test_retention_by_bytes);
	tcase_add_test(t, test_retention_by_age);
	tcase_add_test(t, test_a_restart_counts_what_is_there);
	tcase_add_test(t, test_files_removed_by_others);
	tcase_add_test(t, test_a_symlink_for_a_target_is_not_followed);
	tcase_add_test(t, test_directories_above_a_target_go_with_their_last_file);
	tcase_add_test(t, test_what_is_not_ours_keeps_the_directories_above_it);
	tcase_add_test(t, test_a_restart_counts_three_levels_and_one);
	tcase_add_loop_test(t, test_no_level_is_a_link, 0, SPOOL_LEVELS);
	tcase_add_test(t, test_room_is_made_for_all_levels);
	tcase_add_test(t, test_directories_above_one_that_has_gone_go_too);
	tcase_add_test(t, test_directories_that_another_one_takes_away_are_made_again);
	tcase_add_test(t, test_full_disk);
	tcase_add_test(t, test_the_writer_dies_in_the_middle_of_a_file);
	tcase_add_test(t, test_kill_at_any_moment_leaves_whole_files);
	suite_add_tcase(s, t);
	return s;
}
