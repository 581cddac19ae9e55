/* SPDX-License-Identifier: Apache-2.0 */
/*
 * call_tree_text - a profile as a tree for people: a function a line, below its caller and indented, the one with the
 * largest sum first. A type in nanoseconds has two columns: the function's own time, and the time with all functions
 * that it called. Another type has one column: the function's own.
 */
#pragma once

#include "profiler/pprof/profile.h"

#include <stdio.h>

/* 0, -ENOMEM, -EIO (`out` takes no more). */
int call_tree_text_write(const struct profile *p, FILE *out);
/* Sorted by this type, the largest first; leaves out functions with a sum below one in `least` of all. */
int call_tree_text_write_by(const struct profile *p, unsigned type, uint32_t least, FILE *out);
