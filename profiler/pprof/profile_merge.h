/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profile_merge - several windows as one profile.
 *
 * Everything is kept: mappings and functions that no sample needs, and all lines of a location. Sample types must be
 * the same in the same order. Durations are summed, the earliest start stays; samples with equal stacks and labels are
 * summed; equal comments are kept once.
 */
#pragma once

#include "oci/base/err.h"
#include "profiler/pprof/profile.h"

#include <stdbool.h>

int profile_merge_add(struct profile *to, const struct profile *from, struct err *e); /* -EINVAL: other sample types */
/*
 * Copies a profile. For each location `lines` may give other lines: it returns how many, up to PROFILE_LINES_MAX, and
 * has made their functions in `to`; 0: the location keeps its lines. Functions without a location are left out then.
 */
typedef int profile_merge_lines_fn(
	void *arg, struct profile *to, uint32_t location, struct profile_line *ret, unsigned *ret_has);
int profile_merge_copy(
	const struct profile *from, profile_merge_lines_fn *lines, void *arg, struct profile **ret, struct err *e);
/* Copies a profile with those samples alone that are wanted. */
typedef bool profile_merge_want_fn(void *arg, const struct profile *from, const struct profile_sample *s);
int profile_merge_some(
	const struct profile *from, profile_merge_want_fn *want, void *arg, struct profile **ret, struct err *e);
