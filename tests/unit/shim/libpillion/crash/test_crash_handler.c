/* SPDX-License-Identifier: Apache-2.0 */
/*
 * crash: the handler in this very program's children, with a profiler of our own at the other end; the directory of
 * reports, and what a report is told like. (What programs see of it is in tests/integration/suite_crash.sh.)
 */
#include "shim/libpillion/crash/crash_handler.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "profiler/inproc/crash_report.h"
#include "profiler/inproc/shm_reader.h"
#include "profiler/spool/crash_dir.h"
#include "profiler/target/target.h"
#include "shim/libpillion/core/altstack.h"
#include "shim/libpillion/core/atfork.h"
#include "shim/libpillion/core/connection.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define WAIT_NS (10 * NSEC_PER_SEC)

static int fds, listener;
static char dir[] = "/tmp/test_crash.XXXXXX";

/* --- a profiler, and a program ------------------------------------------------------------------------------ */

static void listen_there(void)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	snprintf(at.sun_path, sizeof(at.sun_path), "%s", getenv("PILLION_SOCKET"));
	unlink(at.sun_path);
	listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(bind(listener, (struct sockaddr *)&at, sizeof(at)), 0);
	ck_assert_int_eq(listen(listener, 4), 0);
	fds = fd_count();
}

static void done(void)
{
	ck_assert_int_eq(fd_count(), fds);
	close(listener);
	unlink(getenv("PILLION_SOCKET"));
}

/* Of a program that connects: its socket, and what it shares. */
static int welcome(struct shm_reader *ret)
{
	struct shm_hello hello;
	const struct shm_welcome w = {.magic = SHM_MAGIC, .version = SHM_VERSION, .crash = 1};
	size_t n = 0;
	int memory = -1;
	ck_assert_int_eq(fd_wait(listener, POLLIN, deadline_in(WAIT_NS)), 1);
	const int sock = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	ck_assert_int_eq(fd_recv(sock, &hello, sizeof(hello), &memory, 1, &n), sizeof(hello));
	ck_assert_int_eq(hello.version, SHM_VERSION);
	ck_assert_int_eq(shm_reader_open(memory, ret), 0);
	ck_assert_int_eq(fd_send(sock, &w, sizeof(w), NULL, 0), 0);
	return sock;
}

struct event_dedup {
	unsigned maps, crashes;
	struct shm_record record;
	struct shm_crash crash;
};

static void hear(void *arg, const struct shm_record *r)
{
	struct event_dedup *h = arg;
	h->maps += r->kind == SHM_MAPS && !h->crashes;
	if (r->kind != SHM_CRASH)
		return;
	h->crashes++;
	h->record = *r;
	h->crash = *shm_reader_crash(r);
}

/* What a sanitizer has for these signals is the program's. */
static void begin_program(void)
{
	static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP};
	for (unsigned i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		signal(signals[i], SIG_DFL);
	connection_answer_ms = WAIT_NS / NSEC_PER_MSEC; /* this process' parent is the profiler */
	ck_assert_ptr_nonnull(connection_get());
}

typedef void program_fn(void);

/* Its status, and what it told. */
static int run(program_fn *fn, struct event_dedup *ret)
{
	struct shm_reader inbox;
	int status;
	*ret = (struct event_dedup){0};
	const pid_t pid = fork();
	if (pid == 0) {
		begin_program();
		fn();
		_exit(0);
	}
	const int sock = welcome(&inbox);
	const int64_t began = clock_now();
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_lt(clock_now() - began, WAIT_NS);
	ck_assert_int_ge(shm_reader_drain(&inbox, INT64_MAX, true, hear, ret), 0);
	ck_assert_int_eq((int)ret->record.tid, ret->crashes ? pid : 0);
	shm_reader_close(&inbox);
	close(sock);
	return status;
}

/* --- programs --------------------------------------------------------------------------------------------- */

static void divide(void)
{
	__asm__ volatile("xorl %%ecx, %%ecx\n\tcltd\n\tidivl %%ecx" ::: "eax", "ecx", "edx");
}
static void null(void)
{
	__asm__ volatile("movl $1, 0x10" ::: "memory");
}
static void breakpoint(void)
{
	__asm__ volatile("int3");
}
static void raise_abort(void)
{
	raise(SIGABRT);
}
static void queue(void)
{
	sigqueue(getpid(), SIGBUS, (union sigval){.sival_int = 3});
}

/* A fault of ours, in the middle of telling. */
static void broken_items(void)
{
	connection_get()->area.items = (struct shm_item *)64;
	divide();
}
static void broken_head(void)
{
	connection_get()->area.head = (struct shm_head *)4096;
	null();
}

/* Nothing is read: the program waits for room no longer than it may. */
static void full(void)
{
	struct connection *p = connection_get();
	struct shm_place place;
	bool wake;
	while (shm_reserve(&p->area, SHM_RECORD_MAX, &place, &wake))
		;
	divide();
}
static void withdrawn(void)
{
	struct kernel_action now;
	crash_handler_want(false);
	ck_assert(sigaction_set(SIGSEGV, NULL, &now) == 0 && now.plain == SIG_DFL);
	null();
}
static void ended(void)
{
	crash_handler_end();
	crash_handler_want(true);
	null();
}

static const struct {
	const char *scenario;
	program_fn *fn;
	int signal, code;
	unsigned told;
} programs[] = {
	{"a division", divide, SIGFPE, FPE_INTDIV, 1},
	{"a write to nothing", null, SIGSEGV, SEGV_MAPERR, 1},
	{"a breakpoint", breakpoint, SIGTRAP, SI_KERNEL, 1},
	{"a signal raised", raise_abort, SIGABRT, SI_TKILL, 1},
	{"a signal queued", queue, SIGBUS, SI_QUEUE, 1},
	{"a fault of ours as the record is published", broken_items, SIGFPE, 0, 0},
	{"a fault of ours at the first touch", broken_head, SIGSEGV, 0, 0},
	{"no room", full, SIGFPE, 0, 0},
	{"nobody wants it any more", withdrawn, SIGSEGV, 0, 0},
	{"it is over for good", ended, SIGSEGV, 0, 0},
};

START_TEST(ends_as_it_would)
{
	struct event_dedup h;
	const int status = run(programs[_i].fn, &h);
	ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == programs[_i].signal, "%s: status %x",
		programs[_i].scenario, (unsigned)status);
	ck_assert_msg(h.crashes == programs[_i].told, "%s: %u records", programs[_i].scenario, h.crashes);
	if (!h.crashes)
		return;
	ck_assert_int_eq((int)h.crash.signal, programs[_i].signal);
	ck_assert_int_eq(h.crash.code, programs[_i].code);
	ck_assert_msg(h.maps >= 1, "%s: what is mapped does not come first", programs[_i].scenario);
	ck_assert_uint_gt(h.record.stack, 0);
	ck_assert_uint_ne(h.record.regs.ip, 0);
	if (programs[_i].fn == null)
		ck_assert_uint_eq(h.crash.address, 0x10);
	if (h.crash.code <= 0)
		ck_assert_uint_eq(h.crash.sender, h.record.tid);
}
END_TEST

/* --- whose a disposition is ----------------------------------------------------------------------------------- */

static void nothing(int sig) {}

static void shows(void)
{
	const struct kernel_action dfl = {.plain = SIG_DFL,
		.flags = SA_RESTART | SIGACTION_RESTORER,
		.restorer = sigaction_restorer,
		.mask = 0x400};
	const struct kernel_action own = {
		.plain = nothing, .flags = SIGACTION_RESTORER, .restorer = sigaction_restorer};
	struct kernel_action once = own, seen;
	once.flags |= SA_RESETHAND;
	if (!crash_handler_is_on() || !crash_handler_shows(SIGILL, &seen) || seen.plain != SIG_DFL ||
		crash_handler_shows(SIGUSR1, &seen))
		_exit(1);
	sigaction_set(SIGILL, &dfl, NULL);
	crash_handler_was_set(SIGILL);
	if (!crash_handler_shows(SIGILL, &seen) || seen.plain != SIG_DFL || seen.flags != dfl.flags ||
		seen.mask != dfl.mask)
		_exit(2);
	sigaction_set(SIGILL, &own, NULL); /* the kernel has it as it is */
	crash_handler_was_set(SIGILL);
	if (crash_handler_shows(SIGILL, &seen) || sigaction_set(SIGILL, NULL, &seen) || seen.plain != nothing)
		_exit(3);
	sigaction_set(SIGILL, &once, NULL);
	crash_handler_was_set(SIGILL);
	if (!crash_handler_shows(SIGILL, &seen) || seen.plain != nothing || seen.flags != once.flags)
		_exit(4);
	raise(SIGILL); /* once */
	if (!crash_handler_shows(SIGILL, &seen) || seen.plain != SIG_DFL)
		_exit(5);
	signal(SIGILL, SIG_IGN);
	crash_handler_was_set(SIGILL);
	if (crash_handler_shows(SIGILL, &seen))
		_exit(6);
}

START_TEST(what_the_application_is_shown)
{
	struct event_dedup h;
	const int status = run(shows, &h);
	ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", (unsigned)status);
	ck_assert_uint_eq(h.crashes, 0);
}
END_TEST

/* --- stacks for handlers ---------------------------------------------------------------------------------------- */

static void *thread(void *arg)
{
	struct altstack *a = arg;
	stack_t s;
	altstack_use(a);
	void *ret = sigaltstack(NULL, &s) == 0 && altstack_is_ours(&s) && s.ss_size == ALTSTACK_SIZE ? a : NULL;
	altstack_release(a);
	if (sigaltstack(NULL, &s) < 0 || !(s.ss_flags & SS_DISABLE))
		ret = NULL;
	return ret;
}

static void *leaving(void *arg)
{
	altstack_use(arg);
	pthread_exit(NULL);
}

START_TEST(stacks_are_used_again)
{
	struct altstack *first = altstack_take(), *a;
	pthread_t t;
	void *ret;
	ck_assert_ptr_nonnull(first);
	altstack_release(first);
	for (unsigned i = 0; i < 3 * ALTSTACK_MAX; i++) {
		a = altstack_take();
		ck_assert_ptr_eq(a, first); /* the same, as nobody has it */
		altstack_release(a);
	}
	a = altstack_take();
	ck_assert_int_eq(pthread_create(&t, NULL, thread, a), 0);
	pthread_join(t, &ret);
	ck_assert_ptr_eq(ret, a);
	a = altstack_take();
	ck_assert_int_eq(pthread_create(&t, NULL, leaving, a), 0);
	pthread_join(t, NULL);
	unsigned n = 0; /* who has gone gives back what it had */
	for (bool again = false; !again && n < ALTSTACK_MAX + 64; n++) {
		struct altstack *b = altstack_take();
		again = b == a;
	}
	ck_assert_uint_lt(n, ALTSTACK_MAX + 64);
}
END_TEST

/* It goes on with that of the thread that forked: nobody else may have it. */
START_TEST(a_child_keeps_the_stack_of_its_handlers)
{
	int status;
	atfork_follow();
	struct altstack *own = altstack_take();
	ck_assert_ptr_nonnull(own);
	altstack_use(own);
	const pid_t pid = fork();
	if (pid == 0) {
		for (unsigned n = 0; n < ALTSTACK_MAX + 64; n++)
			if (altstack_take() == own)
				_exit(1);
		_exit(0);
	}
	altstack_release(own);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}
END_TEST

/* --- the directory -------------------------------------------------------------------------------------------- */

static unsigned files_in(const char *path)
{
	char **names;
	size_t n;
	fd_auto at = fd_open_dir(AT_FDCWD, path);
	ck_assert_int_eq(crash_dir_list(at, &names, &n), 0);
	for (size_t i = 1; i < n; i++)
		ck_assert_int_lt(strcmp(names[i - 1], names[i]), 0);
	crash_dir_list_done(names);
	return (unsigned)n;
}

/* Another session writes, and one that was killed has begun. */
START_TEST(what_others_write_stays)
{
	char path[64], written[256];
	struct err e = {0};
	snprintf(path, sizeof(path), "%s", dir);
	ck_assert_ptr_nonnull(mkdtemp(path));
	fd_auto spool = fd_open_dir(AT_FDCWD, path);
	ck_assert_int_eq(crash_dir_write(spool, "web", 1000, 1, "{}", 2, written, sizeof(written), &e), 0);
	fd_auto at = fd_open_dir(spool, CRASH_DIR);
	close(openat(at, ".writing.1", O_WRONLY | O_CREAT, 0640));
	close(openat(at, ".writing.4194305", O_WRONLY | O_CREAT, 0640)); /* no pid is that high */
	ck_assert_int_eq(crash_dir_write(spool, "web", 2000, 1, "{}", 2, written, sizeof(written), &e), 0);
	ck_assert_int_eq(unlinkat(at, ".writing.1", 0), 0);
	ck_assert_int_eq(unlinkat(at, ".writing.4194305", 0), -1);
	snprintf(written, sizeof(written), "rm -rf %s", path);
	ck_assert_int_eq(system(written), 0);
}
END_TEST

START_TEST(reports_of_a_target_are_few)
{
	char path[64], below[256], first[256], other[128];
	struct err e = {0};
	struct stat st;
	snprintf(path, sizeof(path), "%s", dir);
	ck_assert_ptr_nonnull(mkdtemp(path));
	fd_auto at = fd_open_dir(AT_FDCWD, path);
	snprintf(other, sizeof(other), "%s/crashes", path);
	for (int i = 0; i < CRASH_DIR_TARGET_MAX + 10; i++) {
		ck_assert_int_eq(
			crash_dir_write(at, "a-1", (1000 + i) * NSEC_PER_SEC, 7, "{}\n", 3, below, sizeof(below), &e),
			0);
		if (i == 0)
			snprintf(first, sizeof(first), "%s", below);
	}
	ck_assert_str_eq(first, "crashes/19700101T001640.000000000Z-a-1-7.json");
	ck_assert_uint_eq(files_in(other), CRASH_DIR_TARGET_MAX);
	ck_assert_int_eq(fstatat(at, first, &st, 0), -1);
	ck_assert_int_eq(fstatat(at, below, &st, 0), 0);
	ck_assert_uint_eq(st.st_mode & 0777, 0640);
	/* another target's stay; the same a second time is the same file */
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(crash_dir_write(at, "../..", NSEC_PER_SEC, 1, "{}\n", 3, below, sizeof(below), &e), 0);
	ck_assert_str_eq(below, "crashes/19700101T000001.000000000Z-.._..-1.json");
	ck_assert_uint_eq(files_in(other), CRASH_DIR_TARGET_MAX + 1);
	/* what is no report stays */
	snprintf(below, sizeof(below), "%s/notes.json", other);
	close(open(below, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	ck_assert_uint_eq(files_in(other), CRASH_DIR_TARGET_MAX + 1);
	snprintf(below, sizeof(below), "rm -r %s", path);
	ck_assert_int_eq(system(below), 0);
}
END_TEST

/* --- what is told ----------------------------------------------------------------------------------------------- */

static const struct {
	const char *scenario;
	int signal, code;
	uint64_t address, trap, error;
	const char *what;
} whats[] = {
	{"a write", SIGSEGV, SEGV_MAPERR, 0x10, 14, 6, "write to 0x10, where nothing is mapped"},
	{"a read", SIGSEGV, SEGV_ACCERR, 0x10, 14, 5, "read of 0x10, which the mapping there does not permit"},
	{"code", SIGSEGV, SEGV_MAPERR, 0x10, 14, 20, "code at 0x10, where nothing is mapped"},
	{"no address", SIGSEGV, SI_KERNEL, 0, 13, 0,
		"an address that is none, or an instruction that user code may not have"},
	{"sent", SIGSEGV, SI_USER, 0, 0, 0, "sent by kill(2): by pid 5 of user 6"},
	{"sent as nobody knows", SIGBUS, -60, 0, 0, 0, "sent: by pid 5 of user 6"},
	{"a code that nobody knows", SIGFPE, 77, 0, 0, 0, ""},
};

START_TEST(what_it_was)
{
	static const struct target_desc desc;
	struct crash_report c = {.desc = &desc,
		.real = 1795613710 * NSEC_PER_SEC + 5000,
		.pid = 3,
		.says = {.signal = (uint32_t)whats[_i].signal,
			.code = whats[_i].code,
			.address = whats[_i].address,
			.trap = whats[_i].trap,
			.error = whats[_i].error,
			.sender = 5,
			.user = 6}};
	struct err e = {0};
	struct json *doc;
	char *text = NULL, *shown = NULL;
	size_t len, shown_len;
	snprintf(c.process, sizeof(c.process), "a\x1b[2Jb\xff");
	FILE *out = open_memstream(&text, &len);
	ck_assert_int_eq(crash_report_json(&c, out), 0);
	fclose(out);
	ck_assert_int_eq(json_parse(text, len, &doc, &e), 0);
	const char *what = json_text(json_member(json_member(doc, "signal"), "what"), NULL);
	ck_assert_msg(!strcmp(what ? what : "", whats[_i].what), "%s: %s", whats[_i].scenario, what);
	ck_assert_str_eq(json_text(json_member(doc, "time"), NULL), "2026-11-25T13:35:10.000005Z");
	out = open_memstream(&shown, &shown_len);
	crash_report_text(doc, out);
	crash_report_line(doc, "file", out);
	fclose(out);
	ck_assert_ptr_null(memchr(shown, 0x1b, shown_len));
	ck_assert_ptr_nonnull(strstr(shown, "a?[2Jb?"));
	json_free(doc);
	free(shown);
	free(text);
}
END_TEST

UNIT_SUITE(crash_handler)
{
	/* The library reads the path from the environment in its constructor: this program starts once more. */
	if (!getenv("PILLION_SOCKET")) {
		char path[64];
		snprintf(path, sizeof(path), "/tmp/test_crash.%d", (int)getpid());
		setenv("PILLION_SOCKET", path, 1);
		execl("/proc/self/exe", "units", "crash_handler", NULL);
		_exit(1);
	}
	Suite *s = suite_create("crash_handler");
	TCase *t = tcase_create("process");
	tcase_add_checked_fixture(t, listen_there, done);
	tcase_set_timeout(t, 30);
	tcase_add_loop_test(t, ends_as_it_would, 0, sizeof(programs) / sizeof(programs[0]));
	tcase_add_test(t, what_the_application_is_shown);
	suite_add_tcase(s, t);
	t = tcase_create("files");
	tcase_add_test(t, stacks_are_used_again);
	tcase_add_test(t, a_child_keeps_the_stack_of_its_handlers);
	tcase_add_test(t, what_others_write_stays);
	tcase_add_test(t, reports_of_a_target_are_few);
	tcase_add_loop_test(t, what_it_was, 0, sizeof(whats) / sizeof(whats[0]));
	suite_add_tcase(s, t);
	return s;
}
