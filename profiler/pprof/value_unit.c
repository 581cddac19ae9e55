/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/pprof/value_unit.h"

#include <string.h>
#include <strings.h>

#define NAME_MAX_LENGTH 16

static const struct {
	enum unit_family family;
	int64_t factor;
	const char *names[4]; /* without a last 's' */
} rows[] = {
	{UNIT_TIME, 1, {"ns", "nanosecond"}},
	{UNIT_TIME, 1000, {"us", "\xce\xbc", "\xc2\xb5", "microsecond"}}, /* both of Unicode's mu: "μs", "µs" */
	{UNIT_TIME, 1000000, {"ms", "millisecond"}},
	{UNIT_TIME, 1000000000, {"s", "sec", "second"}},
	{UNIT_TIME, 60 * 1000000000ll, {"min", "minute"}},
	{UNIT_TIME, 3600 * 1000000000ll, {"hr", "hour"}},
	{UNIT_MEMORY, 1, {"b", "byte"}},
	{UNIT_MEMORY, 1 << 10, {"kb", "kbyte", "kilobyte"}},
	{UNIT_MEMORY, 1 << 20, {"mb", "mbyte", "megabyte"}},
	{UNIT_MEMORY, 1 << 30, {"gb", "gbyte", "gigabyte"}},
	{UNIT_MEMORY, 1ll << 40, {"tb", "tbyte", "terabyte"}},
	{UNIT_MEMORY, 1ll << 50, {"pb", "pbyte", "petabyte"}},
};

struct value_unit value_unit_find(const char *name)
{
	size_t n = strnlen(name, NAME_MAX_LENGTH);
	if (n > 2 && (name[n - 1] == 's' || name[n - 1] == 'S'))
		n--;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		for (size_t k = 0; k < 4 && rows[i].names[k]; k++)
			if (strlen(rows[i].names[k]) == n && !strncasecmp(rows[i].names[k], name, n))
				return (struct value_unit){rows[i].family, rows[i].factor};
	return (struct value_unit){UNIT_OTHER, 1};
}
