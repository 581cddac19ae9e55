/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/sample/aggregate.h"

#include "oci/base/fd.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))
#define KERNEL(at)                                                                                                     \
	{                                                                                                              \
		.kind = FRAME_KERNEL, .vaddr = (at)                                                                    \
	}
#define SPECIAL(text)                                                                                                  \
	{                                                                                                              \
		.kind = FRAME_SPECIAL, .name = (text)                                                                  \
	}

static int fds;
static struct aggregate *a;
static struct modules *modules;

static void begin(void)
{
	fds = fd_count();
	ck_assert_int_eq(aggregate_new(&a), 0);
	ck_assert_int_eq(modules_new(1 << 20, &modules), 0);
}

static void end(void)
{
	a = aggregate_free(a);
	ck_assert_ptr_null(a);
	modules = modules_free(modules); /* every module was given back */
	ck_assert_int_eq(fd_count(), fds);
}

static int open_nothing(void *arg, const char *path, struct file *ret)
{
	return -ENOENT;
}

static struct module *module(const char *path)
{
	struct module *m;
	struct module_key key = {.path = path, .ino = 1};
	ck_assert_int_eq(modules_get(modules, &key, open_nothing, NULL, &m), 0);
	return m;
}

static const struct sample_origin perl = {7, 7, "perl", "perl", "perl5.36", NULL};

/* Sums over all samples. */
static void total(uint64_t *count, uint64_t *weight)
{
	struct aggregate_sample s;
	*count = *weight = 0;
	for (size_t i = 0; i < aggregate_samples(a); i++) {
		aggregate_sample(a, i, &s);
		*count += s.count;
		*weight += s.weight;
	}
}

START_TEST(equal_samples_are_one)
{
	const struct stack_frame leaf_first[] = {
		KERNEL(0xffffffff81000010), KERNEL(0xffffffff81000020), SPECIAL("[x]")};
	struct aggregate_sample s;

	ck_assert_uint_eq(aggregate_samples(a), 0);
	for (int i = 0; i < 10; i++)
		aggregate_add(a, leaf_first, 3, &perl, 1, 10101010);
	aggregate_add(a, leaf_first, 3, &perl, 5, 7);
	ck_assert_uint_eq(aggregate_samples(a), 1);
	ck_assert_uint_eq(aggregate_frames(a), 3);
	aggregate_sample(a, 0, &s);
	ck_assert_uint_eq(s.count, 15);
	ck_assert_uint_eq(s.weight, 101010107);
	ck_assert_uint_eq(s.n, 3);
	for (size_t i = 0; i < 3; i++) {
		const struct stack_frame *f = aggregate_frame(a, s.frames[i]);
		ck_assert(f->kind == leaf_first[i].kind && f->vaddr == leaf_first[i].vaddr);
		ck_assert(!f->name || !strcmp(f->name, "[x]"));
	}
	ck_assert(s.who.pid == 7 && s.who.tid == 7);
	ck_assert_str_eq(s.who.process, "perl");
	ck_assert_str_eq(s.who.exe, "perl5.36");
	ck_assert_uint_eq(aggregate_overflow(a), 0);
}
END_TEST

/* Also of the stack that came first of all, when another came between. */
START_TEST(the_first_one_again)
{
	const struct stack_frame first = KERNEL(0x10), second = KERNEL(0x20);
	for (int i = 0; i < 4; i++)
		aggregate_add(a, i % 2 ? &second : &first, 1, &perl, 1, 1);
	ck_assert_uint_eq(aggregate_samples(a), 2);
	ck_assert_uint_eq(aggregate_frames(a), 2);
}
END_TEST

static const struct {
	const char *scenario;
	struct stack_frame frames[3];
	size_t n;
	struct sample_origin who;
	size_t samples, frames_known; /* after {0x10, 0x20} of perl and this */
} others[] = {
	{"the same again", {KERNEL(0x10), KERNEL(0x20)}, 2, {7, 7, "perl", "perl", "perl5.36", NULL}, 1, 2},
	{"the other way around", {KERNEL(0x20), KERNEL(0x10)}, 2, {7, 7, "perl", "perl", "perl5.36", NULL}, 2, 2},
	{"the beginning of it", {KERNEL(0x10)}, 1, {7, 7, "perl", "perl", "perl5.36", NULL}, 2, 2},
	{"no frames", {KERNEL(0)}, 0, {7, 7, "perl", "perl", "perl5.36", NULL}, 2, 2},
	{"one frame more", {KERNEL(0x10), KERNEL(0x20), KERNEL(0x30)}, 3, {7, 7, "perl", "perl", "perl5.36", NULL}, 2,
		3},
	{"the same address of an unknown module", {{.kind = FRAME_USER, .vaddr = 0x10}, KERNEL(0x20)}, 2,
		{7, 7, "perl", "perl", "perl5.36", NULL}, 2, 3},
	{"another thread", {KERNEL(0x10), KERNEL(0x20)}, 2, {7, 8, "perl", "perl", "perl5.36", NULL}, 2, 2},
	{"another process of that name", {KERNEL(0x10), KERNEL(0x20)}, 2, {9, 7, "perl", "perl", "perl5.36", NULL}, 2,
		2},
	{"another name", {KERNEL(0x10), KERNEL(0x20)}, 2, {7, 7, "sh", "perl", "perl5.36", NULL}, 2, 2},
	{"another name of the thread", {KERNEL(0x10), KERNEL(0x20)}, 2, {7, 7, "perl", "gc", "perl5.36", NULL}, 2, 2},
	{"another program", {KERNEL(0x10), KERNEL(0x20)}, 2, {7, 7, "perl", "perl", "perl5.38", NULL}, 2, 2},
	{"of that name's work something else", {KERNEL(0x10), KERNEL(0x20)}, 2,
		{7, 7, "perl", "perl", "perl5.36", "kind=a\n"}, 2, 2},
};

START_TEST(what_differs_is_kept_apart)
{
	const struct stack_frame frames[] = {KERNEL(0x10), KERNEL(0x20)};
	uint64_t count, weight;

	aggregate_add(a, frames, 2, &perl, 1, 10);
	aggregate_add(a, others[_i].frames, others[_i].n, &others[_i].who, 2, 20);
	ck_assert_msg(aggregate_samples(a) == others[_i].samples, "%s", others[_i].scenario);
	ck_assert_msg(aggregate_frames(a) == others[_i].frames_known, "%s", others[_i].scenario);
	total(&count, &weight);
	ck_assert(count == 3 && weight == 30);
}
END_TEST

/* Where and when are told apart only of those that have it. */
START_TEST(samples_of_a_timeline_are_kept_apart)
{
	const struct stack_frame frames[] = {KERNEL(0x10), KERNEL(0x20)};
	static const struct sample_detail times[] = {
		{0, 0}, {1, 0}, {2, 0}, {0, 1}, {0, UINT32_MAX}, {UINT32_MAX, UINT32_MAX}};
	struct aggregate_sample s;
	for (int again = 0; again < 2; again++)
		for (size_t i = 0; i < LENGTH(times); i++) {
			aggregate_add_at(a, frames, 2, &perl, &times[i], 1, 10);
			aggregate_add_at(a, frames, 0, &perl, &times[i], 1, 10);
		}
	ck_assert_uint_eq(aggregate_samples(a), 2 * LENGTH(times));
	ck_assert_uint_eq(aggregate_whos(a), 1);
	for (size_t i = 0; i < 2 * LENGTH(times); i++) {
		aggregate_sample(a, i, &s);
		ck_assert(s.count == 2 && s.weight == 20 && s.n == (i % 2 ? 0 : 2) && s.who.tid == 7);
		ck_assert(s.when.cpu == times[i / 2].cpu && s.when.us == times[i / 2].us);
	}
}
END_TEST

START_TEST(modules_are_held_as_long_as_they_are_needed)
{
	struct module *m[2] = {module("/a.so"), module("/b.so")};
	struct aggregate_sample s;

	for (int i = 0; i < 2; i++)
		for (int again = 0; again < 3; again++)
			aggregate_add(a, &(struct stack_frame){.module = m[i], .vaddr = 0x10}, 1, &perl, 1, 1);
	uint32_t id = module_id(m[1]);
	module_unref(m[0]);
	module_unref(m[1]);
	for (int i = 0; i < 20000; i++) { /* which push out what nobody holds */
		char path[32];
		snprintf(path, sizeof(path), "/other-%d.so", i);
		module_unref(module(path));
	}
	m[1] = module("/b.so");
	ck_assert_uint_eq(module_id(m[1]), id);
	module_unref(m[1]);
	ck_assert_uint_eq(aggregate_samples(a), 2);
	aggregate_sample(a, 1, &s);
	ck_assert_str_eq(module_name(aggregate_frame(a, s.frames[0])->module), "/b.so");
}
END_TEST

START_TEST(cleared_it_is_empty_and_works_again)
{
	struct module *m = module("/a.so");
	const struct stack_frame frames[] = {{.module = m, .vaddr = 0x10}, KERNEL(0x20)};
	uint64_t count, weight;

	for (int round = 0; round < 3; round++) {
		aggregate_add(a, frames, 2, &perl, 1, 10);
		ck_assert_uint_eq(aggregate_samples(a), 1);
		total(&count, &weight);
		ck_assert(count == 1 && weight == 10);
		aggregate_clear(a);
		ck_assert_uint_eq(aggregate_samples(a), 0);
		ck_assert_uint_eq(aggregate_frames(a), 0);
		ck_assert_uint_eq(aggregate_overflow(a), 0);
	}
	module_unref(m);
}
END_TEST

START_TEST(names_are_copied)
{
	char name[200];
	struct aggregate_sample s;
	const struct stack_frame f = KERNEL(1);

	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	aggregate_add(a, &f, 1, &(struct sample_origin){1, 1, name, name, name, NULL}, 1, 1);
	memset(name, 'x', sizeof(name) - 1);
	aggregate_sample(a, 0, &s);
	ck_assert_int_eq(strncmp(s.who.process, "nnn", 3), 0);
	ck_assert(strlen(s.who.process) == 63 && strlen(s.who.thread) == 15 && strlen(s.who.exe) == 63);
}
END_TEST

START_TEST(a_stack_that_is_too_deep_is_cut)
{
	static struct stack_frame deep[AGGREGATE_STACK_MAX + 10];
	struct aggregate_sample s;

	for (size_t i = 0; i < LENGTH(deep); i++)
		deep[i] = (struct stack_frame)KERNEL(i);
	aggregate_add(a, deep, LENGTH(deep), &perl, 1, 1);
	aggregate_sample(a, 0, &s);
	ck_assert_uint_eq(s.n, AGGREGATE_STACK_MAX);
	ck_assert_uint_eq(aggregate_frame(a, s.frames[s.n - 1])->vaddr, AGGREGATE_STACK_MAX - 1);
}
END_TEST

/* Nothing is lost from the sums, what is known is counted on, and memory stops growing. */
START_TEST(a_full_table)
{
	const uint64_t all = AGGREGATE_SAMPLES_MAX + 1000;
	struct aggregate_sample s;
	uint64_t count, weight;

	for (uint64_t i = 0; i < all; i++) {
		const struct stack_frame f = KERNEL(i);
		aggregate_add(a, &f, 1, &perl, 1, 10);
	}
	ck_assert_uint_eq(aggregate_samples(a), AGGREGATE_SAMPLES_MAX + 1);
	ck_assert_uint_eq(aggregate_overflow(a), 1000);
	ck_assert_uint_le(aggregate_frames(a), AGGREGATE_SAMPLES_MAX + 1);
	total(&count, &weight);
	ck_assert(count == all && weight == 10 * all);
	aggregate_sample(a, AGGREGATE_SAMPLES_MAX, &s);
	ck_assert_uint_eq(s.count, 1000);
	ck_assert_uint_eq(s.n, 1);
	ck_assert_str_eq(aggregate_frame(a, s.frames[0])->name, "[lost: table full]");
	ck_assert(s.who.pid == 0 && !s.who.process[0]);

	const struct stack_frame known = KERNEL(5);
	aggregate_add(a, &known, 1, &perl, 100, 1000);
	aggregate_sample(a, 5, &s);
	ck_assert_uint_eq(s.count, 101);
	ck_assert_uint_eq(aggregate_overflow(a), 1000);
	aggregate_add(a, &known, 1, &(struct sample_origin){8, 8, "sh", "sh", "", NULL}, 3,
		30); /* a known stack of somebody new */
	ck_assert_uint_eq(aggregate_overflow(a), 1003);
	total(&count, &weight);
	ck_assert(count == all + 103 && weight == 10 * all + 1030);
}
END_TEST

/* Then those of one stack are one again, and sums are right. */
START_TEST(more_times_than_there_may_be)
{
	const uint64_t all = 2 * AGGREGATE_TIMED_MAX;
	const struct stack_frame f = KERNEL(1);
	uint64_t count, weight;
	for (uint64_t i = 0; i < all; i++)
		aggregate_add_at(a, &f, 1, &perl, &(struct sample_detail){0, (uint32_t)i + 1}, 1, 10);
	ck_assert_uint_eq(aggregate_samples(a), AGGREGATE_TIMED_MAX + 1);
	ck_assert_uint_eq(aggregate_untimed(a), AGGREGATE_TIMED_MAX);
	ck_assert_uint_eq(aggregate_overflow(a), 0);
	total(&count, &weight);
	ck_assert(count == all && weight == 10 * all);
}
END_TEST

/* What a profile cannot hold: a sum of fields that are no amounts. */
START_TEST(sums_stay_numbers)
{
	const struct stack_frame f = KERNEL(1);
	uint64_t count, weight;
	for (int i = 0; i < 3; i++)
		aggregate_add(a, &f, 1, &perl, 1, 1ull << 62);
	total(&count, &weight);
	ck_assert(count == 3 && weight == INT64_MAX);
}
END_TEST

START_TEST(freeing_nothing)
{
	ck_assert_ptr_null(aggregate_free(NULL));
}
END_TEST

UNIT_SUITE(aggregate)
{
	Suite *s = suite_create("aggregate");
	TCase *t = tcase_create("aggregate");

	tcase_set_timeout(t, 30);
	tcase_add_checked_fixture(t, begin, end);
	tcase_add_test(t, equal_samples_are_one);
	tcase_add_test(t, the_first_one_again);
	tcase_add_loop_test(t, what_differs_is_kept_apart, 0, LENGTH(others));
	tcase_add_test(t, samples_of_a_timeline_are_kept_apart);
	tcase_add_test(t, modules_are_held_as_long_as_they_are_needed);
	tcase_add_test(t, cleared_it_is_empty_and_works_again);
	tcase_add_test(t, names_are_copied);
	tcase_add_test(t, a_stack_that_is_too_deep_is_cut);
	tcase_add_test(t, a_full_table);
	tcase_add_test(t, more_times_than_there_may_be);
	tcase_add_test(t, sums_stay_numbers);
	tcase_add_test(t, freeing_nothing);
	suite_add_tcase(s, t);
	return s;
}
