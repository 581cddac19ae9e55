/* SPDX-License-Identifier: Apache-2.0 */
/* self_threads, self_heard: who has which events, by made-up records; and that nobody is counted twice. */
#include "shim/libpillion/selfprof/self_event.h"
#include "shim/libpillion/selfprof/self_event_dedup.h"
#include "shim/libpillion/selfprof/self_threads.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- who has what ------------------------------------------------------------------------------------------- */

static struct self_threads threads;

static void begin(void)
{
	threads = (struct self_threads){0};
}

static void end(void)
{
	self_threads_done(&threads);
}

/* "o10@100" own from 100 on, "f10>11@200" makes, "x10@300" ends, "u10@150" seen outside of clone, "h10" heard as an
 * heir, "s" settles */
static void play(const char *script)
{
	for (int n = 0; *script; script += n) {
		unsigned tid = 0, made = 0, at = 0;
		char what = *script;
		if (what == 'f')
			ck_assert_int_eq(sscanf(script, "f%u>%u@%u %n", &tid, &made, &at, &n), 3);
		else if (what == 'h')
			ck_assert_int_eq(sscanf(script, "h%u %n", &tid, &n), 1);
		else if (what == 's')
			n = script[1] == ' ' ? 2 : 1;
		else
			ck_assert_int_eq(sscanf(script, "%*c%u@%u %n", &tid, &at, &n), 2);
		if (what == 'o')
			ck_assert_int_eq(self_threads_own(&threads, tid, SELF_OWN, at, 0), 0);
		else if (what == 'f')
			self_threads_fork(&threads, made, tid, at);
		else if (what == 'x')
			self_threads_exit(&threads, tid, at);
		else if (what == 'u')
			self_threads_out(&threads, tid, at);
		else if (what == 'h')
			self_threads_heir(&threads, tid);
		else
			self_threads_settle(&threads);
	}
}

static const struct {
	const char *name, *script;
	uint32_t tid;
	enum self_having having;
} who[] = {
	{"nobody has heard of it", "o10@100", 11, SELF_NOT_KNOWN},
	{"the first that it makes may have been begun before", "o10@100 f10>11@200", 11, SELF_UNSURE},
	{"the second was begun later", "o10@100 f10>11@200 f10>12@300", 12, SELF_INHERITED},
	{"it was seen outside of clone", "o10@100 u10@150 f10>11@200", 11, SELF_INHERITED},
	{"it was seen outside, but before it had its events", "o10@100 u10@50 f10>11@200", 11, SELF_UNSURE},
	{"it was seen outside, but later", "o10@100 u10@250 f10>11@200", 11, SELF_UNSURE},
	{"made before its maker had events", "o10@100 f10>11@50", 11, SELF_UNSURE},
	{"of an heir", "o10@100 u10@150 f10>11@200 f11>12@210", 12, SELF_INHERITED},
	{"of one that is not sure", "o10@100 f10>11@200 f11>12@210", 12, SELF_UNSURE},
	{"records in another order", "o10@100 f11>12@210 u10@150 f10>11@200 s", 12, SELF_INHERITED},
	{"records in another order, three generations", "f12>13@220 f11>12@210 o10@100 f10>11@200 u10@150 s", 13,
		SELF_INHERITED},
	{"not settled yet", "o10@100 f11>12@210 u10@150 f10>11@200", 12, SELF_UNSURE},
	{"heard by what was opened last", "o10@100 f10>11@200 h11", 11, SELF_INHERITED},
	{"its maker ended before its record was read", "o10@100 u10@150 x10@205 f10>11@200", 11, SELF_INHERITED},
	{"it got its own before its record was read", "o10@100 o11@300 f10>11@200", 11, SELF_OWN},
	{"another one by the same number", "o10@100 o11@150 u10@160 x11@190 f10>11@200", 11, SELF_INHERITED},
	{"of a stranger", "f99>11@200", 11, SELF_UNSURE},
};

START_TEST(test_who)
{
	begin();
	play(who[_i].script);
	const struct self_thread *t = self_threads_find(&threads, who[_i].tid);
	ck_assert_msg((t ? (enum self_having)t->having : SELF_NOT_KNOWN) == who[_i].having, "%s: it is %d",
		who[_i].name, t ? t->having : 0);
	end();
}
END_TEST

START_TEST(test_many) /* the table grows, and holes are closed */
{
	begin();
	for (uint32_t i = 1; i <= 20000; i++)
		ck_assert_int_eq(self_threads_own(&threads, i, SELF_OWN, 1000, 0), 0);
	self_threads_look(&threads);
	for (uint32_t i = 2; i <= 20000; i += 2)
		ck_assert_int_eq(self_threads_seen(&threads, i, 2000), SELF_OWN);
	self_threads_looked(&threads, 2000);
	for (uint32_t i = 1; i <= 20000; i++)
		ck_assert_int_eq(self_threads_find(&threads, i) != NULL, i % 2 == 0);
	ck_assert_uint_eq(self_threads_count(&threads, SELF_OWN), 10000);
	end();
}
END_TEST

START_TEST(test_ended) /* known for a while, then another one may be there */
{
	begin();
	play("o10@100 x10@200");
	self_threads_look(&threads);
	ck_assert_int_eq(self_threads_seen(&threads, 10, 300), SELF_OWN);
	ck_assert_int_eq(self_threads_seen(&threads, 10, 201 + SELF_ENDED_NS), SELF_NOT_KNOWN);
	self_threads_looked(&threads, 201 + SELF_ENDED_NS);
	ck_assert_ptr_null(self_threads_find(&threads, 10));
	end();
}
END_TEST

/* --- who is heard by two ------------------------------------------------------------------------------------ */

static struct pillion_event older = {.fd = 1, .id = 100, .tid = 1}, younger = {.fd = 2, .id = 200, .tid = 7};

/* "o30" a record by the older event at 30, "y31" by the younger, "?32" by nobody knows which, "-" the younger is
 * closed; what is taken of them, and whether the younger one was found to be superfluous */
static const struct {
	const char *name, *script;
	bool shared;
	const char *taken;
	bool found;
} heard[] = {
	{"by one", "o30 o31 o32", false, "ooo", false},
	{"by both, the younger first", "y30 o31 y40 o41 y50 o51", false, "y--o-o", true},
	{"by both, the older first", "o30 y31 o40 y41", false, "o-o-", true},
	{"by rings of their own, one after the other", "y30 y40 y50 o30 o40 o50 o60", false, "yyy---o", true},
	{"the same, and the younger was closed meanwhile", "y30 y40 x o30 o40 o50", false, "yy--o", false},
	{"by ids that may be another's: what is said twice is taken once", "y30 y30 y40 y40", true, "y-y-", false},
	{"the same, where the other one was known before", "o30 y40 y40 y50 y50", true, "oy-y-", true},
	{"at other moments, by both: it is found out", "o30 y35 o40", true, "oyo", true},
	{"a foreign id", "?30 ?30 o40", true, "?-o", false},
	{"after a long time it is another thread", "o30 y9000000000 y9000000001", false, "oyy", false},
};

START_TEST(test_heard)
{
	struct self_event_dedup *h = calloc(1, sizeof(*h));
	char taken[32];
	size_t n = 0;
	bool found = false;
	older.fd = 1;
	younger.fd = 2;
	for (const char *at = heard[_i].script; *at;) {
		struct pillion_record r = {.tid = 7, .ip = 4711};
		struct pillion_event *superfluous;
		char by = *at++, *end;
		if (by == 'x') {
			younger.fd = -1;
		} else {
			struct pillion_event *e = by == 'o' ? &older : by == 'y' ? &younger : NULL;
			r.time = strtoull(at, &end, 10);
			at = end;
			taken[n++] = self_heard(h, &r, e, heard[_i].shared, &superfluous) == SELF_TAKE ? by : '-';
			ck_assert_ptr_ne(superfluous, &older);
			found |= superfluous == &younger;
		}
		at += *at == ' ';
	}
	taken[n] = 0;
	ck_assert_msg(!strcmp(taken, heard[_i].taken), "%s: %s", heard[_i].name, taken);
	ck_assert_msg(found == heard[_i].found, "%s: %d", heard[_i].name, found);
	self_event_dedup_done(h);
	free(h);
}
END_TEST

START_TEST(test_forgotten)
{
	struct self_event_dedup *h = calloc(1, sizeof(*h));
	struct pillion_event *superfluous;
	struct pillion_record r = {.tid = 7, .time = 1000};
	older.fd = 1;
	younger.fd = 2;
	ck_assert_int_eq(self_heard(h, &r, &older, false, &superfluous), SELF_TAKE);
	self_event_dedup_forget(h, 7, 500); /* it began before that */
	ck_assert_uint_eq(h->n, 1);
	self_event_dedup_forget(h, 7, 1500);
	ck_assert_uint_eq(h->n, 0);
	r.time = 2000;
	ck_assert_int_eq(self_heard(h, &r, &younger, false, &superfluous), SELF_TAKE);
	ck_assert_ptr_null(superfluous);
	self_event_dedup_sweep(h, 2001 + SELF_EVENT_DEDUP_NS);
	ck_assert_uint_eq(h->n, 0);
	for (uint32_t i = 0; i < SELF_EVENT_DEDUP_MAX + 100; i++) { /* beyond that it goes unchecked */
		r.tid = i;
		ck_assert_int_eq(self_heard(h, &r, &older, false, &superfluous), SELF_TAKE);
	}
	ck_assert_uint_eq(h->n, SELF_EVENT_DEDUP_MAX);
	self_event_dedup_done(h);
	free(h);
}
END_TEST

UNIT_SUITE(self_threads)
{
	Suite *s = suite_create("self_threads");
	TCase *c = tcase_create("all");
	suite_add_tcase(s, c);
	tcase_add_loop_test(c, test_who, 0, sizeof(who) / sizeof(who[0]));
	tcase_add_test(c, test_many);
	tcase_add_test(c, test_ended);
	tcase_add_loop_test(c, test_heard, 0, sizeof(heard) / sizeof(heard[0]));
	tcase_add_test(c, test_forgotten);
	return s;
}
