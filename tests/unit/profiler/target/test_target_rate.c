/* SPDX-License-Identifier: Apache-2.0 */
/* rates: what is lowered and by how much, and that sums stay right, of a kernel and a clock that are driven; and that
 * the kernel does what profiler/sample/sample_rate.h says of it. */
#include "profiler/sample/sample_rate.h"

#include "oci/base/clock.h"
#include "oci/base/clock_driven.h"
#include "oci/base/fd.h"
#include "profiler/sample/event_counts.h"
#include "profiler/target/engine.h"
#include "profiler/target/limits.h"
#include "profiler/target/target.h"
#include "profiler/target/target_counts.h"
#include "profiler/target/target_rate.h"
#include "profiler/target/window.h"
#include "shim/event/perf_event.h"
#include "tests/unit/support/fed.h"
#include "tests/unit/support/skip.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <math.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))
#define PERIOD 1000000ull
#define MS NSEC_PER_MSEC

/* --- weights: numbers alone */

START_TEST(a_sample_has_the_weight_of_its_time)
{
	struct target_rate r = {0};
	ck_assert_uint_eq(sample_rate_weight(&r, 1000, 5), 1000);
	r.steps[0] = (struct rate_step){100, 2};
	r.steps[1] = (struct rate_step){200, 4.5};
	r.steps[2] = (struct rate_step){300, 1};
	r.n_steps = 3;
	ck_assert_uint_eq(sample_rate_weight(&r, 1000, 99), 1000);
	ck_assert_uint_eq(sample_rate_weight(&r, 1000, 100), 2000);
	ck_assert_uint_eq(sample_rate_weight(&r, 1000, 199), 2000);
	ck_assert_uint_eq(sample_rate_weight(&r, 1001, 200), 4505); /* rounded */
	ck_assert_uint_eq(sample_rate_weight(&r, 1000, 300), 1000);
	ck_assert_uint_eq(sample_rate_weight(&r, 1000, INT64_MAX), 1000);
}
END_TEST

START_TEST(of_many_changes_the_last_are_known)
{
	struct target_rate r = {0};
	for (unsigned i = 0; i < 3 * RATE_STEPS + 5; i++)
		r.steps[r.n_steps++ % RATE_STEPS] = (struct rate_step){100 * i, i + 1};
	for (unsigned i = r.n_steps - RATE_STEPS; i < r.n_steps; i++)
		ck_assert(sample_rate_scale(&r, 100 * i + 50) == i + 1);
	/* what is older has the oldest of them: it was lowered before, too */
	ck_assert(sample_rate_scale(&r, 0) == r.n_steps - RATE_STEPS + 1);
}
END_TEST

static const struct {
	bool by_cap, by_budget;
	uint64_t by;
} reasons[] = {{false, false, 0}, {true, false, 1}, {false, true, 2}, {true, true, 3}};

START_TEST(a_successor_knows_the_reasons_for_lowering)
{
	const struct target_rate r = {.factor = 4, .by_cap = reasons[_i].by_cap, .by_budget = reasons[_i].by_budget};
	struct target_rate restored;
	struct rate_saved s;
	sample_rate_save(&r, &s);
	ck_assert_uint_eq(s.by, reasons[_i].by);
	sample_rate_restore(&restored, &s);
	ck_assert(restored.by_cap == r.by_cap && restored.by_budget == r.by_budget);
}
END_TEST

static const struct {
	unsigned made, saved; /* changes */
} kept[] = {{0, 0}, {1, 1}, {RATE_KEPT, RATE_KEPT}, {RATE_KEPT + 1, RATE_KEPT}, {RATE_STEPS, RATE_KEPT},
	{2 * RATE_STEPS + 1, RATE_KEPT}};

/* From 100 n on, n from 1, a sample stands for n + 1 times as much. */
START_TEST(a_successor_knows_the_last_changes)
{
	const unsigned made = kept[_i].made, saved = kept[_i].saved, gone = made - saved;
	struct target_rate r = {0}, restored;
	struct rate_saved s;
	for (unsigned n = 1; n <= made; n++)
		r.steps[r.n_steps++ % RATE_STEPS] = (struct rate_step){100 * n, n + 1};
	sample_rate_save(&r, &s);
	ck_assert_uint_eq(s.n_steps, saved);
	sample_rate_restore(&restored, &s);
	ck_assert_uint_eq(restored.n_steps, saved);
	for (unsigned n = gone + 1; n <= made; n++) {
		ck_assert(sample_rate_scale(&restored, 100 * n) == n + 1);
		ck_assert(sample_rate_scale(&restored, 100 * n + 99) == n + 1);
	}
	/* before all changes nothing was lowered; if some are not saved, the first that is stands for them */
	ck_assert(sample_rate_scale(&restored, 99) == (gone ? gone + 2 : 1));
}
END_TEST

/* --- a target whose kernel and clock are driven: its events are files */

static struct clock_driven driven;
static struct engine engine;
static struct settings settings;
static struct target *target;
static struct open_event *events;
static const uint64_t *pattern; /* ms in user code, ms in kernel code */
static const uint64_t user_alone[2] = {1, 0};
static struct {
	int clock, sideband, account;
	bool on;
	uint64_t period, ran, user, counted, samples;
	int64_t left;			  /* of a period, ns */
	uint64_t cpus, usage, usage_a_ms; /* of our processes, us */
	int64_t next_round;
	int late; /* ms that we wake up too late, at most */
	unsigned random;
} kernel;

/* In place of libc's: what an event is told. Others are the kernel's. */
int ioctl(int fd, unsigned long request, ...)
{
	va_list args;
	va_start(args, request);
	void *arg = va_arg(args, void *);
	va_end(args);
	if (!kernel.clock || fd != kernel.clock)
		return (int)syscall(SYS_ioctl, fd, request, arg);
	switch (request) {
	case PERF_EVENT_IOC_PERIOD:
		ck_assert(target->desc.strategy == STRATEGY_CGROUP); /* others have children that it does not reach */
		kernel.period = *(uint64_t *)arg;
		kernel.left = (int64_t)kernel.period;
		return 0;
	case PERF_EVENT_IOC_ENABLE:
	case PERF_EVENT_IOC_DISABLE:
		ck_assert(target->desc.strategy == STRATEGY_PROCESS); /* others would miss side-band, or need not */
		kernel.on = request == PERF_EVENT_IOC_ENABLE;
		return 0;
	default:
		ck_abort_msg("an event is told %lx", request);
	}
}

static void says(int fd, uint64_t value)
{
	uint64_t same[32];
	for (size_t i = 0; i < LENGTH(same); i++)
		same[i] = value;
	ck_assert_int_eq(pwrite(fd, same, sizeof(same), 0), sizeof(same));
	ck_assert_int_eq(lseek(fd, 0, SEEK_SET), 0);
}

static int new_file(void)
{
	int fd = memfd_create("event", MFD_CLOEXEC);
	ck_assert_int_gt(fd, 0);
	return fd;
}

static void begin_target(enum strategy strategy, unsigned cpus)
{
	struct options o;
	options_default(&o);
	settings = o.settings;
	settings.limits.cpu_budget = settings.limits.target_rate = settings.limits.target_bytes = 0;
	clock_drive(&driven);
	fed_n_events = 1;
	fed_engine(&engine);
	target = fed_target(&engine, 1);
	target->desc.strategy = strategy;
	target->desc.events[0].period = PERIOD;
	events = fed_events(target, 0);
	memset(&kernel, 0, sizeof(kernel));
	kernel.account = new_file();
	kernel.on = true;
	kernel.period = PERIOD;
	kernel.left = PERIOD;
	kernel.cpus = cpus;
	pattern = user_alone;
	kernel.clock = events->fd = new_file();
	kernel.sideband = target->events.list->fd = new_file();
	target->events.list->layout.flags = LAYOUT_RUNNING;
	engine.rates.account = kernel.account;
	engine.rates.drained = INT64_MAX; /* a record is handed over as it is made */
	target_rate_use(&engine, &settings);
	fed_comm(target, (uint64_t)(clock_now() - MS), FED_INIT, FED_INIT, "web", true);
	ck_assert(target->sampling.started);
}

static void end_target(void)
{
	fed_engine_done(&engine);
	ck_assert_uint_eq(engine.rates.n_switched, 0);
	const int account = engine.rates.account;
	sample_rate_close_account(&engine.rates);
	ck_assert(account <= 0 || !fd_is(account));
	kernel.clock = 0;
	clock_drive(NULL);
}

/* A clock's timer goes off with each period; of kernel code there may be no sample, and the count goes on. */
static void run_program(bool in_user)
{
	uint64_t ns = kernel.cpus * MS;
	kernel.ran += ns;
	kernel.user += in_user ? ns : 0;
	if (kernel.on) {
		kernel.counted += ns;
		for (kernel.left -= (int64_t)ns; kernel.left <= 0; kernel.left += (int64_t)kernel.period) {
			if (!in_user)
				continue;
			fed_sample(target, events, (uint64_t)clock_now(), FED_INIT, FED_INIT, &(uint64_t){0x1000}, 1);
			kernel.samples++;
		}
	}
}

/* Before it is read: not with each millisecond, which would cost as much as all the rest. */
static void show_counts(void)
{
	char text[64];
	says(kernel.clock, kernel.counted);
	says(kernel.sideband, kernel.ran);
	int n = snprintf(text, sizeof(text), "usage_usec %llu\n", (unsigned long long)kernel.usage);
	ck_assert_int_eq(pwrite(kernel.account, text, (size_t)n, 0), n);
}

static void run_ms(unsigned ms)
{
	for (unsigned i = 0; i < ms; i++) {
		clock_move(MS);
		run_program((uint64_t)(clock_now() / MS) % (pattern[0] + pattern[1]) < pattern[0]);
		kernel.usage += kernel.usage_a_ms;
		int64_t now = clock_now();
		if (now < kernel.next_round)
			continue;
		show_counts();
		kernel.random = kernel.random * 1103515245 + 12345;
		int late = kernel.late ? (int)(kernel.random >> 16) % kernel.late : 0;
		target_rate_round(&engine, now);
		target_rate_look(&engine, now);
		int wait = target_rate_round(&engine, now); /* as engine_round() does it */
		kernel.next_round = now + ((wait < 0 || wait > 100 ? 100 : wait) + late) * MS;
	}
	show_counts();
}

static const struct {
	const char *scenario;
	enum strategy strategy;
	unsigned cpus;
	int late;
} ways[] = {
	{"longer periods", STRATEGY_CGROUP, 1, 0},
	{"intervals", STRATEGY_PROCESS, 1, 0},
	{"leaving samples out", STRATEGY_THREADS, 1, 0},
	{"longer periods, on more CPUs", STRATEGY_CGROUP, 4, 0},
	{"intervals, on more CPUs", STRATEGY_PROCESS, 4, 0},
	{"leaving samples out, on more CPUs", STRATEGY_THREADS, 4, 0},
	{"longer periods, woken up late", STRATEGY_CGROUP, 1, 60},
	{"intervals, woken up late", STRATEGY_PROCESS, 2, 60},
};

static void limit_to(uint64_t samples)
{
	settings.limits.target_rate = samples;
	target_rate_use(&engine, &settings);
	memset(&target->sampling.rate.cap.needed, 0,
		sizeof(target->sampling.rate.cap.needed)); /* ten calm seconds have passed */
}

/* CPU seconds that samples by intervals have yet to stand for, as of a look at all targets. */
static double owed_now(void)
{
	int64_t looked = engine.rates.looked;
	if (target->desc.strategy != STRATEGY_PROCESS)
		return 0;
	while (engine.rates.looked == looked)
		run_ms(1);
	return target->sampling.rate.intervals.owed;
}

/*
 * What samples stand for is what was used, to a twentieth, and there are `least` to `most` of them a second of CPU
 * time. Of intervals there are two or three a second, and the next second makes up for it: it is what was used but for
 * what is owed, before and after, and that is never more than two seconds' worth.
 */
static void check_sums(const char *scenario, unsigned ms, double least, double most)
{
	double owed = owed_now();
	const struct sample_tally before = target->sampling.tally;
	uint64_t began = kernel.ran;
	run_ms(ms);
	double owes = owed_now(), ns = (double)(kernel.ran - began);
	double sum = ((double)(target->sampling.tally.weight[0] - before.weight[0]) + owes - owed) / ns;
	double rate = (double)(target->sampling.tally.samples - before.samples) * NSEC_PER_SEC / ns;
	ck_assert_msg(fabs(sum - 1) < 0.05, "%s: %f", scenario, sum);
	ck_assert_msg(
		fabs(owes) < 2.0 * (double)(kernel.cpus * NSEC_PER_SEC), "%s: it owes %f s", scenario, owes / 1e9);
	ck_assert_msg(rate >= least && rate <= most, "%s: %f samples a second", scenario, rate);
}

START_TEST(sums_stay_right_while_it_is_sampled_less)
{
	const char *scenario = ways[_i].scenario;
	begin_target(ways[_i].strategy, ways[_i].cpus);
	kernel.late = ways[_i].late;
	run_ms(1500);
	check_sums(scenario, 2000, 950, 1050);
	limit_to(100);
	run_ms(3000);
	double needed = 10.0 * ways[_i].cpus;
	ck_assert_msg(target->sampling.rate.factor > needed && target->sampling.rate.factor < 1.2 * needed, "%s: 1/%f",
		scenario, target->sampling.rate.factor);
	check_sums(scenario, 10000, 70.0 / ways[_i].cpus, 130.0 / ways[_i].cpus);
	ck_assert(target->sampling.rate.most > 2 && target->sampling.rate.by_cap && !target->sampling.rate.by_budget);
	limit_to(0);
	run_ms(2000);
	ck_assert_msg(target->sampling.rate.factor == 1, "%s: 1/%f", scenario, target->sampling.rate.factor);
	ck_assert(kernel.on && kernel.period == PERIOD);
	check_sums(scenario, 2000, 950, 1050);
	end_target();
}
END_TEST

/* By the estimate a thousand samples a second cost 20 ms; 5 are allowed. */
START_TEST(the_budget_lowers_and_raises_all)
{
	begin_target(STRATEGY_CGROUP, 1);
	engine.rates.allowed = 5 * MS;
	run_ms(70000);
	ck_assert_msg(target->sampling.rate.factor > 4 && target->sampling.rate.factor < 8, "1/%f",
		target->sampling.rate.factor);
	ck_assert(target->sampling.rate.by_budget && !target->sampling.rate.by_cap);
	check_sums("lowered", 10000, 100, 250);
	engine.rates.allowed = 0;
	run_ms(2000);
	ck_assert(target->sampling.rate.factor == 1);
	check_sums("raised", 2000, 950, 1050);
	end_target();
}
END_TEST

/* 20 ms a second for samples, of 40; and 50 for names, say, which a lower rate would not lower. */
START_TEST(what_is_no_sampling_lowers_nothing)
{
	begin_target(STRATEGY_CGROUP, 1);
	engine.rates.allowed = 40 * MS;
	kernel.usage_a_ms = 50;
	ck_assert(target_rate_have_room(&engine));
	run_ms(70000);
	ck_assert_msg(target->sampling.rate.factor <= 1, "1/%f", target->sampling.rate.factor);
	ck_assert(!target->sampling.rate.by_budget);
	ck_assert(!target_rate_have_room(&engine));
	kernel.usage_a_ms = 10;
	run_ms(60000);
	ck_assert(target_rate_have_room(&engine));
	end_target();
}
END_TEST

/* What a program maps and forks is read with its samples. */
START_TEST(of_a_drain_samples_have_their_part)
{
	struct rate_control *r = &engine.rates;
	begin_target(STRATEGY_CGROUP, 1);
	sample_rate_drained(r, sample_rate_cpu(r) - MS); /* of what came before */
	r->drains = 0;
	sample_rate_drained(r, sample_rate_cpu(r) - MS);
	ck_assert_uint_eq(r->drains, 0); /* nothing came */
	for (unsigned i = 0; i < 9; i++)
		sampling_note_record(&target->sampling, i == 0, 100);
	int64_t began = sample_rate_cpu(r) - 800 * MS; /* this test's own time is little beside it */
	r->loading += 400 * MS;			       /* for a file, which is read once */
	sample_rate_drained(r, began);
	ck_assert_uint_ge(r->drains, 200 * MS);
	ck_assert_uint_lt(r->drains, 220 * MS);
	show_counts();
	target_rate_look(&engine, clock_now()); /* from here on it is known what is spent */
	kernel.usage = 10000;
	show_counts();
	r->drains = 6 * MS;
	r->sampling = 1 * MS;
	target_rate_look(&engine, clock_now() + NSEC_PER_SEC);
	const struct cpu_budget_cost spent = cpu_budget_minute(&r->allowance);
	ck_assert_uint_eq(spent.sampling, 7 * MS);
	ck_assert_uint_eq(spent.other, 4 * MS);
	end_target();
}
END_TEST

/* What a predecessor left: events that are off, or have longer periods than anybody knows. */
START_TEST(a_successor_takes_over)
{
	const char *scenario = ways[_i].scenario;
	begin_target(ways[_i].strategy, ways[_i].cpus);
	kernel.late = ways[_i].late;
	run_ms(1500);
	limit_to(100);
	run_ms(3000);
	struct rate_saved left;
	sample_rate_save(&target->sampling.rate, &left);
	while (ways[_i].strategy == STRATEGY_PROCESS && kernel.on)
		run_ms(1);
	engine.rates = (struct rate_control){.account = kernel.account, .drained = INT64_MAX};
	target_rate_use(&engine, &settings);
	sample_rate_restore(&target->sampling.rate, &left);
	target->sampling.rate.samples = 1000; /* not read yet */
	target_rate_resume(target);
	run_ms(3000);
	check_sums(scenario, 10000, 70.0 / ways[_i].cpus, 130.0 / ways[_i].cpus);
	/* and one that knows nothing */
	while (ways[_i].strategy == STRATEGY_PROCESS && kernel.on)
		run_ms(1);
	engine.rates = (struct rate_control){.account = kernel.account, .drained = INT64_MAX};
	limit_to(0);
	target->sampling.rate = (struct target_rate){0};
	target_rate_resume(target);
	ck_assert_msg(kernel.on && kernel.period == PERIOD, "%s", scenario);
	check_sums(scenario, 2000, 950, 1050);
	end_target();
}
END_TEST

START_TEST(a_session_gets_what_it_asked_for)
{
	begin_target(STRATEGY_CGROUP, 1);
	engine.role.single = true;
	limit_to(1);
	run_ms(5000);
	ck_assert_uint_eq(target->sampling.rate.n_steps, 0);
	ck_assert(kernel.period == PERIOD);
	end_target();
}
END_TEST

/* A target whose intervals go on is ending, and another one has none: nothing is due. */
START_TEST(of_no_interval_none_is_awaited)
{
	begin_target(STRATEGY_CGROUP, 1);
	ck_assert_int_eq(target_rate_round(&engine, clock_now()), -1);
	engine.rates.n_switched++;
	ck_assert_int_eq(target_rate_round(&engine, clock_now()), -1);
	engine.rates.n_switched--;
	end_target();
}
END_TEST

START_TEST(what_came_is_counted)
{
	begin_target(STRATEGY_CGROUP, 1);
	uint64_t records = target->sampling.records, bytes = target->sampling.bytes;
	run_ms(500);
	ck_assert_uint_eq(kernel.samples, 500);
	ck_assert_uint_eq(target->sampling.samples, 500);
	ck_assert_uint_eq(target->sampling.records - records, 500);
	ck_assert_uint_eq(target->sampling.bytes - bytes, 500 * 8 * 8); /* of eight words: fed_sample() */
	end_target();
}
END_TEST

/* The clock goes on in kernel code, and there are no samples of it. */
START_TEST(what_is_not_sampled_is_given_to_nobody)
{
	static const uint64_t both[2] = {7, 4};
	struct window w = {0};
	begin_target(STRATEGY_PROCESS, 1);
	target->desc.kernel = 0;
	pattern = both;
	run_ms(1500);
	limit_to(60);
	run_ms(20000);
	ck_assert(target->sampling.rate.factor > 5);
	target_counts_window(target, &w);
	double part = (double)kernel.user / (double)kernel.ran, all = (double)w.kernel[0].counted;
	double sampled = (double)target->sampling.tally.weight[0] * w.kernel[0].correct / all;
	ck_assert_msg(fabs(all / (double)kernel.ran - 1) < 0.01, "%f s of %f", all / 1e9, (double)kernel.ran / 1e9);
	ck_assert_msg(fabs(sampled - part) < 0.1, "samples stand for %f, user code is %f", sampled, part);
	ck_assert_msg(fabs((double)w.kernel[0].unsampled / all - (1 - sampled)) < 0.02, "%f is said to have none",
		(double)w.kernel[0].unsampled / all);
	end_target();
}
END_TEST

/* --- what the kernel does, that all of this relies on */

static pid_t leader;
static volatile pid_t *child; /* its last one */
static int go[2];

/* One for each: where one process follows the other on a CPU, what both have inherited goes on with it. */
static void use_cpu(int which)
{
	cpu_set_t all, one;
	CPU_ZERO(&one);
	if (sched_getaffinity(0, sizeof(all), &all) < 0)
		return;
	for (int i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &all) && which-- == 0)
			CPU_SET(i, &one);
	sched_setaffinity(0, sizeof(one), &one);
}

static int count_cpus(void)
{
	cpu_set_t all;
	return sched_getaffinity(0, sizeof(all), &all) < 0 ? 1 : CPU_COUNT(&all);
}

/* It waits for start_work(), and then is so many processes. */
static void make_program(int n)
{
	const bool several = n > 1;
	child = mmap(NULL, sizeof(*child), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne((void *)child, MAP_FAILED);
	ck_assert_int_eq(pipe(go), 0);
	leader = fork();
	if (leader == 0) {
		char c;
		setpgid(0, 0);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (read(go[0], &c, 1) != 1)
			_exit(1);
		while (--n > 0 && fork())
			;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (n > 0)
			*child = getpid();
		if (several)
			use_cpu(n);
		alarm(300); /* also where the test has been killed */
		for (;;)
			;
	}
	ck_assert_int_gt(leader, 0);
	setpgid(leader, leader);
}

static void start_work(void)
{
	ck_assert_int_eq(write(go[1], "x", 1), 1);
}

static void end_program(void)
{
	kill(-leader, SIGKILL);
	waitpid(leader, NULL, 0);
	munmap((void *)child, sizeof(*child));
	close(go[0]);
	close(go[1]);
}

struct meter {
	int fd;
	struct perf_event_mmap_page *ring;
};
static struct meter meters[64];
static int n_meters;

static bool open_meters(bool inherit, bool freq)
{
	int cpus[64];
	n_meters = 0;
	for (int n = perf_online_cpus(cpus, 64); n_meters < n; n_meters++) {
		struct meter *m = &meters[n_meters];
		struct perf_event_attr a = {.size = sizeof(a),
			.type = PERF_TYPE_SOFTWARE,
			.config = PERF_COUNT_SW_CPU_CLOCK,
			.inherit = inherit,
			.freq = freq,
			.sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TIME};
		a.sample_period = freq ? NSEC_PER_SEC / PERIOD : PERIOD;
		m->fd = perf_open(&a, leader, cpus[n_meters], 0);
		if (m->fd < 0)
			return false;
		void *at = mmap(NULL, 129 * 4096, PROT_READ, MAP_SHARED, m->fd, 0);
		ck_assert_ptr_ne(at, MAP_FAILED);
		m->ring = at;
	}
	return true;
}

static void close_meters(void)
{
	for (int i = 0; i < n_meters; i++) {
		munmap(meters[i].ring, 129 * 4096);
		close(meters[i].fd);
	}
}

struct taken {
	uint64_t ns, samples; /* CPU time by the kernel's count */
};

static struct taken taken_so_far(void)
{
	struct taken all = {0};
	for (int i = 0; i < n_meters; i++) {
		uint64_t value = 0;
		ck_assert_int_eq(read(meters[i].fd, &value, sizeof(value)), sizeof(value));
		all.ns += value;
		all.samples += __atomic_load_n(&meters[i].ring->data_head, __ATOMIC_ACQUIRE) / 24;
	}
	return all;
}

/* Periods of the program's CPU time for each sample, over 200 of them, however long those take. */
static double periods_a_sample(void)
{
	struct taken before = taken_so_far(), now;
	do {
		poll(NULL, 0, 20);
		now = taken_so_far();
	} while (now.ns - before.ns < 200 * PERIOD);
	ck_assert_uint_gt(now.samples, before.samples);
	return (double)(now.ns - before.ns) / PERIOD / (double)(now.samples - before.samples);
}

static void tell(unsigned long what, uint64_t value)
{
	for (int i = 0; i < n_meters; i++)
		ck_assert_int_eq(ioctl(meters[i].fd, what, what == PERF_EVENT_IOC_PERIOD ? &value : NULL), 0);
}

static int64_t cpu_of(pid_t pid)
{
	clockid_t id;
	struct timespec t;
	ck_assert_int_eq(clock_getcpuclockid(pid, &id), 0);
	ck_assert_int_eq(clock_gettime(id, &t), 0);
	return t.tv_sec * NSEC_PER_SEC + t.tv_nsec;
}

/* While the first process uses so much CPU time. */
static void work_ms(int ms)
{
	const int64_t begin = cpu_of(leader);
	do
		poll(NULL, 0, 5);
	while (cpu_of(leader) - begin < ms * MS);
}

/* Samples while each of both processes uses 200 periods at least. */
static uint64_t samples_of_both(void)
{
	while (!*child)
		poll(NULL, 0, 5);
	const int64_t enough = (int64_t)(200 * PERIOD), first = cpu_of(leader), second = cpu_of(*child);
	const uint64_t before = taken_so_far().samples;
	do
		poll(NULL, 0, 5);
	while (cpu_of(leader) - first < enough || cpu_of(*child) - second < enough);
	return taken_so_far().samples - before;
}

static const struct {
	const char *scenario;
	int processes;
	bool freq;
	/*
	 * By PERIOD. Of two processes one is not; which one, is the kernel's: where one follows the other on a CPU, it
	 * swaps what both have inherited (perf_event_context_sched_out, kernel/events/core.c).
	 */
	bool reached;
} kernels[] = {
	{"one process, by period", 1, false, true},
	{"one process, by frequency: nanoseconds all the same", 1, true, true},
	{"a child that was there before: not reached", 2, false, false},
};

START_TEST(what_the_kernel_takes_and_whom_it_reaches)
{
	const char *scenario = kernels[_i].scenario;
	if (count_cpus() < kernels[_i].processes) {
		skip("a CPU for each process is needed");
		return;
	}
	make_program(kernels[_i].processes);
	/* one with a thread of a sanitizer's beside it would be several: the kernel may swap what both inherit */
	if (open_meters(kernels[_i].processes > 1, kernels[_i].freq)) {
		start_work();
		double asked = periods_a_sample();
		ck_assert_msg(asked > 0.9 && asked < 2, "%s: %f", scenario, asked);
		tell(PERF_EVENT_IOC_PERIOD, 10 * PERIOD);
		if (kernels[_i].reached) {
			double longer = periods_a_sample();
			ck_assert_msg(longer > 5, "%s: %f", scenario, longer);
		} else {
			uint64_t n = samples_of_both();
			ck_assert_msg(n > 150, "%s: %llu samples", scenario, (unsigned long long)n);
		}
		tell(PERF_EVENT_IOC_PERIOD, PERIOD);
		tell(PERF_EVENT_IOC_DISABLE, 0);
		uint64_t before = taken_so_far().samples;
		work_ms(50);
		ck_assert_msg(taken_so_far().samples == before, "%s: DISABLE reaches all", scenario);
		tell(PERF_EVENT_IOC_ENABLE, 0);
		double again = periods_a_sample();
		ck_assert_msg(again > 0.9 && again < 2, "%s: %f", scenario, again);
	} else {
		skip("no perf events here");
	}
	close_meters();
	end_program();
}
END_TEST

/* --- a drain has an end, whoever writes */

static uint64_t handed_over, last_time;

static void hand_over(void *arg, const struct perf_event_header *h, uint64_t id)
{
	uint64_t time = 0, same;
	ck_assert_int_eq(record_peek(h, &same, &time), 0);
	ck_assert_uint_ge(time, last_time);
	last_time = time;
	handed_over++;
}

static void add_events(void)
{
	struct perf_want want = {
		.role = PERF_SAMPLES, .spec = {.period = PERIOD}, .stacks = STACKS_NONE, .kernel = geteuid() == 0};
	struct err e = {0};
	int cpus[64], n = perf_online_cpus(cpus, 64);
	for (int i = 0; i < n; i++) {
		struct event_desc d = {.role = want.role, .cpu = cpus[i]};
		struct perf_event_attr attr;
		perf_attr(&want, &attr, &d.layout);
		int fd = perf_open(&attr, leader, cpus[i], 0);
		ck_assert_int_ge(fd, 0);
		ck_assert_msg(target_add_event(target, &d, fd, &e) == 0, "%s", e.text);
	}
	ck_assert_msg(target_arm(target, (uint32_t)n, &e) == 0, "%s", e.text);
}

static bool begin_real_target(void)
{
	struct target_desc d = {.id = "c1",
		.strategy = STRATEGY_CGROUP,
		.running = 1,
		.window_s = 60,
		.n_events = 1,
		.events = {{.period = PERIOD}},
		.kernel = 1};
	static const struct msg_tasks none = {.last = 1};
	struct options o;
	struct err e = {0};
	char note[160];
	options_default(&o);
	settings = o.settings;
	engine = (struct engine){.symbols.kallsyms_fd = -1, .symbols.root = -1};
	if (cpu_rings_open(&engine.perf.rings, note, sizeof(note), &e) < 0)
		return skip(e.text), false;
	limits_apply(&engine, &settings);
	ck_assert_int_eq(event_loop_new(&engine.loop), 0);
	ck_assert_int_eq(engine_init(&engine, &e), 0);
	make_program(1);
	ck_assert_msg(target_new(&engine, &d, NULL, &target, &e) == 0, "%s", e.text);
	add_events();
	target_tasks(target, &none, NULL);
	start_work();
	return true;
}

static void fill_rings(size_t bytes)
{
	while (cpu_rings_left(engine.perf.rings) < bytes)
		poll(NULL, 0, 10);
	poll(NULL, 0, 4);
}

START_TEST(a_drain_ends_at_its_deadline_and_goes_on_from_there)
{
	if (!begin_real_target())
		return;
	uint64_t n = 0, all = 0, turns = 0;
	bool done = false;
	fill_rings(12000);
	int64_t until = clock_now() - 2 * MS;
	handed_over = last_time = 0;
	for (; !done && turns < 100000; turns++) {
		done = cpu_rings_drain(
			engine.perf.rings, until, clock_now(), hand_over, NULL, &n); /* which is over by then */
		ck_assert_uint_le(n, CPU_RINGS_LOOK);
		ck_assert((cpu_rings_oldest(engine.perf.rings) < until) == !done);
		ck_assert(cpu_rings_oldest(engine.perf.rings) >= (int64_t)last_time);
		all += n;
	}
	ck_assert(done && all == handed_over && all > 2 * CPU_RINGS_LOOK);
	ck_assert_uint_eq(turns, (all + CPU_RINGS_LOOK - 1) / CPU_RINGS_LOOK);
	/* and without one it takes all */
	fill_rings(8000);
	ck_assert(cpu_rings_drain(engine.perf.rings, clock_now() - 2 * MS, INT64_MAX, hand_over, NULL, &n));
	ck_assert_uint_gt(n, 2 * CPU_RINGS_LOOK);
	target_forget(target);
	engine_done(&engine);
	end_program();
}
END_TEST

UNIT_SUITE(target_rate)
{
	Suite *s = suite_create("target_rate");
	TCase *t = tcase_create("target_rate");

	tcase_set_timeout(t, 120);
	tcase_add_test(t, a_sample_has_the_weight_of_its_time);
	tcase_add_test(t, of_many_changes_the_last_are_known);
	tcase_add_loop_test(t, a_successor_knows_the_reasons_for_lowering, 0, LENGTH(reasons));
	tcase_add_loop_test(t, a_successor_knows_the_last_changes, 0, LENGTH(kept));
	tcase_add_loop_test(t, sums_stay_right_while_it_is_sampled_less, 0, LENGTH(ways));
	tcase_add_test(t, the_budget_lowers_and_raises_all);
	tcase_add_test(t, what_is_no_sampling_lowers_nothing);
	tcase_add_test(t, of_a_drain_samples_have_their_part);
	tcase_add_loop_test(t, a_successor_takes_over, 0, LENGTH(ways));
	tcase_add_test(t, a_session_gets_what_it_asked_for);
	tcase_add_test(t, of_no_interval_none_is_awaited);
	tcase_add_test(t, what_came_is_counted);
	tcase_add_test(t, what_is_not_sampled_is_given_to_nobody);
	tcase_add_test(t, a_drain_ends_at_its_deadline_and_goes_on_from_there);
	suite_add_tcase(s, t);
	TCase *m = tcase_create("measured");
	tcase_set_tags(m, SUITE_MEASURED);
	tcase_set_timeout(m, 120);
	tcase_add_loop_test(m, what_the_kernel_takes_and_whom_it_reaches, 0, LENGTH(kernels));
	suite_add_tcase(s, m);
	return s;
}
