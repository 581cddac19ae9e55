/*
 * build - the profile of one event of a window: its samples with names and labels, what is missing of them, and what
 * there is to say about it.
 */
#pragma once

#include "profiler/profile.h"
#include "profiler/window.h"

/* 0, or -errno and NULL. *ret_samples: those that were counted, in both cases as far as it came. */
int build_profile(const struct window *w, uint32_t spec, struct profile **ret, uint64_t *ret_samples);
