/* SPDX-License-Identifier: Apache-2.0 */
/*
 * symbolizer: a real server and its jobs, asked through a loop; and what becomes of answers, callers and processes when
 * one of them is killed, stopped, slow or lies.
 */
#include "profiler/symbol/symbolizer_client.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "oci/base/process/child_process.h"

#include "tests/unit/support/child.h"
#include "tests/unit/support/forked.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))
#define SECONDS(n) ((n)*NSEC_PER_SEC)
#define MANY 20000 /* answers that no pipe holds: the job waits for its reader */

static struct event_loop *loop;
static struct symbolizer *symbolizer;
static struct forked forked;
static pid_t server;
static int fds_before;
static char dir[64];

/* What became of a question. */
struct event_dedup {
	size_t answers;
	int done; /* times */
	enum symbolizer_outcome outcome;
	bool complete;
	char text[4096]; /* of the answers, in the order of addresses */
	size_t used;
	struct job *job;
};

static void on_answer(void *arg, uint64_t vaddr, const struct symbol_line *lines, size_t n)
{
	struct event_dedup *h = arg;
	ck_assert_int_eq(h->done, 0);
	h->answers++;
	if (h->used + 200 > sizeof(h->text))
		return;
	h->used += (size_t)snprintf(h->text + h->used, 200, "%llx:", (unsigned long long)vaddr);
	for (size_t i = 0; i < n; i++) {
		const char *slash = strrchr(lines[i].file, '/');
		h->used += (size_t)snprintf(h->text + h->used, 150, " %s(%s)@%s:%u", lines[i].name, lines[i].linkage,
			slash ? slash + 1 : lines[i].file, lines[i].line);
	}
	h->used += (size_t)snprintf(h->text + h->used, 2, "\n");
}

static void on_done(void *arg, enum symbolizer_outcome outcome)
{
	struct event_dedup *h = arg;
	h->done++;
	h->outcome = outcome;
	h->complete = outcome == SYMBOLIZER_COMPLETE;
	h->job = NULL;
}

/* --- the loop, until somebody is done or for so long ----------------------------------------------------- */

static const struct event_dedup *awaited;
static int64_t until;

static int due(void *arg)
{
	int64_t left = until - clock_now();
	if (left <= 0 || (awaited && awaited->done))
		event_loop_stop(loop);
	return left <= 0 ? 0 : (int)(left / NSEC_PER_MSEC) + 1;
}

static void run_for(int64_t ns)
{
	awaited = NULL;
	until = clock_now() + ns;
	ck_assert_int_eq(event_loop_run(loop, due, NULL), 0);
}

static void run_until_done(const struct event_dedup *h)
{
	awaited = h;
	until = clock_now() + SECONDS(15);
	if (!h->done)
		ck_assert_int_eq(event_loop_run(loop, due, NULL), 0);
	ck_assert_int_eq(h->done, 1);
}

/* --- processes --------------------------------------------------------------------------------------------- */

/* Children that are alive. */
static size_t children_of(pid_t pid, pid_t *ret, size_t max)
{
	char path[64], text[256], state[32];
	size_t n = 0;
	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, pid);
	if (fd_read_text(AT_FDCWD, path, text, sizeof(text)) < 0)
		return 0;
	for (char *at = text, *end; n < max; at = end) {
		long child = strtol(at, &end, 10);
		if (end == at)
			break;
		if (proc_status_field((pid_t)child, "State", state, sizeof(state)) == 0 && state[0] != 'Z')
			ret[n++] = (pid_t)child;
	}
	return n;
}

/* The server's jobs, when there are `n`. */
static void await_jobs(size_t n, pid_t *ret)
{
	pid_t pids[8];
	int64_t deadline = clock_now() + SECONDS(10);
	size_t got;
	while ((got = children_of(server, pids, 8)) != n && clock_now() < deadline)
		usleep(2000);
	ck_assert_uint_eq(got, n);
	memcpy(ret, pids, n * sizeof(*ret));
}

static bool is_alive(pid_t pid)
{
	char state[32];
	return proc_status_field(pid, "State", state, sizeof(state)) == 0 && state[0] != 'Z';
}

/* Until the pipe is full, and it waits: asleep whenever it is looked at. */
static void await_full(pid_t job)
{
	char state[32];
	int64_t deadline = clock_now() + SECONDS(10);
	for (int in_a_row = 0; in_a_row < 25; in_a_row++) {
		ck_assert_int_lt(clock_now(), deadline);
		if (proc_status_field(job, "State", state, sizeof(state)) < 0 || state[0] != 'S')
			in_a_row = 0;
		usleep(2000);
	}
}

static bool ends(pid_t pid)
{
	int64_t deadline = clock_now() + SECONDS(5);
	while (is_alive(pid) && clock_now() < deadline)
		usleep(2000);
	return !is_alive(pid);
}

static void start(unsigned seconds)
{
	forked_start(&forked, (struct symbolizer_limits){.jobs = 2, .memory = 64 << 20, .seconds = seconds});
	ck_assert_int_eq(symbolizer_new(forked.sockets.questions, &symbolizer), 0);
	forked.sockets.questions = -1;
	server = forked.server;
}

static void stop(void)
{
	symbolizer = symbolizer_free(symbolizer);
	forked_end(&forked);
	ck_assert_msg(ends(server), "the server is left");
}

static void setup(void)
{
	fds_before = fd_count();
	signal(SIGPIPE, SIG_IGN);
	ck_assert_int_eq(event_loop_new(&loop), 0);
	start(0);
}

/* Whatever the test did: no process is left, and no descriptor. */
static void teardown(void)
{
	stop();
	loop = event_loop_free(loop);
	ck_assert_int_eq(fd_count(), fds_before);
}

/* --- questions --------------------------------------------------------------------------------------------- */

static int ask(struct event_dedup *h, const struct symbolizer_request *q)
{
	struct symbolizer_callbacks a = {on_answer, on_done, h};
	size_t taken;
	*h = (struct event_dedup){0};
	int r = symbolizer_ask(symbolizer, loop, q, &a, &taken, &h->job);
	ck_assert(r < 0 || taken == q->n);
	return r;
}

static void ask_name(struct event_dedup *h, const char *name)
{
	uint64_t vaddr = 0x10;
	struct symbolizer_request q = {.n = 1, .vaddrs = &vaddr, .names = &name};
	ck_assert_int_eq(ask(h, &q), 0);
}

/* More than a pipe holds: its job waits until somebody reads. */
static void ask_many(struct event_dedup *h)
{
	static uint64_t vaddrs[MANY];
	static const char *names[MANY];
	for (size_t i = 0; i < MANY; i++) {
		vaddrs[i] = i;
		names[i] = "_ZN3foo3barEi";
	}
	struct symbolizer_request q = {.n = MANY, .vaddrs = vaddrs, .names = names};
	ck_assert_int_eq(ask(h, &q), 0);
}

START_TEST(names_alone)
{
	static const uint64_t vaddrs[] = {5, 4, 3, 2, 1};
	static const char *const names[] = {NULL, "main", "_ZN3foo3barEi", "_RNvCs1234_7mycrate3foo", "_Zbroken"};
	struct symbolizer_request q = {.n = 5, .vaddrs = vaddrs, .names = names};
	struct event_dedup h;
	ck_assert_int_eq(ask(&h, &q), 0);
	run_until_done(&h);
	ck_assert(h.complete);
	ck_assert_str_eq(h.text, "1: _Zbroken()@:0\n"
				 "2: mycrate::foo(_RNvCs1234_7mycrate3foo)@:0\n"
				 "3: foo::bar(int)(_ZN3foo3barEi)@:0\n"
				 "4: main()@:0\n"
				 "5:\n");
}
END_TEST

START_TEST(nothing_is_asked)
{
	static const uint64_t none;
	static const char *const no_name;
	struct symbolizer_request q = {.vaddrs = &none, .names = &no_name};
	struct event_dedup h;
	ck_assert_int_eq(ask(&h, &q), 0);
	run_until_done(&h);
	ck_assert(h.complete && !h.answers);
}
END_TEST

START_TEST(long_names)
{
	size_t size = 100000;
	char *name = malloc(size + 1);
	struct event_dedup h;
	memset(name, 'a', size);
	name[size] = 0;
	ask_name(&h, name);
	run_until_done(&h);
	ck_assert(h.complete && h.answers == 1);
	free(name);
}
END_TEST

/* --- with a program's debug information --------------------------------------------------------------------- */

static void must(const char *command)
{
	char line[1024];
	snprintf(line, sizeof(line), "cd %s && { %s; }", dir, command);
	ck_assert_msg(system(line) == 0, "%s", command);
}

/* outer is at 0x1000, and its code is inner's; bare has no debug information; pillion never runs it. */
static void build(void)
{
	static const char source[] =
		"volatile int sink;\n"
		"static inline __attribute__((always_inline)) void inner(int n) { sink = n; sink = n + 1; }\n"
		"void outer(int n) { inner(n); }\n"
		"__asm__(\".pushsection .text.bare,\\\"ax\\\"\\n.globl bare\\n.type bare,@function\\nbare: ret\\n"
		".size bare, .-bare\\n.popsection\\n\");\n";
	snprintf(dir, sizeof(dir), "/tmp/test_symbolizer.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	fd_auto at = fd_open_dir(AT_FDCWD, dir);
	fd_auto fd = fd_open(at, "a.c", O_WRONLY | O_CREAT, 0600);
	ck_assert_int_eq(fd_write_all(fd, source, strlen(source)), 0);
	must("gcc -O2 -g -fcf-protection=none -nostdlib -static -Wl,--build-id,-eouter,-Ttext=0x1000 "
	     "-Wl,--unique=.text.bare -o p a.c && "
	     "objcopy --only-keep-debug p p.debug && head -c 200 p >damaged && "
	     "gcc -O2 -g -gsplit-dwarf -fcf-protection=none -nostdlib -static -Wl,-eouter,-Ttext=0x1000 -o split a.c");
}

static void unbuild(void)
{
	char command[128];
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	ck_assert_int_eq(system(command), 0);
}

static const struct {
	const char *file, *symbol; /* of 0x1000 */
	bool separate;
	const char *text;
} programs[] = {
	{"p", "outer", false, "1000: inner()@a.c:2 outer()@a.c:3\n1010:\nffff000:\n"},
	{"p", "_Z5outeri", false, "1000: inner()@a.c:2 outer(int)(_Z5outeri)@a.c:3\n1010:\nffff000:\n"},
	{"p", NULL, false, "1000: inner()@a.c:2 outer()@a.c:3\n1010:\nffff000:\n"},
	{"p.debug", NULL, true, "1000: inner()@a.c:2 outer()@a.c:3\n1010: bare()@:0\nffff000:\n"},
	{"damaged", "_Z5outeri", false, "1000: outer(int)(_Z5outeri)@:0\n1010:\nffff000:\n"},
	{"a.c", "_Z5outeri", true, "1000: outer(int)(_Z5outeri)@:0\n1010:\nffff000:\n"},
	{"split", "outer", false, "1000: outer()@a.c:2\n1010:\nffff000:\n"}, /* and no job dies of its .dwo file */
};

START_TEST(lines_and_names)
{
	static const uint64_t vaddrs[] = {0x1010, 0xffff000, 0x1000};
	const char *names[] = {NULL, NULL, programs[_i].symbol};
	struct event_dedup h;
	fd_auto at = fd_open_dir(AT_FDCWD, dir);
	fd_auto fd = fd_open(at, programs[_i].file, O_RDONLY, 0);
	struct file f;
	ck_assert_int_eq(file_on(fd, &f), 0);
	struct symbolizer_request q = {
		.n = 3, .vaddrs = vaddrs, .names = names, .debug = &f, .separate = programs[_i].separate};
	ck_assert_int_eq(ask(&h, &q), 0);
	run_until_done(&h);
	ck_assert(h.complete);
	ck_assert_str_eq(h.text, programs[_i].text);
}
END_TEST

/* A file that a file opener has opened the job asks for there; without an answer it does without the file. */
static const struct {
	const char *name, *symbol;
	bool ended, answers;
	const char *text;
} openers[] = {
	{"answers", "outer", .answers = true, .text = "1000: inner()@a.c:2 outer()@a.c:3\n"},
	{"has ended, so the job opens it itself", "outer", .ended = true,
		.text = "1000: inner()@a.c:2 outer()@a.c:3\n"},
	{"is silent", "_Z5outeri", .text = "1000: outer(int)(_Z5outeri)@:0\n"},
};

static void answer_one(int sock, int fd)
{
	static char question[PATH_MAX + 64];
	const int32_t good = 0;
	int client = -1;
	size_t n;
	char any;
	MUST(fd_recv(sock, &any, 1, &client, 1, &n) == 1 && n == 1);
	MUST(fd_recv(client, question, sizeof(question), NULL, 0, &n) > 0);
	MUST(fd_send(client, &good, sizeof(good), &fd, 1) == 0);
	_exit(0);
}

START_TEST(a_file_of_an_opener_that)
{
	const char *name = openers[_i].symbol;
	struct event_dedup h;
	int pair[2];
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	fd_auto at = fd_open_dir(AT_FDCWD, dir);
	fd_auto fd = fd_open(at, "p", O_RDONLY, 0);
	struct target_files_opener opener = TARGET_FILES_OPENER(pair[0], "test");
	struct file f;
	ck_assert_int_eq(file_on(fd, &f), 0);
	f.fd = at;
	f.opener = &opener;
	snprintf(f.path, sizeof(f.path), "/p");
	pid_t pid = openers[_i].answers ? fork() : -1;
	if (pid == 0)
		answer_one(pair[1], fd);
	if (openers[_i].ended)
		pair[1] = fd_close(pair[1]);
	struct symbolizer_request q = {.n = 1, .vaddrs = &(uint64_t){0x1000}, .names = &name, .debug = &f};
	ck_assert_int_eq(ask(&h, &q), 0);
	run_until_done(&h);
	ck_assert(h.complete);
	ck_assert_msg(!strcmp(h.text, openers[_i].text), "%s: %s", openers[_i].name, h.text);
	ck_assert(opener.ended == openers[_i].ended && (opener.sock < 0) == openers[_i].ended);
	if (pid > 0)
		ck_assert_int_eq(child_process_wait(pid, clock_now() + SECONDS(10)), 0);
	fd_close(opener.sock);
	fd_close(pair[1]);
}
END_TEST

/* What a file says of itself comes from the job as well. */
START_TEST(facts)
{
	static const struct {
		const char *file;
		unsigned has_debug, segments;
		size_t id_len;
	} rows[] = {{"p", 1, 1, 20}, {"p.debug", 1, 1, 20}, {"damaged", 0, 0, 0}, {"a.c", 0, 0, 0}};
	static struct debug_facts f;
	fd_auto at = fd_open_dir(AT_FDCWD, dir);
	fd_auto fd = fd_open(at, rows[_i].file, O_RDONLY, 0);
	struct file file;
	ck_assert_int_eq(file_on(fd, &file), 0);
	struct symbolizer_request q = {.vaddrs = &(uint64_t){0}, .debug = &file, .facts = &f};
	struct event_dedup h;
	ck_assert_int_eq(ask(&h, &q), 0);
	run_until_done(&h);
	ck_assert(h.complete && !h.answers);
	ck_assert_uint_eq(f.has_debug, rows[_i].has_debug);
	ck_assert_uint_eq(f.id.len, rows[_i].id_len);
	ck_assert_uint_eq(f.n_segments, rows[_i].segments);
	ck_assert(!f.n_segments || f.segments[0].vaddr == 0x1000);
}
END_TEST

/* --- several at once ------------------------------------------------------------------------------------------ */

START_TEST(several_at_once)
{
	static struct event_dedup h[SYMBOLIZER_ASKED_MAX];
	char names[SYMBOLIZER_ASKED_MAX][32], want[64];
	for (size_t i = 0; i < LENGTH(h); i++) {
		snprintf(names[i], sizeof(names[i]), "_Z4f%03zuv", i);
		ask_name(&h[i], names[i]);
	}
	for (size_t i = 0; i < LENGTH(h); i++) {
		run_until_done(&h[i]);
		snprintf(want, sizeof(want), "10: f%03zu()(_Z4f%03zuv)@:0\n", i, i);
		ck_assert(h[i].complete);
		ck_assert_str_eq(h[i].text, want);
	}
}
END_TEST

START_TEST(a_large_one)
{
	static struct event_dedup h;
	ask_many(&h);
	run_until_done(&h);
	ck_assert(h.complete);
	ck_assert_uint_eq(h.answers, MANY);
}
END_TEST

START_TEST(cancelled)
{
	static struct event_dedup h[3], other;
	pid_t jobs[2];
	ask_name(&h[0], "main");
	symbolizer_cancel(h[0].job); /* at once */
	ask_many(&h[1]);
	ask_many(&h[2]);
	run_for(NSEC_PER_MSEC);
	for (int i = 1; i < 3; i++)
		if (!h[i].done)
			symbolizer_cancel(h[i].job); /* in the middle of it */
	size_t answers = h[1].answers + h[2].answers;
	ask_name(&other, "main");
	run_until_done(&other);
	ck_assert(other.complete);
	ck_assert_uint_eq(h[0].answers, 0);
	ck_assert_uint_eq(h[1].answers + h[2].answers, answers);
	ck_assert(!h[0].done);
	await_jobs(0, jobs); /* nobody reads: they end */
}
END_TEST

/* --- jobs that do not end well ---------------------------------------------------------------------------------- */

static const int deaths[] = {SIGKILL, SIGSEGV, SIGALRM, SIGABRT};

START_TEST(a_job_that_dies)
{
	static struct event_dedup h, other;
	pid_t job;
	ask_many(&h);
	await_jobs(1, &job);
	await_full(job);
	ck_assert_int_eq(kill(job, deaths[_i]), 0);
	run_until_done(&h);
	ck_assert_int_eq(h.outcome, SYMBOLIZER_BROKEN);
	ck_assert(!symbolizer_has_ended(symbolizer));
	ck_assert_msg(h.answers > 100 && h.answers < MANY, "%zu answers", h.answers);
	ask_name(&other, "_Z1fv"); /* the next one is as good as ever */
	run_until_done(&other);
	ck_assert(other.complete);
	ck_assert_str_eq(other.text, "10: f()(_Z1fv)@:0\n");
}
END_TEST

/* A name that stands for more text than there is memory: what was answered before it is kept. */
START_TEST(an_address_that_kills)
{
	static const uint64_t vaddrs[] = {1, 2, 3};
	static char bomb[512];
	static const char *const names[] = {"_Z1fv", bomb, "_Z1gv"};
	struct symbolizer_request q = {.n = 3, .vaddrs = vaddrs, .names = names};
	struct event_dedup h;
	size_t used = (size_t)sprintf(bomb, "_Z1fSt4pairIiiE");
	for (const char *id = "0123456789ABCDEFGHIJKLMNOPQRSTUVWX"; *id; id++) /* each twice the one before */
		used += (size_t)sprintf(bomb + used, "S_IS%c_S%c_E", *id, *id);
	ck_assert_int_eq(ask(&h, &q), 0);
	run_until_done(&h);
	ck_assert(!h.complete);
	ck_assert_str_eq(h.text, "1: f()(_Z1fv)@:0\n");
}
END_TEST

START_TEST(jobs_that_stop)
{
	static struct event_dedup h[2], third;
	pid_t jobs[SYMBOLIZER_JOBS_MAX];
	for (int i = 0; i < 2; i++)
		ask_many(&h[i]);
	await_jobs(2, jobs);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(kill(jobs[i], SIGSTOP), 0);
	ask_name(&third, "main");
	run_for(300 * NSEC_PER_MSEC);
	ck_assert(!h[0].done && !h[1].done && !third.done); /* and nothing else than waiting came of it */
	ck_assert_int_eq(kill(jobs[0], SIGKILL), 0);
	run_until_done(&third);
	ck_assert(third.complete);
	ck_assert_int_eq(kill(jobs[1], SIGKILL), 0);
	for (int i = 0; i < 2; i++) {
		run_until_done(&h[i]);
		ck_assert(!h[i].complete);
	}
}
END_TEST

/* Whatever its parents did with the signal. */
START_TEST(a_job_without_an_end)
{
	static struct event_dedup h;
	pid_t job;
	int64_t start_time = clock_now();
	sigset_t alarms;
	stop();
	sigemptyset(&alarms);
	sigaddset(&alarms, SIGALRM);
	sigprocmask(SIG_BLOCK, &alarms, NULL);
	signal(SIGALRM, SIG_IGN);
	start(1);
	ask_many(&h);
	await_jobs(1, &job);
	ck_assert(ends(job));
	int64_t took = clock_now() - start_time;
	ck_assert_msg(took > 900 * NSEC_PER_MSEC, "%lld ns", (long long)took);
	run_until_done(&h);
	ck_assert(!h.complete);
}
END_TEST

/* --- a server that does not end well ------------------------------------------------------------------------------ */

START_TEST(the_server_dies)
{
	static struct event_dedup h[4], late;
	static const uint64_t vaddr;
	static const char *const name = "main";
	struct symbolizer_request q = {.n = 1, .vaddrs = &vaddr, .names = &name};
	pid_t jobs[2];
	for (int i = 0; i < 4; i++)
		ask_many(&h[i]);
	await_jobs(2, jobs);
	ck_assert_int_eq(kill(server, SIGKILL), 0);
	ck_assert(ends(jobs[0]) && ends(jobs[1])); /* by the kernel, and a moment later: until then they answer */
	for (int i = 0; i < 4; i++) {
		run_until_done(&h[i]);
		ck_assert_int_eq(h[i].outcome, SYMBOLIZER_GONE); /* which is no job's fault */
	}
	ck_assert(symbolizer_has_ended(symbolizer));
	ck_assert_int_eq(ask(&late, &q), -EPIPE);
	ck_assert_int_eq(ask(&late, &q), -EPIPE);
	run_for(20 * NSEC_PER_MSEC);
	ck_assert(!late.done && !late.answers);
}
END_TEST

START_TEST(the_server_stops)
{
	static struct event_dedup h[2 * SYMBOLIZER_ASKED_MAX];
	static const uint64_t vaddr;
	static const char *const name = "main";
	struct symbolizer_request q = {.n = 1, .vaddrs = &vaddr, .names = &name};
	int r = 0;
	size_t n = 0;
	ck_assert_int_eq(kill(server, SIGSTOP), 0);
	while (n < LENGTH(h) && (r = ask(&h[n], &q)) == 0)
		n++;
	ck_assert_int_eq(r, -EBUSY);
	ck_assert_uint_eq(n, SYMBOLIZER_ASKED_MAX);
	run_for(20 * NSEC_PER_MSEC);
	for (size_t i = 0; i < n; i++) {
		ck_assert(!h[i].done && !h[i].answers);
		symbolizer_cancel(h[i].job);
	}
	ck_assert_int_eq(kill(server, SIGCONT), 0);
}
END_TEST

START_TEST(freed_with_jobs_at_work)
{
	static struct event_dedup h[3];
	pid_t jobs[2];
	for (int i = 0; i < 3; i++)
		ask_many(&h[i]);
	await_jobs(2, jobs);
	usleep(50000);
	symbolizer = symbolizer_free(symbolizer);
	for (int i = 0; i < 3; i++)
		symbolizer_cancel(h[i].job);
	ck_assert(ends(server) && ends(jobs[0]) && ends(jobs[1]));
}
END_TEST

/* As pilliond ends by a signal. */
START_TEST(its_parent_dies)
{
	int pipe[2];
	pid_t pids[3] = {0};
	ck_assert_int_eq(pipe2(pipe, O_CLOEXEC), 0);
	pid_t parent = fork();
	if (parent == 0) {
		static struct event_dedup h[2];
		start(0);
		ask_many(&h[0]);
		ask_many(&h[1]);
		await_jobs(2, pids);
		pids[2] = server;
		fd_write_all(pipe[1], pids, sizeof(pids));
		pause();
	}
	fd_close(pipe[1]);
	ck_assert_int_eq(fd_read_all(pipe[0], pids, sizeof(pids)), sizeof(pids));
	fd_close(pipe[0]);
	kill(parent, SIGKILL);
	waitpid(parent, NULL, 0);
	ck_assert(ends(pids[0]) && ends(pids[1]) && ends(pids[2]));
}
END_TEST

/* --- answers that lie --------------------------------------------------------------------------------------------- */

static uint8_t bytes[8192];
static size_t n_bytes;

static void put(const void *data, size_t size)
{
	ck_assert_uint_le(n_bytes + size, sizeof(bytes));
	memcpy(bytes + n_bytes, data, size);
	n_bytes += size;
}

static void put_head(uint32_t size, uint32_t index, uint32_t n)
{
	put(&(struct answer_head){size, index, n}, sizeof(struct answer_head));
}

#define LINE sizeof(struct answer_line)

static void put_good(uint32_t index)
{
	put_head(LINE + 5, index, 1);
	put(&(struct answer_line){1, 2, 2, 1, 2}, LINE);
	put("f\0\0g\0", 5);
}

static void put_end(void)
{
	put_head(0, ANSWER_END, 0);
}

static void on_index(void *arg, uint32_t index, const struct symbol_line *lines, size_t n)
{
	on_answer(arg, 0xa + index, lines, n);
}

static struct debug_facts *wanted;

static ssize_t take(size_t size, struct event_dedup *h, bool *complete)
{
	uint8_t answered[3] = {0};
	struct symbolizer_response_parser a = {
		.n = 3, .answered = answered, .take = on_index, .arg = h, .facts = wanted};
	uint8_t *exact = malloc(size ? size : 1);
	memcpy(exact, bytes, size);
	*h = (struct event_dedup){0};
	ssize_t r = answers_take(&a, exact, size);
	*complete = a.ended && a.n_answered == a.n;
	free(exact);
	return r;
}

/* Facts as a job may make them up: none that lead anybody out of bounds are taken. */
static void long_id(struct debug_facts *f)
{
	f->id.len = ELF_BUILD_ID_MAX + 1;
}
static void long_alt_id(struct debug_facts *f)
{
	f->alt_id.len = SIZE_MAX;
}
static void many_segments(struct debug_facts *f)
{
	f->n_segments = DEBUG_SEGMENTS_MAX + 1;
}
static void endless_link(struct debug_facts *f)
{
	memset(f->link, 'a', sizeof(f->link));
}
static void endless_alt(struct debug_facts *f)
{
	memset(f->alt, 'a', sizeof(f->alt));
}
static void at_their_most(struct debug_facts *f)
{
	memset(f, 0xff, sizeof(*f));
	f->id.len = f->alt_id.len = ELF_BUILD_ID_MAX;
	f->n_segments = DEBUG_SEGMENTS_MAX;
	f->link[sizeof(f->link) - 1] = f->alt[sizeof(f->alt) - 1] = 0;
}
static const struct {
	void (*change)(struct debug_facts *f);
	size_t less; /* bytes */
	bool good;
} made_up[] = {{long_id, 0, false}, {long_alt_id, 0, false}, {many_segments, 0, false}, {endless_link, 0, false},
	{endless_alt, 0, false}, {at_their_most, 0, true}, {at_their_most, 1, false}};

START_TEST(made_up_facts)
{
	static struct debug_facts f, got;
	struct event_dedup h;
	bool complete;
	made_up[_i].change(&f);
	n_bytes = 0;
	put_head((uint32_t)(sizeof(f) - made_up[_i].less), ANSWER_FACTS, 0);
	put(&f, sizeof(f));
	wanted = &got;
	ssize_t r = take(n_bytes, &h, &complete);
	wanted = NULL;
	ck_assert_int_eq(r, made_up[_i].good ? (ssize_t)n_bytes : -EBADMSG);
	ck_assert_uint_eq(got.n_segments, made_up[_i].good ? DEBUG_SEGMENTS_MAX : 0);
}
END_TEST

START_TEST(good_answers)
{
	static struct event_dedup h;
	bool complete;
	n_bytes = 0;
	put_head(0, ANSWER_BEGUN, 0);
	size_t begun = n_bytes;
	put_good(1);
	size_t first = n_bytes;
	put_good(0);
	size_t second = n_bytes;
	put_head(0, 2, 0);
	size_t third = n_bytes;
	put_end();
	size_t all = n_bytes;
	put("garbage", 7); /* nobody looks there */
	for (size_t n = 0; n <= n_bytes; n++) {
		ssize_t r = take(n, &h, &complete);
		size_t whole = n < begun ? 0 : n < first ? begun : n < second ? first : n < third ? second : third;
		ck_assert_int_eq(r, (ssize_t)(n < all ? whole : all));
		ck_assert_uint_eq(h.answers, n < first ? 0 : n < second ? 1 : n < third ? 2 : 3);
		ck_assert(complete == (n >= all));
	}
	ck_assert_str_eq(h.text, "b: f()@g:1\na: f()@g:1\nc:\n");
}
END_TEST

static void no_such_address(void)
{
	put_good(3);
}
static void twice(void)
{
	put_good(0);
}
static void a_mark_with_bytes(void)
{
	put_head(1, ANSWER_END, 0);
	put("", 1);
}
static void a_long_name(void)
{
	static const char name[SYMBOLIZER_NAME_MAX + 2];
	put_head((uint32_t)(LINE + sizeof(name) + 2), 0, 1);
	put(&(struct answer_line){1, 2, sizeof(name), 1, 1}, LINE);
	put(name, sizeof(name));
	put("\0", 2);
}
static void far_address(void)
{
	put_good(UINT32_MAX - 3);
}
static void unasked_facts(void)
{
	static struct debug_facts f;
	put_head(sizeof(f), ANSWER_FACTS, 0);
	put(&f, sizeof(f));
}
static void too_large(void)
{
	put_head(SYMBOLIZER_ANSWER_MAX + 1, 0, 1);
}
static void largest(void)
{
	put_head(UINT32_MAX, 0, 1);
}
static void too_many_lines(void)
{
	put_head(0, 0, NAME_CACHE_LINES_MAX + 1);
}
static void lines_that_are_not_there(void)
{
	put_head(LINE - 1, 0, 1);
	put((uint8_t[LINE]){0}, LINE);
}
static void text(uint32_t name, uint32_t linkage, uint32_t file, const char *texts, size_t size)
{
	put_head((uint32_t)(LINE + size), 0, 1);
	put(&(struct answer_line){1, 2, name, linkage, file}, LINE);
	put(texts, size);
}
static void text_without_end(void)
{
	text(2, 1, 1, "fg\0\0", 4);
}
static void text_of_no_bytes(void)
{
	text(0, 1, 1, "\0\0\0", 3);
}
static void text_behind_the_end(void)
{
	text(1, 1, 100, "\0\0\0", 3);
}
static void text_of_all_bytes(void)
{
	text(1, UINT32_MAX, 1, "\0\0\0", 3);
}
static void second_line_is_cut(void)
{
	put_head(LINE + 3 + LINE / 2, 0, 2);
	put(&(struct answer_line){1, 2, 1, 1, 1}, LINE);
	put("\0\0\0", 3);
	put((uint8_t[LINE]){0}, LINE);
}

static void (*const lies[])(void) = {no_such_address, twice, a_mark_with_bytes, a_long_name, far_address, unasked_facts,
	too_large, largest, too_many_lines, lines_that_are_not_there, text_without_end, text_of_no_bytes,
	text_behind_the_end, text_of_all_bytes, second_line_is_cut};

START_TEST(bad_answers)
{
	static struct event_dedup h;
	bool complete;
	n_bytes = 0;
	put_good(0);
	lies[_i]();
	put_good(1);
	put_end();
	ck_assert_int_eq(take(n_bytes, &h, &complete), -EBADMSG);
	ck_assert_uint_eq(h.answers, 1); /* the one before */
	ck_assert(!complete);
}
END_TEST

UNIT_SUITE(symbolizer_client)
{
	Suite *s = suite_create("symbolizer_client");
	TCase *t = tcase_create("server"), *p = tcase_create("programs"), *a = tcase_create("answers");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 30);
	tcase_add_test(t, names_alone);
	tcase_add_test(t, nothing_is_asked);
	tcase_add_test(t, long_names);
	tcase_add_test(t, several_at_once);
	tcase_add_test(t, a_large_one);
	tcase_add_test(t, cancelled);
	tcase_add_loop_test(t, a_job_that_dies, 0, LENGTH(deaths));
	tcase_add_test(t, an_address_that_kills);
	tcase_add_test(t, jobs_that_stop);
	tcase_add_test(t, a_job_without_an_end);
	tcase_add_test(t, the_server_dies);
	tcase_add_test(t, the_server_stops);
	tcase_add_test(t, freed_with_jobs_at_work);
	tcase_add_test(t, its_parent_dies);
	suite_add_tcase(s, t);

	tcase_add_checked_fixture(p, setup, teardown);
	tcase_add_unchecked_fixture(p, build, unbuild);
	tcase_add_loop_test(p, lines_and_names, 0, LENGTH(programs));
	tcase_add_loop_test(p, a_file_of_an_opener_that, 0, LENGTH(openers));
	tcase_add_loop_test(p, facts, 0, 4);
	suite_add_tcase(s, p);

	tcase_add_test(a, good_answers);
	tcase_add_loop_test(a, made_up_facts, 0, LENGTH(made_up));
	tcase_add_loop_test(a, bad_answers, 0, LENGTH(lies));
	suite_add_tcase(s, a);
	return s;
}
