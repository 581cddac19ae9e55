/* SPDX-License-Identifier: Apache-2.0 */
/*
 * commit: what a worker knew and had counted is with its successor; nothing twice; side-band to the last record; and
 * whatever a journal says, it is read to its end.
 */
#include "profiler/target/checkpoint/checkpoint_write.h"

#include "oci/base/clock.h"
#include "oci/base/clock_driven.h"
#include "profiler/daemon/exporter_manager.h"
#include "profiler/pprof/pprof.h"
#include "profiler/target/checkpoint/checkpoint_read.h"
#include "profiler/target/engine.h"
#include "profiler/target/exporter_link.h"
#include "profiler/target/target_coverage.h"
#include "profiler/target/target_usage.h"
#include "tests/unit/support/child.h"
#include "tests/unit/support/fed.h"
#include "tests/unit/support/forked.h"
#include "tests/unit/support/full.h"
#include "tests/unit/support/skip.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SECOND NSEC_PER_SEC
#define USER ((uint64_t)PERF_CONTEXT_USER)
#define KERNEL ((uint64_t)PERF_CONTEXT_KERNEL)

static int fds, files[2];
static struct engine engines[2], *g = &engines[0]; /* code made at run time knows its engine: they do not move */
static struct target *t;
static int64_t now;

/* --- the spool, and who writes it: as a supervisor starts it, and the same for every worker */

#define PATIENCE_NS (20 * NSEC_PER_SEC)

static char spool_path[32];
static struct event_loop *watch;
static struct exporter_manager exporting;

static void start_exporter(void)
{
	struct err e = {0};
	ck_assert_msg(exporter_manager_start(&exporting, watch, &e) == 0, "%s", e.text);
}

/* What t belongs to speaks to it, on a copy of the one socket. */
static void open_spool(void)
{
	struct err e = {0};
	if (!spool_path[0]) {
		strcpy(spool_path, "/tmp/test_commit.XXXXXX");
		ck_assert_ptr_nonnull(mkdtemp(spool_path));
		exporting.setup = (struct exporter_setup){.spool = fd_open_dir(AT_FDCWD, spool_path), .http.fd = -1};
		ck_assert_int_ge(exporting.setup.spool, 0);
		ck_assert_int_eq(event_loop_new(&watch), 0);
		start_exporter();
	}
	t->engine->spool.exporter_sock = fcntl(exporting.process.sock, F_DUPFD_CLOEXEC, 0);
	ck_assert_msg(exporter_link_open(t->engine, &e) == 0, "%s", e.text);
}

/* It has ended, and nobody is left. */
static void reap_exporter(void)
{
	int64_t deadline = deadline_in(PATIENCE_NS);
	int r;
	while ((r = waitpid(exporting.process.pid, NULL, WNOHANG | __WALL)) == 0 && clock_now() < deadline)
		usleep(1000);
	ck_assert_msg(r != 0, "an exporter is left");
}

/* Nobody speaks to it any more, so it ends when it has written what it was handed. */
static void close_spool(void)
{
	char command[64];
	if (!spool_path[0])
		return;
	exporter_manager_close(&exporting, watch);
	reap_exporter();
	watch = event_loop_free(watch);
	snprintf(command, sizeof(command), "rm -rf %s", spool_path);
	ck_assert_int_eq(system(command), 0);
	spool_path[0] = 0;
}

static struct {
	unsigned left;
	int64_t until;
} wanted;

static int until_answered(void *arg)
{
	const struct engine *e = arg;
	if (t->spool.unwritten <= wanted.left || clock_now() >= wanted.until)
		event_loop_stop(e->loop);
	return 10;
}

/* Until so many profiles of t are left that the exporter has not answered. */
static void run_until_left(unsigned left)
{
	wanted.left = left;
	wanted.until = deadline_in(PATIENCE_NS);
	ck_assert_int_eq(event_loop_run(t->engine->loop, until_answered, t->engine), 0);
	ck_assert_uint_eq(t->spool.unwritten, left);
}

/* As a kill leaves it: nothing more is handed over, no answer is heard. */
static void hang_up(struct engine *e)
{
	if (e->spool.exporter)
		exporter_client_connect(e->spool.exporter, -1);
}

static void begin(void)
{
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); /* as pilliond has it by then: a seccomp role needs it */
	struct engine first;
	fed_engine(&first); /* libunwind keeps two descriptors for good */
	fed_engine_done(&first);
	fds = fd_count();
	now = clock_now();
	fed_files(files);
	fed_engine(g);
	fed_commit(g, files);
	ck_assert(checkpoint_waits(g->commit));
	ck_assert_uint_eq(checkpoint_resume(g->commit, g, now), 0);
	ck_assert(!checkpoint_waits(g->commit));
	t = fed_target(g, 1);
}

static void end(void)
{
	fed_engine_done(g);
	close_spool();
	for (int i = 0; i < 2; i++)
		fd_close(files[i]);
	ck_assert_int_eq(fd_count(), fds);
}

/* Time of these tests runs ahead, for nobody wants to wait, and never back. */
static void catch_up(void)
{
	int64_t real = clock_now();
	now = real > now ? real : now;
}

static void commit_now(void)
{
	now += SECOND;
	checkpoint_round(g->commit, g, now);
}

static void (*register_more)(struct target *of);

/* As after a kill: nothing is left but the files, and the targets are registered anew. */
static unsigned succeed(unsigned targets)
{
	struct engine *fresh = g == engines ? engines + 1 : engines;
	fed_engine(fresh);
	fed_commit(fresh, files);
	for (unsigned i = 1; i <= targets; i++) {
		struct target *of = fed_target(fresh, i);
		if (register_more)
			register_more(of);
	}
	unsigned n = checkpoint_resume(fresh->commit, fresh, now);
	/* the one that was killed tidies nothing up: its files are closed before it could say that targets are gone */
	g->commit = checkpoint_free(g->commit);
	hang_up(g);
	fed_engine_done(g);
	g = fresh;
	t = target_find(g, "c1");
	return n;
}

static void begin_program(struct target *of)
{
	fed_comm(of, (uint64_t)now, FED_INIT, FED_INIT, "init", true);
	fed_map(of, (uint64_t)now, FED_INIT, 0x400000, 0x10000, "/bin/init");
	fed_map(of, (uint64_t)now, FED_INIT, 0x7f0000000000, 0x100000, "/lib/libc.so.6");
	fed_map(of, (uint64_t)now, FED_INIT, 0x7f1000000000, 0x10000, "//anon");
	fed_map(of, (uint64_t)now, FED_INIT, 0x7f2000000000, 0x10000, "/tmp/jit-5000.dump");
	ck_assert(of->sampling.started);
}

/* Samples of every kind of frame, by some processes and threads. */
static void work(struct target *of, unsigned from, unsigned to)
{
	for (unsigned i = from; i < to; i++) {
		uint64_t chain[] = {KERNEL, 0xffffffff81000000 + i % 7, USER, 0x400000 + i % 97,
			0x7f0000000100 + i % 31, 0x7f1000000000 + i % 5, 0x400100};
		uint32_t pid = i % 5 ? FED_INIT : FED_INIT + 1 + i % 3;
		fed_sample(of, fed_events(of, i % 11 == 0), (uint64_t)now + i, i % 13 ? pid : 0, pid + i % 2, chain, 7);
		if (i % 50 == 0)
			fed_task(of, PERF_RECORD_FORK, (uint64_t)now + i, FED_INIT + 1 + i % 3, FED_INIT + 1 + i % 3,
				FED_INIT);
		if (i % 17 == 0) {
			fed_task(of, PERF_RECORD_FORK, (uint64_t)now + i, FED_INIT, FED_INIT + i % 200, FED_INIT);
			fed_comm(of, (uint64_t)now + i, FED_INIT, FED_INIT + i % 200, "named", false);
		}
	}
}

static void compare(const char *what, char *before, char *after)
{
	size_t at = 0;
	while (before[at] && before[at] == after[at])
		at++;
	size_t from = at > 200 ? at - 200 : 0;
	ck_assert_msg(before[at] == after[at], "%s: was ...%.400s\nis ...%.400s", what, before + from, after + from);
	free(before);
	free(after);
}

/* --- what comes back */

START_TEST(everything_comes_back)
{
	begin_program(t);
	work(t, 0, 1000);
	commit_now();
	char *before = fed_dump(g);
	ck_assert_ptr_nonnull(strstr(before, "<jit 5000 /tmp/jit-5000.dump>"));
	ck_assert_ptr_nonnull(strstr(before, "[outside pid namespace]"));
	ck_assert_uint_eq(succeed(1), 1);
	compare("once", before, fed_dump(g));
	ck_assert_uint_eq(t->sampling.tally.restarts, 1);
	before = fed_dump(g);
	ck_assert_uint_eq(succeed(1), 1);
	compare("twice", before, fed_dump(g));
	ck_assert_uint_eq(t->sampling.tally.restarts, 2);
}
END_TEST

START_TEST(each_special_frame_comes_back)
{
	const char *names[64] = {frame_table_full, frame_outside, frame_lost, frame_not_sampled, frame_nowhere,
		frame_short, frame_approximate};
	const struct sample_origin who = {FED_INIT, FED_INIT, "a", "b", "c", NULL};
	size_t n = 7;
	begin_program(t);
	work(t, 0, 1000);
	for (unsigned i = 0; i < UNWIND_STOPS; i++)
		if (unwind_stop_name(i))
			names[n++] = unwind_stop_name(i);
	for (size_t i = 0; i < n; i++)
		aggregate_add(t->sampling.counts[0], &(struct stack_frame){.kind = FRAME_SPECIAL, .name = names[i]}, 1,
			&who, 1, i);
	commit_now();
	char *before = fed_dump(g);
	for (size_t i = 0; i < n; i++)
		ck_assert_msg(strstr(before, names[i]), "no %s", names[i]);
	ck_assert_uint_eq(succeed(1), 1);
	compare("specials", before, fed_dump(g));
}
END_TEST

START_TEST(changes_add_up_to_the_whole)
{
	begin_program(t);
	for (unsigned i = 0; i < 3000; i += 100) {
		work(t, i, i + 100);
		commit_now();
		if (i % 700 == 0)
			ck_assert_uint_eq(succeed(1), 1);
	}
	char *before = fed_dump(g);
	succeed(1);
	compare("in parts", before, fed_dump(g));
	uint64_t counted = 0;
	static struct aggregate_sample s;
	for (unsigned spec = 0; spec < 2; spec++)
		for (size_t i = 0; i < aggregate_samples(t->sampling.counts[spec]); i++) {
			aggregate_sample(t->sampling.counts[spec], i, &s);
			counted += s.count;
		}
	ck_assert(counted == 3000 && t->sampling.tally.samples == 3000);
}
END_TEST

START_TEST(counts_are_as_committed_and_records_as_taken)
{
	begin_program(t);
	work(t, 0, 40);
	commit_now();
	fed_map(t, (uint64_t)now, FED_INIT, 0x7f3000000000, 0x1000, "/lib/late.so");
	fed_task(t, PERF_RECORD_FORK, (uint64_t)now, 6000, 6000, FED_INIT);
	fed_comm(t, (uint64_t)now, 6000, 6000, "child", true);
	fed_task(t, PERF_RECORD_EXIT, (uint64_t)now, 6000, 6000, FED_INIT);
	target_lost(t, 5, 0, clock_now(), false);
	work(t, 40, 45); /* not committed */
	fed_comm(t, (uint64_t)now, FED_INIT, FED_INIT, "renamed", false);
	succeed(1);
	ck_assert_uint_eq(t->sampling.tally.samples, 40);
	const struct process *p = process_table_find(t->sampling.processes, FED_INIT),
			     *child = process_table_find(t->sampling.processes, 6000);
	ck_assert_ptr_nonnull(p);
	ck_assert_str_eq(p->comm, "renamed");
	ck_assert_ptr_nonnull(address_space_find(p->space, 0x7f3000000000));
	ck_assert(address_space_lossy(p->space));
	ck_assert(child && child->exited && !strcmp(child->comm, "child") && !address_space_count(child->space));
}
END_TEST

START_TEST(a_record_that_comes_again_changes_nothing)
{
	begin_program(t);
	commit_now(); /* else when that was is looked up again, to the nanosecond */
	fed_task(t, PERF_RECORD_FORK, (uint64_t)now, 6000, 6000, FED_INIT);
	for (int i = 0; i < 5; i++) {
		char *before = fed_dump(g);
		succeed(1);
		switch (i) {
		case 0:
			fed_task(t, PERF_RECORD_FORK, (uint64_t)now, 6000, 6000, FED_INIT);
			compare("fork", before, fed_dump(g));
			fed_comm(t, (uint64_t)now, 6000, 6000, "child", true);
			break;
		case 1:
			fed_comm(t, (uint64_t)now, 6000, 6000, "child", true);
			compare("exec", before, fed_dump(g));
			fed_map(t, (uint64_t)now, 6000, 0x1000, 0x1000, "/bin/child");
			break;
		case 2:
			fed_map(t, (uint64_t)now, 6000, 0x1000, 0x1000, "/bin/child");
			free(before); /* but for a number of arrivals */
			ck_assert_uint_eq(
				address_space_count(process_table_find(t->sampling.processes, 6000)->space), 1);
			fed_task(t, PERF_RECORD_EXIT, (uint64_t)now, 6000, 6000, FED_INIT);
			break;
		case 3:
			fed_task(t, PERF_RECORD_EXIT, (uint64_t)now, 6000, 6000, FED_INIT);
			compare("exit", before, fed_dump(g));
			break;
		default:
			free(before);
		}
	}
}
END_TEST

START_TEST(the_exec_that_begins_counting_is_not_lost)
{
	fed_map(t, (uint64_t)now, FED_INIT, 0x400000, 0x1000, "/runc");
	fed_comm(t, (uint64_t)now, FED_INIT, FED_INIT, "init", true);
	int64_t at = t->sampling.window_mono;
	ck_assert_uint_eq(succeed(1), 1);
	ck_assert(t->sampling.started && t->sampling.window_mono == at);
	ck_assert_uint_eq(address_space_count(process_table_find(t->sampling.processes, FED_INIT)->space), 0);
}
END_TEST

/* Of one that nobody could hear for a while: it goes on as it was, with what is said now (pillion remap). */
START_TEST(what_is_said_anew_is_added)
{
	static struct msg_tasks m = {
		.n = 1, .last = 1, .notes = "not for it", .tasks = {{.pid = 9, .tid = 9, .name = "nine"}}};
	fed_map(t, (uint64_t)now, FED_INIT, 0x400000, 0x1000, "/runc");
	fed_comm(t, (uint64_t)now, FED_INIT, FED_INIT, "init", true);
	int64_t at = t->sampling.window_mono;
	target_tasks(t, &m, NULL);
	ck_assert(t->sampling.started && t->sampling.window_mono == at);
	ck_assert(process_table_find(t->sampling.processes, 9) && process_table_find(t->sampling.processes, FED_INIT));
	char *before = fed_dump(g);
	ck_assert_ptr_null(strstr(before, "not for it"));
	succeed(1);
	compare("said anew", before, fed_dump(g));
}
END_TEST

START_TEST(what_a_running_one_consists_of_comes_back)
{
	static struct msg_tasks m = {.n = 2,
		.last = 1,
		.notes = "a note",
		.tasks = {{.pid = 7, .tid = 7, .name = "seven"}, {.pid = 7, .tid = 8, .name = "eight"}}};
	t->desc.running = 1;
	target_tasks(t, &m, NULL); /* who says so hears at once that it is done */
	now = clock_now();
	ck_assert(t->sampling.started);
	char *before = fed_dump(g);
	ck_assert_ptr_nonnull(strstr(before, "a note"));
	succeed(1);
	compare("adopted", before, fed_dump(g));
	ck_assert_str_eq(process_table_thread_name(process_table_find(t->sampling.processes, 7), 8), "eight");
}
END_TEST

/* --- what does not */

START_TEST(what_is_gone_or_another_does_not_come_back)
{
	begin_program(t);
	work(t, 0, 100);
	struct target *other = fed_target(g, 2);
	begin_program(other);
	work(other, 0, 10);
	commit_now();
	target_forget(t);
	t = fed_target(g, 1); /* the same name again, the runtime's second try */
	fed_map(t, (uint64_t)now, 77, 0x400000, 0x1000, "/new");
	ck_assert_uint_eq(succeed(3), 2);
	ck_assert(!t->sampling.started && !t->sampling.tally.samples &&
		  !process_table_find(t->sampling.processes, FED_INIT) &&
		  process_table_find(t->sampling.processes, 77));
	ck_assert_uint_eq(target_find(g, "c2")->sampling.tally.samples, 10);
	struct target *third = target_find(g, "c3");
	ck_assert(!third->sampling.started && !third->sampling.tally.restarts);
	/* a pid that was used again: another container, whatever it is called */
	commit_now();
	struct engine fresh;
	fed_engine(&fresh);
	fed_commit(&fresh, files);
	struct target *same = fed_target(&fresh, 2);
	same->desc.start_time = 2;
	ck_assert_uint_eq(checkpoint_resume(fresh.commit, &fresh, now), 0);
	ck_assert(!same->sampling.started && !same->sampling.samples);
	fed_engine_done(&fresh);
}
END_TEST

START_TEST(without_a_journal_they_count_from_now_on)
{
	begin_program(t);
	work(t, 0, 100);
	commit_now();
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(ftruncate(files[i], 0), 0);
	ck_assert_uint_eq(succeed(1), 0);
	ck_assert(t->sampling.started && !t->sampling.samples && strstr(t->desc.notes, "begin anew"));
	catch_up();
	work(t, 0, 10);
	ck_assert_uint_eq(t->sampling.tally.samples, 10);
}
END_TEST

START_TEST(nothing_is_read_before_it_is_known_whose_it_is)
{
	struct engine fresh;
	fed_engine(&fresh);
	fed_commit(&fresh, files);
	engine_drain(&fresh, true); /* there are no rings: it would not survive */
	fed_target(&fresh, 1);
	ck_assert_int_eq(engine_round(&fresh), -1);
	ck_assert_int_eq(checkpoint_round(fresh.commit, &fresh, now), -1);
	fed_engine_done(&fresh);
	ck_assert(!checkpoint_waits(NULL) && checkpoint_round(NULL, g, now) == -1);
}
END_TEST

START_TEST(an_idle_target_costs_nothing)
{
	begin_program(t);
	commit_now();
	uint64_t bytes = checkpoint_bytes(g->commit);
	for (int i = 0; i < 10; i++) {
		commit_now();
		ck_assert_int_eq(checkpoint_round(g->commit, g, now), -1);
	}
	ck_assert_uint_eq(checkpoint_bytes(g->commit), bytes);
	t->sampling.changed = true;
	int wait = checkpoint_round(g->commit, g, now);
	ck_assert(wait > 900 && wait <= 1001);
}
END_TEST

/* With what woke us, where it would be all that we wake up for next; never later than a second. */
START_TEST(a_commit_comes_early_rather_than_alone)
{
	static const struct {
		int64_t pause, since;
		bool comes;
	} rows[] = {{0, SECOND / 2, false}, {SECOND / 3, SECOND / 2, false}, {SECOND / 3, SECOND * 3 / 4, true},
		{SECOND / 2, SECOND / 2, true}, {SECOND / 100, SECOND * 8 / 9, false}, {0, SECOND * 9 / 10, true}};
	begin_program(t);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		g->round.pause = 0;
		t->sampling.changed = true;
		commit_now();
		t->sampling.changed = true;
		uint64_t bytes = checkpoint_bytes(g->commit);
		g->round.pause = rows[i].pause;
		now += rows[i].since;
		checkpoint_round(g->commit, g, now);
		ck_assert_msg((checkpoint_bytes(g->commit) > bytes) == rows[i].comes, "row %zu", i);
	}
}
END_TEST

/* It may be killed again soon: the first time is 50 ms behind the restart, each is twice as far as the one before. */
START_TEST(behind_a_restart_commits_come_ever_later_up_to_a_second)
{
	static const int ms[] = {50, 100, 200, 400, 800, 1000, 1000};
	begin_program(t);
	commit_now();
	ck_assert_uint_eq(succeed(1), 1);
	for (size_t i = 0; i < sizeof(ms) / sizeof(ms[0]); i++) {
		t->sampling.changed = true;
		ck_assert_int_eq(checkpoint_round(g->commit, g, now), ms[i] + 1);
		now += ms[i] * NSEC_PER_MSEC;
		checkpoint_round(g->commit, g, now);
		ck_assert(!t->sampling.changed);
	}
}
END_TEST

START_TEST(the_gap_is_from_the_last_look_on)
{
	begin_program(t);
	commit_now();
	now += SECOND / 2;
	succeed(1);
	ck_assert_uint_eq(t->sampling.tally.gap, SECOND / 2);
	now += SECOND / 4;
	succeed(1);
	ck_assert(t->sampling.tally.restarts == 2 && t->sampling.tally.gap == 3 * SECOND / 4);
}
END_TEST

/* --- rates */

static const struct target_kernel counted_by_kernel = {1, 2, 3, 4, 5, 6, 7, 8, 9};

static void lower(void)
{
	struct cpu_budget *b = &g->rates.allowance;
	g->rates.allowed = 1000;
	while (b->seconds < 70)
		cpu_budget_look(b, 1, &(struct cpu_budget_cost){5000 + b->seconds, b->seconds}, g->rates.allowed);
	for (unsigned i = 0; i < 7; i++)
		t->sampling.rate.steps[t->sampling.rate.n_steps++] = (struct rate_step){now + i * 10, 2 + i};
	t->sampling.rate.factor = t->sampling.rate.cap.factor = 4.25;
	t->sampling.rate.most = 9.5;
	t->sampling.rate.by_cap = true;
	t->sampling.rate.intervals.stretch = 1.5;
	t->window.kernel[1] = counted_by_kernel;
	t->window.ran_then = 1234;
	t->sampling.records = 77;
	t->sampling.bytes = 7700;
	t->sampling.changed = true;
}

static void check_lowered(const struct cpu_budget *b)
{
	const struct target_rate *r = &t->sampling.rate;
	ck_assert(
		r->factor == 4.25 && rate_cap_factor(&r->cap) == 4.25 && r->most == 9.5 && r->intervals.stretch == 1.5);
	ck_assert(r->by_cap && !r->by_budget);
	ck_assert(t->window.ran_then == 1234 && t->sampling.records == 77 && t->sampling.bytes == 7700);
	ck_assert_int_eq(memcmp(&t->window.kernel[1], &counted_by_kernel, sizeof(counted_by_kernel)), 0);
	ck_assert(cpu_budget_factor(&g->rates.allowance) == cpu_budget_factor(b) && cpu_budget_factor(b) > 1);
	const struct cpu_budget_cost had = cpu_budget_minute(b), has = cpu_budget_minute(&g->rates.allowance);
	ck_assert(has.sampling == had.sampling && has.other == had.other && had.other);
	ck_assert(g->rates.allowance.since == b->since && g->rates.allowance.seconds == b->seconds);
}

START_TEST(lowered_rates_come_back)
{
	begin_program(t);
	lower();
	int64_t first = now, later = now + SECOND;
	const struct cpu_budget b = g->rates.allowance;
	commit_now();
	succeed(1);
	check_lowered(&b);
	/* what was sampled then stands for what it did; of what is older than is known, for the oldest that is known */
	ck_assert(sample_rate_scale(&t->sampling.rate, first + 65) == 8 &&
		  sample_rate_scale(&t->sampling.rate, first + 45) == 6);
	ck_assert(sample_rate_scale(&t->sampling.rate, first + 5) == 5);
	ck_assert(sample_rate_scale(&t->sampling.rate, later + clock_now()) == 4.25);
	g->rates.allowed = 1000; /* a setting */
	commit_now();
	succeed(1);
	check_lowered(&b);
}
END_TEST

START_TEST(a_rate_is_a_number_whatever_was_written)
{
	struct rate_saved s;
	struct target_rate r;
	memset(&s, 0xff, sizeof(s)); /* not a number */
	sample_rate_restore(&r, &s);
	ck_assert(r.factor == 1 && r.most == 0 && r.cap.factor == 1 && r.n_steps == RATE_KEPT);
	ck_assert(sample_rate_weight(&r, 1000, clock_now()) == 1000);
	memset(&s, 0, sizeof(s)); /* of a journal without them */
	sample_rate_restore(&r, &s);
	ck_assert(r.factor == 1 && r.n_steps == 0 && sample_rate_weight(&r, 1000, clock_now()) == 1000);
	s.factor = sample_rate_bits(1e300);
	s.cap = sample_rate_bits(-1);
	sample_rate_restore(&r, &s);
	ck_assert(r.factor <= RATE_CAP_MOST * CPU_BUDGET_MOST && r.cap.factor == 1);
}
END_TEST

/* --- windows */

static int spooled(void)
{
	char command[128];
	int n = -1;
	snprintf(command, sizeof(command), "find %s -name '*.pb.gz' | wc -l", spool_path);
	FILE *f = popen(command, "r");
	ck_assert(f && fscanf(f, "%d", &n) == 1);
	pclose(f);
	return n;
}

/* One that is over and waits for names: of a worker with a symbolizer, which here there is none of. */
static struct window *put_window(void)
{
	struct window *w = calloc(1, sizeof(*w));
	*w = (struct window){
		.t = t, .seq = t->window.seq, .real = t->window.real, .duration = SECOND, .tally = t->sampling.tally};
	w->early = w->by_budget = true;
	w->rate_most = 2.5;
	strcpy(w->uncovered, "1,3-5");
	w->kernel[0] = (struct event_totals){
		.lost_known = true, .lost = 3, .lost_weight = 30, .unseen = 7, .correct = 1.25, .had_counter = 0.5};
	for (unsigned i = 0; i < 2; i++) {
		w->counts[i] = t->sampling.counts[i];
		ck_assert_int_eq(aggregate_new(&t->sampling.counts[i]), 0);
	}
	memset(&t->sampling.tally, 0, sizeof(t->sampling.tally));
	t->window.seq++;
	t->sampling.window_mono += SECOND;
	checkpoint_window(g->commit, w);
	window_restore(t, w);
	return w;
}

START_TEST(a_window_that_waits_comes_back_and_is_written_once)
{
	begin_program(t);
	work(t, 0, 200);
	commit_now();
	put_window();
	work(t, 200, 300);
	commit_now();
	char *before = fed_dump(g);
	succeed(1);
	compare("delta", before, fed_dump(g));
	before = fed_dump(g);
	succeed(1); /* of a snapshot */
	compare("whole", before, fed_dump(g));
	ck_assert(t->window.over && t->window.over->kernel[0].lost == 3 && t->window.over->kernel[0].unseen == 7);
	ck_assert(t->window.over->kernel[0].lost_known && !t->sampling.tally.lost);
	ck_assert(t->window.over->kernel[0].correct == 1.25 && t->window.over->kernel[1].correct == 1);
	ck_assert(t->window.over->kernel[0].had_counter == 0.5);
	ck_assert(t->window.over->early && t->window.over->by_budget && !t->window.over->by_cap &&
		  t->window.over->rate_most == 2.5);
	ck_assert_str_eq(t->window.over->uncovered, "1,3-5");
	open_spool();
	window_round(t, now);
	ck_assert(!t->window.over);
	run_until_left(0);
	ck_assert_int_eq(spooled(), 2); /* two events */
	succeed(1);
	ck_assert(!t->window.over && t->window.seq == 1 && t->sampling.tally.samples == 100 &&
		  t->sampling.samples == 300);
}
END_TEST

START_TEST(a_window_that_was_written_is_not_written_again)
{
	begin_program(t);
	work(t, 0, 200);
	open_spool();
	window_close(t, false);
	run_until_left(0);
	ck_assert_int_eq(spooled(), 2);
	ck_assert(t->spool.last_profile[0]);
	catch_up();
	work(t, 200, 210);
	commit_now();
	succeed(1);
	ck_assert(
		!t->window.over && t->window.seq == 1 && t->sampling.tally.samples == 10 && t->sampling.samples == 210);
	ck_assert(t->spool.last_profile[0]);
}
END_TEST

/* The exporter lives (0), or dies with it: as much as `left` is not answered when the worker is killed. */
static void killed_before_the_answer(unsigned left, bool exporter_too)
{
	begin_program(t);
	work(t, 0, 200);
	open_spool();
	kill(exporting.process.pid, left == 2 ? SIGSTOP : SIGCONT);
	window_close(t, false);
	ck_assert_uint_eq(t->spool.unwritten, 2);
	run_until_left(left);
	catch_up();
	work(t, 200, 210);
	commit_now();
	succeed(1);
	ck_assert(t->window.over && !t->window.over->next && t->window.over->seq == 0 && t->window.seq == 1);
	ck_assert(t->sampling.tally.samples == 10 && t->sampling.samples == 210);
	if (exporter_too) {
		kill(exporting.process.pid, SIGKILL);
		reap_exporter();
		fd_close(exporting.process.sock);
		event_loop_del(watch, &exporting.source);
		fd_close(exporting.pidfd);
		start_exporter();
	}
	kill(exporting.process.pid, SIGCONT);
	open_spool();
	window_round(t, now);
	ck_assert_uint_eq(t->spool.unwritten, 2);
	run_until_left(0);
	ck_assert_int_eq(spooled(), 2);
	ck_assert(t->spool.last_profile[0]);
	succeed(1);
	ck_assert(
		!t->window.over && t->window.seq == 1 && t->sampling.tally.samples == 10 && t->sampling.samples == 210);
}

START_TEST(a_window_that_was_handed_over_is_not_lost)
{
	killed_before_the_answer(2, _i);
}
END_TEST

START_TEST(a_window_is_written_with_its_last_profile)
{
	killed_before_the_answer(1, false);
}
END_TEST

/* The first is known to be written when all of it is, and not only with the last profile that was handed over. */
START_TEST(windows_that_end_before_an_answer_are_written_once)
{
	begin_program(t);
	work(t, 0, 200);
	open_spool();
	window_close(t, false);
	work(t, 200, 300);
	window_close(t, false);
	ck_assert_uint_eq(t->spool.unwritten, 4); /* two events */
	run_until_left(0);
	ck_assert_int_eq(spooled(), 4);
	catch_up();
	commit_now();
	succeed(1);
	ck_assert(!t->window.over && t->window.seq == 2 && t->sampling.samples == 300);
}
END_TEST

/* What a profile says, but for when it was made. */
static bool with_comments; /* they tell of restarts, too */

static char *read_profile(void)
{
	char path[512];
	struct profile *p;
	struct err e = {0};
	uint8_t *bytes;
	size_t n, size;
	char *text = NULL;
	run_until_left(0);
	snprintf(path, sizeof(path), "%s/%s", spool_path, t->spool.last_profile);
	fd_auto fd = fd_open(AT_FDCWD, path, O_RDONLY, 0);
	ck_assert(fd >= 0 && fd_slurp(fd, 1 << 24, (char **)&bytes, &n) == 0);
	ck_assert_int_eq(pprof_read(bytes, n, &p, &e), 0);
	free(bytes);
	FILE *f = open_memstream(&text, &size);
	for (size_t i = 0; i < profile_samples(p); i++) {
		struct profile_sample s;
		profile_sample_get(p, i, &s);
		for (size_t k = 0; k < s.n; k++) {
			struct profile_location l;
			struct profile_function fn;
			profile_location_get(p, s.locations[k], &l);
			profile_function_get(p, l.lines[0].function, &fn);
			fprintf(f, "%s ", fn.name);
		}
		fprintf(f, "%" PRId64 " %" PRId64 " %zu\n", s.values[0], s.values[1], s.n_labels);
	}
	for (size_t i = 0; with_comments && i < profile_comments(p); i++)
		fprintf(f, "# %s\n", profile_comment_get(p, i));
	fclose(f);
	profile_free(p);
	return text;
}

START_TEST(a_profile_says_how_it_came_about)
{
	open_spool();
	begin_program(t);
	work(t, 0, 500);
	t->sampling.tally.stops[UNWIND_STACK] = 3;
	t->sampling.tally.stops[UNWIND_STOPS - 1] = 4;
	with_comments = true;
	window_close(t, false);
	char *text = read_profile();
	with_comments = false;
	ck_assert_ptr_nonnull(strstr(text, " 3 of "));
	ck_assert_ptr_nonnull(strstr(text, " 4 of "));
	free(text);
}
END_TEST

/* Where there are no perf events a person has to know what is not in it. */
START_TEST(a_profile_by_timers_says_so)
{
	target_forget(t);
	fed_n_events = 1; /* its profile is the last one */
	t = fed_target(g, 1);
	open_spool();
	begin_program(t);
	fed_sample(t, fed_events(t, 0), (uint64_t)now + 1, FED_INIT, FED_INIT, (uint64_t[]){USER, 0x400500}, 2);
	t->desc.strategy = STRATEGY_TIMERS;
	with_comments = true;
	window_close(t, false);
	char *text = read_profile();
	with_comments = false;
	ck_assert_ptr_nonnull(strstr(text, "# timers: 0 processes with libpillion so far"));
	free(text);
}
END_TEST

START_TEST(a_profile_is_the_same_with_and_without_a_restart)
{
	open_spool();
	begin_program(t);
	fed_map(t, (uint64_t)now, FED_INIT, 0x7f4000000000, 0x1000, "[vdso]");
	work(t, 0, 500);
	uint64_t in_vdso[] = {USER, 0x7f4000000400 + 0x700};
	fed_sample(t, fed_events(t, 1), (uint64_t)now, FED_INIT, FED_INIT, in_vdso, 2);
	commit_now();
	/* one of them ends its window here, the other after a restart */
	struct engine *fresh = g == engines ? engines + 1 : engines;
	fed_engine(fresh);
	fed_commit(fresh, files);
	struct target *next = fed_target(fresh, 1);
	ck_assert_uint_eq(checkpoint_resume(fresh->commit, fresh, now), 1);
	ck_assert_uint_eq(checkpoint_resume(fresh->commit, fresh, now), 0); /* once */
	g->commit = checkpoint_free(g->commit);
	window_close(t, false);
	char *before = read_profile();
	ck_assert_ptr_nonnull(strstr(before, "[unreadable]"));
	ck_assert_ptr_nonnull(strstr(before, "vdso"));
	fed_engine_done(g);
	close_spool(); /* who wrote it would not write it twice */
	g = fresh;
	t = next;
	open_spool();
	window_close(t, false);
	compare("profile", before, read_profile());
}
END_TEST

static void says(int fd, const char *text)
{
	ck_assert_int_eq(ftruncate(fd, 0), 0);
	ck_assert_int_eq(pwrite(fd, text, strlen(text), 0), (ssize_t)strlen(text));
}

/* All that it runs is where its events were taken off: no sample says so, and whether they were a successor cannot see.
 */
START_TEST(what_ran_on_a_cpu_that_came_back_is_written)
{
	const int online = memfd_create("online", MFD_CLOEXEC), stat = memfd_create("cpu.stat", MFD_CLOEXEC);
	ck_assert_int_eq(cpu_coverage_new(dup(online), &g->perf.coverage), 0);
	fed_events(t, 0)->cpu = 1;
	says(online, "0-1");
	target_coverage_look(g, now);
	begin_program(t);
	says(online, "0");
	target_coverage_look(g, now + 1);
	commit_now();
	cpu_coverage_free(g->perf.coverage);
	succeed(1);
	ck_assert_int_eq(fed_events(t, 0)->off_since, now - SECOND + 1);
	says(online, "0-1");
	ck_assert_int_eq(cpu_coverage_new(online, &g->perf.coverage), 0);
	fed_events(t, 0)->cpu = 1;
	t->usage.cpu_stat = stat;
	says(stat, "usage_usec 0");
	t->sampling.tally.cpu_usage = target_cpu_usage(t);
	says(stat, "usage_usec 700000");
	open_spool();
	window_close(t, false);
	char *text = read_profile();
	ck_assert_msg(strstr(text, "[lost: cpu 1 not covered] 69 700000000 "), "%s", text);
	ck_assert_int_eq(spooled(), 1);
	free(text);
	cpu_coverage_free(g->perf.coverage);
}
END_TEST

/* --- names */

/* Where this program's code would lie if all of its file were mapped, and what it is called. */
static uint64_t own_image(char *path, size_t size)
{
	char line[512];
	uint64_t start = 0, end, offset, base = 0;
	ssize_t n = readlink("/proc/self/exe", path, size - 1);
	FILE *f = fopen("/proc/self/maps", "re");
	ck_assert(n > 0 && f);
	path[n] = 0;
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " r-xp %" SCNx64, &start, &end, &offset) == 3 &&
			(uintptr_t)own_image >= start && (uintptr_t)own_image < end)
			base = start - offset;
	fclose(f);
	return base;
}

/* The reader is there when it returns, which may take as long as the machine likes. */
static void with_reader(struct forked *readers)
{
	struct clock_driven stands = {.leaps = false};
	struct target_files_account account = {.name = "test"};
	struct file f;
	target_files_free(g->symbols.files);
	ck_assert_int_eq(target_files_new(readers->sockets.readers, &g->symbols.files), 0);
	readers->sockets.readers = -1;
	t->fs.tree = fd_open(AT_FDCWD, "/", O_PATH | O_DIRECTORY, 0);
	clock_drive(&stands);
	ck_assert_int_eq(target_files_open(g->symbols.files, &(struct target_files_place){t->fs.tree, -1, NULL, false},
				 &account, "/bin/sh", &f),
		0);
	file_close(&f);
	clock_drive(NULL);
}

static const struct symbolizer_limits limits = {.jobs = 1, .memory = 64 << 20};

START_TEST(modules_are_read_again_for_a_window)
{
	char path[300];
	uint64_t base = own_image(path, sizeof(path)), chain[] = {USER, (uintptr_t)own_image + 4};
	struct forked readers;
	forked_start(&readers, limits);
	begin_program(t);
	with_reader(&readers);
	fed_map(t, (uint64_t)now, FED_INIT, base, 0x4000000, path);
	fed_sample(t, fed_events(t, 1), (uint64_t)now, FED_INIT, FED_INIT, chain, 2);
	ck_assert_int_eq(module_state(aggregate_frame(t->sampling.counts[1], 0)->module), MODULE_LOADED);
	commit_now();
	put_window();
	fed_sample(t, fed_events(t, 1), UINT64_MAX / 4, FED_INIT, FED_INIT, chain, 2);
	commit_now();
	succeed(1);
	forked_end(&readers);
	forked_start(&readers, limits);
	with_reader(&readers);
	ck_assert_int_eq(module_state(aggregate_frame(t->sampling.counts[1], 0)->module), MODULE_UNREADABLE);
	open_spool();
	window_round(t, now);
	char *of_predecessor = read_profile();
	ck_assert_msg(strstr(of_predecessor, "own_image"), "%s", of_predecessor);
	free(of_predecessor);
	succeed(1);
	forked_end(&readers);
	forked_start(&readers, limits);
	with_reader(&readers);
	open_spool();
	window_close(t, false);
	char *own = read_profile();
	ck_assert_msg(strstr(own, "own_image"), "%s", own);
	free(own);
	forked_end(&readers);
}
END_TEST

/* --- what nobody counted */

static int clock_event(void)
{
	struct perf_want want = {.role = PERF_SAMPLES, .kernel = true};
	struct perf_event_attr attr;
	struct perf_layout layout;
	want.spec = t->desc.events[0];
	perf_attr(&want, &attr, &layout);
	attr.disabled = 0;
	return perf_open(&attr, 0, -1, 0);
}

static uint64_t count_of(int fd)
{
	uint64_t value[2] = {0};
	ck_assert_int_gt(fd_read_all(fd, value, sizeof(value)), 0);
	return value[0];
}

static void burn(int64_t ns)
{
	int64_t until = clock_cpu() + ns;
	while (clock_cpu() < until)
		;
}

/* Weight of one function in the last profile; 0: it is not there. */
static uint64_t weight_of(const char *name)
{
	char *text = read_profile(), *line = strstr(text, name);
	uint64_t count = 0, weight = 0;
	if (line)
		sscanf(line + strlen(name), "%" SCNu64 " %" SCNu64, &count, &weight);
	ck_assert_uint_eq(count, weight / t->desc.events[0].period);
	free(text);
	return weight;
}

static const char restarted[] = "[lost: profiler restarted]";

/* A gap of so much, of which the event has counted some. */
static void restart_with(int event, int64_t gap)
{
	commit_now();
	now += gap;
	fd_close(fed_events(t, 0)->fd);
	fed_events(t, 0)->fd = -1;
	succeed(1);
	fed_events(t, 0)->fd = dup(event);
	open_spool();
}

START_TEST(what_nobody_counted_is_in_the_profile)
{
	char note[160];
	struct err e = {0};
	struct cpu_rings *rings;
	fd_auto event = clock_event();
	if (event < 0 || cpu_rings_open(&rings, note, sizeof(note), &e) < 0) {
		skip("no perf events here");
		return;
	}
	target_forget(t);
	fed_n_events = 1; /* its profile is the last one */
	t = fed_target(g, 1);
	fed_events(t, 0)->fd = dup(event);
	begin_program(t);
	uint64_t period = t->desc.events[0].period, chain[] = {KERNEL, 0xffffffff81000000};
	for (int i = 0; i < 3; i++)
		fed_sample(t, fed_events(t, 0), (uint64_t)now + 1, FED_INIT, FED_INIT, chain, 2);
	burn(100 * NSEC_PER_MSEC);
	restart_with(event, SECOND);
	g->perf.rings = rings;
	fed_sample(t, fed_events(t, 0), (uint64_t)now, FED_INIT, FED_INIT, chain, 2);
	uint64_t low = count_of(event) - 4 * period;
	window_close(t, false);
	uint64_t high = count_of(event) - 4 * period, was = weight_of(restarted);
	ck_assert_msg(was >= low && was <= high, "%" PRIu64 " is not %" PRIu64 " to %" PRIu64, was, low, high);
	/* that was it; and what was counted before a gap is not missing in the next window */
	catch_up();
	for (uint64_t counted = count_of(event); count_of(event) - counted < 5 * period;)
		;
	for (int i = 0; i < 5; i++)
		fed_sample(t, fed_events(t, 0), (uint64_t)now, FED_INIT, FED_INIT, chain, 2);
	uint64_t low_before = count_of(event);
	window_close(t, false);
	uint64_t high_before = count_of(event);
	ck_assert_uint_eq(weight_of(restarted), 0);
	catch_up();
	fed_sample(t, fed_events(t, 0), (uint64_t)now, FED_INIT, FED_INIT, chain, 2);
	burn(50 * NSEC_PER_MSEC);
	g->perf.rings = NULL;
	restart_with(event, SECOND);
	g->perf.rings = rings;
	low = count_of(event) - period - high_before;
	window_close(t, false);
	high = count_of(event) - period - low_before;
	was = weight_of(restarted);
	ck_assert_msg(was >= low && was <= high, "%" PRIu64 " is not %" PRIu64 " to %" PRIu64, was, low, high);
	/* no more than could run meanwhile, whatever is missing */
	burn(100 * NSEC_PER_MSEC);
	catch_up();
	fed_sample(t, fed_events(t, 0), (uint64_t)now, FED_INIT, FED_INIT, chain, 2);
	g->perf.rings = NULL;
	restart_with(event, 5 * NSEC_PER_MSEC);
	g->perf.rings = rings;
	window_close(t, false);
	ck_assert_uint_eq(weight_of(restarted), 5 * NSEC_PER_MSEC * cpu_rings_count(rings));
	fed_events(t, 0)->fd = fd_close(fed_events(t, 0)->fd);
	g->perf.rings = NULL;
	cpu_rings_close(rings);
}
END_TEST

/* Rungs of stack snapshots: the first one counts, as far as who registers knows. */
static int rungs[3];

static void register_rungs(struct target *of)
{
	of->events.dump_sizes[0] = (struct stack_dump_size){.size = {0, 8192, 32768, 65528}, .at = 1, .top = 3};
	for (unsigned i = 0; i < 3; i++) {
		struct open_event *st = fed_stream(of, PERF_SAMPLES, 0, 100 + i);
		st->fd = dup(rungs[i]);
		st->rung = i + 1;
	}
}

START_TEST(the_rung_that_counts_is_the_one_that_did)
{
	uint64_t was[3];
	for (unsigned i = 0; i < 3; i++)
		if ((rungs[i] = clock_event()) < 0) {
			skip("no perf events here");
			return;
		}
	register_rungs(t);
	begin_program(t);
	stack_dump_size_moved(&t->events.dump_sizes[0], 3);
	t->events.dump_sizes[0].rose = true;
	commit_now();
	register_more = register_rungs;
	succeed(1);
	register_more = NULL;
	ck_assert(t->events.dump_sizes[0].at == 3 && t->events.dump_sizes[0].rose);
	for (unsigned i = 0; i < 3; i++)
		was[i] = count_of(rungs[i]);
	burn(5 * NSEC_PER_MSEC);
	for (unsigned i = 0; i < 3; i++) {
		ck_assert_int_eq(count_of(rungs[i]) > was[i], i == 2);
		fd_close(rungs[i]);
	}
}
END_TEST

/* --- the same with real events, of a process that does nothing but use its CPU */

static int burner_pidfd, burner_events[64], n_burner_events;
static pid_t burner;
static struct cpu_rings
	*burner_rings; /* as a supervisor has them: what is in them when a worker dies is its successor's */

static bool start_burner(void)
{
	struct perf_want want = {.role = PERF_SAMPLES, .kernel = true};
	struct perf_event_attr attr;
	struct perf_layout layout;
	struct err e = {0};
	char note[160];
	int cpus[64], n = perf_online_cpus(cpus, 64);
	burner = fork();
	if (burner == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			;
	}
	burner_pidfd = (int)syscall(SYS_pidfd_open, burner, 0);
	if (cpu_rings_open(&burner_rings, note, sizeof(note), &e) < 0)
		return false;
	want.spec = t->desc.events[0];
	perf_attr(&want, &attr, &layout);
	attr.disabled = 0;
	for (n_burner_events = 0; n_burner_events < n; n_burner_events++)
		if ((burner_events[n_burner_events] = perf_open(&attr, burner, cpus[n_burner_events], 0)) < 0)
			return false;
	return n > 0;
}

/* What a supervisor's messages make of an engine: all that there was before, again. */
static void register_burner(struct engine *e, bool again)
{
	static struct msg_tasks m = {.last = 1};
	struct target_desc d = {.id = "c9", .init_pid = burner, .host_pid = burner, .start_time = 9};
	struct target *of;
	struct err err = {0};
	int cpus[64], pidfd = dup(burner_pidfd), n = perf_online_cpus(cpus, 64);
	d.strategy = STRATEGY_CGROUP;
	d.kernel = d.running = d.n_events = 1;
	d.window_s = 3600;
	d.fds = TARGET_PIDFD;
	d.events[0] = t->desc.events[0];
	fed_engine(e);
	e->perf.rings = burner_rings;
	fed_commit(e, files);
	if (!again)
		checkpoint_resume(e->commit, e, clock_now());
	MUST(target_new(e, &d, &pidfd, &of, &err) == 0);
	for (int i = 0; i < n; i++) {
		struct event_desc event = {.role = PERF_SAMPLES, .cpu = cpus[i]};
		event.layout.sample_type = FED_FIXED | PERF_SAMPLE_CALLCHAIN;
		MUST(target_add_event(of, &event, dup(burner_events[i]), &err) == 0);
	}
	MUST(target_arm(of, (uint32_t)n, &err) == 0);
	if (again)
		MUST(checkpoint_resume(e->commit, e, clock_now()) == 1);
	else
		target_tasks(of, &m, NULL);
}

static uint64_t burner_counted(void)
{
	uint64_t ns = 0;
	for (int i = 0; i < n_burner_events; i++)
		ns += count_of(burner_events[i]);
	return ns;
}

/* What the worker says to the test: 0, or what the kernel had counted when it was ready; what its samples stand for. */
static struct burner_seen {
	_Atomic uint64_t ready, weight;
} * burner_seen;

static void profile_burner(bool again)
{
	static struct engine e;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (cpu_rings_map(burner_rings) < 0)
		_exit(1);
	register_burner(&e, again);
	burner_seen->ready = 1 + burner_counted();
	for (;;) {
		engine_round(&e);
		burner_seen->weight = e.targets->sampling.tally.weight[0];
		usleep(20000);
	}
}

static void await_burner(const _Atomic uint64_t *seen, uint64_t ns)
{
	while (*seen < ns)
		usleep(1000);
}

static void await_burnt(uint64_t ns)
{
	for (uint64_t before = burner_counted(); burner_counted() - before < ns;)
		usleep(1000);
}

/* The worker has committed so often. */
static void await_commits(int n)
{
	char was[2][64] = {{0}}, is[2][64];
	for (; n >= 0; n--) {
		do {
			usleep(1000);
			for (int i = 0; i < 2; i++)
				ck_assert_int_ge(pread(files[i], is[i], sizeof(is[i]), 0), 0);
		} while (n && memcmp(was, is, sizeof(is)) == 0);
		memcpy(was, is, sizeof(is));
	}
}

START_TEST(time_of_a_real_program_adds_up)
{
	static struct engine e;
	struct rusage used;
	uint64_t sampled = 0;
	fed_n_events = 1;
	fd_close(clock_event());
	target_forget(t);
	t = fed_target(g, 1);
	if (!start_burner()) {
		kill(burner, SIGKILL);
		waitpid(burner, NULL, 0);
		fd_close(burner_pidfd);
		for (int i = 0; i < n_burner_events; i++)
			fd_close(burner_events[i]);
		cpu_rings_close(burner_rings);
		skip("no perf events here");
		return;
	}
	burner_seen = mmap(NULL, sizeof(*burner_seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(burner_seen, MAP_FAILED);
	const uint64_t period = t->desc.events[0].period, before = burner_counted();
	const int workers = (int)full(4, 2);
	uint64_t ready = 0;
	for (int i = 0; i < workers; i++) {
		burner_seen->ready = burner_seen->weight = 0;
		pid_t worker = fork();
		if (worker == 0)
			profile_burner(i > 0);
		await_burner(&burner_seen->ready, 1);
		if (!ready)
			ready = burner_seen->ready;
		/* what came of these samples is in its journal; it has more that are not, or the ring has */
		await_burner(&burner_seen->weight, 10 * (uint64_t)(i + 1) * period);
		await_commits(2);
		await_burner(&burner_seen->weight, burner_seen->weight + 1);
		kill(worker, SIGKILL);
		ck_assert_int_eq(child_process_wait(worker, deadline_in(5 * NSEC_PER_SEC)), SIGKILL);
		await_burnt(10 * period);
	}
	register_burner(&e, true);
	kill(burner, SIGKILL);
	wait4(burner, NULL, 0, &used);
	const uint64_t counted = burner_counted();
	t = e.targets;
	ck_assert_int_eq((int)t->sampling.tally.restarts, workers);
	sampled = t->sampling.tally.weight[0];
	event_loop_del(e.loop, &t->watch.pid_source); /* it has ended, and its target would go with it */
	open_spool();
	window_close(t, false);
	uint64_t gap = weight_of(restarted);
	printf("counted %.3f s, sampled %.3f s, gaps %.3f s\n", (double)counted / 1e9, (double)sampled / 1e9,
		(double)gap / 1e9);
	/* what was counted before the first of them was ready may be in neither */
	ck_assert_uint_le(sampled + gap, counted - before + 4 * period);
	ck_assert_uint_ge(sampled + gap + 4 * period, counted - ready);
	ck_assert_uint_ge(sampled, 10 * (uint64_t)workers * period);
	cpu_rings_close(e.perf.rings);
	fed_engine_done(&e);
	for (int i = 0; i < n_burner_events; i++)
		fd_close(burner_events[i]);
	fd_close(burner_pidfd);
	munmap(burner_seen, sizeof(*burner_seen));
}
END_TEST

/* --- kill -9 */

#ifdef __SANITIZE_THREAD__
#define STEPS 600 /* a fork takes as long there as a hundred of them */
#else
#define STEPS full(6000, 2000)
#endif
#define RING 256

/* What outlives a worker beside its journal: how far the ring was read, and how far what was read was committed. */
static struct ring_state {
	unsigned tail, committed, windows;
} * ring;

static void wait_no_time(void)
{
	for (volatile int i = 0; i < 30000; i++)
		;
}

/* The one sequence of records that all of them read on. A sample of every step is unlike all others. */
static void step(unsigned i)
{
	uint64_t chain[] = {KERNEL, 0xffffffff81000000 + i, 0xffffffff80000000 + i / 7};
	if (i == 0)
		fed_comm(t, 1, FED_INIT, FED_INIT, "init", true);
	else if (i % 10 == 1)
		fed_map(t, i, FED_INIT, 0x10000000 + i * 0x10000ull, 0x1000, "/lib/some.so");
	else if (i % 10 == 2)
		fed_task(t, PERF_RECORD_FORK, i, 10000 + i, 10000 + i, FED_INIT);
	else if (i % 30 == 3)
		fed_comm(t, i, 9999 + i, 9999 + i, "named", false);
	else
		fed_sample(t, fed_events(t, 0), UINT64_MAX / 4, FED_INIT, FED_INIT, chain, 3);
}

/* By the kernel, however busy its parent is. */
static void be_killed_in(long ns)
{
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
	struct itimerspec at = {.it_value = {0, ns + 1}};
	timer_t timer;
	MUST(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0 && timer_settime(timer, 0, &at, NULL) == 0);
}

/* Also before it has done anything; but not always, or it never would on a busy machine. */
static void work_until_killed(bool at_once, long ns)
{
	const unsigned from = ring->tail;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (at_once)
		be_killed_in(ns);
	for (unsigned i; (i = __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE)) < STEPS;) {
		step(i);
		__atomic_store_n(&ring->tail, i + 1, __ATOMIC_RELEASE);
		if (!at_once && i == from)
			be_killed_in(ns);
		if (i % 37 == 0) {
			now += SECOND;
			checkpoint_round(g->commit, g, now);
			__atomic_store_n(&ring->committed, i + 1, __ATOMIC_RELEASE);
		}
		wait_no_time();
	}
	_exit(0);
}

/* Every stack once at most; as many as were committed. */
static uint64_t check_counts(void)
{
	static struct aggregate_sample s;
	uint64_t n = 0;
	for (size_t i = 0; i < aggregate_samples(t->sampling.counts[0]); i++) {
		aggregate_sample(t->sampling.counts[0], i, &s);
		ck_assert_uint_eq(s.count, 1);
		ck_assert_uint_eq(s.weight, t->desc.events[0].period);
		n++;
	}
	ck_assert_uint_eq(n, t->sampling.tally.samples);
	return n;
}

static bool is_sample(unsigned i)
{
	return i && i % 10 != 1 && i % 10 != 2 && i % 30 != 3;
}

START_TEST(killed_at_any_moment_a_successor_continues)
{
	unsigned kills = 0, began = 0, lost_at_most = 0;
	ring = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	commit_now();
	for (;; kills++) {
		unsigned from = ring->tail;
		uint64_t had = t->sampling.tally.samples;
		const long ns = (long)(rand() % 1500) * 1000;
		pid_t pid = fork();
		if (pid == 0)
			work_until_killed(kills % 2 == 0, ns);
		int status = child_process_wait(pid, deadline_in(60 * NSEC_PER_SEC));
		now += SECOND / 10;
		succeed(1);
		began += t->sampling.started;
		uint64_t n = check_counts();
		unsigned committed = 0;
		for (unsigned i = from; i < ring->committed; i++)
			committed += is_sample(i);
		unsigned seen = 0;
		for (unsigned i = from; i < ring->tail; i++)
			seen += is_sample(i);
		ck_assert_uint_ge(n, had + committed);
		/* the record under way, whose room is not yet given back, comes again: if it is a sample, not counted
		 */
		ck_assert_uint_le(n, had + seen);
		lost_at_most += seen - (unsigned)(n - had);
		if (status == 0)
			break;
		ck_assert_int_eq(status, SIGKILL);
	}
	/* all that is known of processes is as if nobody had been killed */
	ck_assert_uint_gt(kills, 5);
	ck_assert_uint_eq(address_space_count(process_table_find(t->sampling.processes, FED_INIT)->space), STEPS / 10);
	for (unsigned i = 0; i < STEPS; i++) {
		const struct process *p = i % 10 == 2 ? process_table_find(t->sampling.processes, 10000 + i) : NULL;
		ck_assert_msg(i % 10 != 2 || p, "process of step %u", i);
		ck_assert(!p || address_space_count(p->space) == i / 10 + 1);
		ck_assert(!p || !strcmp(p->comm, (i + 1) % 30 == 3 ? "named" : "init"));
	}
	ck_assert_uint_lt(lost_at_most, (kills + 1) * 40);
	ck_assert_uint_eq(t->sampling.tally.restarts, began);
	munmap(ring, 4096);
}
END_TEST

/* --- what no worker of ours wrote */

static uint8_t *read_journal(size_t *ret_n)
{
	struct journal *j;
	uint8_t *bytes;
	int64_t seen;
	ck_assert_int_eq(journal_open_take(dup(files[0]), dup(files[1]), &j), 0);
	ck_assert_int_eq(journal_read(j, &bytes, ret_n, &seen), 0);
	journal_close(j);
	return bytes;
}

START_TEST(a_damaged_journal_is_read_to_its_end)
{
	begin_program(t);
	work(t, 0, 150);
	commit_now();
	put_window();
	work(t, 150, 200);
	commit_now();
	size_t n;
	uint8_t *good = read_journal(&n), *bytes = malloc(n);
	for (unsigned round = 0; round < 600; round++) {
		struct engine fresh;
		size_t size = round % 3 ? n : (size_t)rand() % n;
		memcpy(bytes, good, n);
		for (int i = rand() % 8; i >= 0; i--)
			bytes[(size_t)rand() % n] = (uint8_t)(rand() % 4 ? rand() : 255);
		fed_engine(&fresh);
		struct target *of = fed_target(&fresh, 1);
		uint8_t *exact = malloc(size ? size : 1);
		memcpy(exact, bytes, size);
		checkpoint_read(&fresh, (struct journal_reader){.at = exact, .end = exact + size}, now, now + 1);
		free(exact);
		free(fed_dump(&fresh));
		ck_assert_ptr_eq(of->engine, &fresh);
		fed_engine_done(&fresh);
	}
	free(good);
	free(bytes);
}
END_TEST

/* Mappings of files with long names. */
static void map_much(struct target *of, unsigned from, unsigned to)
{
	static char path[4000];
	memset(path, 'x', sizeof(path) - 1);
	path[0] = '/';
	for (unsigned i = from; i < to; i++) {
		snprintf(path + sizeof(path) - 12, 12, "%u", i);
		fed_map(of, (uint64_t)now, FED_INIT, 0x10000000 + i * 0x10000ull, 0x1000, path);
	}
}

/* Beside a snapshot the journal has as many bytes again and 512 KiB; the entry that would be more makes it anew. */
static const struct {
	const char *scenario;
	unsigned maps; /* of 4 KB each in the snapshot */
	bool counts;   /* the journal grows by counts, in place of records */
} growths[] = {
	{"a small snapshot, records", 0, false},
	{"a large snapshot, records", 150, false},
	{"a small snapshot, counts", 0, true},
	{"a large snapshot, counts", 150, true},
};

START_TEST(a_journal_of_twice_its_snapshot_is_begun_anew)
{
	begin_program(t);
	map_much(t, 0, 1 + growths[_i].maps);
	commit_now();
	ck_assert_uint_eq(succeed(1), 1); /* all that the journal has now is a snapshot */
	const uint64_t snapshot = checkpoint_bytes(g->commit), most = 2 * snapshot + (512 << 10);
	uint64_t is = snapshot, was, step = 0;
	for (;;) {
		was = is;
		if (growths[_i].counts) {
			t->sampling.changed = t->saved.streams = t->sampling.processes_changed = true;
			commit_now();
		} else
			map_much(t, 0, 1); /* again, and nothing is new */
		is = checkpoint_bytes(g->commit);
		if (is < was)
			break;
		step = is - was;
		ck_assert_msg(step && is <= most, "%s: %" PRIu64 " of %" PRIu64, growths[_i].scenario, is, most);
	}
	ck_assert_msg(was + step > most, "%s: %" PRIu64 " of %" PRIu64, growths[_i].scenario, was, most);
	ck_assert_uint_le(is, snapshot + 2 * step);
	ck_assert_uint_eq(succeed(1), 1);
}
END_TEST

START_TEST(a_target_that_takes_too_much_is_left_out_alone)
{
	struct target *other = fed_target(&engines[0], 2);
	begin_program(t);
	work(t, 0, 10);
	begin_program(other);
	work(other, 0, 10);
	commit_now();
	map_much(t, 0, 16000); /* 64 MB */
	work(t, 10, 20);
	work(other, 10, 20);
	open_spool();
	window_close(t, false);
	run_until_left(0);
	catch_up();
	commit_now();
	ck_assert_int_eq(checkpoint_round(g->commit, g, now), -1);
	ck_assert_uint_eq(succeed(2), 2);
	ck_assert(t->sampling.started && !t->sampling.samples && !t->window.seq); /* it counts from now on */
	ck_assert_uint_eq(target_find(g, "c2")->sampling.samples, 20);
	catch_up();
	work(t, 0, 10);
	commit_now();
	ck_assert_uint_eq(succeed(2), 2);
	ck_assert_uint_eq(t->sampling.samples, 10);
	ck_assert_uint_eq(target_find(g, "c2")->sampling.samples, 20);
}
END_TEST

START_TEST(who_has_become_small_is_in_it_again)
{
	begin_program(t);
	map_much(t, 0, 3000);
	commit_now();
	fed_comm(t, (uint64_t)now, FED_INIT, FED_INIT, "init", true);
	work(t, 0, 10);
	now += 60 * SECOND;
	commit_now();
	ck_assert_uint_eq(succeed(1), 1);
	ck_assert_uint_eq(t->sampling.samples, 10);
}
END_TEST

START_TEST(many_that_are_large_have_a_bound)
{
	struct target *all[8];
	for (unsigned i = 0; i < 8; i++) {
		all[i] = fed_target(g, i + 2);
		begin_program(all[i]);
		map_much(all[i], 0, 1500); /* 6 MB */
		work(all[i], 0, 10);
		commit_now();
	}
	ck_assert_uint_le(checkpoint_bytes(g->commit), JOURNAL_MAX);
	ck_assert_uint_eq(succeed(9), 9);
	unsigned known = 0;
	for (struct target *each = g->targets; each; each = each->next)
		known += each->sampling.samples == 10;
	ck_assert(known >= 3 && known < 8);
}
END_TEST

UNIT_SUITE(checkpoint_write)
{
	Suite *s = suite_create("checkpoint_write");
	TCase *c = tcase_create("checkpoint_write");

	tcase_set_timeout(c, 120);
	tcase_add_checked_fixture(c, begin, end);
	tcase_add_test(c, everything_comes_back);
	tcase_add_test(c, each_special_frame_comes_back);
	tcase_add_test(c, changes_add_up_to_the_whole);
	tcase_add_test(c, counts_are_as_committed_and_records_as_taken);
	tcase_add_test(c, a_record_that_comes_again_changes_nothing);
	tcase_add_test(c, the_exec_that_begins_counting_is_not_lost);
	tcase_add_test(c, what_a_running_one_consists_of_comes_back);
	tcase_add_test(c, what_is_said_anew_is_added);
	tcase_add_test(c, what_is_gone_or_another_does_not_come_back);
	tcase_add_test(c, without_a_journal_they_count_from_now_on);
	tcase_add_test(c, nothing_is_read_before_it_is_known_whose_it_is);
	tcase_add_test(c, an_idle_target_costs_nothing);
	tcase_add_test(c, a_commit_comes_early_rather_than_alone);
	tcase_add_test(c, behind_a_restart_commits_come_ever_later_up_to_a_second);
	tcase_add_test(c, the_gap_is_from_the_last_look_on);
	tcase_add_test(c, lowered_rates_come_back);
	tcase_add_test(c, a_rate_is_a_number_whatever_was_written);
	tcase_add_test(c, a_window_that_waits_comes_back_and_is_written_once);
	tcase_add_test(c, a_window_that_was_written_is_not_written_again);
	tcase_add_loop_test(c, a_window_that_was_handed_over_is_not_lost, 0, 2);
	tcase_add_test(c, a_window_is_written_with_its_last_profile);
	tcase_add_test(c, windows_that_end_before_an_answer_are_written_once);
	tcase_add_test(c, a_profile_says_how_it_came_about);
	tcase_add_test(c, a_profile_by_timers_says_so);
	tcase_add_test(c, a_profile_is_the_same_with_and_without_a_restart);
	tcase_add_test(c, what_ran_on_a_cpu_that_came_back_is_written);
	tcase_add_test(c, modules_are_read_again_for_a_window);
	tcase_add_test(c, what_nobody_counted_is_in_the_profile);
	tcase_add_test(c, the_rung_that_counts_is_the_one_that_did);
	tcase_add_test(c, killed_at_any_moment_a_successor_continues);
	tcase_add_test(c, a_damaged_journal_is_read_to_its_end);
	tcase_add_loop_test(c, a_journal_of_twice_its_snapshot_is_begun_anew, 0, sizeof(growths) / sizeof(growths[0]));
	tcase_add_test(c, a_target_that_takes_too_much_is_left_out_alone);
	tcase_add_test(c, who_has_become_small_is_in_it_again);
	tcase_add_test(c, many_that_are_large_have_a_bound);
	suite_add_tcase(s, c);
	TCase *m = tcase_create("measured");
	tcase_set_tags(m, SUITE_MEASURED);
	tcase_set_timeout(m, 120);
	tcase_add_checked_fixture(m, begin, end);
	tcase_add_test(m, time_of_a_real_program_adds_up);
	suite_add_tcase(s, m);
	return s;
}
