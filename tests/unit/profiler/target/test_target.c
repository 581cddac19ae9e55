/* SPDX-License-Identifier: Apache-2.0 */
/* target: which samples count, and in which window. */
#include "profiler/target/target.h"

#include "oci/base/clock.h"
#include "profiler/target/target_open.h"
#include "profiler/target/window.h"
#include "tests/unit/support/fed.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <sys/socket.h>

static struct engine engine;
static struct target *target;

static void begin(void)
{
	fed_engine(&engine);
	target = fed_target(&engine, 1);
}

static void end(void)
{
	fed_engine_done(&engine);
}

static void sample(int64_t time)
{
	fed_sample(target, fed_events(target, 0), (uint64_t)time, FED_INIT, FED_INIT, &(uint64_t){0x1000}, 1);
}

START_TEST(what_was_before_the_program_does_not_count)
{
	int64_t now = clock_now();
	sample(now - 3000);
	fed_comm(target, (uint64_t)(now - 2000), FED_INIT, FED_INIT, "web", true);
	sample(now - 2500); /* of another CPU, read later */
	sample(now - 1000);
	ck_assert_uint_eq(target->sampling.tally.before, 2);
	ck_assert_uint_eq(target->sampling.tally.samples, 1);
}
END_TEST

START_TEST(what_is_read_behind_its_windows_end_is_of_the_next)
{
	int64_t now = clock_now();
	fed_comm(target, (uint64_t)(now - 2000), FED_INIT, FED_INIT, "web", true);
	sample(now - 1000);
	window_close(target, false);
	ck_assert_uint_eq(target->sampling.tally.samples, 0);
	sample(now - 500);
	ck_assert_uint_eq(target->sampling.tally.before, 0);
	ck_assert_uint_eq(target->sampling.tally.samples, 1);
	ck_assert_uint_eq(target->sampling.tally.weight[0], target->desc.events[0].period);
}
END_TEST

static int nobody_opens(void *arg, const char *path, struct file *ret)
{
	return -ENOENT;
}

/* Of files without a build-id there is one for each target, which nobody could find behind its end. */
START_TEST(its_modules_go_with_it_and_the_kernels_stay)
{
	static const char *const paths[] = {"[vdso]", "//anon", "/bin/busybox"};
	struct modules_stats stats;
	for (unsigned n = 2; n < 10; n++) {
		struct target *t = fed_target(&engine, n);
		for (unsigned i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
			struct module *m = NULL;
			ck_assert_int_eq(target_module(t, &(struct module_key){.path = paths[i]}, nobody_opens, &m), 0);
			module_unref(m);
		}
		modules_stats(engine.symbols.modules, &stats);
		ck_assert_uint_eq(stats.count, 3);
		target_forget(t);
	}
	modules_stats(engine.symbols.modules, &stats);
	ck_assert_uint_eq(stats.count, 2);
}
END_TEST

/* --- the profiles of a window */

#define EIGHT "cpu,offcpu,page-faults,minor-faults,major-faults,cpu-migrations,alignment-faults,emulation-faults"

static void nobody_starts_another(void *arg) {}

/* Which events of the list have samples, by their bits, and the profiles that an exporter gets, with what follows. */
static const struct {
	const char *events;
	unsigned sampled;
	bool last;
	const char *profiles;
} windows[] = {
	{"cpu,page-faults", 0, false, ""},
	{"cpu,page-faults", 1, false, " cpu/1+0"},
	{"cpu,page-faults", 2, false, " page-faults/1+0"},
	{"cpu,page-faults", 3, false, " cpu/1+1 page-faults/1+0"},
	{"cpu,page-faults", 0, true, " cpu/0+1 page-faults/0+0"},
	{"cpu,page-faults", 2, true, " cpu/0+1 page-faults/1+0"},
	{"wall", 0, false, ""},
	{"wall", 1, false, " wall/1+0"},
	{"wall", 0, true, " wall/0+0"},
	{"cpu,wall", 1, false, " cpu/1+1 wall/1+0"},
	{"page-faults,wall", 1, false, " page-faults/1+0"},
	{"page-faults,wall", 3, false, " page-faults/1+1 wall/1+0"},
	{EIGHT, 1 << 7, false, " emulation-faults/1+0"},
	{EIGHT ",wall", 1 << 7, true,
		" cpu/0+8 offcpu/0+7 page-faults/0+6 minor-faults/0+5 major-faults/0+4 cpu-migrations/0+3"
		" alignment-faults/0+2 emulation-faults/1+1 wall/0+0"},
};

static int exporter_end;

static void open_exporter(void)
{
	static const struct exporter_owner owner = {&engine, window_written, nobody_starts_another, NULL, NULL};
	int ends[2];
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
	ck_assert_int_eq(exporter_client_new(engine.loop, 1 << 20, &owner, &engine.spool.exporter), 0);
	ck_assert_int_eq(exporter_client_connect(engine.spool.exporter, ends[0]), 0);
	exporter_end = ends[1];
}

/* The profiles that the exporter has got by now: " EVENT/SAMPLES+REST" of each. Returns how many. */
static unsigned receive_profiles(char ret[512])
{
	struct export_profile p;
	unsigned n = 0;
	size_t at = 0, fds;
	int memfd;
	ret[0] = 0;
	for (; fd_recv(exporter_end, &p, sizeof(p), &memfd, 1, &fds) == (ssize_t)sizeof(p); n++) {
		ck_assert(export_check(&p, sizeof(p), fds, EXPORT_PROFILE));
		ck_assert_str_eq(p.id, "c2");
		at += (size_t)snprintf(ret + at, 512 - at, " %s/%" PRIu64 "+%u", p.event, p.samples, p.rest);
		fd_close(memfd);
	}
	return n;
}

START_TEST(each_profile_of_a_window_is_handed_over_and_knows_how_many_follow)
{
	char got[512];
	open_exporter();
	target = fed_target_of(&engine, 2, windows[_i].events);
	fed_comm(target, (uint64_t)(clock_now() - 2000), FED_INIT, FED_INIT, "web", true);
	for (uint32_t i = 0; i < target->desc.n_events; i++)
		if (windows[_i].sampled & 1u << i)
			fed_sample(target, fed_events(target, i), (uint64_t)clock_now(), FED_INIT, FED_INIT,
				&(uint64_t){0x1000}, 1);
	window_close(target, windows[_i].last);
	const unsigned n = receive_profiles(got);
	ck_assert_str_eq(got, windows[_i].profiles);
	ck_assert_uint_eq(target->spool.unwritten, n);
	fd_close(exporter_end);
}
END_TEST

/* Without any samples the last window is written if it is the only one that there is. */
START_TEST(an_empty_last_window_behind_others_is_not_written)
{
	char got[512];
	open_exporter();
	target = fed_target_of(&engine, 2, "cpu,page-faults");
	fed_comm(target, (uint64_t)(clock_now() - 2000), FED_INIT, FED_INIT, "web", true);
	sample(clock_now());
	window_close(target, false);
	ck_assert_uint_eq(receive_profiles(got), 1);
	window_close(target, true);
	ck_assert_uint_eq(receive_profiles(got), 0);
	ck_assert_uint_eq(target->spool.unwritten, 1);
	fd_close(exporter_end);
}
END_TEST

/* --- a field's value in place of a count */

#define AT 8

static void field_sample(const void *raw, uint32_t size)
{
	struct open_event *st = fed_events(target, 0);
	struct fed r;
	fed_begin(&r);
	fed_u64(&r, st->id);
	fed_u64(&r, 0x1000);
	fed_two(&r, FED_INIT, FED_INIT);
	fed_u64(&r, (uint64_t)clock_now());
	fed_two(&r, 0, 0);
	fed_u64(&r, 0); /* of its chain */
	uint32_t words[8] = {size};
	memcpy(words + 1, raw, size);
	for (uint32_t i = 0; i < (size + 4) / 8; i++)
		fed_two(&r, words[2 * i], words[2 * i + 1]);
	target_record(target, st, fed_end(&r, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER));
}

static const struct {
	uint8_t size, is_signed;
	uint64_t period, value, worth;
} fields[] = {
	{4, 0, 1, 4096, 4096},
	{4, 0, 10, 4096, 40960},     /* one in ten */
	{8, 1, 1, (uint64_t)-11, 0}, /* an error */
	{4, 1, 1, 0xfffffff5, 0},
	{4, 0, 1, 0xfffffff5, 0xfffffff5},
	{1, 1, 1, 0x7f, 0x7f},
	{1, 1, 1, 0xff, 0},
	{2, 0, 3, 0x12345, 3 * 0x2345},	   /* what is behind it is another field's */
	{8, 0, 1, UINT64_MAX, 1ull << 44}, /* an address, say */
	{8, 0, 1ull << 60, 1ull << 60, 1ull << 44},
};

START_TEST(a_fields_value)
{
	struct event_spec *s = &target->desc.events[0];
	struct aggregate_sample got;
	uint64_t raw[3] = {0, fields[_i].value};
	*s = (struct event_spec){.kind = 2, .period = fields[_i].period, .name = "a:b.c", .value_at = AT};
	s->value_size = fields[_i].size;
	s->value_signed = fields[_i].is_signed;
	fed_events(target, 0)->layout.sample_type |= PERF_SAMPLE_RAW;
	fed_comm(target, (uint64_t)(clock_now() - 2000), FED_INIT, FED_INIT, "web", true);
	field_sample(raw, 20);
	ck_assert_uint_eq(target->sampling.tally.samples, 1);
	ck_assert_uint_eq(target->sampling.tally.value[0], fields[_i].worth);
	aggregate_sample(target->sampling.counts[0], 0, &got);
	ck_assert(got.count == 1 && got.weight == fields[_i].worth);
	field_sample(raw, 12); /* of somebody who chose another layout: the field is not there, or cut */
	ck_assert_uint_eq(target->sampling.tally.samples, 2);
	ck_assert_uint_eq(target->sampling.tally.value[0], fields[_i].worth * (AT + fields[_i].size <= 12 ? 2 : 1));
}
END_TEST

UNIT_SUITE(target)
{
	Suite *s = suite_create("target");
	TCase *t = tcase_create("target");

	tcase_add_checked_fixture(t, begin, end);
	tcase_add_test(t, what_was_before_the_program_does_not_count);
	tcase_add_test(t, what_is_read_behind_its_windows_end_is_of_the_next);
	tcase_add_test(t, its_modules_go_with_it_and_the_kernels_stay);
	tcase_add_loop_test(t, each_profile_of_a_window_is_handed_over_and_knows_how_many_follow, 0,
		sizeof(windows) / sizeof(windows[0]));
	tcase_add_test(t, an_empty_last_window_behind_others_is_not_written);
	tcase_add_loop_test(t, a_fields_value, 0, sizeof(fields) / sizeof(fields[0]));
	suite_add_tcase(s, t);
	return s;
}
