/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profile_filter - some of a profile's samples: those that fit every term. The same terms in `top`, `report`, `flame`
 * and `export`.
 *
 * - KEY=TEXT: the label KEY (container, pod, thread, exe, user.x, ...; numbers as decimal digits) contains TEXT
 * - TEXT: a function of the stack, inlined ones too, has TEXT in its name
 *
 * KEY is letters, digits, '.', '_' and '-', and a label that some sample of the profile has; else the whole term is
 * part of a name: "operator==" is one.
 */
#pragma once

#include "oci/base/err.h"
#include "profiler/pprof/profile.h"

#include <stddef.h>

#define PROFILE_FILTER_TERMS_MAX 16

struct profile_filter {
	const char *terms[PROFILE_FILTER_TERMS_MAX]; /* borrowed */
	size_t n;
};

/* Returns how many samples fit. */
size_t profile_filter_count(const struct profile *p, const struct profile_filter *f);
/* Makes a copy with those samples alone. 0, -ENOMEM. */
int profile_filter_apply(const struct profile *p, const struct profile_filter *f, struct profile **ret, struct err *e);
