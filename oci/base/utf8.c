/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/base/utf8.h"

#include <stddef.h>
#include <string.h>

size_t utf8_valid(const unsigned char *s)
{
	static const struct {
		unsigned char first, last, second_min, second_max;
		size_t length;
	} rows[] = {
		{0x01, 0x7f, 0, 0, 1},
		{0xc2, 0xdf, 0x80, 0xbf, 2},
		{0xe0, 0xe0, 0xa0, 0xbf, 3},
		{0xe1, 0xec, 0x80, 0xbf, 3},
		{0xed, 0xed, 0x80, 0x9f, 3}, /* no surrogates */
		{0xee, 0xef, 0x80, 0xbf, 3},
		{0xf0, 0xf0, 0x90, 0xbf, 4},
		{0xf1, 0xf3, 0x80, 0xbf, 4},
		{0xf4, 0xf4, 0x80, 0x8f, 4},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (s[0] < rows[i].first || s[0] > rows[i].last)
			continue;
		if (rows[i].length > 1 && (s[1] < rows[i].second_min || s[1] > rows[i].second_max))
			return 0;
		for (size_t k = 2; k < rows[i].length; k++)
			if ((s[k] & 0xc0) != 0x80)
				return 0;
		return rows[i].length;
	}
	return 0;
}

uint32_t utf8_decode(const unsigned char *s, size_t length)
{
	static const unsigned char first[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
	uint32_t c = s[0] & first[length];
	for (size_t i = 1; i < length; i++)
		c = c << 6 | (s[i] & 0x3f);
	return c;
}

bool utf8_is_deceptive(uint32_t c)
{
	static const uint32_t ranges[][2] = {
		{0x80, 0x9f}, {0x61c, 0x61c}, {0x200b, 0x200f}, {0x2028, 0x202e}, {0x2060, 0x206f}, {0xfeff, 0xfeff}};
	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++)
		if (c >= ranges[i][0] && c <= ranges[i][1])
			return true;
	return c < 0x20 || c == 0x7f;
}

static char replace_char(char c, const char *pairs)
{
	for (const char *p = pairs; p && p[0] && p[1]; p += 2)
		if (*p == c)
			return p[1];
	return c;
}

void utf8_clean(char *text)
{
	const unsigned char *s = (const unsigned char *)text;
	for (size_t n; *s; s += n) {
		n = utf8_valid(s);
		if (!n || *s < 0x20 || *s == 0x7f || (*s == 0xc2 && s[1] <= 0x9f)) {
			*text++ = '?';
			n = n ? n : 1;
			continue;
		}
		memmove(text, s, n);
		text += n;
	}
	*text = 0;
}

void utf8_print(FILE *out, const char *text, const char *pairs)
{
	size_t n;
	for (const unsigned char *s = (const unsigned char *)text; *s; s += n ? n : 1) {
		const unsigned char c = (unsigned char)replace_char((char)*s, pairs);
		n = utf8_valid(s);
		if (n > 1 && !utf8_is_deceptive(utf8_decode(s, n)))
			fwrite(s, 1, n, out);
		else
			putc(n != 1 || utf8_is_deceptive(c) ? '?' : c, out);
	}
}
