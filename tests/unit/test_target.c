/* target: which samples count, and in which window. */
#include "profiler/target.h"

#include "oci/base/clock.h"
#include "profiler/window.h"
#include "tests/unit/fed.h"

#include <check.h>
#include <errno.h>

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
	ck_assert_uint_eq(target->tally.before, 2);
	ck_assert_uint_eq(target->tally.samples, 1);
}
END_TEST

START_TEST(what_is_read_behind_its_windows_end_is_of_the_next)
{
	int64_t now = clock_now();
	fed_comm(target, (uint64_t)(now - 2000), FED_INIT, FED_INIT, "web", true);
	sample(now - 1000);
	window_end(target, false);
	ck_assert_uint_eq(target->tally.samples, 0);
	sample(now - 500);
	ck_assert_uint_eq(target->tally.before, 0);
	ck_assert_uint_eq(target->tally.samples, 1);
	ck_assert_uint_eq(target->tally.weight[0], target->desc.events[0].period);
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
		modules_stats(engine.modules, &stats);
		ck_assert_uint_eq(stats.count, 3);
		target_forget(t);
	}
	modules_stats(engine.modules, &stats);
	ck_assert_uint_eq(stats.count, 2);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("target");
	TCase *t = tcase_create("target");

	tcase_add_checked_fixture(t, begin, end);
	tcase_add_test(t, what_was_before_the_program_does_not_count);
	tcase_add_test(t, what_is_read_behind_its_windows_end_is_of_the_next);
	tcase_add_test(t, its_modules_go_with_it_and_the_kernels_stay);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
