/* SPDX-License-Identifier: Apache-2.0 */
/*
 * folded - "process;root;...;leaf N" lines (flame graph input), sorted, one per distinct stack.
 * Every line of a location (inlined function) is a frame. The first frame is one of the sample's labels, if it has
 * that. ';' and newlines in names become ':' and ' ', other control characters '?'. Values are in the unit of the type;
 * stacks that sum up to 0 are left out.
 */
#pragma once

#include "profiler/pprof/profile.h"

#include <stdio.h>

/* type: index of the sample type; by: the label, "process". 0, -EINVAL (no such type), -ENOMEM, -EIO (`out` takes no
 * more). */
int folded_write(const struct profile *p, unsigned type, const char *by, FILE *out);
