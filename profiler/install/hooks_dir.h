/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hooks_dir - files of hooks.d, by which podman and CRI-O find hooks (containers-common, oci-hooks(5)).
 *
 * A file that does not parse stops every container of podman's, and CRI-O at its start. So our file is checked before
 * it comes to its place, and `pillion doctor` checks all files that are there.
 */
#pragma once

#include "oci/base/err.h"

#include <limits.h>
#include <stddef.h>

#define HOOKS_DIR "/usr/share/containers/oci/hooks.d" /* both read it by default */
#define HOOKS_DIR_FILE "50-pillion.json"

/* Checks a file. 0 and the program that it names; -EINVAL with a sentence as the engines would have it. */
int hooks_dir_check(const char *text, size_t len, char ret_program[PATH_MAX], struct err *e);
