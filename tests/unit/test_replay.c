/*
 * replay: recorded runs of real programs (tests/replay/recordings), from the bytes of the rings to finished profiles,
 * compared with what the kernel sent and counted in the same run. REPLAY_PRINT=1 prints what came of them.
 */
#include "tests/unit/replay.h"

#include "profiler/folded.h"
#include "profiler/record.h"
#include "shim/protocol.h"
#include "suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))

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

static const char *const all[] = {"burn", "shape", "deep", "forker", "forker-process", "ctor", "lost", "windows",
	"faults", "perl", "python", "inlined", "family"};

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
		if (replayed.run.strategy == STRATEGY_CGROUP) /* else it is fitted to the time that they ran */
			ck_assert_int_eq(s.value, s.samples * (int64_t)replayed.specs[i].period);
		sent += (int64_t)replayed.samples[i];
		kept += s.samples;
		before = s.before; /* of all events */
		ck_assert_int_eq(s.outside, 0);
	}
	ck_assert_int_gt(kept, 0);
	ck_assert_int_eq(kept + before, sent);
}

/* Before it the process is the recorder's, which is in no profile. */
static void nothing_is_there_from_before_the_program(void)
{
	for (size_t i = 0; i < replayed.n_profiles; i++)
		ck_assert_int_eq(samples_of(replayed.profiles[i].profile, NULL, "process", "record"), 0);
}

static void another_replay_is_alike(const char *name)
{
	static struct replay again;
	replay_run(&again, name, NULL);
	ck_assert_uint_eq(again.n_profiles, replayed.n_profiles);
	for (size_t i = 0; i < again.n_profiles; i++)
		ck_assert(again.profiles[i].size == replayed.profiles[i].size &&
			  !memcmp(again.profiles[i].bytes, replayed.profiles[i].bytes, again.profiles[i].size));
	replay_done(&again);
}

START_TEST(all_that_the_kernel_sent_and_counted_is_there)
{
	replay(all[_i], NULL);
	each_sample_is_in_a_profile();
	nothing_is_there_from_before_the_program();
	another_replay_is_alike(all[_i]);
}
END_TEST

/* --- names, labels, processes ---------------------------------------------------------------------------------- */

static const struct {
	const char *recording, *function, *process;
	int least; /* percent of the samples that have it */
} names[] = {
	{"python", "_PyEval_EvalFrameDefault", "python3", 60},
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

START_TEST(events_have_profiles_of_their_own)
{
	struct sums cpu, faults;
	replay("faults", NULL);
	ck_assert_uint_eq(replayed.n_profiles, 2);
	sums_of(0, &cpu);
	sums_of(1, &faults);
	ck_assert_int_gt(cpu.samples, 0);
	ck_assert_int_gt(faults.samples, 0);
	ck_assert_int_eq(faults.value, faults.samples);
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

/* In the middle of a record: what is behind it in the ring cannot be told any more. */
static void cut(void *arg, uint32_t type, uint8_t *body, uint32_t *size)
{
	int *parts = arg;
	if (type == RECORDING_RING && *size > 4096 && ++*parts == 2)
		*size = *size / 16 * 8 + 4;
}

START_TEST(a_ring_cut_short_costs_no_more_than_what_is_behind_it)
{
	struct sums s;
	int parts = 0;
	replay("burn", &(struct replay_options){.alter = cut, .arg = &parts});
	ck_assert_int_ge(parts, 2);
	sums_of(0, &s);
	ck_assert_int_lt(s.samples + s.before, (int64_t)replayed.samples[0]);
	ck_assert_int_ge(s.samples, (int64_t)replayed.samples[0] / 2);
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
	tcase_add_loop_test(t, functions_have_their_names, 0, LENGTH(names));
	tcase_add_test(t, events_have_profiles_of_their_own);
	tcase_add_test(t, what_had_no_room_is_lost);
	tcase_add_test(t, malformed_records_are_told);
	tcase_add_test(t, a_ring_cut_short_costs_no_more_than_what_is_behind_it);
	tcase_add_test(t, samples_out_of_order_count);
	suite_add_tcase(s, t);
	return s;
}
