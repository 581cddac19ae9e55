/* SPDX-License-Identifier: Apache-2.0 */
/* ladder: quickly up, slowly down, never for a stack or two, never beyond what the ring takes. */
#include "profiler/sample/stack_dump_size.h"

#include "oci/base/clock.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <stdlib.h>

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))
#define RING (512u << 10)
#define MS NSEC_PER_MSEC

static struct stack_dump_size whole(uint32_t first)
{
	struct stack_dump_size l = {0};
	for (int cpu = 0; cpu < 4; cpu++)
		for (uint32_t rung = 1; rung <= PERF_RUNGS; rung++)
			stack_dump_size_add(&l, rung, perf_stack_user(rung), rung != first);
	stack_dump_size_limit(&l, RING);
	return l;
}

/* Rounds of 200 ms: so many stacks in each, every so-manieth of them cut, the others so deep. */
struct phase {
	unsigned rounds, stacks, cut_each;
	size_t reach;
};

static const struct {
	const char *scenario;
	uint32_t first;
	struct phase phases[4];
	uint32_t last; /* rung */
	unsigned moves;
} runs[] = {
	{"one thread at 99 Hz, all cut: up within 20 stacks", 2, {{1, 20, 1, 0}}, 3, 1},
	{"19 stacks are too few", 2, {{1, 19, 1, 0}}, 2, 0},
	{"they add up", 2, {{20, 1, 1, 0}}, 3, 1},
	{"to the top in two moves", 1, {{2, 200, 1, 0}}, 3, 2},
	{"there is nothing above", 3, {{100, 200, 1, 0}}, 3, 0},
	{"one cut stack alone, of 20", 1, {{1, 20, 20, 0}}, 1, 0},
	{"two of 100", 1, {{1, 100, 50, 0}}, 2, 1},
	{"one in a hundred is none more", 1, {{1, 200, 100, 0}}, 1, 0},
	{"at a high rate as well", 1, {{1, 5000, 100, 0}}, 1, 0},
	{"one in 500, for long: they do not add up", 1, {{1000, 20, 500, 4000}}, 1, 0},
	{"one in 10 of few", 1, {{10, 3, 10, 4000}}, 2, 1},
	{"none cut, at 99 Hz: down after 10 s", 2, {{52, 20, 0, 4000}}, 1, 1},
	{"not after 9 s", 2, {{45, 20, 0, 4000}}, 2, 0},
	{"at a high rate, down after 2500 stacks", 2, {{3, 1000, 0, 8192}}, 1, 1},
	{"not when a few are deeper", 2, {{3, 832, 0, 4000}, {1, 4, 0, 9000}}, 2, 0},
	{"unless they are one in a thousand", 2, {{3, 832, 0, 4000}, {1, 2, 0, 9000}, {1, 2, 0, 4000}}, 1, 1},
	{"a byte too deep for the next smaller", 2, {{100, 1000, 0, 8193}}, 2, 0},
	{"few stacks say nothing, however long: 99 in 20 s", 2, {{99, 1, 0, 100}}, 2, 0},
	{"100 of them do", 2, {{101, 1, 0, 100}}, 1, 1},
	{"one step at a time: from the top to the bottom", 3, {{110, 20, 0, 100}}, 1, 2},
	{"deep, then shallow for 9 s at a high rate: it stays", 1, {{1, 200, 1, 0}, {45, 1000, 0, 100}}, 2, 1},
	{"and after 10 s it goes", 1, {{1, 200, 1, 0}, {52, 1000, 0, 100}}, 1, 2},
	{"deep for 3 s, then shallow: 10 s after that it goes", 2, {{15, 20, 0, 9000}, {52, 20, 0, 100}}, 1, 1},
	{"two deep stacks at 3 s: 10 s after that it goes", 2, {{15, 20, 0, 100}, {1, 2, 0, 9000}, {50, 20, 0, 100}}, 1,
		1},
	{"not before", 2, {{15, 20, 0, 100}, {1, 2, 0, 9000}, {49, 20, 0, 100}}, 2, 0},
	{"one alone at 3 s does not make it wait anew", 2, {{15, 20, 0, 100}, {1, 1, 0, 9000}, {35, 20, 0, 100}}, 1, 1},
	{"one deep stack in every 9 s, of few", 2,
		{{45, 15, 0, 100}, {1, 1, 0, 9000}, {45, 15, 0, 100}, {1, 1, 0, 9000}}, 2, 0},
	{"half of them deep: it stays", 1, {{1, 200, 1, 0}, {500, 100, 2, 9000}}, 3, 2},
	{"nothing at all", 2, {{1000, 0, 0, 0}}, 2, 0},
};

static void go(struct stack_dump_size *l, const struct phase *p, int64_t *now, unsigned *moves)
{
	for (unsigned round = 0; round < p->rounds; round++) {
		for (unsigned i = 0; i < p->stacks; i++)
			stack_dump_size_saw(
				l, l->at, p->cut_each && (round * p->stacks + i) % p->cut_each == 0, p->reach);
		uint32_t to = stack_dump_size_look(l, *now += 200 * MS);
		if (to != l->at) {
			ck_assert_int_eq(abs((int)to - (int)l->at), 1);
			stack_dump_size_moved(l, to);
			++*moves;
		}
	}
}

START_TEST(up_and_down)
{
	struct stack_dump_size l = whole(runs[_i].first);
	int64_t now = 1000 * NSEC_PER_SEC;
	unsigned moves = 0;
	for (unsigned i = 0; i < LENGTH(runs[_i].phases); i++)
		go(&l, &runs[_i].phases[i], &now, &moves);
	ck_assert_msg(l.at == runs[_i].last && moves == runs[_i].moves, "%s: rung %u after %u moves", runs[_i].scenario,
		l.at, moves);
}
END_TEST

START_TEST(what_comes_by_another_rung_says_nothing)
{
	struct stack_dump_size l = whole(2);
	for (int i = 0; i < 1000; i++) {
		stack_dump_size_saw(&l, 1, true, 0);
		stack_dump_size_saw(&l, 3, true, 0);
	}
	ck_assert_uint_eq(stack_dump_size_look(&l, NSEC_PER_SEC), 2);
	ck_assert_uint_eq(l.stacks, 0);
}
END_TEST

/* Four snapshots fit into a ring; the smallest rung stays whatever the ring. */
static const struct {
	size_t ring;
	uint32_t first, top;
} limits[] = {{RING, 2, 3}, {256 << 10, 3, 3}, {128 << 10, 2, 2}, {128 << 10, 3, 2}, {64 << 10, 2, 1}, {32 << 10, 2, 1},
	{32 << 10, 1, 1}, {4096, 2, 1}};

START_TEST(no_snapshot_is_larger_than_the_ring_takes)
{
	struct stack_dump_size l = whole(limits[_i].first);
	l.top = PERF_RUNGS;
	stack_dump_size_limit(&l, limits[_i].ring);
	for (int i = 0; i < 10; i++) {
		for (int n = 0; n < 200; n++)
			stack_dump_size_saw(&l, l.at, true, 0);
		uint32_t to = stack_dump_size_look(&l, NSEC_PER_SEC);
		if (to != l.at)
			stack_dump_size_moved(&l, to);
	}
	ck_assert_uint_eq(l.at, limits[_i].top);
}
END_TEST

/* Whoever opened them: what is no ladder is left as it is. */
static const struct {
	const char *scenario;
	struct {
		uint32_t rung, size;
		bool idle;
	} events[6];
} odd[] = {
	{"no event at all", {{0}}},
	{"one rung alone", {{2, 32768, false}}},
	{"two begin", {{1, 8192, false}, {2, 32768, false}, {3, 65528, true}}},
	{"none begins", {{1, 8192, true}, {2, 32768, true}, {3, 65528, true}}},
	{"one rung has two sizes", {{1, 8192, true}, {2, 32768, false}, {3, 65528, true}, {3, 40000, true}}},
	{"the next is missing", {{1, 8192, false}, {3, 65528, true}}},
};

START_TEST(what_is_no_ladder_stays)
{
	struct stack_dump_size l = {0};
	for (unsigned i = 0; i < LENGTH(odd[_i].events) && odd[_i].events[i].rung; i++)
		stack_dump_size_add(&l, odd[_i].events[i].rung, odd[_i].events[i].size, odd[_i].events[i].idle);
	stack_dump_size_limit(&l, RING);
	uint32_t first = l.at;
	for (int cut = 1; cut >= 0; cut--)
		for (int round = 0; round < 100; round++) {
			for (int i = 0; i < 100; i++)
				stack_dump_size_saw(&l, first, cut, 100);
			ck_assert_msg(
				stack_dump_size_look(&l, (round + 1) * NSEC_PER_SEC) == first, "%s", odd[_i].scenario);
		}
}
END_TEST

/* Not down to where no event was opened. */
START_TEST(a_rung_that_is_missing)
{
	struct stack_dump_size l = {0};
	int64_t now = 1;
	unsigned moves = 0;
	for (uint32_t rung = 2; rung <= PERF_RUNGS; rung++)
		stack_dump_size_add(&l, rung, perf_stack_user(rung), rung != 2);
	stack_dump_size_limit(&l, RING);
	go(&l, &(struct phase){200, 20, 0, 0}, &now, &moves);
	ck_assert_uint_eq(l.at, 2);
	ck_assert_uint_eq(moves, 0);
}
END_TEST

UNIT_SUITE(stack_dump_size)
{
	Suite *s = suite_create("stack_dump_size");
	TCase *t = tcase_create("stack_dump_size");

	tcase_add_test(t, a_rung_that_is_missing);
	tcase_add_loop_test(t, up_and_down, 0, LENGTH(runs));
	tcase_add_test(t, what_comes_by_another_rung_says_nothing);
	tcase_add_loop_test(t, no_snapshot_is_larger_than_the_ring_takes, 0, LENGTH(limits));
	tcase_add_loop_test(t, what_is_no_ladder_stays, 0, LENGTH(odd));
	suite_add_tcase(s, t);
	return s;
}
