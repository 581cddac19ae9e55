/*
 * suite - one suite of Check for each tests/unit/test_NAME.c, which all are in one program (main.c):
 *
 *	UNIT_SUITE(clock)
 *	{
 *		Suite *s = suite_create("clock");
 *		...
 *		return s;
 *	}
 */
#pragma once

#include <check.h>

#define UNIT_SUITE(name)                                                                                               \
	Suite *name##_suite(void);                                                                                     \
	Suite *name##_suite(void)
