/* SPDX-License-Identifier: Apache-2.0 */
/* quarantine: whose fault a death was, which files are not read any more, and what a worker's word is worth. */
#include "profiler/process/quarantine.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "profiler/daemon/supervisor.h"
#include "profiler/process/module.h"
#include "tests/unit/support/here.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MINUTE (60 * NSEC_PER_SEC)
#define BEGIN (100 * MINUTE)

static struct quarantine q;
static struct crash_blame blame;
static struct quarantine_file file;
static int64_t now;

static void setup(void)
{
	memset(&q, 0, sizeof(q));
	blame = (struct crash_blame){0};
	now = BEGIN;
}

/* The key of a file of this number, and a build-id when it has one. */
static struct module_key key_of(unsigned number, bool build_id)
{
	static char path[32];
	struct module_key key = {.path = path, .maj = 8, .min = 1, .ino = number};
	snprintf(path, sizeof(path), "/lib/%u.so", number);
	if (build_id) {
		key.build_id_len = 20;
		memset(key.build_id, (int)number, 20);
	}
	return key;
}

static enum crash_verdict die(uint32_t target, const struct module_key *key)
{
	struct crash_marker at = {.target = target, .reading = key != NULL};
	if (key)
		quarantine_note(&at, key);
	now += NSEC_PER_SEC;
	return quarantine_judge(&q, &at, &blame, now, &file);
}

START_TEST(a_death_at_no_file_is_the_target_s)
{
	for (unsigned i = 1; i <= QUARANTINE_DEATHS; i++) {
		ck_assert_int_eq(die(1, NULL), VERDICT_TARGET);
		ck_assert_uint_eq(blame.own.n, i);
	}
	now += 11 * MINUTE; /* which is too long ago to be more of the same */
	ck_assert_int_eq(die(1, NULL), VERDICT_TARGET);
	ck_assert_uint_eq(blame.own.n, 1);
}
END_TEST

START_TEST(three_deaths_shut_a_file_and_leave_its_target_alone)
{
	for (int build_id = 0; build_id < 2; build_id++) {
		struct module_key key = key_of(7, build_id), other = key;
		setup();
		ck_assert_int_eq(die(1, &key), VERDICT_FILE);
		ck_assert_int_eq(die(1, &key), VERDICT_FILE);
		ck_assert(!quarantine_has(&q, &key, 1));
		ck_assert_int_eq(die(1, &key), VERDICT_QUARANTINE);
		ck_assert_str_eq(file.path, "/lib/7.so");
		ck_assert(quarantine_has(&q, &key, 1));
		ck_assert_uint_eq(blame.own.n, 0);
		/* with a build-id it is the same wherever it lies, without one another target's is another */
		ck_assert_int_eq(quarantine_has(&q, &key, 2), build_id);
		other.ino = 8;
		ck_assert_int_eq(quarantine_has(&q, &other, 1), build_id);
		other = key;
		other.path = "/lib/elsewhere.so";
		ck_assert_int_eq(quarantine_has(&q, &other, 1), build_id);
		other.build_id[3] ^= 1;
		ck_assert(!quarantine_has(&q, &other, 1));
		/* the generation is another in each worker */
		key.generation = 99;
		ck_assert(quarantine_has(&q, &key, 1));
	}
}
END_TEST

START_TEST(deaths_far_apart_are_not_one_story)
{
	struct module_key key = key_of(7, true);
	ck_assert_int_eq(die(1, &key), VERDICT_FILE);
	ck_assert_int_eq(die(1, &key), VERDICT_FILE);
	now += 11 * MINUTE;
	ck_assert_int_eq(die(1, &key), VERDICT_FILE);
	ck_assert_int_eq(die(1, &key), VERDICT_FILE);
	ck_assert(!quarantine_has(&q, &key, 1));
	ck_assert_int_eq(die(1, &key), VERDICT_QUARANTINE);
	now += 1000 * MINUTE; /* but there is no way back */
	ck_assert(quarantine_has(&q, &key, 1));
}
END_TEST

START_TEST(a_file_that_is_not_read_is_no_excuse)
{
	struct module_key key = key_of(7, true);
	for (unsigned i = 0; i < QUARANTINE_DEATHS; i++)
		die(1, &key);
	ck_assert_int_eq(die(1, &key), VERDICT_TARGET);
	ck_assert_uint_eq(blame.own.n, 1);
}
END_TEST

START_TEST(a_target_with_one_bad_file_after_the_other_is_not_excused_for_ever)
{
	unsigned n = 0;
	while (blame.own.n < QUARANTINE_DEATHS && n < 100) {
		struct module_key key = key_of(n++, true);
		die(1, &key);
	}
	ck_assert_uint_eq(n, QUARANTINE_EXCUSED + QUARANTINE_DEATHS);
}
END_TEST

START_TEST(the_oldest_goes_first_and_of_those_that_are_read_still)
{
	struct module_key key = key_of(1000, true);
	die(1, &key);
	for (unsigned i = 0; i < QUARANTINE_MAX; i++) { /* the last one in the place of that */
		key = key_of(i, true);
		blame = (struct crash_blame){0};
		die(1, &key);
		die(1, &key);
		ck_assert_int_eq(die(1, &key), VERDICT_QUARANTINE);
	}
	for (unsigned i = 0; i < QUARANTINE_MAX; i++) {
		key = key_of(i, true);
		ck_assert(quarantine_has(&q, &key, 1));
	}
	blame = (struct crash_blame){0};
	key = key_of(1000, true);
	blame = (struct crash_blame){0};
	ck_assert_int_eq(die(1, &key), VERDICT_FILE);
	ck_assert_int_eq(die(1, &key), VERDICT_FILE);
	ck_assert_int_eq(die(1, &key), VERDICT_QUARANTINE);
	key = key_of(0, true);
	ck_assert(!quarantine_has(&q, &key, 1));
	key = key_of(1, true);
	ck_assert(quarantine_has(&q, &key, 1));
}
END_TEST

/* Nothing that a worker leaves there is more than bytes. */
START_TEST(what_a_worker_says_is_made_valid)
{
	struct crash_marker at;
	memset(&at, 0xff, sizeof(at));
	ck_assert_int_eq(quarantine_judge(&q, &at, &blame, now, &file), VERDICT_TARGET);
	memset(&at, 'x', sizeof(at)); /* a path without an end */
	at.file.build_id_len = 0;
	at.target = 5;
	ck_assert_int_eq(quarantine_judge(&q, &at, &blame, now, &file), VERDICT_FILE);
	ck_assert_uint_eq(strlen(file.path), QUARANTINE_PATH_MAX - 1);
	ck_assert_uint_eq(file.target, 5); /* whatever it says whose it is */
	at.file.build_id_len = ELF_BUILD_ID_MAX;
	ck_assert_int_eq(quarantine_judge(&q, &at, &blame, now, &file), VERDICT_FILE);
	ck_assert_uint_eq(file.target, 0);
}
END_TEST

START_TEST(a_path_that_is_too_long_is_cut_the_same_each_time)
{
	char path[2 * QUARANTINE_PATH_MAX];
	struct module_key key = {.path = path, .ino = 3};
	memset(path, 'p', sizeof(path) - 1);
	path[sizeof(path) - 1] = 0;
	ck_assert_int_eq(die(1, &key), VERDICT_FILE);
	ck_assert_int_eq(die(1, &key), VERDICT_FILE);
	ck_assert_int_eq(die(1, &key), VERDICT_QUARANTINE);
	ck_assert(quarantine_has(&q, &key, 1));
}
END_TEST

/* --- a worker's modules */

static struct crash_marker *seen;
static unsigned opened;
static uint32_t was_reading;

static int open_self(void *arg, const char *path, struct file *ret)
{
	opened++;
	was_reading = seen->reading;
	return arg ? *(int *)arg : file_take(fd_open(AT_FDCWD, "/proc/self/exe", O_RDONLY, 0), ret);
}

static struct module *get(struct modules *t, const struct module_key *key, int *fail)
{
	struct module *m;
	ck_assert_int_eq(modules_get(t, key, open_self, fail, &m), 0);
	return m;
}

START_TEST(a_worker_notes_what_it_reads)
{
	struct crash_marker at = {.target = 4};
	struct modules *t;
	struct module_key key = key_of(7, false);
	seen = &at;
	ck_assert_int_eq(modules_new(64 << 20, &t), 0);
	modules_guard(t, &at, &q);
	struct module *m = get(t, &key, NULL);
	ck_assert_int_eq(module_state(m), MODULE_LOADED);
	ck_assert(!at.reading && !was_reading); /* the way to it is not its bytes */
	ck_assert_str_eq(at.file.path, "/lib/7.so");
	ck_assert_uint_eq(at.file.ino, 7);
	ck_assert_uint_eq(at.file.target, 4);
	at.file.ino = 0;
	module_enter(m);
	ck_assert(at.reading && !at.file.ino); /* it is there already */
	module_leave(m);
	ck_assert(!at.reading);
	module_unref(m);
	modules_free(t);
}
END_TEST

START_TEST(a_file_in_quarantine_is_not_opened_and_is_module_and_offset)
{
	struct crash_marker at = {.target = 4};
	struct modules *t;
	char frame[MODULE_NAME_MAX];
	int later = -EAGAIN; /* as of a journal that is read before there is any sample */
	struct module_key key = key_of(7, false);
	seen = &at;
	opened = 0;
	die(4, &key);
	die(4, &key);
	ck_assert_int_eq(modules_new(64 << 20, &t), 0);
	modules_guard(t, &at, &q);
	key = key_of(7, false);
	key.generation = 1;
	struct module *m = get(t, &key, &later);
	ck_assert_int_eq(module_state(m), MODULE_UNREADABLE);
	ck_assert_uint_eq(opened, 1);
	die(4, &key); /* and the list is another from here on: as if this were the next worker */
	ck_assert_ptr_eq(get(t, &key, NULL), m);
	ck_assert_int_eq(module_state(m), MODULE_QUARANTINED);
	ck_assert_ptr_eq(get(t, &key, NULL), m);
	ck_assert_uint_eq(opened, 1);
	ck_assert_uint_eq(module_vaddr(m, 0x1234), 0x1234);
	ck_assert_str_eq(module_frame_name(m, 0x1234, frame, sizeof(frame)), "7.so+0x1234");
	ck_assert(*module_reason(m) && !module_rows(m) && !module_elf(m));
	key = key_of(9, false);
	struct module *other = get(t, &key, NULL);
	ck_assert_int_eq(module_state(other), MODULE_LOADED);
	module_unref(other);
	for (int i = 0; i < 3; i++)
		module_unref(m);
	modules_free(t);
}
END_TEST

UNIT_SUITE(quarantine)
{
	Suite *s = suite_create("quarantine");
	TCase *t = tcase_create("blame"), *m = tcase_create("modules");
	tcase_add_checked_fixture(t, setup, NULL);
	tcase_add_test(t, a_death_at_no_file_is_the_target_s);
	tcase_add_test(t, three_deaths_shut_a_file_and_leave_its_target_alone);
	tcase_add_test(t, deaths_far_apart_are_not_one_story);
	tcase_add_test(t, a_file_that_is_not_read_is_no_excuse);
	tcase_add_test(t, a_target_with_one_bad_file_after_the_other_is_not_excused_for_ever);
	tcase_add_test(t, the_oldest_goes_first_and_of_those_that_are_read_still);
	tcase_add_test(t, what_a_worker_says_is_made_valid);
	tcase_add_test(t, a_path_that_is_too_long_is_cut_the_same_each_time);
	tcase_add_checked_fixture(m, setup, NULL);
	tcase_add_test(m, a_worker_notes_what_it_reads);
	tcase_add_test(m, a_file_in_quarantine_is_not_opened_and_is_module_and_offset);
	suite_add_tcase(s, t);
	suite_add_tcase(s, m);
	return s;
}
