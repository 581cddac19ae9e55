/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replay: recorded runs of real programs (tests/replay/recordings), from the bytes of the rings to finished profiles,
 * compared with what the kernel sent and counted in the same run. REPLAY_PRINT=1 prints what came of them.
 */
#include "tests/unit/support/replay.h"

#include "profiler/perf/record.h"
#include "profiler/view/folded.h"
#include "shim/protocol/messages.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))

enum { LATE_PERIODS = 6 };

static struct replay replayed;

static void print_profile(const struct replay_profile *one)
{
	const struct profile *p = one->profile;
	printf("== %s, %zu bytes\n", one->event, one->size);
	for (unsigned k = 0; k < profile_info(p)->n_types; k++)
		printf("type %s total %lld\n", profile_info(p)->types[k].type, (long long)profile_total(p, k));
	for (size_t k = 0; k < profile_comments(p); k++)
		printf("# %s\n", profile_comment_get(p, k));
	folded_write(p, 0, "process", stdout);
}

static void replay(const char *name, const struct replay_options *options)
{
	replay_run(&replayed, name, options);
	for (size_t i = 0; getenv("REPLAY_PRINT") && i < replayed.n_profiles; i++)
		print_profile(&replayed.profiles[i]);
	for (unsigned i = 0; getenv("REPLAY_PRINT") && i < EVENTS_MAX; i++)
		if (replayed.counted[i])
			printf("event %u: %llu samples, %llu lost, %llu lost by read, %llu counted\n", i,
				(unsigned long long)replayed.samples[i], (unsigned long long)replayed.lost[i],
				(unsigned long long)replayed.lost_by_read[i], (unsigned long long)replayed.counted[i]);
	ck_assert_uint_ge(replayed.n_profiles, 1);
}

static void end(void)
{
	replay_done(&replayed);
}

/* --- questions to profiles ----------------------------------------------------------------------------------- */

static const struct profile *first(void)
{
	return replayed.profiles[0].profile;
}

/* Whether that function is at this place of the stack, also inlined. */
static bool is_at(const struct profile *p, uint32_t location, const char *function)
{
	struct profile_location l;
	profile_location_get(p, location, &l);
	for (size_t i = 0; i < l.n; i++)
		if (!strcmp(profile_function_name(p, l.lines[i].function), function))
			return true;
	return false;
}

/* Its place in the stack, from the leaf; -1: it is not there. */
static int place_of(const struct profile *p, const struct profile_sample *s, const char *function)
{
	for (size_t i = 0; i < s->n; i++)
		if (is_at(p, s->locations[i], function))
			return (int)i;
	return -1;
}

static bool has_label(const struct profile_sample *s, const char *key, const char *text)
{
	for (size_t i = 0; i < s->n_labels; i++)
		if (!strcmp(s->labels[i].key, key) && s->labels[i].str && !strcmp(s->labels[i].str, text))
			return true;
	return false;
}

static int64_t number_of(const struct profile_sample *s, const char *key)
{
	for (size_t i = 0; i < s->n_labels; i++)
		if (!strcmp(s->labels[i].key, key) && !s->labels[i].str)
			return s->labels[i].num;
	return -1;
}

/* Samples with that function; and, if `key`, that label. */
static int64_t samples_of(const struct profile *p, const char *function, const char *key, const char *text)
{
	int64_t n = 0;
	for (size_t i = 0; i < profile_samples(p); i++) {
		struct profile_sample s;
		profile_sample_get(p, i, &s);
		if ((!function || place_of(p, &s, function) >= 0) && (!key || has_label(&s, key, text)))
			n += s.values[0];
	}
	return n;
}

static int64_t samples_with(const char *function)
{
	return samples_of(first(), function, NULL, NULL);
}

static bool has_comment(const struct profile *p, const char *part)
{
	for (size_t i = 0; i < profile_comments(p); i++)
		if (strstr(profile_comment_get(p, i), part))
			return true;
	return false;
}

/* --- all of them: each sample that the kernel sent is in a profile ------------------------------------------- */

static const char *const all[] = {"burn", "shape", "deep", "forker", "forker-process", "ctor", "lost", "user",
	"windows", "faults", "perl", "python", "inlined", "family", "late", "faults-process"};

struct sums {
	int64_t samples, lost, unsampled; /* by the profile: kept; that stand for what is missing */
	int64_t value, lost_value, unsampled_value;
	int64_t said, before, outside; /* by its comment */
};

static void add_sums(const struct profile *p, struct sums *ret)
{
	long long said, before, outside;
	for (size_t i = 0; i < profile_samples(p); i++) {
		struct profile_sample s;
		profile_sample_get(p, i, &s);
		const bool lost = place_of(p, &s, "[lost]") == 0;
		const bool unsampled =
			place_of(p, &s, "[unsampled]") == 0 || place_of(p, &s, "[kernel, not permitted]") == 0;
		*(lost ? &ret->lost : unsampled ? &ret->unsampled : &ret->samples) += s.values[0];
		*(lost		    ? &ret->lost_value
			: unsampled ? &ret->unsampled_value
				    : &ret->value) += s.values[profile_info(p)->n_types - 1];
	}
	for (size_t i = 0; i < profile_comments(p); i++)
		if (sscanf(profile_comment_get(p, i),
			    "samples: %lld, before the program started (not counted): %lld, outside of the pid "
			    "namespace: %lld",
			    &said, &before, &outside) == 3) {
			ret->said += said;
			ret->before += before;
			ret->outside += outside;
		}
}

static void sums_of(uint32_t spec, struct sums *ret)
{
	memset(ret, 0, sizeof(*ret));
	for (size_t i = 0; i < replayed.n_profiles; i++)
		if (!strcmp(replayed.profiles[i].event, event_name(&replayed.specs[spec])))
			add_sums(replayed.profiles[i].profile, ret);
}

/* Samples that are kept, of all windows. */
static int64_t sum_of(uint32_t spec)
{
	struct sums s;
	sums_of(spec, &s);
	return s.samples;
}

static unsigned events_of(void)
{
	unsigned n = 0;
	while (n < EVENTS_MAX && replayed.specs[n].period)
		n++;
	return n;
}

static void each_sample_is_in_a_profile(void)
{
	int64_t sent = 0, before = 0, kept = 0;
	for (unsigned i = 0; i < events_of(); i++) {
		struct sums s;
		sums_of(i, &s);
		ck_assert_int_eq(s.lost, (int64_t)replayed.lost_by_read[i]);
		if (replayed.run.strategy == STRATEGY_CGROUP) /* else it is fitted to what the kernel counted */
			ck_assert_int_eq(s.value, s.samples * (int64_t)replayed.specs[i].period);
		sent += (int64_t)replayed.samples[i];
		kept += s.samples;
		before = s.before; /* of all events */
		ck_assert_int_eq(s.outside, 0);
	}
	ck_assert_int_gt(kept, 0);
	ck_assert_int_eq(kept + before, sent);
	for (unsigned i = 0; i < events_of(); i++) {
		struct sums s;
		sums_of(i, &s);
		ck_assert_int_eq(s.said, kept); /* of all events */
	}
}

/*
 * Inherited events: all that the kernel counted is in the profile. Those of a cgroup: less than a period for each CPU
 * is no sample yet, and a timer that is late begins its next period late, so the count is a little more. How late they
 * are, `late` tells of each sample (no_sample_stands_for_two_periods); it is the worst recording, with seven periods of
 * 612.
 */
static void the_sum_is_what_the_kernel_counted(void)
{
	for (unsigned i = 0; i < events_of(); i++) {
		struct sums s;
		sums_of(i, &s);
		const int64_t period = (int64_t)replayed.specs[i].period;
		const int64_t before = (int64_t)replayed.samples[i] - s.samples;
		int64_t sum = s.value + s.lost_value + s.unsampled_value;
		if (replayed.run.strategy != STRATEGY_CGROUP) {
			ck_assert_int_eq(sum, (int64_t)replayed.counted[i]);
			continue;
		}
		int64_t missing = (int64_t)replayed.counted[i] - sum - before * period;
		ck_assert_msg(missing >= 0 && missing <= (replayed.run.n_cpus + LATE_PERIODS) * period,
			"%lld, that is %.2f periods, of %llu", (long long)missing, (double)missing / (double)period,
			(unsigned long long)replayed.counted[i]);
	}
}

/* Before it the process is the recorder's, which is in no profile. */
static void nothing_is_there_from_before_the_program(void)
{
	for (size_t i = 0; i < replayed.n_profiles; i++)
		ck_assert_int_eq(samples_of(replayed.profiles[i].profile, NULL, "process", "record"), 0);
}

START_TEST(all_that_the_kernel_sent_and_counted_is_there)
{
	replay(all[_i], NULL);
	each_sample_is_in_a_profile();
	the_sum_is_what_the_kernel_counted();
	nothing_is_there_from_before_the_program();
}
END_TEST

static const char *const alike[] = {"shape", "forker-process", "perl", "windows", "waits", "waits-user"};

START_TEST(another_replay_is_alike)
{
	static struct replay again;
	replay(alike[_i], NULL);
	replay_run(&again, alike[_i], NULL);
	ck_assert_uint_eq(again.n_profiles, replayed.n_profiles);
	for (size_t i = 0; i < again.n_profiles; i++)
		ck_assert(again.profiles[i].size == replayed.profiles[i].size &&
			  !memcmp(again.profiles[i].bytes, replayed.profiles[i].bytes, again.profiles[i].size));
	replay_done(&again);
}
END_TEST

/* --- what a sample stands for --------------------------------------------------------------------------------- */

/* Each record of a part of a ring: behind the CPU's number. */
static void each_record(uint8_t *body, uint32_t size, void (*fn)(struct perf_event_header *h))
{
	struct perf_event_header h;
	for (uint32_t at = 4; at + sizeof(h) <= size; at += h.size) {
		memcpy(&h, body + at, sizeof(h));
		uint8_t copy[65536];
		memcpy(copy, body + at, h.size);
		fn((struct perf_event_header *)copy);
		memcpy(body + at, copy, h.size);
	}
}

static struct told { /* of a CPU's event */
	uint64_t id, count, samples;
} told[16];

/* header, id, ip, pid and tid, time, cpu, count */
static void note_told(struct perf_event_header *h)
{
	uint64_t v[7];
	struct told *t = told;
	if (h->type != PERF_RECORD_SAMPLE)
		return;
	memcpy(v, h, sizeof(v));
	while (t < told + LENGTH(told) - 1 && t->id && t->id != v[1])
		t++;
	uint64_t more = v[6] - t->count;
	ck_assert_msg(
		10 * more > 9 * 1001001 && 10 * more < 13 * 1001001, "a sample of %llu ns", (unsigned long long)more);
	*t = (struct told){v[1], v[6], t->samples + 1};
}

static void note_all_told(void *arg, uint32_t type, uint8_t *body, uint32_t *size)
{
	if (type == RECORDING_RING)
		each_record(body, *size, note_told);
}

START_TEST(no_sample_stands_for_two_periods)
{
	uint64_t counts = 0, samples = 0;
	memset(told, 0, sizeof(told));
	replay("late", &(struct replay_options){.alter = note_all_told});
	ck_assert_uint_eq(replayed.specs[0].period, 1001001);
	for (size_t i = 0; i < LENGTH(told); i++) {
		counts += told[i].count;
		samples += told[i].samples;
	}
	ck_assert_uint_eq(samples, replayed.samples[0]);
	ck_assert_int_eq(sum_of(0), (int64_t)samples);
	ck_assert_uint_lt(replayed.counted[0] - counts, replayed.run.n_cpus * replayed.specs[0].period);
}
END_TEST

/* --- stacks of known shape ----------------------------------------------------------------------------------- */

START_TEST(stacks_of_forty_calls_are_whole)
{
	char level[32];
	replay("shape", NULL);
	const struct profile *p = first();
	int64_t leaves = 0;
	for (size_t i = 0; i < profile_samples(p); i++) {
		struct profile_sample s;
		profile_sample_get(p, i, &s);
		int at = place_of(p, &s, "leaf_a");
		at = at < 0 ? place_of(p, &s, "leaf_b") : at;
		if (at < 0)
			continue;
		leaves += s.values[0];
		for (int n = 39; n >= 1; n--) {
			snprintf(level, sizeof(level), "level_%02d", n);
			ck_assert_int_eq(place_of(p, &s, level), ++at);
		}
		ck_assert_int_eq(place_of(p, &s, "work"), ++at);
		ck_assert(has_label(&s, "thread", "left") || has_label(&s, "thread", "right"));
	}
	ck_assert_int_ge(10 * leaves, 9 * sum_of(0));
}
END_TEST

/* Two threads of 0.4 s each, three quarters of it in leaf_a. */
START_TEST(shares_are_as_they_were)
{
	replay("shape", NULL);
	int64_t a = samples_with("leaf_a"), b = samples_with("leaf_b"), sum = a + b;
	ck_assert_msg(100 * a >= 74 * sum && 100 * a <= 76 * sum, "leaf_a %lld of %lld", (long long)a, (long long)sum);
	int64_t left = samples_of(first(), "level_39", "thread", "left");
	ck_assert_msg(
		100 * left >= 48 * sum && 100 * left <= 52 * sum, "left %lld of %lld", (long long)left, (long long)sum);
}
END_TEST

/* 8, 24 and 48 KiB, 0.1 s each; 32 KiB are copied. */
START_TEST(what_was_not_copied_is_truncated_and_says_so)
{
	replay("deep", NULL);
	const struct profile *p = first();
	int64_t whole = 0, cut = 0;
	for (size_t i = 0; i < profile_samples(p); i++) {
		struct profile_sample s;
		profile_sample_get(p, i, &s);
		if (place_of(p, &s, "leaf_work") < 0)
			continue;
		bool ends = place_of(p, &s, "main") >= 0;
		*(ends ? &whole : &cut) += s.values[0];
		ck_assert_int_eq(place_of(p, &s, "bottom") >= 0, ends);
		ck_assert_int_eq(place_of(p, &s, "[truncated: stack]") >= 0, !ends);
	}
	ck_assert_msg(100 * cut > 31 * (cut + whole) && 100 * cut < 36 * (cut + whole), "cut %lld, whole %lld",
		(long long)cut, (long long)whole);
}
END_TEST

/* --- names, labels, processes ---------------------------------------------------------------------------------- */

static const struct {
	const char *recording, *function, *process;
	int least; /* percent of the samples that have it */
} names[] = {
	{"burn", "burn_loop", "burn", 95},
	{"burn", "main", "burn", 95},
	{"ctor", "ctor_work", "ctor", 85},
	{"perl", "Perl_runops_standard", "perl", 80},
	{"perl", "perl_run", "perl", 80},
	{"python", "_PyEval_EvalFrameDefault", "python3", 60},
	{"python", "Py_RunMain", "python3", 80},
	{"inlined", "Mixer::run(int)", "inlined", 90},
	{"user", "leaf_a", "shape", 60},
	{"windows", "burn_loop", "burn", 95},
};

START_TEST(functions_have_their_names)
{
	replay(names[_i].recording, NULL);
	int64_t got = samples_of(first(), names[_i].function, "process", names[_i].process);
	int64_t of = sum_of(0);
	ck_assert_msg(100 * got >= names[_i].least * of, "%s: %lld of %lld", names[_i].function, (long long)got,
		(long long)of);
}
END_TEST

static const char *const programs[][2] = {{"burn", "burn"}, {"ctor", "ctor"}, {"shape", "shape"}, {"perl", "perl"},
	{"python", "python3"}, {"inlined", "inlined"}, {"user", "shape"}};

/* For go tool pprof that is the program (its line "File:"), and neither libc nor the kernel. */
START_TEST(the_first_mapping_is_the_program)
{
	struct profile_mapping m;
	replay(programs[_i][0], NULL);
	profile_mapping_get(first(), 0, &m);
	const char *name = strrchr(m.file, '/');
	ck_assert_msg(name && !strncmp(name + 1, programs[_i][1], strlen(programs[_i][1])), "%s: %s", programs[_i][0],
		m.file);
}
END_TEST

START_TEST(inlined_functions_have_lines)
{
	replay("inlined", NULL);
	const struct profile *p = first();
	bool seen = false;
	for (uint32_t i = 0; i < profile_locations(p); i++) {
		struct profile_location l;
		struct profile_function f;
		profile_location_get(p, i, &l);
		if (l.n != 3)
			continue;
		profile_function_get(p, l.lines[2].function, &f);
		ck_assert_str_eq(f.name, "Mixer::run(int)");
		ck_assert_str_eq(f.system_name, "_ZN5Mixer3runEi");
		ck_assert_int_eq(l.lines[2].line, 29);
		profile_function_get(p, l.lines[1].function, &f);
		ck_assert_ptr_nonnull(strstr(f.name, "mix"));
		ck_assert_int_eq(l.lines[1].line, 17);
		profile_function_get(p, l.lines[0].function, &f);
		ck_assert_ptr_nonnull(strstr(f.name, "twist"));
		ck_assert_ptr_nonnull(strstr(f.file, "inlined.cc"));
		ck_assert(l.lines[0].line >= 8 && l.lines[0].line <= 12);
		seen = true;
	}
	ck_assert(seen);
}
END_TEST

/* 40 children of 10 ms each. */
static void look_at_children(const char *recording)
{
	int64_t pids[64], n = 0, samples = 0;
	replay(recording, NULL);
	for (size_t i = 0; i < profile_samples(first()); i++) {
		struct profile_sample s;
		profile_sample_get(first(), i, &s);
		if (place_of(first(), &s, "child_work") < 0)
			continue;
		int64_t pid = number_of(&s, "pid"), k = 0;
		ck_assert_int_gt(pid, replayed.run.init_pid);
		ck_assert_int_eq(number_of(&s, "tid"), pid);
		ck_assert(has_label(&s, "process", "forker"));
		while (k < n && pids[k] != pid)
			k++;
		if (k == n)
			pids[n++] = pid;
		samples += s.values[0];
		ck_assert_int_lt(n, 64);
	}
	ck_assert_int_eq(n, 40);
	ck_assert_int_ge(100 * samples, 80 * sum_of(0));
}

START_TEST(what_runs_before_main_is_there)
{
	int64_t in_loader = 0;
	replay("ctor", NULL);
	const struct profile *p = first();
	ck_assert_int_eq(samples_with("begin"), samples_with("ctor_work"));
	for (size_t i = 0; i < profile_samples(p); i++) {
		struct profile_sample s;
		struct profile_location l;
		struct profile_mapping m;
		profile_sample_get(p, i, &s);
		ck_assert(place_of(p, &s, "ctor_work") < 0 || place_of(p, &s, "main") < 0);
		profile_location_get(p, s.locations[s.n - 1], &l);
		if (l.mapping == PROFILE_NONE)
			continue;
		profile_mapping_get(p, l.mapping, &m);
		in_loader += strstr(m.file, "/ld-linux") ? s.values[0] : 0;
	}
	ck_assert_int_ge(in_loader, 5);
}
END_TEST

START_TEST(each_child_has_samples)
{
	look_at_children("forker");
}
END_TEST

START_TEST(each_inherited_child_has_samples)
{
	look_at_children("forker-process");
	ck_assert(has_comment(first(), "strategy process: exec sessions and setuid or unreadable programs are not in "
				       "this profile"));
	ck_assert_int_gt(samples_with("[unsampled]"), 0);
}
END_TEST

/* A shell's children, one of another user, and the program that it becomes. */
START_TEST(a_process_is_what_it_has_executed)
{
	replay("family", NULL);
	int64_t burn = samples_of(first(), "burn_loop", "process", "burn");
	int64_t brief = samples_of(first(), "brief_work", "process", "brief");
	ck_assert_msg(100 * brief >= 22 * (burn + brief) && 100 * brief <= 28 * (burn + brief), "burn %lld, brief %lld",
		(long long)burn, (long long)brief); /* 0.15 s and 0.05 s */
	ck_assert_int_eq(samples_with("burn_loop"), burn);
	ck_assert_int_eq(samples_with("brief_work"), brief);
	bool becomes = false;
	for (size_t i = 0; i < profile_samples(first()); i++) {
		struct profile_sample s;
		profile_sample_get(first(), i, &s);
		becomes |= place_of(first(), &s, "burn_loop") >= 0 &&
			   number_of(&s, "pid") == (int64_t)replayed.run.init_pid;
	}
	ck_assert(becomes);
}
END_TEST

START_TEST(a_plain_user_sees_no_kernel_code)
{
	replay("user", NULL);
	for (uint32_t i = 0; i < profile_mappings(first()); i++) {
		struct profile_mapping m;
		profile_mapping_get(first(), i, &m);
		ck_assert_str_ne(m.file, "[kernel]");
	}
	ck_assert(has_comment(first(), "user code only"));
	replay_done(&replayed);
	replay("burn", NULL);
	ck_assert_int_gt(samples_with("do_syscall_64"), 0);
}
END_TEST

START_TEST(events_have_profiles_of_their_own)
{
	struct sums cpu, faults;
	replay("faults", NULL);
	ck_assert_uint_eq(replayed.n_profiles, 2);
	sums_of(0, &cpu);
	sums_of(1, &faults);
	ck_assert_int_gt(cpu.samples, 0);
	ck_assert_int_gt(faults.samples, 0);
	ck_assert_int_eq(faults.value, 10 * faults.samples);
}
END_TEST

/* 0.3 s asleep, then 0.2 s for a lock, in two threads; 0.1 s on a CPU. */
static const char *const waits[] = {"waits", "waits-user"};

static int64_t waited_in(const struct profile *p, const char *function)
{
	int64_t ns = 0;
	for (size_t i = 0; i < profile_samples(p); i++) {
		struct profile_sample s;
		profile_sample_get(p, i, &s);
		ns += place_of(p, &s, function) >= 0 ? s.values[profile_info(p)->n_types - 1] : 0;
	}
	return ns;
}

static const struct profile *profile_of(const char *event)
{
	for (size_t i = 0; i < replayed.n_profiles; i++)
		if (!strcmp(replayed.profiles[i].event, event))
			return replayed.profiles[i].profile;
	ck_abort_msg("no profile of %s", event);
}

START_TEST(waits_last_as_long_as_they_did)
{
	replay(waits[_i], NULL);
	const struct profile *p = profile_of("offcpu");
	int64_t asleep = waited_in(p, "wait_sleep") / 1000000, locked = waited_in(p, "wait_lock") / 1000000;
	/* a plain user's are where the thread was seen last: main's other one is there as well */
	const int64_t slept_there = replayed.run.kernel ? 300 : 500;
	ck_assert_msg(asleep >= slept_there && asleep <= slept_there + 2, "asleep %lld ms", (long long)asleep);
	if (replayed.run.kernel)
		ck_assert_msg(locked >= 2 * 199 && locked <= 2 * 201, "locked %lld ms", (long long)locked);
	else /* nothing is seen there before: no place is made up */
		ck_assert_int_eq(locked, 0);
	int64_t all_of_it = profile_total(p, profile_info(p)->n_types - 1) / 1000000;
	ck_assert_msg(
		all_of_it >= 300 + 3 * 200 - 2 && all_of_it <= 300 + 3 * 200 + 4, "%lld ms", (long long)all_of_it);
	int64_t worked = samples_of(profile_of("cpu"), "work_cpu", NULL, NULL),
		slept = samples_of(profile_of("cpu"), "wait_sleep", NULL, NULL);
	ck_assert_msg(worked > 3 * slept && 2 * worked < 7 * slept, "0.1 s: %lld samples, 0.03 s: %lld",
		(long long)worked, (long long)slept);
}
END_TEST

/* --- losses, windows, damage ----------------------------------------------------------------------------------- */

START_TEST(what_had_no_room_is_lost)
{
	struct sums s;
	replay("lost", NULL);
	sums_of(0, &s);
	ck_assert_int_gt(s.lost, 0);
	ck_assert_int_eq(s.lost, (int64_t)replayed.lost_by_read[0]);
	ck_assert_int_eq(s.lost_value, s.lost * (int64_t)replayed.specs[0].period);
}
END_TEST

START_TEST(windows_add_up)
{
	struct sums one, many;
	replay("windows", NULL);
	ck_assert_uint_eq(replayed.n_profiles, 1);
	sums_of(0, &one);
	replay_done(&replayed);
	replay("windows", &(struct replay_options){.window_s = 1});
	sums_of(0, &many);
	ck_assert_uint_ge(replayed.n_profiles, 4);
	ck_assert_int_eq(many.samples, one.samples);
	ck_assert_int_eq(many.value, one.value);
	ck_assert_int_eq(many.before, one.before);
	for (size_t i = 0; i + 1 < replayed.n_profiles; i++) {
		const struct profile_info *w = profile_info(replayed.profiles[i].profile);
		ck_assert_int_ge(w->duration_ns, 1000000000);
		ck_assert_int_eq(w->time_ns + w->duration_ns, profile_info(replayed.profiles[i + 1].profile)->time_ns);
	}
}
END_TEST

/* The user of a session waits for its end: 100 ms after the program's beginning, not when all targets are looked at
 * next. */
START_TEST(names_are_asked_for_before_the_end)
{
	replay("burn", NULL);
	ck_assert_int_ge(replayed.named_ahead, 100000000);
	ck_assert_int_lt(replayed.named_ahead, 110000000);
}
END_TEST

static void forget_map(struct perf_event_header *h)
{
	if (h->type == PERF_RECORD_MMAP2)
		h->type = PERF_RECORD_MAX; /* none that is known */
}

static void forget_maps(void *arg, uint32_t type, uint8_t *body, uint32_t *size)
{
	if (type == RECORDING_RING)
		each_record(body, *size, forget_map);
}

START_TEST(without_mappings_the_sum_stays)
{
	struct sums s;
	replay("shape", &(struct replay_options){.alter = forget_maps});
	sums_of(0, &s);
	ck_assert_int_eq(s.samples + s.before, (int64_t)replayed.samples[0]);
	ck_assert_int_eq(samples_with("leaf_a"), 0);
	ck_assert_int_ge(10 * samples_with("[truncated: unknown mapping]"), 9 * s.samples);
}
END_TEST

/* The length of its chain is more than its bytes. */
static int n_spoiled;
static void spoil_sample(struct perf_event_header *h)
{
	if (h->type == PERF_RECORD_SAMPLE && n_spoiled < 10) {
		((uint64_t *)h)[1 + 5] = UINT64_MAX / 2;
		n_spoiled++;
	}
}

static void spoil(void *arg, uint32_t type, uint8_t *body, uint32_t *size)
{
	if (type == RECORDING_RING)
		each_record(body, *size, spoil_sample);
}

START_TEST(malformed_records_are_told)
{
	struct sums s;
	n_spoiled = 0;
	replay("burn", &(struct replay_options){.alter = spoil});
	sums_of(0, &s);
	ck_assert_int_eq(n_spoiled, 10);
	ck_assert_int_eq(s.samples + s.before + n_spoiled, (int64_t)replayed.samples[0]);
	ck_assert(has_comment(first(), "malformed records: 10"));
}
END_TEST

/* The fifth sample that a ring's second part has is of no bytes: it and what is behind it cannot be told any more. */
static int n_behind;
static void break_size(void *arg, uint32_t type, uint8_t *body, uint32_t *size)
{
	static const uint16_t none;
	struct perf_event_header h;
	int *parts = arg, samples = 0, broken = 0;
	if (type != RECORDING_RING || *size < 10 * 40960 || ++*parts != 2)
		return;
	for (uint32_t at = 4; at + sizeof(h) <= *size; at += h.size) {
		memcpy(&h, body + at, sizeof(h));
		samples += h.type == PERF_RECORD_SAMPLE;
		if (samples == 5 && !broken++)
			memcpy(body + at + offsetof(struct perf_event_header, size), &none, sizeof(none));
		n_behind += broken && h.type == PERF_RECORD_SAMPLE;
	}
}

START_TEST(a_damaged_ring_is_told_and_costs_what_is_behind_it)
{
	struct sums s;
	int parts = 0;
	n_behind = 0;
	replay("burn", &(struct replay_options){.alter = break_size, .arg = &parts});
	sums_of(0, &s);
	ck_assert_int_gt(n_behind, 4);
	ck_assert_int_eq(s.samples + s.before + n_behind, (int64_t)replayed.samples[0]);
	ck_assert(has_comment(first(), "skipped a ring 1 times"));
	ck_assert_int_ge(100 * samples_with("burn_loop"), 95 * s.samples);
}
END_TEST

/* Two neighbours in the ring of a CPU change places: of a later time before an earlier one. */
static void swap(void *arg, uint32_t type, uint8_t *body, uint32_t *size)
{
	static uint8_t copy[65536];
	struct perf_event_header a, b;
	if (type != RECORDING_RING)
		return;
	for (uint32_t at = 4; at + sizeof(a) <= *size; at += a.size) {
		memcpy(&a, body + at, sizeof(a));
		if (at + a.size + sizeof(b) > *size)
			return;
		memcpy(&b, body + at + a.size, sizeof(b));
		if (a.type != PERF_RECORD_SAMPLE || b.type != PERF_RECORD_SAMPLE)
			continue;
		memcpy(copy, body + at, a.size);
		memmove(body + at, body + at + a.size, b.size);
		memcpy(body + at + b.size, copy, a.size);
		a.size = (uint16_t)(a.size + b.size); /* the next pair */
		if (a.size < b.size)
			return;
	}
}

START_TEST(samples_out_of_order_count)
{
	struct sums s;
	replay("burn", &(struct replay_options){.alter = swap});
	sums_of(0, &s);
	ck_assert_int_eq(s.samples + s.before, (int64_t)replayed.samples[0]);
	ck_assert_int_ge(100 * samples_with("burn_loop"), 95 * s.samples);
}
END_TEST

UNIT_SUITE(replay)
{
	Suite *s = suite_create("replay");
	TCase *t = tcase_create("replay");

	tcase_add_checked_fixture(t, NULL, end);
	tcase_set_timeout(t, 120);
	tcase_add_loop_test(t, all_that_the_kernel_sent_and_counted_is_there, 0, LENGTH(all));
	tcase_add_loop_test(t, another_replay_is_alike, 0, LENGTH(alike));
	tcase_add_test(t, no_sample_stands_for_two_periods);
	tcase_add_test(t, stacks_of_forty_calls_are_whole);
	tcase_add_test(t, shares_are_as_they_were);
	tcase_add_test(t, what_was_not_copied_is_truncated_and_says_so);
	tcase_add_loop_test(t, functions_have_their_names, 0, LENGTH(names));
	tcase_add_loop_test(t, the_first_mapping_is_the_program, 0, LENGTH(programs));
	tcase_add_test(t, inlined_functions_have_lines);
	tcase_add_test(t, what_runs_before_main_is_there);
	tcase_add_test(t, each_child_has_samples);
	tcase_add_test(t, each_inherited_child_has_samples);
	tcase_add_test(t, a_process_is_what_it_has_executed);
	tcase_add_test(t, a_plain_user_sees_no_kernel_code);
	tcase_add_test(t, events_have_profiles_of_their_own);
	tcase_add_loop_test(t, waits_last_as_long_as_they_did, 0, LENGTH(waits));
	tcase_add_test(t, what_had_no_room_is_lost);
	tcase_add_test(t, windows_add_up);
	tcase_add_test(t, names_are_asked_for_before_the_end);
	tcase_add_test(t, without_mappings_the_sum_stays);
	tcase_add_test(t, malformed_records_are_told);
	tcase_add_test(t, a_damaged_ring_is_told_and_costs_what_is_behind_it);
	tcase_add_test(t, samples_out_of_order_count);
	suite_add_tcase(s, t);
	return s;
}
