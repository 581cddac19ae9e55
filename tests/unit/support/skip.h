/* SPDX-License-Identifier: Apache-2.0 */
/*
 * skip - a test that cannot run here says why; with NO_SKIP in the environment (REQUIRE_ALL=1 of `make test`) that is a
 * failure.
 */
#pragma once

#include <check.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static inline void skip(const char *why)
{
	ck_assert_msg(!getenv("NO_SKIP"), "skipped: %s", why);
	printf("skipped: %s\n", why);
}

/* True where the command is not installed: the test is skipped, and says which package brings the command. */
static inline bool skip_without(const char *command)
{
	char top[4096], line[8192], why[512];
	ssize_t n = readlink("/proc/self/exe", top, sizeof(top) - 1); /* TOP/build/MODE/unit/units */
	top[n < 0 ? 0 : n] = 0;
	for (int i = 0; i < 4 && strrchr(top, '/'); i++)
		*strrchr(top, '/') = 0;
	snprintf(line, sizeof(line),
		"command -v %s >/dev/null || { echo \"%s is not installed ($('%s/tests/tools/setup' brings %s))\"; "
		"exit 1; }",
		command, command, top, command);
	FILE *f = popen(line, "re");
	ck_assert_ptr_nonnull(f);
	n = (ssize_t)fread(why, 1, sizeof(why) - 1, f);
	if (pclose(f) == 0)
		return false;
	why[n] = 0;
	why[strcspn(why, "\n")] = 0;
	skip(why);
	return true;
}
