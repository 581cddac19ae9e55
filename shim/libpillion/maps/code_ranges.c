/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/libpillion/maps/code_ranges.h"

#include <string.h>

/* Returns the end of the digits; `at` if there are none. */
static const char *parse_hex(const char *at, const char *end, uint64_t *ret)
{
	uint64_t n = 0;
	for (; at < end; at++) {
		const unsigned digit = *at >= '0' && *at <= '9' ? (unsigned)(*at - '0') : (unsigned)(*at - 'a') + 10;
		if (digit > 15 || (*at > '9' && *at < 'a'))
			break;
		n = n << 4 | digit;
	}
	*ret = n;
	return at;
}

/* "start-end r-xp ..." */
static bool parse_line(const char *at, const char *end, struct code_range *ret)
{
	at = parse_hex(at, end, &ret->start);
	if (at == end || *at++ != '-')
		return false;
	at = parse_hex(at, end, &ret->end);
	return end - at > 3 && at[0] == ' ' && at[3] == 'x' && ret->end > ret->start;
}

static void add_code_range(struct code *c, const struct code_range *r)
{
	if (c->n == CODE_RANGES)
		c->full = true;
	else
		c->ranges[c->n++] = *r;
}

static const char *find_end(const char *at, const char *end)
{
	while (at < end && *at != '\n')
		at++;
	return at;
}

size_t code_lines(struct code *c, char *text, size_t *len)
{
	const char *at = text, *all = text + *len, *end;
	size_t kept = 0;
	for (; at < all && (end = find_end(at, all)) < all; at = end + 1) {
		const size_t n = (size_t)(end + 1 - at);
		struct code_range r;
		if (!parse_line(at, end, &r))
			continue;
		add_code_range(c, &r);
		memmove(text + kept, at, n);
		kept += n;
	}
	*len = kept;
	return (size_t)(at - text);
}

bool code_has(const struct code *c, uint64_t at)
{
	uint32_t low = 0, n = __atomic_load_n(&c->n, __ATOMIC_ACQUIRE), high = n;
	while (low < high) {
		const uint32_t mid = (low + high) / 2;
		if (c->ranges[mid].end <= at)
			low = mid + 1;
		else
			high = mid;
	}
	return !n || c->full || (low < n && c->ranges[low].start <= at);
}
