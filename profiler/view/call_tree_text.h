/* SPDX-License-Identifier: Apache-2.0 */
/*
 * call_tree_text - a profile as a tree for people: a function a line, below its caller and indented, the one with the
 * largest sum first. Of each type in nanoseconds there are two columns, what the function took itself and what it took
 * with all that it called; of the others one, its own.
 */
#pragma once

#include "profiler/pprof/profile.h"

#include <stdio.h>

/* 0, -ENOMEM, -EIO (`out` takes no more). */
int call_tree_text_write(const struct profile *p, FILE *out);
/* The largest first by this type; functions whose sum of it is below one in `least` of all are left out. */
int call_tree_text_write_by(const struct profile *p, unsigned type, uint32_t least, FILE *out);
