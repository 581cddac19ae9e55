/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/target/limits.h"

#include "oci/base/fd.h"
#include "oci/config/options.h"
#include "profiler/target/target.h"
#include "profiler/target/window.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static struct engine engine;
static struct settings settings;

static void begin(void)
{
	struct options o;
	options_default(&o);
	settings = o.settings;
	engine = (struct engine){.symbols.kallsyms_fd = -1};
}

START_TEST(defaults_are_those_that_are_written_down)
{
	limits_apply(&engine, &settings);
	ck_assert(engine.limits.targets == 1000 && engine.limits.fds == 65536);
	ck_assert(
		engine.limits.modules == 96u << 20 && engine.limits.jit == 32u << 20 && engine.tables.max == 48u << 20);
	ck_assert(engine.rates.limits.samples == 4000 && engine.rates.limits.bytes == 128u << 20);
	engine = (struct engine){.role.single = true};
	limits_apply(&engine, &settings);
	ck_assert(engine.limits.targets == 0 && engine.tables.max == 0 && engine.rates.limits.samples == 0);
	ck_assert(engine.limits.modules == 32u << 20 && engine.limits.jit == 12u << 20);
	engine = (struct engine){.role.modest = true}; /* for one user */
	limits_apply(&engine, &settings);
	ck_assert(engine.limits.targets == 1000 && engine.tables.max == 12u << 20);
	ck_assert(engine.rates.limits.samples == 4000);
	ck_assert(engine.limits.modules == 32u << 20 && engine.limits.jit == 12u << 20);
}
END_TEST

START_TEST(the_newest_target_is_refused)
{
	struct err e = {0};
	settings.limits.targets = 3;
	limits_apply(&engine, &settings);
	for (unsigned n = 0; n < 3; n++)
		ck_assert_int_eq(limits_check_new_target(&engine, n, &e), 0);
	ck_assert_int_eq(limits_check_new_target(&engine, 3, &e), -EBUSY);
	ck_assert_str_eq(e.text, "pilliond profiles 3 targets already: raise its setting targets");
	engine.role.single = true;
	limits_apply(&engine, &settings);
	ck_assert_int_eq(limits_check_new_target(&engine, 3, &e), 0);
}
END_TEST

START_TEST(descriptors_end_with_the_setting_or_the_rlimit)
{
	struct rlimit had, l;
	settings.limits.fds = 1000;
	limits_apply(&engine, &settings);
	getrlimit(RLIMIT_NOFILE, &had);
	l = (struct rlimit){had.rlim_max < 5000 ? had.rlim_max : 5000, had.rlim_max};
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &l), 0);
	ck_assert_uint_eq(limits_fds(&engine, 200), 800);
	ck_assert_uint_eq(limits_fds(&engine, 100000), 0);
	l.rlim_cur = 512;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &l), 0);
	ck_assert_uint_eq(limits_fds(&engine, 200), 512 - 64 - 200);
	setrlimit(RLIMIT_NOFILE, &had);
}
END_TEST

/* --- the tables of all targets */

static struct target *put_target(const char *id)
{
	struct target *t = calloc(1, sizeof(*t));
	t->engine = &engine;
	t->watch.pidfd = t->fs.tree = t->usage.cgroup = t->fs.exe = t->usage.events = -1;
	strcpy(t->desc.id, id);
	t->desc.n_events = 1;
	t->desc.events[0].period = 1000;
	t->sampling.started = true;
	ck_assert_int_eq(window_counts(t, &t->sampling.counts[0]), 0);
	t->next = engine.targets;
	engine.targets = t;
	return t;
}

static void count(struct target *t, uint64_t from, uint64_t n)
{
	static const struct sample_origin who = {1, 1, "p", "p", "p", NULL};
	for (uint64_t i = from; i < from + n; i++) {
		struct stack_frame f = {.kind = FRAME_KERNEL, .vaddr = i};
		aggregate_add(t->sampling.counts[0], &f, 1, &who, 1, 1000);
	}
}

static void drop_targets(void)
{
	while (engine.targets) {
		struct target *t = engine.targets;
		engine.targets = t->next;
		aggregate_free(t->sampling.counts[0]);
		free(t);
	}
	ck_assert_uint_eq(engine.tables.used, 0);
}

START_TEST(stacks_of_all_share_one_room)
{
	settings.limits.table_bytes = 1 << 20;
	limits_apply(&engine, &settings);
	struct target *a = put_target("a"), *b = put_target("b");
	count(a, 0, 1000);
	size_t one = engine.tables.used;
	ck_assert_uint_eq(one, aggregate_memory(a->sampling.counts[0]));
	count(b, 0, 1000);
	ck_assert_uint_eq(engine.tables.used, 2 * one);
	count(b, 0, 1000); /* known ones take nothing */
	ck_assert_uint_eq(engine.tables.used, 2 * one);
	count(b, 0, 100000);
	ck_assert_uint_ge(engine.tables.used, engine.tables.max);
	ck_assert_uint_lt(engine.tables.used, 2 * engine.tables.max); /* tables double */
	ck_assert_uint_gt(aggregate_overflow(b->sampling.counts[0]), 1000);
	/* whoever has none finds none */
	count(a, 5000, 10);
	ck_assert_uint_eq(aggregate_overflow(a->sampling.counts[0]), 10);
	aggregate_clear(b->sampling.counts[0]);
	ck_assert_uint_le(engine.tables.used, one + 4096);
	count(a, 5000, 10);
	ck_assert_uint_eq(aggregate_overflow(a->sampling.counts[0]), 10);
	drop_targets();
}
END_TEST

START_TEST(nothing_happens_below_three_quarters)
{
	settings.limits.table_bytes = 1 << 20;
	limits_apply(&engine, &settings);
	struct target *a = put_target("a");
	count(a, 0, 1000);
	limits_enforce_memory(&engine);
	ck_assert(!a->early && a->window.seq == 0);
	settings.limits.table_bytes = 0;
	limits_apply(&engine, &settings);
	count(a, 0, 10000);
	limits_enforce_memory(&engine);
	ck_assert(!a->early && a->window.seq == 0 && aggregate_overflow(a->sampling.counts[0]) == 0);
	drop_targets();
}
END_TEST

UNIT_SUITE(limits)
{
	Suite *s = suite_create("limits");
	TCase *t = tcase_create("limits");

	tcase_add_checked_fixture(t, begin, NULL);
	tcase_add_test(t, defaults_are_those_that_are_written_down);
	tcase_add_test(t, the_newest_target_is_refused);
	tcase_add_test(t, descriptors_end_with_the_setting_or_the_rlimit);
	tcase_add_test(t, stacks_of_all_share_one_room);
	tcase_add_test(t, nothing_happens_below_three_quarters);
	suite_add_tcase(s, t);
	return s;
}
