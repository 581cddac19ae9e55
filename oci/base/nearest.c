/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/base/nearest.h"

#include <string.h>

static size_t get_minimum(size_t a, size_t b)
{
	return a < b ? a : b;
}

size_t nearest_distance(const char *typed, size_t len, const char *name)
{
	size_t d[NEAREST_MAX + 1][NEAREST_MAX + 1], m = strlen(name);
	if (len > NEAREST_MAX || m > NEAREST_MAX)
		return NEAREST_MAX;
	for (size_t i = 0; i <= len; i++)
		for (size_t k = 0; k <= m; k++) {
			if (!i || !k) {
				d[i][k] = i + k;
				continue;
			}
			d[i][k] = get_minimum(d[i - 1][k - 1] + (typed[i - 1] != name[k - 1]),
				get_minimum(d[i - 1][k], d[i][k - 1]) + 1);
			if (i > 1 && k > 1 && typed[i - 1] == name[k - 2] && typed[i - 2] == name[k - 1])
				d[i][k] = get_minimum(d[i][k], d[i - 2][k - 2] + 1);
		}
	return d[len][m];
}

size_t nearest_limit(size_t len)
{
	return len > 4 ? 3 : 2;
}
