/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profile_split - makes a profile of some samples of another one, with only the entries that they need, and within a
 * receiver's limits. push_encode.h makes its requests of such parts.
 *
 * Samples keep their order. Samples that become equal by cutting are summed.
 */
#pragma once

#include "profiler/pprof/profile.h"

#include <stddef.h>
#include <stdint.h>

#define PROFILE_SPLIT_TEXT_MAX 65535 /* bytes of a text; Pyroscope drops the beginning of a longer one */
#define PROFILE_SPLIT_DEPTH_MAX 1000 /* locations of a stack; Pyroscope drops the leaf of a deeper one */

/* Returns the labels that the receiver gets for a sample: up to PROFILE_LABELS_MAX. Texts are borrowed until the
 * next call. Called once for consecutive samples with equal sets. */
typedef size_t profile_split_labels_fn(void *arg, const struct profile_sample *s, struct profile_label *ret);

struct profile_split {
	const struct profile *from;
	size_t first, n;		 /* samples */
	size_t text_max, depth_max;	 /* at least 16; 2 */
	struct profile_info info;	 /* of the part: as many types as `from`; names and times as given here */
	profile_split_labels_fn *labels; /* NULL: all unchanged */
	void *arg;
};

int profile_split_make(const struct profile_split *of, struct profile **ret); /* 0, -ENOMEM */
/* Returns the length of a text cut to `max` bytes: whole characters. */
size_t profile_split_cut(const char *text, size_t max);
