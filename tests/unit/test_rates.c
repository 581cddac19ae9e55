#include "profiler/rates.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "profiler/counted.h"
#include "profiler/limits.h"
#include "profiler/target.h"
#include "profiler/window.h"
#include "shim/perf.h"
#include "skip.h"
#include "suite.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))
#define PERIOD 1000000ull
/*
 * How far a sum may be off: by half of what it is where a weight is wrong. Time that a hypervisor takes is counted and
 * not sampled. (Rows of suite_rates have the sums of whole profiles, to a twentieth.)
 */
#define ROOM 0.3
#define TURNS 5				/* until it is right: what one look owes is made up for in the next */
#define PATIENCE_NS (60 * NSEC_PER_SEC) /* what is waited for is there in two seconds, where nothing else runs */

/* --- weights: numbers alone */

START_TEST(a_sample_has_the_weight_of_its_time)
{
	struct rate r = {0};
	ck_assert_uint_eq(rates_weight(&r, 1000, 5), 1000);
	r.steps[0] = (struct rate_step){100, 2};
	r.steps[1] = (struct rate_step){200, 4.5};
	r.steps[2] = (struct rate_step){300, 1};
	r.n_steps = 3;
	ck_assert_uint_eq(rates_weight(&r, 1000, 99), 1000);
	ck_assert_uint_eq(rates_weight(&r, 1000, 100), 2000);
	ck_assert_uint_eq(rates_weight(&r, 1000, 199), 2000);
	ck_assert_uint_eq(rates_weight(&r, 1001, 200), 4505); /* rounded */
	ck_assert_uint_eq(rates_weight(&r, 1000, 300), 1000);
	ck_assert_uint_eq(rates_weight(&r, 1000, INT64_MAX), 1000);
}
END_TEST

START_TEST(of_many_changes_the_last_are_known)
{
	struct rate r = {0};
	for (unsigned i = 0; i < 3 * RATE_STEPS + 5; i++)
		r.steps[r.n_steps++ % RATE_STEPS] = (struct rate_step){100 * i, i + 1};
	for (unsigned i = r.n_steps - RATE_STEPS; i < r.n_steps; i++)
		ck_assert(rates_scale(&r, 100 * i + 50) == i + 1);
	/* what is older has the oldest of them: it was lowered before, too */
	ck_assert(rates_scale(&r, 0) == r.n_steps - RATE_STEPS + 1);
}
END_TEST

/* --- programs that work, and events on them */

static struct engine engine;
static struct settings settings;
static struct target *target;
static pid_t leader;
static int counter = -1; /* the CPU time of them all */
static int go[2];

static bool user_only; /* it is sampled so, and works in the kernel as well */

/* For as long as the loop took, or a sanitizer's loop; read(2) would be the sanitizer's, too. */
static void work_in_kernel(void)
{
	static char zeros[1 << 18];
	static int zero = -1;
	static int64_t last;
	int64_t now = clock_now(), took = now - last;
	if (zero < 0)
		zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	while (last && clock_now() - now < took && syscall(SYS_read, zero, zeros, sizeof(zeros)) > 0)
		;
	last = clock_now();
}

static _Noreturn void work(void)
{
	int64_t end = clock_now() + 300 * NSEC_PER_SEC; /* also where the test has been killed */
	while (clock_now() < end) {
		for (volatile unsigned i = 0; i < 100000; i++)
			;
		if (user_only)
			work_in_kernel();
	}
	_exit(0);
}

/* It waits for start_work(), and then is so many processes. */
static void make_program(int n)
{
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
		work();
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
	close(go[0]);
	close(go[1]);
}

static int open_event(int cpu, bool inherit, bool counts, bool freq)
{
	struct perf_event_attr a = {.size = sizeof(a),
		.type = PERF_TYPE_SOFTWARE,
		.config = counts ? PERF_COUNT_SW_TASK_CLOCK : PERF_COUNT_SW_CPU_CLOCK,
		.inherit = inherit,
		.freq = freq,
		.sample_type = counts ? 0 : PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TIME};
	if (!counts)
		a.sample_period = freq ? NSEC_PER_SEC / PERIOD : PERIOD;
	return perf_open(&a, leader, cpu, 0);
}

static void pass_ms(int ms)
{
	poll(NULL, 0, ms);
}

/* --- what the kernel does, that all of this relies on */

struct meter {
	int cpu, fd;
	struct perf_event_mmap_page *ring;
};

static bool open_meters(struct meter *m, int n, bool inherit, bool freq)
{
	for (int i = 0; i < n; i++) {
		m[i].fd = open_event(m[i].cpu, inherit, false, freq);
		if (m[i].fd < 0)
			return false;
		void *at = mmap(NULL, 129 * 4096, PROT_READ, MAP_SHARED, m[i].fd, 0);
		ck_assert_ptr_ne(at, MAP_FAILED);
		m[i].ring = at;
	}
	return true;
}

struct taken {
	uint64_t ns, samples;
};

static struct taken taken_so_far(struct meter *m, int n)
{
	struct taken all = {0};
	for (int i = 0; i < n; i++) {
		uint64_t value = 0;
		ck_assert_int_eq(read(m[i].fd, &value, sizeof(value)), sizeof(value));
		all.ns += value;
		all.samples += __atomic_load_n(&m[i].ring->data_head, __ATOMIC_ACQUIRE) / 24;
	}
	return all;
}

/* ns of CPU time for each sample, over half a second of it, however long that takes */
static double ns_a_sample(struct meter *m, int n)
{
	struct taken before = taken_so_far(m, n), now;
	int64_t end = clock_now() + PATIENCE_NS;
	do {
		pass_ms(100);
		now = taken_so_far(m, n);
	} while (now.ns - before.ns < NSEC_PER_SEC / 2 && clock_now() < end);
	ck_assert_uint_gt(now.samples, before.samples);
	return (double)(now.ns - before.ns) / (double)(now.samples - before.samples);
}

static bool rests(struct meter *m, int n)
{
	struct taken before = taken_so_far(m, n);
	pass_ms(200);
	return taken_so_far(m, n).samples == before.samples;
}

static void tell(struct meter *m, int n, unsigned long what, uint64_t value)
{
	for (int i = 0; i < n; i++)
		ck_assert_int_eq(ioctl(m[i].fd, what, what == PERF_EVENT_IOC_PERIOD ? &value : NULL), 0);
}

static const struct {
	const char *scenario;
	int processes;
	bool freq;
	bool reached; /* by PERIOD */
} kernels[] = {
	{"one process, by period", 1, false, true},
	{"one process, by frequency: nanoseconds all the same", 1, true, true},
	{"a child that was there before: not reached", 2, false, false},
};

START_TEST(what_the_kernel_takes_and_whom_it_reaches)
{
	struct meter m[64] = {{0}};
	int cpus[64], n = perf_online_cpus(cpus, 64);
	make_program(kernels[_i].processes);
	for (int i = 0; i < n; i++)
		m[i].cpu = cpus[i];
	/* one with a thread of a sanitizer's beside it would be several: the kernel may swap what both inherit */
	if (open_meters(m, n, kernels[_i].processes > 1, kernels[_i].freq)) {
		start_work();
		pass_ms(100);
		const char *scenario = kernels[_i].scenario;
		double asked = ns_a_sample(m, n) / PERIOD;
		ck_assert_msg(asked > 0.9 && asked < 2, "%s: %f", scenario, asked);
		tell(m, n, PERF_EVENT_IOC_PERIOD, 10 * PERIOD);
		double longer = ns_a_sample(m, n) / PERIOD;
		ck_assert_msg((longer > 5) == kernels[_i].reached, "%s: %f", scenario, longer);
		tell(m, n, PERF_EVENT_IOC_PERIOD, PERIOD);
		tell(m, n, PERF_EVENT_IOC_DISABLE, 0);
		ck_assert_msg(rests(m, n), "%s: DISABLE reaches all", scenario);
		tell(m, n, PERF_EVENT_IOC_ENABLE, 0);
		double again = ns_a_sample(m, n) / PERIOD;
		ck_assert_msg(again > 0.9 && again < 2, "%s: %f", scenario, again);
	} else {
		skip("no perf events here");
	}
	for (int i = 0; i < n && m[i].fd > 0; i++) {
		if (m[i].ring)
			munmap(m[i].ring, 129 * 4096);
		close(m[i].fd);
	}
	end_program();
}
END_TEST

/* --- targets */

static void add_event(const struct perf_want *want, int cpu)
{
	struct err e = {0};
	struct event_desc d = {.role = want->role, .cpu = cpu};
	struct perf_event_attr attr;
	perf_attr(want, &attr, &d.layout);
	int fd = perf_open(&attr, leader, cpu, 0);
	ck_assert_int_ge(fd, 0);
	ck_assert_msg(target_add_event(target, &d, fd, &e) == 0, "%s", e.text);
}

static void add_events(const struct perf_want *want)
{
	struct err e = {0};
	struct perf_want sideband = {.role = PERF_SIDEBAND, .inherit = want->inherit};
	int cpus[64], n = perf_online_cpus(cpus, 64);
	for (int i = 0; i < n; i++) {
		add_event(want, cpus[i]);
		add_event(&sideband, cpus[i]);
	}
	ck_assert_msg(target_arm(target, 2 * (uint32_t)n, &e) == 0, "%s", e.text);
}

static bool begin_target(enum strategy strategy, int processes)
{
	struct perf_want want = {.role = PERF_SAMPLES,
		.spec = {.period = PERIOD},
		.stacks = STACKS_NONE,
		.kernel = !user_only,
		.inherit = strategy != STRATEGY_CGROUP,
		.rung = 0};
	struct target_desc d = {.id = "c1",
		.strategy = strategy,
		.running = 1,
		.window_s = 60,
		.n_events = 1,
		.events = {want.spec},
		.kernel = want.kernel};
	static const struct msg_tasks none = {.last = 1};
	struct options o;
	struct err e = {0};
	char note[160];
	options_default(&o);
	settings = o.settings;
	settings.cpu_budget = 0;
	engine = (struct engine){.kallsyms_fd = -1, .root = -1};
	if (rings_open(&engine.rings, note, sizeof(note), &e) < 0)
		return skip(e.text), false;
	limits_use(&engine, &settings);
	ck_assert_int_eq(loop_new(&engine.loop), 0);
	ck_assert_int_eq(engine_init(&engine, &e), 0);
	make_program(processes);
	ck_assert_msg(target_new(&engine, &d, NULL, &target, &e) == 0, "%s", e.text);
	add_events(&want);
	target_tasks(target, &none, NULL);
	engine.rates.looked = clock_now() - NSEC_PER_SEC;
	counter = open_event(-1, true, true, false);
	ck_assert_int_ge(counter, 0);
	start_work();
	return true;
}

static void end_target(void)
{
	target_forget(target);
	ck_assert_uint_eq(engine.rates.n_switched, 0);
	engine_done(&engine);
	close(counter);
	end_program();
}

static void run_ms(int ms)
{
	int64_t end = clock_now() + ms * NSEC_PER_MSEC;
	while (clock_now() < end) {
		int wait = engine_round(&engine), left = deadline_left_ms(end);
		pass_ms(wait >= 0 && wait < left ? wait : left);
	}
}

static void read_all(void)
{
	pass_ms(4);
	do
		engine_drain(&engine, false);
	while (engine.behind);
}

static bool is_lowered(void)
{
	return target->rate.factor > 2;
}

static bool is_as_asked(void)
{
	return target->rate.factor == 1;
}

static void run_until(bool (*is_so)(void), const char *scenario)
{
	int64_t end = clock_now() + PATIENCE_NS;
	while (!is_so() && clock_now() < end)
		run_ms(50);
	ck_assert_msg(is_so(), "%s: 1/%f", scenario, target->rate.factor);
	read_all();
}

static uint64_t used(void)
{
	uint64_t ns;
	ck_assert_int_eq(read(counter, &ns, sizeof(ns)), sizeof(ns));
	return ns;
}

/* As long as it takes the program to use so much CPU time. */
static void run_cpu_ms(int ms)
{
	uint64_t before = used();
	int64_t end = clock_now() + PATIENCE_NS;
	while (used() - before < (uint64_t)(ms * NSEC_PER_MSEC) && clock_now() < end)
		run_ms(50);
	read_all();
}

/* What the samples stand for, of what was used. *ret_samples: for each second of CPU time. */
static double over(int cpu_ms, double *ret_samples)
{
	const struct target_tally before = target->tally;
	uint64_t began = used();
	run_cpu_ms(cpu_ms);
	double ns = (double)(used() - began);
	*ret_samples = (double)(target->tally.samples - before.samples) * NSEC_PER_SEC / ns;
	return (double)(target->tally.weight[0] - before.weight[0]) / ns;
}

static const struct {
	const char *scenario;
	enum strategy strategy;
	int processes;
} ways[] = {
	{"longer periods", STRATEGY_CGROUP, 1},
	{"intervals", STRATEGY_PROCESS, 1},
	{"leaving samples out", STRATEGY_THREADS, 3},
	{"intervals, of more processes than CPUs", STRATEGY_PROCESS, 5},
};

static void limit_to(uint64_t samples)
{
	settings.target_rate = samples;
	rates_use(&engine, &settings);
	memset(&target->rate.cap.needed, 0, sizeof(target->rate.cap.needed)); /* ten calm seconds have passed */
}

/* *ret: the last sum and samples a second of CPU time that were measured. */
static bool is_right(int cpu_ms, double *ret_sum, double *ret_rate)
{
	for (int turn = 0; turn < TURNS; turn++) {
		*ret_sum = over(cpu_ms, ret_rate);
		if (fabs(*ret_sum - 1) < ROOM)
			return true;
	}
	return false;
}

static void check_lowered(const char *scenario, int cpu_ms)
{
	double rate, sum;
	ck_assert_msg(is_right(cpu_ms, &sum, &rate), "%s: lowered, %f", scenario, sum);
	ck_assert_msg(rate < 700 && rate > 5, "%s: %f samples a second", scenario, rate);
}

static void check_as_asked(const char *scenario)
{
	double rate, sum;
	ck_assert_msg(is_right(1000, &sum, &rate), "%s: as asked for, %f", scenario, sum);
	ck_assert_msg(rate > 600, "%s: %f samples a second", scenario, rate);
}

/* For a hundred samples a second, where nothing else runs. */
static double needed(int processes)
{
	int cpus[64], n = perf_online_cpus(cpus, 64);
	return (double)(processes < n ? processes : n) * NSEC_PER_SEC / PERIOD / 100;
}

/* Where other programs run as well, there is less to use, and it is counted all the same. */
START_TEST(sums_stay_right_while_it_is_sampled_less)
{
	const char *scenario = ways[_i].scenario;
	if (!begin_target(ways[_i].strategy, ways[_i].processes))
		return;
	run_cpu_ms(300);
	check_as_asked(scenario);
	limit_to(100);
	run_until(is_lowered, scenario);
	check_lowered(scenario, 3000);
	ck_assert_msg(
		target->rate.factor < 1.3 * needed(ways[_i].processes), "%s: 1/%f", scenario, target->rate.factor);
	ck_assert(target->rate.most > 2 && target->rate.by_cap && !target->rate.by_budget);
	limit_to(0);
	run_until(is_as_asked, scenario);
	check_as_asked(scenario);
	end_target();
}
END_TEST

START_TEST(the_budget_lowers_and_raises_all)
{
	if (!begin_target(STRATEGY_CGROUP, 1))
		return;
	settings.cpu_budget = 1; /* 10 us a second and CPU: a minute of it is over at once */
	rates_use(&engine, &settings);
	run_until(is_lowered, "lowered");
	ck_assert(target->rate.by_budget && !target->rate.by_cap);
	check_lowered("lowered", 2000);
	settings.cpu_budget = 0;
	rates_use(&engine, &settings);
	run_until(is_as_asked, "raised");
	end_target();
}
END_TEST

/* What a predecessor left: events that are off, or have longer periods than anybody knows. */
START_TEST(a_successor_takes_over)
{
	const char *scenario = ways[_i].scenario;
	if (!begin_target(ways[_i].strategy, ways[_i].processes))
		return;
	limit_to(100);
	run_until(is_lowered, scenario);
	struct rate left = target->rate;
	engine.rates = (struct rates){0};
	rates_use(&engine, &settings);
	target->rate = left;
	rates_resume(target);
	run_cpu_ms(300);
	check_lowered(scenario, 2000);
	/* and one that knows nothing */
	engine.rates = (struct rates){0};
	limit_to(0);
	target->rate = (struct rate){0};
	rates_resume(target);
	run_cpu_ms(200);
	check_as_asked(scenario);
	end_target();
}
END_TEST

START_TEST(a_session_gets_what_it_asked_for)
{
	if (!begin_target(STRATEGY_CGROUP, 1))
		return;
	engine.single = true;
	limit_to(1);
	run_cpu_ms(1200);
	ck_assert_uint_eq(target->rate.n_steps, 0);
	end_target();
}
END_TEST

START_TEST(what_came_is_counted)
{
	if (!begin_target(STRATEGY_CGROUP, 1))
		return;
	run_cpu_ms(500);
	ck_assert_uint_ge(target->samples, 400);
	ck_assert_uint_ge(target->records, target->samples);
	ck_assert_uint_ge(target->bytes, target->records * 40);
	ck_assert_uint_le(target->bytes, target->records * 400);
	end_target();
}
END_TEST

/* Its threads' time in user and kernel code; the sum of both is exact, the parts are as ticks saw them. */
static double user_part(void)
{
	char path[32], text[1024];
	unsigned long user, system;
	snprintf(path, sizeof(path), "/proc/%d/stat", leader);
	ck_assert_int_ge(fd_read_text(AT_FDCWD, path, text, sizeof(text)), 0);
	const char *fields = strrchr(text, ')');
	ck_assert_int_eq(sscanf(fields, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system), 2);
	return (double)user / (double)(user + system);
}

/* The clock goes on in kernel code, and there are no samples of it. */
START_TEST(what_is_not_sampled_is_given_to_nobody)
{
	user_only = true;
	if (!begin_target(STRATEGY_PROCESS, 1))
		return;
	limit_to(100);
	run_until(is_lowered, "user code");
	run_cpu_ms(4000);
	struct window w = {0};
	counted_window(target, &w);
	double part = user_part(), all = (double)w.kernel[0].counted;
	double sampled = (double)target->tally.weight[0] * w.kernel[0].correct / all;
	ck_assert_msg(part > 0.2 && part < 0.9, "%f of it is user code", part);
	ck_assert_msg(fabs(all / (double)used() - 1) < ROOM, "%f s of %f", all / 1e9, (double)used() / 1e9);
	ck_assert_msg(fabs(sampled - part) < ROOM, "samples stand for %f, user code is %f", sampled, part);
	ck_assert_msg(fabs((double)w.kernel[0].unsampled / all - (1 - sampled)) < 0.02, "%f is said to have none",
		(double)w.kernel[0].unsampled / all);
	end_target();
	user_only = false;
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

static void work_cpu_ms(int ms)
{
	uint64_t before = used();
	int64_t end = clock_now() + PATIENCE_NS;
	while (used() - before < (uint64_t)(ms * NSEC_PER_MSEC) && clock_now() < end)
		pass_ms(20);
}

START_TEST(a_drain_ends_at_its_deadline_and_goes_on_from_there)
{
	if (!begin_target(STRATEGY_CGROUP, 1))
		return;
	uint64_t n = 0, all = 0, turns = 0;
	bool done = false;
	work_cpu_ms(300);
	pass_ms(4);
	int64_t until = clock_now() - 2 * NSEC_PER_MSEC;
	handed_over = last_time = 0;
	for (; !done && turns < 100000; turns++) {
		done = rings_drain(engine.rings, until, clock_now(), hand_over, NULL, &n); /* which is over by then */
		ck_assert_uint_le(n, RINGS_LOOK);
		ck_assert((rings_oldest(engine.rings) < until) == !done);
		ck_assert(rings_oldest(engine.rings) >= (int64_t)last_time);
		all += n;
	}
	ck_assert(done && all == handed_over && all > 200);
	ck_assert_uint_eq(turns, (all + RINGS_LOOK - 1) / RINGS_LOOK);
	/* and without one it takes all */
	work_cpu_ms(200);
	pass_ms(4);
	ck_assert(rings_drain(engine.rings, clock_now() - 2 * NSEC_PER_MSEC, INT64_MAX, hand_over, NULL, &n));
	ck_assert_uint_gt(n, 100);
	end_target();
}
END_TEST

UNIT_SUITE(rates)
{
	Suite *s = suite_create("rates");
	TCase *t = tcase_create("rates");

	tcase_set_timeout(t, 600);
	tcase_add_test(t, a_sample_has_the_weight_of_its_time);
	tcase_add_test(t, of_many_changes_the_last_are_known);
	tcase_add_loop_test(t, what_the_kernel_takes_and_whom_it_reaches, 0, LENGTH(kernels));
	tcase_add_loop_test(t, sums_stay_right_while_it_is_sampled_less, 0, LENGTH(ways));
	tcase_add_test(t, the_budget_lowers_and_raises_all);
	tcase_add_loop_test(t, a_successor_takes_over, 0, LENGTH(ways) - 1);
	tcase_add_test(t, a_session_gets_what_it_asked_for);
	tcase_add_test(t, what_came_is_counted);
	tcase_add_test(t, what_is_not_sampled_is_given_to_nobody);
	tcase_add_test(t, a_drain_ends_at_its_deadline_and_goes_on_from_there);
	suite_add_tcase(s, t);
	return s;
}
