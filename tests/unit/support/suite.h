/* SPDX-License-Identifier: Apache-2.0 */
/*
 * suite - one suite of Check for each tests/unit/ROOM/test_NAME.c, which all are in one program (main.c):
 *
 *	UNIT_SUITE(clock)
 *	{
 *		Suite *s = suite_create("clock");
 *		...
 *		return s;
 *	}
 *
 * Tags of test cases, which CK_EXCLUDE_TAGS='measured long' leaves out:
 *
 *	SUITE_MEASURED	compares what the kernel measures of programs that really run
 *	SUITE_LONG	takes some ten seconds in code with a compiler's hooks
 */
#pragma once

#include <check.h>

#define SUITE_MEASURED "measured"
#define SUITE_LONG "long"

#define UNIT_SUITE(name)                                                                                               \
	Suite *name##_suite(void);                                                                                     \
	Suite *name##_suite(void)
