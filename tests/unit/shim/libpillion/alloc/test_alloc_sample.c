/* SPDX-License-Identifier: Apache-2.0 */
/* sample: distances are exponential, and a thread's first allocation is as likely to be sampled as any. */
#include "shim/libpillion/alloc/alloc_sample.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>

#define N 400000

START_TEST(distances)
{
	static const uint64_t means[] = {512, 65536, 512 << 10, 1ull << 30};
	const double mean = (double)means[_i];
	uint64_t random = 12345;
	double sum = 0, squares = 0;
	unsigned below[4] = {0}; /* a quarter, a half, one and two means */
	static const double marks[] = {0.25, 0.5, 1, 2};
	for (unsigned i = 0; i < N; i++) {
		const double d = (double)alloc_sample_draw(&random, means[_i]);
		ck_assert_double_ge(d, 1);
		sum += d;
		squares += d * d;
		for (unsigned k = 0; k < 4; k++)
			below[k] += d < marks[k] * mean;
	}
	ck_assert_double_le(fabs(sum / N / mean - 1), 0.01);
	ck_assert_double_le(fabs(sqrt(squares / N - sum / N * (sum / N)) / mean - 1), 0.02);
	for (unsigned k = 0; k < 4; k++)
		ck_assert_double_le(fabs((double)below[k] / N - (1 - exp(-marks[k]))), 0.004);
}
END_TEST

UNIT_SUITE(alloc_sample)
{
	Suite *s = suite_create("alloc_sample");
	TCase *c = tcase_create("alloc_sample");
	tcase_set_timeout(c, 60);
	tcase_add_loop_test(c, distances, 0, 4);
	suite_add_tcase(s, c);
	return s;
}
