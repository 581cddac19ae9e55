/* SPDX-License-Identifier: Apache-2.0 */
/* tree: calls, returns and all that is neither, at made-up stack addresses; threads, forks and signals, real ones. */
#include "shim/libpillion/calltree/calltree_stacks.h"

#include "oci/base/fd.h"
#include "shim/libpillion/core/arena.h"
#include "shim/libpillion/core/sys_clock.h"
#include "tests/unit/support/many.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define N(a) (sizeof(a) / sizeof((a)[0]))
#define MIB (1u << 20)

static const struct calltree_memory memory = {.size = 4 * MIB, .own = 4 * MIB};
static int fds;

static void begin(void)
{
	fds = fd_count();
	ck_assert_int_eq(calltree_start(TREE_CLOCK_NONE, &memory), 0);
}

static void end(void)
{
	calltree_reset();
	ck_assert_int_eq(fd_count(), fds);
}

/* --- what was counted ---------------------------------------------------------------------------------- */

static const struct tree_node *nodes(void)
{
	return (const struct tree_node *)calltree_switch.base;
}

static uint32_t n_nodes(void)
{
	return ((const struct tree_header *)calltree_switch.base)->chunks * (uint32_t)TREE_PER_CHUNK;
}

static bool is_node(uint32_t i)
{
	return i >= TREE_PER_CHUNK && i % TREE_PER_CHUNK && nodes()[i].fn;
}

/* A function is a letter; '*' is what was full */
static char *path(uint32_t i, char *end)
{
	for (*--end = 0; nodes()[i].fn != TREE_FN_ROOT; i = nodes()[i].parent)
		*--end = nodes()[i].fn == TREE_FN_FULL ? '*' : (char)nodes()[i].fn;
	return end;
}

struct line {
	char path[64];
	uint64_t calls;
};

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct line *)a)->path, ((const struct line *)b)->path);
}

/* "a 1, ab 3": each path with its calls */
static const char *counted(void)
{
	static char text[4096];
	static struct line lines[4096];
	size_t n = 0, at = 0;
	for (uint32_t i = 0; i < n_nodes(); i++) {
		char buf[64];
		if (!is_node(i) || !nodes()[i].calls)
			continue;
		ck_assert_uint_lt(nodes()[i].parent, i);
		snprintf(lines[n].path, sizeof(lines[n].path), "%s", path(i, buf + sizeof(buf)));
		lines[n++].calls = nodes()[i].calls;
	}
	qsort(lines, n, sizeof(lines[0]), by_path);
	text[0] = 0;
	for (size_t i = 0, k; i < n; i = k) {
		uint64_t calls = 0;
		for (k = i; k < n && !strcmp(lines[k].path, lines[i].path); k++)
			calls += lines[k].calls;
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%s %lu", i ? ", " : "", lines[i].path, calls);
	}
	return text;
}

static uint64_t calls_of(uint64_t fn) /* 0: of all */
{
	uint64_t sum = 0;
	for (uint32_t i = 0; i < n_nodes(); i++)
		if (is_node(i) && (!fn || nodes()[i].fn == fn))
			sum += nodes()[i].calls;
	return sum;
}

static uint64_t site_of(char fn)
{
	return 0x400000u + (uint64_t)fn * 24;
}

/* --- one thread, in words ------------------------------------------------------------------------------ */

/* "a7990" enters a with its hook at 0x7990, "~a7990" is its return with the hook there, "^a7a00" by a jump to the
 * hook, at the function's own CFA; "a'b7990" enters b, inlined in a. */
static void play(const char *script)
{
	for (int n; *script; script += n) {
		uint64_t sp;
		bool leaves = *script == '~' || *script == '^', jumps = *script == '^';
		char fn, outer = script[1] == '\'' ? *script : 0;
		script += leaves + (outer ? 2 : 0);
		ck_assert_int_eq(sscanf(script, "%c%lx %n", &fn, &sp, &n), 2);
		if (leaves)
			calltree_leave((uint64_t)fn, site_of(fn), sp, jumps ? site_of(fn) : (uint64_t)fn * 40 + 8);
		else
			calltree_enter((uint64_t)fn, site_of(outer ? outer : fn), sp, (uint64_t)fn * 40);
	}
}

static const struct {
	const char *scenario, *script, *expect;
} scripts[] = {
	{"nothing", "", ""},
	{"calls and returns", "a9000 b8f00 ~b8f00 b8f00 c8e00 ~c8e00 ~b8f00 c8f00 ~c8f00 ~a9000 a9000",
		"a 2, ab 2, abc 1, ac 1"},
	{"the last thing a function does is its hook: a jump",
		"a9000 b8f00 c8e00 ^c8f00 ^b9000 d8f80 ^d9000 ^a9100 e9000", "a 1, ab 1, abc 1, ad 1, e 1"},
	{"variable arrays: the hook is called farther down", "a9000 b8f00 c8800 ~c8800 ~b8900 ~a9000 d9000",
		"a 1, ab 1, abc 1, d 1"},
	{"inlined functions", "a9000 a'b9000 a'c9000 ~c9000 d8f00 ~d8f00 ~b9000 a'b9000 ~b9000 ^a9010 e9000",
		"a 1, ab 2, abc 1, abd 1, e 1"},
	{"inlined into one that itself is inlined, twice",
		"a9000 a'b9000 a'c9000 ~c9000 a'c9000 ~c9000 ~b9000 ~a9000 b9000", "a 1, ab 1, abc 2, b 1"},
	{"recursion is folded", "a9000 a8f00 a8e00 b8d00 ~b8d00 ~a8e00 b8e00 ~b8e00 ~a8f00 ~a9000 c9000",
		"a 3, ab 2, c 1"},
	{"recursion by two", "a9000 b8f00 a8e00 b8d00 c8c00 ~c8c00 ~b8d00 ~a8e00 ~b8f00 ~a9000 b9000",
		"a 2, ab 2, abc 1, b 1"},
	{"longjmp, and another call from there", "a9000 b8f00 c8e00 d8f00 ~d8f00 ~a9000 e9000",
		"a 1, ab 1, abc 1, ad 1, e 1"},
	{"longjmp, and the same call again, ten times",
		"a9000 b8f00 b8f00 b8f00 b8f00 b8f00 b8f00 b8f00 b8f00 b8f00 b8f00 c8e00", "a 1, ab 10, abc 1"},
	{"longjmp, and a return", "a9000 b8f00 c8e00 d8d00 ~a9000 e9000", "a 1, ab 1, abc 1, abcd 1, e 1"},
	{"longjmp out of a recursion to its first", "a9000 a8f00 a8e00 a8d00 ~a9000 b9000", "a 4, b 1"},
	{"longjmp out of a recursion, and a call with a larger frame than what was left",
		"m9100 a9000 a8f00 a8e00 a8d00 ~a9000 b8d80", "m 1, ma 4, mb 1"},
	{"the same, its last hook being a jump", "m9100 a9000 a8f00 a8e00 a8d00 ^a9100 b8d80", "m 1, ma 4, mb 1"},
	{"longjmp out of a recursion by one", "m9100 a9000 a8f00 ~a9000 b8d80", "m 1, ma 2, mb 1"},
	{"a jump out of a recursion, by one", "m9100 a9000 a8f00 ^a9000 b8d80", "m 1, ma 2, mab 1"},
	{"longjmp out of an inlined function", "a9000 b8f00 b'c8f00 d8f00 ~a9000 e9000", "a 1, ab 1, abc 1, ad 1, e 1"},
	{"a handler on the same stack", "a9000 h8c00 i8b00 ~i8b00 ~h8c00 b8f00", "a 1, ab 1, ah 1, ahi 1"},
	{"a handler on a stack above", "a9000 b8f00 h990000 i98ff00 ~i98ff00 ~h990000 c8e00 ~c8e00 ~b8f00 d8f00",
		"a 1, ab 1, abc 1, abh 1, abhi 1, ad 1"},
	{"a handler on a stack below", "a990000 b98ff00 h9000 i8f00 ~i8f00 ~h9000 c98fe00 ~c98fe00 ~b98ff00 d98ff00",
		"a 1, ab 1, abc 1, abh 1, abhi 1, ad 1"},
	{"longjmp out of a handler on another stack", "a990000 b98ff00 h9000 i8f00 d98ff00 ~d98ff00 ~a990000 e990000",
		"a 1, ab 1, abh 1, abhi 1, ad 1, e 1"},
	{"a frame larger than all",
		"a990000 b970000 c96ff00 ~c96ff00 ~b970000 d98ff00 ~d98ff00 b970000 ^b990000 d98ff00",
		"a 1, ab 2, abc 1, ad 2"},
	{"a return of what was entered before", "~a9000 b9000 ~b9000 ~c9100 ~d9200 b9000", "b 2"},
	{"an exception: a handler further up", "a9000 b8f00 c8e00 d8d00 ~d8d00 ~c8e00 ~b8f00 e8f00",
		"a 1, ab 1, abc 1, abcd 1, ae 1"},
	{"a vforked child that left by exec", "a9000 b8f00 c8e00 d8f00", "a 1, ab 1, abc 1, ad 1"},
	/* m resumes (r) coroutines on stacks of their own, which yield (y) in the middle of f */
	{"two coroutines in the same functions",
		"m990000 r98ff00 c20000 f1ff00 y1fe00 ~r98ff00 r98ff00 c30000 f2ff00 y2fe00 ~r98ff00 "
		"r98ff00 ~y1fe00 g1fe00 ~g1fe00 ~f1ff00 i1ff00 ~i1ff00 ~c20000 ~r98ff00 "
		"r98ff00 ~y2fe00 g2fe00 ~g2fe00 ~f2ff00 ~c30000 ~r98ff00 j98ff00",
		"m 1, mj 1, mr 4, mrc 2, mrcf 2, mrcfg 2, mrcfy 2, mrci 1"},
	{"a coroutine that nothing said goes on",
		"m990000 r98ff00 c20000 f1ff00 ~r98ff00 r98ff00 g1fe00 ~g1fe00 ~f1ff00",
		"m 1, mr 2, mrc 1, mrcf 1, mrcfg 1"},
	{"a coroutine that was given up, and another one on its stack",
		"m990000 r98ff00 c20000 f1ff00 g1fe00 ~r98ff00 r98ff00 c20000 i1ff00 ~i1ff00 ~c20000 ~r98ff00 j98ff00",
		"m 1, mj 1, mr 2, mrc 2, mrcf 1, mrcfg 1, mrci 1"},
};

START_TEST(a_script)
{
	play(scripts[_i].script);
	ck_assert_msg(!strcmp(counted(), scripts[_i].expect), "%s: %s", scripts[_i].scenario, counted());
	ck_assert_uint_eq(arena_header()->unplaced, 0);
}
END_TEST

START_TEST(a_site_is_a_node)
{
	calltree_enter('a', 0x1000, 0x9000, 1);
	for (int i = 0; i < 6; i++) {
		calltree_enter('b', 0x2000 + (uint64_t)(i % 3), 0x8f00, 2);
		calltree_leave('b', 0, 0x8f00, 1);
	}
	unsigned found = 0;
	for (uint32_t i = 0; i < n_nodes(); i++)
		if (is_node(i) && nodes()[i].fn == 'b') {
			found++;
			ck_assert_uint_eq(nodes()[i].calls, 2);
		}
	ck_assert_uint_eq(found, 3);
}
END_TEST

/* --- bounds -------------------------------------------------------------------------------------------- */

START_TEST(a_million_frames)
{
	uint64_t sp = 1ull << 40;
	play("m990000");
	for (int round = 0; round < 2; round++) {
		calltree_enter('r', site_of('r'), sp, 1);
		for (int i = 1; i <= 1000000; i++)
			calltree_enter(i % 3 ? 'a' : 'b', site_of('a'), sp - (uint64_t)i * 96, 2);
		/* at the bottom calls that return, too */
		for (int i = 0; i < 1000; i++) {
			calltree_enter('c', site_of('c'), sp - 1000001ull * 96, 3);
			calltree_leave('c', 0, sp - 1000001ull * 96, 1);
		}
		for (int i = 1000000; i > 0 && round == 0; i--)
			calltree_leave(i % 3 ? 'a' : 'b', 0, sp - (uint64_t)i * 96, 1);
		calltree_leave('r', 0, sp, 1); /* the second time by longjmp */
	}
	play("n98ff00");
	ck_assert_uint_eq(calls_of('a'), 2 * 666667);
	ck_assert_uint_eq(calls_of('b'), 2 * 333333);
	ck_assert_uint_eq(calls_of('c'), 2000);
	ck_assert_uint_eq(calls_of(0), 2 * 1001001 + 2);
	ck_assert_uint_le(n_nodes(), 2 * TREE_PER_CHUNK);
	ck_assert_ptr_nonnull(strstr(counted(), "m 1, mn 1, mr 2"));
}
END_TEST

START_TEST(a_wide_parent)
{
	play("a9000");
	for (int round = 0; round < 3; round++)
		for (uint64_t i = 0; i < 10000; i++) {
			calltree_enter(0x10000 + i, 0x1000 + i / 7, 0x8f00, 2);
			calltree_leave(0x10000 + i, 0, 0x8f00, 1);
		}
	for (uint64_t i = 0; i < 10000; i++)
		ck_assert_uint_eq(calls_of(0x10000 + i), 3);
	ck_assert_uint_le(n_nodes(), 10000 + 4 * TREE_PER_CHUNK + 10000 / TREE_PER_CHUNK);
}
END_TEST

START_TEST(full)
{
	calltree_reset();
	const struct calltree_memory little = {.size = ARENA_SHARED_MIN, .own = 4 * MIB};
	uint64_t calls = 1, most = ARENA_SHARED_MIN / sizeof(struct tree_node);
	ck_assert_int_eq(calltree_start(TREE_CLOCK_NONE, &little), 0);
	play("a9000");
	for (uint64_t i = 0; i < 2 * most; i++, calls += 2) {
		calltree_enter(0x10000 + i, 0x1000, 0x8f00, 2);
		calltree_enter('b', site_of('b'), 0x8e00, 2);
		calltree_leave('b', 0, 0x8e00, 1);
		calltree_leave(0x10000 + i, 0, 0x8f00, 1);
	}
	/* what is known goes on as before, and what is not is back where it came from */
	play("a'c9000 ~c9000 ~a9000 a9000");
	ck_assert_uint_eq(calls_of('a'), 2);
	ck_assert_uint_eq(calls_of(0), calls + 2);
	ck_assert_uint_gt(calls_of(TREE_FN_FULL), most);
	ck_assert_uint_lt(calls_of(TREE_FN_FULL), 4 * most);
}
END_TEST

static void *one_call(void *arg)
{
	calltree_enter('t', site_of('t'), (uint64_t)(uintptr_t)&arg, 1);
	calltree_leave('t', 0, (uint64_t)(uintptr_t)&arg, 1);
	return NULL;
}

static void run_thread(void *(*run)(void *), void *arg)
{
	pthread_t t;
	ck_assert_int_eq(pthread_create(&t, NULL, run, arg), 0);
	ck_assert_int_eq(pthread_join(t, NULL), 0);
}

START_TEST(no_room_for_a_thread)
{
	calltree_reset();
	const struct calltree_memory none = {.size = ARENA_SHARED_MIN, .own = 4096};
	ck_assert_int_eq(calltree_start(TREE_CLOCK_NONE, &none), 0);
	for (int i = 0; i < 3; i++)
		run_thread(one_call, NULL);
	play("a9000 b8f00 ~b8f00 ~a9000");
	ck_assert_uint_eq(arena_header()->unplaced, 5);
	ck_assert_str_eq(counted(), "");
}
END_TEST

/* --- threads, signals, processes ------------------------------------------------------------------------ */

#define THREADS 4
#define CALLS 50000

/* None ends before all have trees: who takes over the tree of one that has ended knows that from the kernel, of which a
 * thread sanitizer sees nothing (short_threads has it, with joins). */
static pthread_barrier_t all_begun;

static void *many_calls(void *arg)
{
	uint64_t sp = (uint64_t)(uintptr_t)&sp & ~0xffull;
	for (uint64_t i = 0; i < CALLS; i++) {
		calltree_enter('a' + i % 5, site_of('a') + i % 97, sp, 1);
		calltree_enter('x', site_of('x'), sp - 64, 2);
		calltree_leave('x', 0, sp - 64, 1);
		calltree_leave('a' + i % 5, 0, sp, 1);
		if (i == 0)
			pthread_barrier_wait(&all_begun);
	}
	return NULL;
}

START_TEST(threads_sum_exactly)
{
	pthread_t t[THREADS];
	pthread_barrier_init(&all_begun, NULL, THREADS);
	for (int i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&t[i], NULL, many_calls, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	ck_assert_uint_eq(calls_of('x'), THREADS * CALLS);
	ck_assert_uint_eq(calls_of('c'), THREADS * CALLS / 5);
	ck_assert_uint_eq(calls_of(0), 2 * THREADS * CALLS);
}
END_TEST

START_TEST(short_threads)
{
	for (int i = 0; i < 2000; i++)
		run_thread(one_call, NULL);
	ck_assert_uint_eq(calls_of('t'), 2000);
	ck_assert_uint_lt(arena_header()->chunks, 64);
}
END_TEST

static volatile sig_atomic_t handled;

static void handler(int sig)
{
	static uint64_t n; /* each time a path that is new for some time */
	uint64_t sp = (uint64_t)(uintptr_t)&sp & ~0xffull;
	calltree_enter('h', site_of('h'), sp, 7);
	calltree_enter('i', 0x700000 + n++ % 4096, sp - 64, 8);
	calltree_leave('i', 0, sp - 64, 1);
	calltree_leave('h', 0, sp, 1);
	handled++;
}

START_TEST(a_handler_interrupts_all_of_it)
{
	struct sigaction sa = {.sa_handler = handler, .sa_flags = SA_RESTART};
	struct itimerval often = {{0, 20}, {0, 20}}, never = {0};
	uint64_t sp = (uint64_t)(uintptr_t)&sp & ~0xffull, n = 0;
	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	calltree_enter('m', site_of('m'), sp, 1);
	for (; handled < 3000; n++) {
		calltree_enter('a' + n % 3, 0x500000 + n % 9973, sp - 64, 1);
		calltree_enter('x', site_of('x'), sp - 128, 2);
		calltree_leave('x', 0, sp - 128, 1);
		calltree_leave('a' + n % 3, 0, sp - 64, 1);
	}
	setitimer(ITIMER_REAL, &never, NULL);
	uint64_t h = (uint64_t)handled;
	ck_assert_uint_eq(calls_of(0), 1 + 2 * n + 2 * h);
	ck_assert_uint_eq(calls_of('m'), 1);
	/* where a handler comes into every attempt to make a table larger, as on a busy machine, there is no room */
	const uint64_t without = calls_of(TREE_FN_FULL);
	ck_assert_uint_le(calls_of('x'), n);
	ck_assert_uint_le(calls_of('h'), h);
	ck_assert_uint_ge(calls_of('x') + calls_of('h') + without, n + h);
	calltree_leave('m', 0, sp, 1);
	ck_assert_ptr_eq(calltree_own.top, tree_stack_of(calltree_own.top)->frames);
}
END_TEST

/*
 * The CPU stops behind each instruction; at one of them, each in its turn, a handler has calls of its own. Under a
 * sanitizer, whose instructions are several times as many, every tenth has its turn.
 */
enum { TURN = 10 / MANY_OF(10) };
static volatile int steps, chosen;
static void step(int sig)
{
	uint64_t sp = (uint64_t)(uintptr_t)&sp & ~0xffull;
	if (++steps != chosen)
		return;
	calltree_enter('h', site_of('h'), sp, 7);
	calltree_enter('i', site_of('i'), sp - 64, 8);
	calltree_leave('i', 0, sp - 64, 1);
	calltree_leave('h', 0, sp, 1);
	handled++;
}

/* In a function that calls others, so that nothing of it is below its stack pointer */
#define STEP(flags) __asm__ volatile("pushfq; " flags ", (%%rsp); popfq" ::: "memory", "cc")

START_TEST(a_handler_between_any_two_instructions)
{
	struct sigaction sa = {.sa_handler = step};
	uint64_t sp = (uint64_t)(uintptr_t)&sp & ~0xffull, n = 0;
	char expect[32];
	sigaction(SIGTRAP, &sa, NULL);
	calltree_enter('m', site_of('m'), sp, 1);
	handled = 0;
	for (chosen = 1, steps = chosen; steps >= chosen; chosen += TURN, n++) {
		steps = 0;
		STEP("orq $256");
		calltree_enter('a', site_of('a'), sp - 64, 1);
		calltree_enter('x', 0x600000 + n * 8, sp - 128, 2); /* for the first time, now and then */
		calltree_leave('x', 0, sp - 128, 1);
		calltree_leave('a', 0, sp - 64, 1);
		STEP("andq $-257");
	}
	calltree_leave('m', 0, sp, 1);
	ck_assert_int_gt(handled, 200 / TURN);
	ck_assert_uint_eq(calls_of(0), 1 + 2 * n + 2 * (uint64_t)handled);
	/* each on its path, whatever was in between */
	snprintf(expect, sizeof(expect), "m 1, ma %lu, mah ", n);
	ck_assert_msg(!strncmp(counted(), expect, strlen(expect)), "%s", counted());
	snprintf(expect, sizeof(expect), ", max %lu, maxh ", n);
	ck_assert_msg(strstr(counted(), expect) != NULL, "%s", counted());
	ck_assert_ptr_eq(calltree_own.top, tree_stack_of(calltree_own.top)->frames);
}
END_TEST

static int in_child(void (*run)(void))
{
	int status;
	pid_t pid = fork();
	if (pid == 0) {
		run();
		_exit(0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	return status;
}

static void grandchild_counts(void)
{
	play("e9000");
	if (strcmp(counted(), "e 1"))
		_exit(1);
}

static void child_counts(void)
{
	play("~b8f00 c8f00 ~c8f00 ~a9000 d9000");
	if (strcmp(counted(), "c 1, d 1") || arena_header()->pid != (uint32_t)getpid())
		_exit(1);
	run_thread(one_call, NULL);
	if (strcmp(counted(), "c 1, d 1, t 1") || in_child(grandchild_counts) != 0)
		_exit(2);
}

START_TEST(a_forked_child_begins_anew)
{
	play("a9000 b8f00");
	ck_assert_int_eq(in_child(child_counts), 0);
	play("~b8f00 b8f00");
	ck_assert_str_eq(counted(), "a 1, ab 2");
}
END_TEST

START_TEST(memory_from_outside)
{
	calltree_reset();
	int fd = memfd_create("tree", MFD_CLOEXEC);
	ck_assert_int_eq(ftruncate(fd, MIB), 0);
	char *writer = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0),
	     *reader = mmap(NULL, MIB, PROT_READ, MAP_SHARED, fd, 0);
	const struct calltree_memory outside = {.shared = writer, .size = MIB, .own = MIB};
	ck_assert_int_eq(calltree_start(TREE_CLOCK_NONE, &outside), 0);
	play("a9000 b8f00");
	ck_assert_int_eq(in_child(child_counts), 0); /* who has no such memory */
	play("~b8f00 b8f00");
	calltree_switch.base = reader;
	ck_assert_str_eq(counted(), "a 1, ab 2");
	ck_assert_mem_eq(reader, TREE_MAGIC, 8);
	calltree_reset();
	munmap(writer, MIB);
	munmap(reader, MIB);
	fd_close(fd);
}
END_TEST

START_TEST(off_and_on)
{
	play("a9000 b8f00");
	calltree_stop();
	play("c8e00 ~c8e00 ~b8f00 d8f00 ~d8f00");
	ck_assert_str_eq(counted(), "a 1, ab 1");
	ck_assert_int_eq(calltree_start(TREE_CLOCK_NONE, &memory), 0);
	play("e8f00 ~e8f00 ~a9000 a9000");
	ck_assert_str_eq(counted(), "a 2, ab 1, ae 1");
}
END_TEST

/* --- time ---------------------------------------------------------------------------------------------- */

static void spend(unsigned ms)
{
	for (uint64_t until = sys_clock_ns(CLOCK_MONOTONIC) + ms * 1000000ull; sys_clock_ns(CLOCK_MONOTONIC) < until;)
		;
}

static uint64_t ticks_of(uint64_t fn)
{
	uint64_t sum = 0;
	for (uint32_t i = 0; i < n_nodes(); i++)
		sum += is_node(i) && nodes()[i].fn == fn ? nodes()[i].ticks : 0;
	return sum;
}

/* By clock readings within the function, and around it: whatever else the machine does. */
static struct {
	uint64_t outside, inside, most, least;
} timed[3];

static void enter_timed(int i, const char *script)
{
	timed[i].outside = sys_clock_ns(CLOCK_MONOTONIC);
	play(script);
	timed[i].inside = sys_clock_ns(CLOCK_MONOTONIC);
}

static void leave_timed(int i, const char *script)
{
	timed[i].least += sys_clock_ns(CLOCK_MONOTONIC) - timed[i].inside;
	play(script);
	timed[i].most += sys_clock_ns(CLOCK_MONOTONIC) - timed[i].outside;
}

static void check_time(int i, uint64_t fn, uint64_t inner_least, uint64_t inner_most)
{
	const struct tree_header *h = arena_header();
	double tick = 1, ns;
	if (h->clock == TREE_CLOCK_TSC)
		tick = (double)(sys_clock_ns(CLOCK_MONOTONIC) - h->monotonic_ns) / (double)(ticks_read() - h->tsc);
	ns = (double)ticks_of(fn) * tick;
	ck_assert_double_ge(ns, (double)(timed[i].least - inner_most) * 0.95);
	ck_assert_double_le(ns, (double)(timed[i].most - inner_least) * 1.05);
}

START_TEST(exclusive_time)
{
	enum tree_clock clock = _i ? TREE_CLOCK_KERNEL : calltree_clock_best();
	ck_assert_int_eq(calltree_start(clock, &memory), 0);
	spend(30); /* before the first call: nobody's */
	enter_timed(0, "a9000");
	spend(10);
	enter_timed(1, "b8f00");
	spend(20);
	leave_timed(1, "~b8f00");
	spend(10);
	leave_timed(0, "~a9000");
	calltree_stop();
	spend(30); /* nobody's either */
	ck_assert_int_eq(calltree_start(clock, &memory), 0);
	enter_timed(0, "a9000");
	spend(10);
	leave_timed(0, "~a9000");
	enter_timed(2, "c9000");
	spend(5);
	timed[2].least += sys_clock_ns(CLOCK_MONOTONIC) - timed[2].inside;
	play("d8f00 ~d8f00");
	timed[2].most += sys_clock_ns(CLOCK_MONOTONIC) - timed[2].outside;
	calltree_stop();
	spend(30); /* in the middle of c */
	ck_assert_int_eq(calltree_start(clock, &memory), 0);
	enter_timed(2, "d8f00");
	leave_timed(2, "~d8f00");
	play("~c9000");
	check_time(2, 'c', 0, 0);
	check_time(0, 'a', timed[1].least, timed[1].most);
	check_time(1, 'b', 0, 0);
}
END_TEST

UNIT_SUITE(calltree)
{
	Suite *s = suite_create("calltree");
	TCase *t = tcase_create("calltree");

	tcase_add_checked_fixture(t, begin, end);
	tcase_set_timeout(t, 120);
	tcase_add_loop_test(t, a_script, 0, N(scripts));
	tcase_add_test(t, a_site_is_a_node);
	tcase_add_test(t, a_million_frames);
	tcase_add_test(t, a_wide_parent);
	tcase_add_test(t, full);
	tcase_add_test(t, no_room_for_a_thread);
	tcase_add_test(t, threads_sum_exactly);
	tcase_add_test(t, short_threads);
	tcase_add_test(t, a_handler_interrupts_all_of_it);
	tcase_add_test(t, a_forked_child_begins_anew);
	tcase_add_test(t, memory_from_outside);
	tcase_add_test(t, off_and_on);
	tcase_add_loop_test(t, exclusive_time, 0, 2);
	suite_add_tcase(s, t);
#ifndef __SANITIZE_THREAD__ /* which calls handlers when it likes */
	TCase *stepped = tcase_create("stepped");
	tcase_set_tags(stepped, SUITE_LONG);
	tcase_add_checked_fixture(stepped, begin, end);
	tcase_set_timeout(stepped, 120);
	tcase_add_test(stepped, a_handler_between_any_two_instructions);
	suite_add_tcase(s, stepped);
#else
	(void)a_handler_between_any_two_instructions;
#endif
	return s;
}
