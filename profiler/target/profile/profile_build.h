/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profile_build - builds the profile of a window, of one event or of those of `wall` (shim/event/event_spec.h): samples
 * with names and labels, losses, and comments.
 */
#pragma once

#include "oci/base/clock.h"
#include "profiler/pprof/profile.h"
#include "profiler/target/window.h"

#define PROFILE_BUILD_WALL EVENTS_MAX			/* beside the numbers of events */
#define PROFILE_BUILD_UNCLOCKED_NS (50 * NSEC_PER_MSEC) /* CPU time by the account alone: less may be an inaccuracy */

/* True: that profile is asked for and has samples of that event. */
bool profile_build_has(const struct target *t, uint32_t profile, uint32_t spec);
/* 0, or -errno and NULL. *ret_samples: samples counted so far, in both cases. */
int profile_build(const struct window *w, uint32_t profile, struct profile **ret, uint64_t *ret_samples);
