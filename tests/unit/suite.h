/*
 * suite - one suite of Check for each tests/unit/test_NAME.c, which all are in one program (main.c):
 *
 *	UNIT_SUITE(clock)
 *	{
 *		Suite *s = suite_create("clock");
 *		...
 *		return s;
 *	}
 *
 * Tags of test cases, which CK_EXCLUDE_TAGS='measured stepped' leaves out:
 *
 *	SUITE_MEASURED	compares what the kernel measures of programs that really run
 *	SUITE_STEPPED	stops at every instruction: in code with a compiler's hooks it takes ten times as long
 */
#pragma once

#include <check.h>

#define SUITE_MEASURED "measured"
#define SUITE_STEPPED "stepped"

#define UNIT_SUITE(name)                                                                                               \
	Suite *name##_suite(void);                                                                                     \
	Suite *name##_suite(void)
