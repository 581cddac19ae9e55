/* SPDX-License-Identifier: Apache-2.0 */
/* files: what a reader opens and reads, one that is late, dies or lies, and a server that does not wait for the dead.
 */
#include "profiler/elf/target_file.h"

#include "oci/base/fd.h"
#include "oci/base/process/child_process.h"
#include "shim/attach/file_opener.h"

#include "oci/base/clock_driven.h"
#include "tests/unit/support/forked.h"
#include "tests/unit/support/pages.h"
#include "tests/unit/support/skip.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/sockios.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))
#define LARGE (5u << 20)
#define LOOKS_MAX 20000 /* a millisecond apart */

static char dir[64];
static int tree = -1, fds_before;
static struct forked forked;
static struct target_files *files;
static struct target_files_account account;
static pid_t server;

static void must(const char *command)
{
	char line[1024];
	snprintf(line, sizeof(line), "cd %s && { %s; }", dir, command);
	ck_assert_msg(system(line) == 0, "%s", command);
}

static pid_t child_of(pid_t pid)
{
	char path[64], text[256];
	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, pid);
	return fd_read_text(AT_FDCWD, path, text, sizeof(text)) < 0 ? 0 : (pid_t)strtol(text, NULL, 10);
}

/* State: as proc_pid_status(5) has it; also true of a process that has gone. */
static bool reaches(pid_t pid, char state)
{
	char now[32];
	int looks = 0;
	while (proc_status_field(pid, "State", now, sizeof(now)) == 0 && now[0] != state && ++looks < LOOKS_MAX)
		usleep(1000);
	return looks < LOOKS_MAX;
}

static bool ends(pid_t pid)
{
	return reaches(pid, 'Z');
}

static pid_t await_reader(pid_t other)
{
	pid_t pid;
	for (int looks = 0; (!(pid = child_of(server)) || pid == other) && looks < LOOKS_MAX; looks++)
		usleep(1000);
	ck_assert(pid && pid != other);
	return pid;
}

/* No time passes but where a test moves it: a reader takes as long to be there and to answer as the machine likes. */
static struct clock_driven stands;

static void begin(void)
{
	fds_before = fd_count();
	signal(SIGPIPE, SIG_IGN);
	snprintf(dir, sizeof(dir), "/tmp/test_files.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	tree = fd_open(AT_FDCWD, dir, O_PATH | O_DIRECTORY, 0);
	clock_drive(&stands);
	account = (struct target_files_account){.name = "test", .born = clock_now()};
}

static void setup(void)
{
	begin();
	forked_start(&forked, (struct symbolizer_limits){.jobs = 1, .memory = 64 << 20});
	server = forked.server;
	ck_assert_int_eq(target_files_new(forked.sockets.readers, &files), 0);
	forked.sockets.readers = -1;
	must("mkdir d tmp && printf '\\177ELF\\n' >d/text && ln -s text d/link && ln -s /etc/passwd d/out && mkfifo "
	     "fifo");
	/* A shared object's type is written: of 128 random ones one is a core dump, which is refused. */
	must("{ printf '\\177ELF' && head -c 12 /dev/zero && printf '\\3\\0' && head -c 5242862 /dev/urandom; } "
	     ">large");
	must("echo secret >d/secret && : >tmp/perf-7.map && cp d/secret tmp/perf-8.map.key && cp d/secret "
	     "d/perf-7.map");
	must("{ printf '\\177ELF' && head -c 12 /dev/zero && printf '\\4\\0'; } >d/core && { printf '\\177ELF' && head "
	     "-c "
	     "12 /dev/zero && printf '\\0\\4'; } >d/big-endian-core");
	must("ln -s ../d/secret tmp/perf-9.map && printf DTiJrest >d/jit-7.dump");
}

static void done(void)
{
	char command[128];
	tree = fd_close(tree);
	ck_assert_int_eq(fd_count(), fds_before);
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	ck_assert_int_eq(system(command), 0);
}

static void teardown(void)
{
	pid_t reader = child_of(server);
	files = target_files_free(files);
	forked_end(&forked);
	ck_assert_msg(ends(server) && (!reader || ends(reader)), "a process is left");
	done();
}

static int open_it(const char *path, bool no_links, struct file *f)
{
	struct target_files_place p = {tree, -1, NULL, no_links};
	return target_files_open(files, &p, &account, path, f);
}

static void is_text(struct file *f)
{
	char text[16];
	ck_assert_int_eq(file_read(f, text, sizeof(text), 0), 5);
	ck_assert_int_eq(memcmp(text, "\177ELF\n", 5), 0);
	ck_assert_int_eq(file_read(f, text, 2, 3), 2);
	ck_assert_int_eq(memcmp(text, "F\n", 2), 0);
	ck_assert_int_eq(file_read(f, text, 1, 5), 0);
	ck_assert_int_eq(file_read(f, text, 1, UINT64_MAX), 0);
}

/* --- what a reader may not open --------------------------------------------------------------------------- */

/* As a profiler of root's is: another user, whose file opener has root's right to read. */
static struct target_files_opener opener;

static void begin_as_another_user(void)
{
	if (geteuid() != 0)
		return;
	begin();
	must("mkdir -m 700 d && printf '\177ELF\n' >d/text && echo secret >d/secret && printf '\177ELF\n' >open");
	ck_assert_int_eq(chmod(dir, 0755), 0);
}

static void become_another_user(void)
{
	ck_assert_int_eq(seteuid(65534), 0);
	forked_start(&forked, (struct symbolizer_limits){.jobs = 1, .memory = 64 << 20});
	server = forked.server;
	ck_assert_int_eq(target_files_new(forked.sockets.readers, &files), 0);
	forked.sockets.readers = -1;
}

static void teardown_as_another_user(void)
{
	if (!files)
		return;
	opener.sock = fd_close(opener.sock);
	ck_assert_int_eq(seteuid(0), 0);
	teardown();
}

static int open_with_opener(const char *path, struct file *f)
{
	struct target_files_place p = {tree, -1, &opener, false};
	return target_files_open(files, &p, &account, path, f);
}

/* What everybody may read is read, whatever becomes of the file opener. */
static void is_open_to_all(const char *path)
{
	struct file f = FILE_NONE;
	ck_assert_int_eq(open_with_opener(path, &f), 0);
	ck_assert_ptr_null(f.opener);
	is_text(&f);
	file_close(&f);
	ck_assert(account.late == 0 && !account.silent);
}

static bool is_another_user(void)
{
	if (geteuid() == 0)
		return true;
	skip("to be another user needs root");
	return false;
}

START_TEST(what_a_reader_may_not_open_is_opened_for_it)
{
	struct file f = FILE_NONE;
	struct err e = {0};
	if (!is_another_user())
		return;
	opener = TARGET_FILES_OPENER(file_opener_start("unit", 5, clock_now() + 20 * NSEC_PER_SEC, &e), "test");
	ck_assert_msg(opener.sock >= 0, "%s", e.text);
	ck_assert_int_eq(file_opener_set_tree(opener.sock, tree), 0);
	become_another_user();
	ck_assert_int_eq(open_it("/d/text", false, &f), -EACCES);
	ck_assert_int_eq(open_with_opener("/d/text", &f), 0);
	is_text(&f);
	ck_assert(f.id.size == 5 && f.fd == tree && f.opener == &opener && !strcmp(f.path, "/d/text"));
	ck_assert_ptr_eq(f.account, &account);
	file_close(&f);
	ck_assert_int_eq(open_with_opener("/d/secret", &f), -EINVAL);
	ck_assert_int_eq(open_with_opener("/d/none", &f), -ENOENT);
	is_open_to_all("/open");
}
END_TEST

/* Instead of a file opener: what it does when it is asked, and says (0: nothing). */
struct played_opener {
	const char *name;
	bool ends, takes;
	int32_t says;
	bool late;
};

static int *taken_by_opener; /* questions, shared with the process that plays it */

static int play_opener(const struct played_opener *p)
{
	struct file_opener_question q;
	size_t n;
	int pair[2], client;
	char any;
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	pid_t pid = p->ends ? -1 : fork();
	if (pid == 0) {
		fd_close(pair[0]);
		while (p->takes && fd_recv(pair[1], &any, 1, &client, 1, &n) > 0) {
			static char path[PATH_MAX + sizeof(q)];
			fd_recv(client, path, sizeof(path), NULL, 0, &n);
			__atomic_add_fetch(taken_by_opener, 1, __ATOMIC_SEQ_CST);
			if (p->says)
				fd_send(client, &p->says, sizeof(p->says), NULL, 0), fd_close(client);
		}
		while (!fd_is_hung_up(pair[1]))
			usleep(1000);
		_exit(0);
	}
	fd_close(pair[1]);
	return pair[0];
}

static const struct played_opener played_openers[] = {
	{"it has ended", .ends = true},
	{"it takes nothing", .late = true},
	{"it takes a question and is silent", .takes = true, .late = true},
	{"it ends in the middle, by its own word", .takes = true, .says = -EPIPE},
	{"it is late, by its own word", .takes = true, .says = -ETIMEDOUT},
	{"it says what it is not asked", .takes = true, .says = 7},
};

/* What the opener that is played has been asked so far, in a unit of its own. */
static int asked_of_opener(void)
{
	int bytes = 0;
	const int taken = __atomic_load_n(taken_by_opener, __ATOMIC_SEQ_CST);
	return taken || opener.sock < 0 || ioctl(opener.sock, SIOCOUTQ, &bytes) < 0 ? taken : bytes;
}

/* Time passes while the opener is silent to a question, and stands while a reader comes, which may take its own time.
 */
static const struct played_opener *played_opener;
static int asked_before;
static int64_t stands_at;

static void pass_while_opener_is_silent(struct clock_driven *c)
{
	char state[32] = "";
	if (!played_opener->late || asked_of_opener() == asked_before ||
		proc_status_field(child_of(server), "State", state, sizeof(state)) < 0 || state[0] != 'S') {
		usleep(1000);
		c->now = stands_at;
	}
	stands_at = c->now;
}

static int ask_with_opener(int64_t *ret_took)
{
	struct clock_driven c = {.leaps = true, .leapt = pass_while_opener_is_silent};
	struct file f = FILE_NONE;
	asked_before = asked_of_opener();
	clock_drive(&c);
	const int64_t begin = stands_at = clock_now();
	const int r = open_with_opener("/d/text", &f);
	*ret_took = clock_now() - begin;
	clock_drive(&stands);
	return r;
}

START_TEST(an_opener_that)
{
	const struct played_opener *p = played_opener = &played_openers[_i];
	int64_t took;
	if (!is_another_user())
		return;
	taken_by_opener =
		mmap(NULL, sizeof(*taken_by_opener), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(taken_by_opener, MAP_FAILED);
	opener = TARGET_FILES_OPENER(play_opener(p), "test");
	become_another_user();
	is_open_to_all("/open");
	int r = ask_with_opener(&took);
	ck_assert_msg(r == -EACCES, "%s: %d", p->name, r);
	ck_assert_msg(p->late ? took >= TARGET_FILES_DEADLINE : took < TARGET_FILES_DEADLINE, "%s: %" PRId64 " ns",
		p->name, took);
	ck_assert_uint_eq(opener.account.late, p->late);
	ck_assert(opener.account.silent == p->late && opener.ended == p->ends);
	is_open_to_all("/open");
	ck_assert_int_eq(ask_with_opener(&took), -EACCES); /* it is not asked again at once */
	ck_assert(took < TARGET_FILES_DEADLINE);
	ck_assert_uint_eq(opener.account.late, p->late);
	opener.account.again = p->late ? clock_now() : opener.account.again;
	ck_assert_int_eq(ask_with_opener(&took), -EACCES);
	ck_assert_uint_eq(opener.account.late, p->late ? TARGET_FILES_LATE_MAX : 0);
	ck_assert_msg((opener.sock < 0) == (p->late || p->ends), "%s: not let go", p->name);
	ck_assert_int_eq(ask_with_opener(&took), -EACCES);
	is_open_to_all("/open");
	ck_assert(!target_files_broken(files));
}
END_TEST

/* What is sent to it is at the account of all our processes until it is taken: soon there is no more. */
START_TEST(an_opener_that_takes_nothing_is_asked_no_more)
{
	int pair[2], r, n = 0;
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	opener = TARGET_FILES_OPENER(pair[0], "test");
	while ((r = target_files_opener_connect(&opener)) >= 0 && n++ < 1000)
		fd_close(r);
	ck_assert_int_eq(r, -EACCES);
	ck_assert_msg(n > 2 * 8 && n < 100, "%d questions", n); /* more than a profiler may have */
	ck_assert_uint_eq(opener.account.late, 1);
	fd_close(pair[1]);
}
END_TEST

/* --- what is opened ------------------------------------------------------------------------------------- */

static const struct {
	const char *name, *path;
	bool no_links;
	int result;
} paths[] = {
	{"a file", "/d/text", false, 0},
	{"through a link", "/d/link", false, 0},
	{"a link is not wanted", "/d/link", true, -ELOOP},
	{"a link out of the tree stays in it", "/d/out", false, -ENOENT},
	{"dots out of the tree stay in it", "/../../../../etc/passwd", false, -ENOENT},
	{"not there", "/d/none", false, -ENOENT},
	{"a directory", "/d", false, -EINVAL},
	{"a FIFO without a writer", "/fifo", false, -EINVAL},
	{"a secret", "/d/secret", false, -EINVAL},
	{"a secret that is called like a perf map", "/d/perf-7.map", false, -EINVAL},
	{"a secret that is almost called like a perf map", "/tmp/perf-8.map.key", false, -EINVAL},
	{"a core dump", "/d/core", false, -EINVAL},
	{"a core dump of another machine", "/d/big-endian-core", false, -EINVAL},
	{"a perf map that is a link to a secret", "/tmp/perf-9.map", false, -ELOOP},
};

START_TEST(what_is_opened)
{
	struct file f = FILE_NONE;
	int r = open_it(paths[_i].path, paths[_i].no_links, &f);
	ck_assert_msg(r == paths[_i].result, "%s: %d", paths[_i].name, r);
	if (r < 0)
		return;
	is_text(&f);
	ck_assert_uint_eq(f.id.size, 5);
	file_close(&f);
	ck_assert(!file_is_open(&f));
}
END_TEST

START_TEST(a_long_path)
{
	char path[PATH_MAX + 1];
	struct file f;
	memset(path, 'a', PATH_MAX);
	path[PATH_MAX] = 0;
	ck_assert_int_eq(open_it(path, false, &f), -ENAMETOOLONG);
}
END_TEST

START_TEST(an_empty_file)
{
	struct file f;
	char any;
	ck_assert_int_eq(open_it("/tmp/perf-7.map", false, &f), 0);
	ck_assert_int_eq(file_read(&f, &any, 1, 0), 0);
	file_close(&f);
}
END_TEST

/* In pieces of many sizes and from anywhere it is what it is. */
START_TEST(a_large_file)
{
	uint8_t *want = pages_new(LARGE), *got = pages_new(LARGE);
	struct file f;
	fd_auto fd = fd_open(tree, "large", O_RDONLY, 0);
	ck_assert_int_eq(fd_pread_all(fd, want, LARGE, 0), LARGE);
	ck_assert_int_eq(open_it("/large", false, &f), 0);
	ck_assert_int_eq(file_read(&f, got, LARGE, 0), LARGE);
	ck_assert_int_eq(memcmp(got, want, LARGE), 0);
	for (int i = 0; i < 300; i++) {
		size_t at = (size_t)rand() % LARGE, n = (size_t)rand() % (i % 3 ? 4096 : 400000);
		size_t left = LARGE - at < n ? LARGE - at : n;
		ck_assert_int_eq(file_read(&f, got, n, at), (ssize_t)left);
		ck_assert_int_eq(memcmp(got, want + at, left), 0);
	}
	file_close(&f);
}
END_TEST

START_TEST(a_file_that_shrinks)
{
	uint8_t *bytes = pages_new(LARGE);
	struct file f;
	ck_assert_int_eq(open_it("/large", false, &f), 0);
	ck_assert_int_eq(file_read(&f, bytes, 1000, 0), 1000);
	must("truncate -s 300000 large");
	ck_assert_int_eq(file_read(&f, bytes, LARGE, 0), 300000);
	ck_assert_int_eq(file_read(&f, bytes, 1, 300000), 0);
	file_close(&f);
}
END_TEST

START_TEST(several_at_once)
{
	struct file f[TARGET_FILES_OPEN_MAX], more;
	char byte;
	for (size_t i = 0; i < LENGTH(f); i++)
		ck_assert_int_eq(open_it(i % 2 ? "/large" : "/d/text", false, &f[i]), 0);
	ck_assert_int_eq(open_it("/large", false, &more), -EMFILE);
	for (size_t i = 0; i < LENGTH(f); i++)
		ck_assert_int_eq(file_read(&f[i], &byte, 1, 4000000), i % 2);
	for (size_t i = 0; i < LENGTH(f); i++)
		file_close(&f[i]);
	ck_assert_int_eq(open_it("/large", false, &more), 0);
	file_close(&more);
}
END_TEST

/* --- a reader that is late, or gone ------------------------------------------------------------------------ */

/* A reader that we play ourselves: what it is asked lies in its socket until it is taken from there. */
static int played, played_alive, played_server, played_stat;

static void play_state(char state)
{
	char text[32];
	const int n = snprintf(text, sizeof(text), "7 (a ) R b) %c 1 7", state);
	ck_assert_int_eq(pwrite(played_stat, text, (size_t)n, 0), n);
}

static void play_server(void)
{
	int pair[2], passed[2];
	size_t n;
	char any;
	begin();
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	ck_assert_int_eq(target_files_new(pair[0], &files), 0);
	played_server = pair[1];
	ck_assert_int_eq(fd_recv(played_server, &any, 1, passed, 2, &n), 1);
	ck_assert_uint_eq(n, 2);
	played = passed[0];
	played_alive = passed[1];
	played_stat = memfd_create("stat", MFD_CLOEXEC);
	play_state('S');
}

static void say_ready(void)
{
	struct reader_answer ready = {0};
	ck_assert_int_eq(fd_send(played, &ready, sizeof(ready), &played_stat, 1), 0);
}

static void play_reader(void)
{
	play_server();
	say_ready();
}

static void end_played(void)
{
	fd_close(played_stat);
	files = target_files_free(files);
	fd_close(played);
	fd_close(played_alive);
	fd_close(played_server);
	done();
}

#define MS NSEC_PER_MSEC
#define NEVER INT64_MAX

/* ns from the request on. */
static const struct late_reader {
	const char *name;
	int64_t starved;      /* the process that asks wakes up so much later than it wanted to */
	int64_t take, answer; /* the reader does so */
	int result;
	int64_t spent, until;
	int64_t runnable; /* until then, it waits for a CPU with the request in its hand */
} late_readers[] = {
	{"a slow file system", 0, 20 * MS, 160 * MS, 0, 140 * MS, 160 * MS, 0},
	{"one that does not answer", 0, 20 * MS, NEVER, -ETIMEDOUT, TARGET_FILES_DEADLINE, TARGET_FILES_DEADLINE, 0},
	{"a reader without a CPU", 0, 400 * MS, 400 * MS, 0, TARGET_FILES_TURN / TARGET_FILES_BELIEVED, 400 * MS, 0},
	{"the same, and then no answer", 0, 300 * MS, NEVER, -ETIMEDOUT, TARGET_FILES_DEADLINE, 480 * MS, 0},
	{"neither process has a CPU", 80 * MS, 0, 500 * MS, 0, 5 * TARGET_FILES_TURN, 500 * MS, 0},
	{"neither has one, for longer", 80 * MS, 0, 800 * MS, -EPIPE, 6 * TARGET_FILES_TURN, TARGET_FILES_WAIT_MAX, 0},
	{"a reader that does not run", 0, NEVER, NEVER, -EPIPE, 0, TARGET_FILES_WAIT_MAX, 0},
	{"it lost the CPU with the request", 0, 20 * MS, 500 * MS, 0, 60 * MS, 500 * MS, 460 * MS},
	{"the same, and then no answer", 0, 20 * MS, NEVER, -ETIMEDOUT, TARGET_FILES_DEADLINE, 440 * MS, 260 * MS},
	{"it runs on and on", 0, 20 * MS, NEVER, -EPIPE, 0, TARGET_FILES_WAIT_MAX, NEVER},
};
static const struct late_reader *late_reader;
static int64_t asked_at;
static bool taken, answered;

static void play_late_reader(struct clock_driven *c)
{
	static int64_t taken_at;
	static char request[sizeof(struct reader_request) + PATH_MAX];
	int passed[2];
	size_t n;
	c->now += late_reader->starved;
	play_state(c->now - asked_at < late_reader->runnable ? 'R' : 'D');
	if (!taken && c->now - asked_at >= late_reader->take) {
		ck_assert_int_gt(fd_recv(played, request, sizeof(request), passed, 2, &n), 0);
		ck_assert_uint_eq(n, 1);
		fd_close(passed[0]);
		taken = true;
		taken_at = c->now;
	}
	if (!answered && c->now - asked_at >= late_reader->answer) {
		const struct reader_answer answer = {.result = 3, .took = (uint64_t)(c->now - taken_at)};
		ck_assert_int_eq(fd_send(played, &answer, sizeof(answer), NULL, 0), 0);
		answered = true;
	}
}

/* After the pause, also where files were wanted meanwhile. */
static void is_asked_for_again(void)
{
	struct file f;
	char any;
	int passed[2];
	size_t n;
	clock_move(1500 * MS);
	ck_assert_int_eq(open_it("/d/text", false, &f), -EPIPE);
	clock_move(600 * MS);
	ck_assert(!fd_wait(played_server, POLLIN, clock_now()));
	ck_assert_int_eq(open_it("/d/text", false, &f), -EPIPE); /* the new one does not answer */
	ck_assert_int_eq(fd_wait(played_server, POLLIN, clock_now()), 1);
	ck_assert_int_eq(fd_recv(played_server, &any, 1, passed, 2, &n), 1);
	for (size_t i = 0; i < n; i++)
		fd_close(passed[i]);
}

/* Nothing counts against a target but the time in which its file system had a reader that ran. */
START_TEST(a_reader_that_is_late)
{
	struct clock_driven c = {.leaps = true, .leapt = play_late_reader};
	struct file f;
	late_reader = &late_readers[_i];
	taken = answered = false;
	play_reader();
	clock_drive(&c);
	account.born = asked_at = clock_now();
	int r = open_it("/d/text", false, &f);
	const char *name = late_reader->name;
	int64_t took = clock_now() - asked_at;
	if (r < 0) { /* the next request does not wait, for this reader or another */
		ck_assert_msg(open_it("/d/text", false, &f) == r, "%s", name);
		ck_assert_msg(clock_now() - asked_at == took, "%s", name);
	}
	c.leapt = NULL;
	if (r == -EPIPE)
		is_asked_for_again();
	clock_drive(&stands);
	ck_assert_msg(r == late_reader->result, "%s: %d", name, r);
	ck_assert_msg(account.spent == late_reader->spent, "%s: %" PRId64 " ns spent", name, account.spent);
	ck_assert_msg(took == late_reader->until, "%s: it took %" PRId64 " ns", name, took);
	ck_assert_msg(account.late == (r == -ETIMEDOUT) && account.silent == (r == -ETIMEDOUT), "%s", name);
	ck_assert_msg(target_files_broken(files) == (r == -EPIPE), "%s", name);
	end_played();
}
END_TEST

/* On a busy machine a process takes its time to be there. It is asked then, and no other one. */
START_TEST(a_reader_that_is_ready_late)
{
	struct clock_driven c = {.leaps = true};
	struct file f;
	play_server();
	clock_drive(&c);
	const int64_t began = account.born = clock_now();
	ck_assert_int_eq(open_it("/d/text", false, &f), -EPIPE);
	ck_assert_int_ge(clock_now() - began, 500 * MS);
	ck_assert(target_files_broken(files));
	say_ready();
	ck_assert_int_eq(open_it("/d/text", false, &f), -EPIPE);
	ck_assert_int_lt(clock_now() - began, 700 * MS);
	clock_move(2100 * MS);
	late_reader = &late_readers[0];
	taken = answered = false;
	asked_at = clock_now();
	c.leapt = play_late_reader;
	ck_assert_int_eq(open_it("/d/text", false, &f), 0);
	c.leapt = NULL;
	ck_assert(!fd_wait(played_server, POLLIN, clock_now()));
	clock_drive(&stands);
	end_played();
}
END_TEST

/* The server kills it, and another reader serves the next request. */
START_TEST(a_reader_that_stops)
{
	static struct clock_driven clock = {.leaps = true};
	struct file f;
	char byte;
	pid_t reader = await_reader(0);
	ck_assert_int_eq(open_it("/large", false, &f), 0);
	ck_assert_int_eq(kill(reader, SIGSTOP), 0);
	ck_assert(reaches(reader, 'T')); /* before that it may still take what it is asked */
	clock_drive(&clock);
	ck_assert_int_eq(file_read(&f, &byte, 1, 4000000), -EPIPE);
	file_close(&f);
	clock_move(10 * NSEC_PER_SEC); /* there is a pause behind a reader that was not to be had */
	clock.leaps = false;
	ck_assert_int_eq(open_it("/d/text", false, &f), 0);
	clock_drive(&stands);
	is_text(&f);
	file_close(&f);
	ck_assert_msg(ends(reader), "it was not killed");
	ck_assert(!account.silent && !account.late);
}
END_TEST

START_TEST(a_target_without_credit)
{
	struct file f;
	account.late = TARGET_FILES_LATE_MAX;
	ck_assert_int_eq(open_it("/d/text", false, &f), -ETIMEDOUT);
	account.late = 0;
	account.spent = TARGET_FILES_CREDIT + NSEC_PER_SEC;
	ck_assert_int_eq(open_it("/d/text", false, &f), -ETIMEDOUT);
	account.born -= (TARGET_FILES_SHARE + 1) * NSEC_PER_SEC;
	ck_assert_int_eq(open_it("/d/text", false, &f), 0);
	file_close(&f);
}
END_TEST

START_TEST(a_reader_that_dies)
{
	struct file f;
	char byte;
	pid_t reader = await_reader(0);
	ck_assert_int_eq(open_it("/large", false, &f), 0);
	ck_assert_int_eq(kill(reader, SIGKILL), 0);
	ck_assert(ends(reader));
	ck_assert_int_lt(file_read(&f, &byte, 1, 4000000), 0);
	file_close(&f);
	ck_assert_int_eq(open_it("/d/text", false, &f), 0);
	is_text(&f);
	reader = await_reader(reader);
	ck_assert_int_eq(kill(reader, SIGKILL), 0);
	ck_assert(ends(reader));
	file_close(&f);
	ck_assert_int_eq(open_it("/d/text", false, &f), 0); /* the one before ended while nobody looked */
	file_close(&f);
	ck_assert(!account.silent && !target_files_broken(files));
}
END_TEST

START_TEST(the_server_dies)
{
	struct file f;
	pid_t reader = await_reader(0);
	ck_assert_int_eq(open_it("/d/text", false, &f), 0);
	file_close(&f);
	ck_assert_int_eq(kill(server, SIGKILL), 0);
	ck_assert(ends(server));
	ck_assert_int_eq(open_it("/d/text", false, &f), 0); /* its reader goes on */
	file_close(&f);
	ck_assert_int_eq(kill(reader, SIGKILL), 0);
	ck_assert(ends(reader));
	ck_assert_int_eq(open_it("/d/text", false, &f), -EPIPE);
	ck_assert(target_files_broken(files));
	symbolizer_close(&forked.sockets);
	forked_more(&forked);
	server = forked.server;
	target_files_connect(files, forked.sockets.readers);
	forked.sockets.readers = -1;
	ck_assert(!target_files_broken(files));
	ck_assert_int_eq(open_it("/d/text", false, &f), 0); /* at once */
	is_text(&f);
	file_close(&f);
}
END_TEST

/* Should it hang, nobody would kill the reader that is there. */
START_TEST(a_reader_of_the_last_server)
{
	struct file f;
	char byte;
	pid_t reader = await_reader(0), last = server;
	ck_assert_int_eq(open_it("/large", false, &f), 0);
	symbolizer_close(&forked.sockets);
	forked_more(&forked);
	server = forked.server;
	target_files_connect(files, forked.sockets.readers);
	forked.sockets.readers = -1;
	ck_assert_msg(ends(reader) && ends(last), "it is left");
	ck_assert_int_eq(file_read(&f, &byte, 1, 4000000), -ESTALE);
	file_close(&f);
	ck_assert_int_eq(open_it("/large", false, &f), 0);
	file_close(&f);
}
END_TEST

/* --- a reader that lies ------------------------------------------------------------------------------------- */

static const struct {
	const char *name;
	struct reader_answer answer;
	size_t more; /* bytes behind it */
	int result;
} lies[] = {
	{"bytes that are not there", {.bytes = 10}, 9, -EBADMSG},
	{"bytes that it does not speak of", {.bytes = 0}, 1, -EBADMSG},
	{"a handle of its own making", {.result = TARGET_FILES_OPEN_MAX}, 0, -EBADMSG},
	{"an error of its own making", {.result = INT32_MIN}, 0, -EBADMSG},
	{"what nobody passed", {.passed = 1}, 0, -EBADMSG},
	{"a beginning that is too long", {.bytes = TARGET_FILES_BEGINNING_MAX + 1}, TARGET_FILES_BEGINNING_MAX + 1,
		-EBADMSG},
};

START_TEST(a_reader_that_lies)
{
	static struct {
		struct reader_answer head;
		char bytes[TARGET_FILES_AT_ONCE];
	} lie;
	struct file f;
	play_reader();
	lie.head = lies[_i].answer;
	ck_assert_int_eq(fd_send(played, &lie, sizeof(lie.head) + lies[_i].more, NULL, 0), 0);
	int r = open_it("/d/text", false, &f);
	ck_assert_msg(r == lies[_i].result, "%s: %d", lies[_i].name, r);
	end_played();
}
END_TEST

UNIT_SUITE(target_file)
{
	Suite *s = suite_create("target_file");
	TCase *t = tcase_create("reader");
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, what_is_opened, 0, LENGTH(paths));
	tcase_add_test(t, a_long_path);
	tcase_add_test(t, an_empty_file);
	tcase_add_test(t, a_large_file);
	tcase_add_test(t, a_file_that_shrinks);
	tcase_add_test(t, several_at_once);
	tcase_add_test(t, a_reader_that_stops);
	tcase_add_test(t, a_target_without_credit);
	tcase_add_test(t, a_reader_that_dies);
	tcase_add_test(t, the_server_dies);
	tcase_add_test(t, a_reader_of_the_last_server);
	suite_add_tcase(s, t);
	t = tcase_create("another user");
	tcase_add_checked_fixture(t, begin_as_another_user, teardown_as_another_user);
	tcase_add_test(t, what_a_reader_may_not_open_is_opened_for_it);
	tcase_add_loop_test(t, an_opener_that, 0, LENGTH(played_openers));
	tcase_add_test(t, an_opener_that_takes_nothing_is_asked_no_more);
	suite_add_tcase(s, t);
	t = tcase_create("played");
	tcase_add_test(t, a_reader_that_is_ready_late);
	tcase_add_loop_test(t, a_reader_that_is_late, 0, LENGTH(late_readers));
	tcase_add_loop_test(t, a_reader_that_lies, 0, LENGTH(lies));
	suite_add_tcase(s, t);
	return s;
}
