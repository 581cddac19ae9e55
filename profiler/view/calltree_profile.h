/* SPDX-License-Identifier: Apache-2.0 */
/*
 * calltree_profile - calling-context trees as a profile: a sample for each path, with its calls and, if it was
 * measured, the time in the last function of the path itself. Trees of several threads and processes are summed.
 *
 * Functions get their names by build-id, as `pillion symbolize` finds them; in a module without a build-id by the
 * symbols of the file at its path now. `sites`: splits a function by the places that call it.
 */
#pragma once

#include "oci/base/err.h"
#include "profiler/pprof/profile.h"
#include "profiler/pprof/profile_symbolize.h"
#include "profiler/view/calltree_file.h"

#define CALLTREE_PROFILE_DEPTH_MAX 2048		  /* of a path: longer ones lack their beginning */
#define CALLTREE_PROFILE_FRAMES_MAX (64ull << 20) /* of all paths */

/* s: NULL: without names by build-id. -EFBIG, -ENOMEM with a sentence. */
int calltree_profile(struct calltree_file *const *files, size_t n, struct profile_symbolize *s, bool sites,
	struct profile **ret, struct err *e);
