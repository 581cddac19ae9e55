/*
 * skip - a test that cannot run here says why; with NO_SKIP in the environment (REQUIRE_ALL=1 of `make test`) that is a
 * failure.
 */
#pragma once

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

static inline void skip(const char *why)
{
	ck_assert_msg(!getenv("NO_SKIP"), "skipped: %s", why);
	printf("skipped: %s\n", why);
}
