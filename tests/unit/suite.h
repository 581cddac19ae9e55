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
 * A test case that compares what the kernel measures of programs that really run has the tag SUITE_MEASURED:
 * CK_EXCLUDE_TAGS=measured leaves it out.
 */
#pragma once

#include <check.h>

#define SUITE_MEASURED "measured"

#define UNIT_SUITE(name)                                                                                               \
	Suite *name##_suite(void);                                                                                     \
	Suite *name##_suite(void)
