/* SPDX-License-Identifier: Apache-2.0 */
/* engine_exec - runs programs of container engines to get their own view of their configuration. */
#pragma once

#include "oci/base/err.h"

#include <stddef.h>

#define ENGINE_WAIT_S 20

/*
 * Runs argv[0] (a path beneath `root`, an O_PATH descriptor; that is its root directory) with no input. *ret
 * (malloc'ed): its stdout and, with `errors`, stderr; NUL behind it. Returns its exit status; -ENOEXEC: it cannot be
 * run there; -ETIMEDOUT; or -errno.
 */
int engine_exec(int root, const char *const argv[], int errors, char **ret);
/* Returns the line with the error: the last that is not empty. Cuts the text. */
char *engine_exec_last_line(char *text);
