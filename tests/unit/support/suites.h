/* SPDX-License-Identifier: Apache-2.0 */
/* suites - every suite of the unit tests; the table is made by the Makefile, of the names of
 * tests/unit/ROOM/test_NAME.c. */
#pragma once

#include <check.h>

struct unit_suite {
	const char *name;
	Suite *(*make)(void);
};

enum { UNIT_SUITES_MAX = 512 };

extern const struct unit_suite unit_suites[]; /* ends with {0} */
