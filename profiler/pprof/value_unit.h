/* SPDX-License-Identifier: Apache-2.0 */
/*
 * value_unit - units of a sample type that can be converted: time and memory, by the names that go tool pprof takes
 * (github.com/google/pprof, internal/measurement): any case, short or long, singular or plural. Minutes are known, too.
 */
#pragma once

#include <stdint.h>

enum unit_family { UNIT_OTHER, UNIT_TIME, UNIT_MEMORY };

struct value_unit {
	enum unit_family family;
	int64_t factor; /* nanoseconds, or bytes; 1 of UNIT_OTHER */
};

struct value_unit value_unit_find(const char *name);
