/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profile_split - some samples of a profile as a profile of their own, with nothing in it that they do not need, and
 * within what a receiver allows: for push_encode.h, whose forms are made of such parts.
 *
 * Samples keep their order. Those that have become equal by what was cut are summed.
 */
#pragma once

#include "profiler/pprof/profile.h"

#include <stddef.h>
#include <stdint.h>

#define PROFILE_SPLIT_TEXT_MAX 65535 /* bytes of a text, of which Pyroscope would drop the beginning */
#define PROFILE_SPLIT_DEPTH_MAX 1000 /* locations of a stack, of which Pyroscope would drop the leaf */

/* The labels of a sample as the receiver is to have them: up to PROFILE_LABELS_MAX. Texts are borrowed until the next
 * call. Called once for samples that follow each other with equal sets. */
typedef size_t profile_split_labels_fn(void *arg, const struct profile_sample *s, struct profile_label *ret);

struct profile_split {
	const struct profile *from;
	size_t first, n;	    /* samples */
	size_t text_max, depth_max; /* at least 16; 2 */
	struct profile_info info; /* of the part: as many types as `from` has, their names and times as they shall be */
	profile_split_labels_fn *labels; /* NULL: all as they are */
	void *arg;
};

int profile_split_make(const struct profile_split *of, struct profile **ret); /* 0, -ENOMEM */
/* Up to `max` bytes of a text: whole characters. */
size_t profile_split_cut(const char *text, size_t max);
