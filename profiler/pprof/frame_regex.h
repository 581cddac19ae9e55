/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frame_regex - regular expressions of pprof files (drop_frames, keep_frames), in the syntax of RE2 and Go
 * (github.com/google/re2/wiki/Syntax), without Unicode's classes (\pL). Case is that of ASCII.
 *
 * Patterns and texts are hostile. A pattern becomes a program of limited size. Matching follows all threads of the
 * program at once and never goes back: its time is at most the product of both sizes.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct frame_regex;

/* -EINVAL: no pattern of this syntax; -E2BIG: too large a program; -ENOMEM */
int frame_regex_compile(const char *pattern, struct frame_regex **ret);
/*
 * Returns whether the pattern matches somewhere in the text. Each step takes one from *steps; at 0 it ends, and
 * returns false.
 */
bool frame_regex_matches(struct frame_regex *x, const char *text, uint64_t *steps);
struct frame_regex *frame_regex_free(struct frame_regex *x);
