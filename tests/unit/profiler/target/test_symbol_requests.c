/* SPDX-License-Identifier: Apache-2.0 */
/* naming: which addresses are asked about, and when it is given up. The test is the symbolizer. */
#include "profiler/target/symbol_requests.h"

#include "oci/base/fd.h"
#include "profiler/process/module.h"
#include "profiler/symbol/symbolizer_client.h"
#include "profiler/target/symbolizer_link.h"
#include "tests/unit/support/fed.h"
#include "tests/unit/support/here.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define PATIENCE_NS (20 * NSEC_PER_SEC)

/* Its name is mangled, so that it is worth a question without debug information, too. */
void naming_mangled(void) __asm__("_ZN6naming7mangledEi");
void naming_mangled(void) {}

static struct engine engine;
static struct target *target;
static struct module *module;
static struct aggregate *counts;
static int asked; /* where questions come */
static struct symbol_request *naming;
static uint64_t vaddr;
static bool done;

static int open_self(void *arg, const char *path, struct file *ret)
{
	return file_take(fd_open(AT_FDCWD, "/proc/self/exe", O_RDONLY, 0), ret);
}

static uint64_t find_vaddr(uint64_t here)
{
	uint64_t at = 0;
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512];
	while (fgets(line, sizeof(line), maps)) {
		uint64_t start, end, offset;
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %" SCNx64, &start, &end, &offset) == 3 && here >= start &&
			here < end)
			at = module_vaddr(module, here - start + offset);
	}
	fclose(maps);
	return at;
}

static void add_frame(struct module *m, uint64_t at)
{
	ck_assert_int_ge(
		aggregate_put(counts, &(struct stack_frame){.kind = FRAME_USER, .module = m, .vaddr = at}, 1), 0);
}

static void begin(void)
{
	int ends[2];
	fed_engine(&engine);
	engine.host.channel = -1;
	target = fed_target(&engine, 1);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	asked = ends[0];
	ck_assert_int_eq(symbolizer_new(ends[1], &engine.symbols.symbolizer), 0);
	/* no path: debug information is not looked for */
	ck_assert_int_eq(modules_get(engine.symbols.modules, &(struct module_key){.path = "self", .ino = 1}, open_self,
				 NULL, &module),
		0);
	vaddr = find_vaddr((uintptr_t)naming_mangled);
	ck_assert_str_eq(module_symbol(module, vaddr, NULL), "_ZN6naming7mangledEi");
	ck_assert_int_eq(aggregate_new(&counts), 0);
	add_frame(module, vaddr);
}

static void end(void)
{
	symbol_requests_free(naming);
	symbolizer_free(engine.symbols.symbolizer);
	fd_close(asked);
	aggregate_free(counts);
	module_unref(module);
	fed_engine_done(&engine);
}

static void on_done(void *arg)
{
	done = true;
}

/* Whether anything is missing that is worth a question. */
static bool start_for(enum symbol_requests_use use)
{
	done = false;
	naming = symbol_requests_start(target, &counts, 1, use, clock_now() + PATIENCE_NS, on_done, NULL);
	return naming;
}

static bool start(void)
{
	return start_for(SYMBOL_REQUESTS_LAST_WINDOW);
}

static int until_done(void *arg)
{
	if (done || clock_now() >= *(int64_t *)arg)
		event_loop_stop(engine.loop);
	return 10;
}

static struct question_head question; /* the last one that was answered */

/* What was asked is answered with these bytes, and that is all that comes. */
static void answer(const void *bytes, size_t size)
{
	char any;
	int fds[QUESTION_FDS];
	size_t n = 0;
	int64_t until = clock_now() + PATIENCE_NS;
	ck_assert_int_ge(fd_recv(asked, &any, sizeof(any), fds, QUESTION_FDS, &n), 0);
	ck_assert_uint_gt(n, QUESTION_ANSWERS);
	ck_assert_int_eq(pread(fds[QUESTION_ITSELF], &question, sizeof(question), 0), sizeof(question));
	ck_assert_int_eq(fd_write_all(fds[QUESTION_ANSWERS], bytes, size), 0);
	for (size_t i = 0; i < n; i++)
		fd_close(fds[i]);
	ck_assert_int_eq(event_loop_run(engine.loop, until_done, &until), 0);
	ck_assert(done);
	naming = symbol_requests_free(naming);
}

static const struct __attribute__((packed)) {
	struct answer_head begun, head;
	struct answer_line line;
	char text[21];
	struct answer_head end;
} demangled = {{0, ANSWER_BEGUN, 0}, {sizeof(struct answer_line) + 21, 0, 1}, {1, 1, 19, 1, 1},
	"naming::mangled(x)\0\0", {0, ANSWER_END, 0}};

/* Its job dies each time: what kills six of them is not tried again in every window. */
START_TEST(a_module_whose_jobs_die_is_given_up)
{
	const struct answer_head begun = {0, ANSWER_BEGUN, 0};
	for (unsigned i = 0; i < 6; i++) {
		ck_assert_msg(start(), "asked %u times", i);
		answer(&begun, sizeof(begun));
	}
	ck_assert(!start());
}
END_TEST

START_TEST(what_has_a_name_is_not_asked_about)
{
	const struct symbol_line *lines;
	size_t n;
	ck_assert(start());
	ck_assert_uint_eq(symbol_requests_left(naming), 1);
	answer(&demangled, sizeof(demangled));
	ck_assert(module_names(module, vaddr, &lines, &n) && n == 1);
	ck_assert_str_eq(lines->name, "naming::mangled(x)");
	ck_assert(!start());
}
END_TEST

/* Where there is no room for an answer, a question is time spent for nothing. */
START_TEST(a_module_that_is_full_is_not_asked_about)
{
	char text[4096];
	struct symbol_line line = {text, "", "", 1, 1};
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	for (uint64_t i = 0; !module_names_full(module); i++) {
		snprintf(text, 32, "%020" PRIu64, i);
		text[20] = 'x';
		ck_assert_int_eq(module_names_put(module, vaddr + 1 + i, &line, 1), 0);
	}
	ck_assert(!start());
}
END_TEST

static void spend(uint64_t other)
{
	engine.rates.allowance.spent[0].other = other;
}

static bool starts_for(enum symbol_requests_use use)
{
	bool started = start_for(use);
	naming = symbol_requests_free(naming);
	return started;
}

/* What may be put off is, and said to be missing; a crash has its names. */
START_TEST(names_are_put_off_where_the_budget_is_spent)
{
	engine.rates.allowed = NSEC_PER_SEC / 60;
	spend(2 * NSEC_PER_SEC);
	ck_assert(!starts_for(SYMBOL_REQUESTS_WINDOW) && !starts_for(SYMBOL_REQUESTS_LAST_WINDOW));
	ck_assert_uint_eq(symbol_requests_put_off(target, &counts, 1, SYMBOL_REQUESTS_LAST_WINDOW), 1);
	ck_assert(starts_for(SYMBOL_REQUESTS_CRASH));
	engine.role.single = true;
	ck_assert(starts_for(SYMBOL_REQUESTS_WINDOW));
	engine.role.single = false;
	spend(NSEC_PER_SEC / 2);
	ck_assert(starts_for(SYMBOL_REQUESTS_WINDOW));
	target->names.spent = 2 * SYMBOL_REQUESTS_CREDIT;
	ck_assert(!starts_for(SYMBOL_REQUESTS_WINDOW) && starts_for(SYMBOL_REQUESTS_LAST_WINDOW));
	ck_assert_uint_eq(symbol_requests_put_off(target, &counts, 1, SYMBOL_REQUESTS_WINDOW), 1);
	ck_assert_uint_eq(symbol_requests_put_off(target, &counts, 1, SYMBOL_REQUESTS_LAST_WINDOW), 0);
}
END_TEST

/* --- a symbolizer that cannot be asked now */

static struct symbol_request *others[SYMBOLIZER_ASKED_MAX];

static void make_busy(void)
{
	for (size_t i = 0; i < SYMBOLIZER_ASKED_MAX; i++) {
		ck_assert(start());
		others[i] = naming;
	}
	naming = NULL;
}

static void make_idle(void)
{
	for (size_t i = 0; i < SYMBOLIZER_ASKED_MAX; i++)
		others[i] = symbol_requests_free(others[i]);
}

/* It has ended. The supervisor, which is at the other end of the channel, is about to have the next one. */
static void make_awaited(void)
{
	engine.host.channel = asked;
	engine.symbols.symbolizer_renewable = true;
	ck_assert_int_eq(shutdown(symbolizer_socket(engine.symbols.symbolizer), SHUT_RDWR), 0);
}

static void renew(void)
{
	int ends[2];
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	fd_close(asked);
	engine.host.channel = asked = ends[0];
	symbolizer_link_update(&engine, SYMBOLIZER_THERE | SYMBOLIZER_RENEWABLE,
		(int[]){ends[1], fd_open(AT_FDCWD, "/dev/null", O_RDONLY, 0)}, 2);
}

/* Takes the questions that have come; returns their number. */
static unsigned count_questions(void)
{
	char any;
	int fds[QUESTION_FDS];
	size_t n = 0;
	unsigned questions = 0;
	for (; fd_recv_now(asked, &any, sizeof(any), fds, QUESTION_FDS, &n) > 0; questions++)
		for (size_t i = 0; i < n; i++)
			fd_close(fds[i]);
	return questions;
}

static const struct {
	void (*begin)(void), (*end)(void);
	unsigned before;
} waits[] = {
	{make_busy, make_idle, SYMBOLIZER_ASKED_MAX},
	{make_awaited, renew, 0},
};

START_TEST(a_question_waits_for_a_symbolizer_that_is_busy_or_awaited)
{
	const int64_t now = clock_now();
	waits[_i].begin();
	ck_assert(start());
	ck_assert_int_gt(symbol_requests_round(naming, now), 0);
	ck_assert_uint_eq(symbol_requests_left(naming), 1);
	ck_assert_uint_eq(count_questions(), waits[_i].before);
	waits[_i].end();
	ck_assert_int_gt(symbol_requests_round(naming, now), 0);
	ck_assert_uint_eq(count_questions(), 1);
	ck_assert_int_gt(symbol_requests_round(naming, now), 0);
	ck_assert_uint_eq(count_questions(), 0); /* the question is open */
	ck_assert(!done);
}
END_TEST

/* A name that needs no demangling: the module's debug information, for which it waits, turns out not to exist. */
START_TEST(files_are_looked_for_when_the_symbolizer_can_be_asked)
{
	const int64_t now = clock_now();
	struct module *plain;
	waits[_i].begin();
	ck_assert_int_eq(modules_get(engine.symbols.modules, &(struct module_key){.path = "/plain", .ino = 2},
				 open_self, NULL, &plain),
		0);
	aggregate_free(counts);
	ck_assert_int_eq(aggregate_new(&counts), 0);
	add_frame(plain, find_vaddr((uintptr_t)on_done));
	ck_assert(start());
	ck_assert_int_gt(symbol_requests_round(naming, now), 0);
	ck_assert(!done);
	waits[_i].end();
	ck_assert_int_eq(symbol_requests_round(naming, now), -1);
	ck_assert(done);
	naming = symbol_requests_free(naming);
	ck_assert(!start());
	module_unref(plain);
}
END_TEST

/* Addresses without names, below and above the mangled one: without debug information the demangler alone can help. */
START_TEST(without_debug_information_mangled_names_are_asked_about)
{
	const struct symbol_line *lines;
	struct module *file;
	size_t n;
	ck_assert_int_eq(modules_get(engine.symbols.modules, &(struct module_key){.path = "/file", .ino = 2}, open_self,
				 NULL, &file),
		0);
	aggregate_free(counts);
	ck_assert_int_eq(aggregate_new(&counts), 0);
	add_frame(file, UINT64_MAX);
	add_frame(file, vaddr);
	add_frame(file, 1);
	ck_assert(start());
	answer(&demangled, sizeof(demangled));
	ck_assert_uint_eq(question.n, 1);
	ck_assert_int_eq(question.debug.wanted, 0);
	ck_assert(module_names(file, vaddr, &lines, &n) && n == 1);
	ck_assert_str_eq(lines->name, "naming::mangled(x)");
	ck_assert(!module_names(file, 1, &lines, &n) && !module_names(file, UINT64_MAX, &lines, &n));
	ck_assert(!start());
	module_unref(file);
}
END_TEST

#define MODULES 11

static unsigned n_questions;

/* count_questions closes the pipe of each question, so its job ends without an answer. */
static int until_all_ended(void *arg)
{
	unsigned now = count_questions();
	ck_assert_uint_le(now, 4);
	n_questions += now;
	return until_done(arg);
}

/* Each job may have files open and takes memory of its own. */
START_TEST(four_modules_are_asked_about_at_once)
{
	struct module *more[MODULES];
	int64_t until = clock_now() + PATIENCE_NS;
	for (unsigned i = 1; i < MODULES; i++) {
		ck_assert_int_eq(modules_get(engine.symbols.modules, &(struct module_key){.path = "self", .ino = 1 + i},
					 open_self, NULL, &more[i]),
			0);
		add_frame(more[i], vaddr);
	}
	ck_assert(start());
	ck_assert_uint_eq(symbol_requests_left(naming), MODULES);
	n_questions = count_questions();
	ck_assert_uint_eq(n_questions, 4);
	ck_assert_int_eq(event_loop_run(engine.loop, until_all_ended, &until), 0);
	ck_assert(done);
	ck_assert_uint_eq(n_questions, MODULES);
	ck_assert_uint_eq(symbol_requests_left(naming), MODULES);
	for (unsigned i = 1; i < MODULES; i++)
		module_unref(more[i]);
}
END_TEST

/* Without a successor there are no names: the request is over at once, and no later one begins. */
START_TEST(an_ended_symbolizer_is_forgotten)
{
	ck_assert_int_eq(shutdown(symbolizer_socket(engine.symbols.symbolizer), SHUT_RDWR), 0);
	ck_assert(!start());
	ck_assert_ptr_null(engine.symbols.symbolizer);
	ck_assert(!start());
}
END_TEST

START_TEST(a_deadline_can_come_nearer_but_not_recede)
{
	const int64_t now = clock_now();
	done = false;
	naming = symbol_requests_start(
		target, &counts, 1, SYMBOL_REQUESTS_LAST_WINDOW, now + 9 * NSEC_PER_SEC, on_done, NULL);
	ck_assert_ptr_nonnull(naming);
	ck_assert_int_eq(symbol_requests_round(naming, now), 9001);
	symbol_requests_hurry(naming, now + 2 * NSEC_PER_SEC);
	ck_assert_int_eq(symbol_requests_round(naming, now), 2001);
	symbol_requests_hurry(naming, now + 5 * NSEC_PER_SEC);
	ck_assert_int_eq(symbol_requests_round(naming, now), 2001);
	ck_assert_int_eq(symbol_requests_round(naming, now + 2 * NSEC_PER_SEC - 1), 1);
	ck_assert(!done);
	ck_assert_int_eq(symbol_requests_round(naming, now + 2 * NSEC_PER_SEC), -1);
	ck_assert(done);
	ck_assert_uint_eq(symbol_requests_left(naming), 1);
}
END_TEST

UNIT_SUITE(symbol_requests)
{
	Suite *s = suite_create("symbol_requests");
	TCase *t = tcase_create("symbol_requests");
	tcase_add_checked_fixture(t, begin, end);
	tcase_add_test(t, a_module_whose_jobs_die_is_given_up);
	tcase_add_test(t, what_has_a_name_is_not_asked_about);
	tcase_add_test(t, a_module_that_is_full_is_not_asked_about);
	tcase_add_test(t, names_are_put_off_where_the_budget_is_spent);
	tcase_add_loop_test(t, a_question_waits_for_a_symbolizer_that_is_busy_or_awaited, 0, COUNT(waits));
	tcase_add_loop_test(t, files_are_looked_for_when_the_symbolizer_can_be_asked, 0, COUNT(waits));
	tcase_add_test(t, without_debug_information_mangled_names_are_asked_about);
	tcase_add_test(t, four_modules_are_asked_about_at_once);
	tcase_add_test(t, an_ended_symbolizer_is_forgotten);
	tcase_add_test(t, a_deadline_can_come_nearer_but_not_recede);
	suite_add_tcase(s, t);
	return s;
}
