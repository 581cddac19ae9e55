/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/libpillion/abi/label_text.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

static bool is_key(const char *key, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const char c = key[i], letter = c | 0x20;
		const bool first = (letter >= 'a' && letter <= 'z') || c == '_';
		if (!first && !(i && ((c >= '0' && c <= '9') || c == '.' || c == '-')))
			return false;
	}
	return n > 0 && n <= LABEL_KEY_MAX;
}

/* Size of the character at s, bytes; 0: a label may not have it. */
static size_t check_utf8_char(const uint8_t *s, size_t left)
{
	static const uint32_t least[] = {
		0, 0x20, 0xa0, 0x800, 0x10000}; /* above the control characters, and no overlong forms */
	const size_t n = s[0] < 0x80 ? 1 : s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
	if (n > left || s[0] == 0x7f || (s[0] >= 0x80 && s[0] < 0xc0) || s[0] >= 0xf8)
		return 0;
	uint32_t c = n == 1 ? s[0] : s[0] & (0x7fu >> n);
	for (size_t i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (s[i] & 0x3f);
	}
	return c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000) ? 0 : n;
}

static bool is_value(const char *value, size_t n)
{
	for (size_t i = 0, step; i < n; i += step)
		if (!(step = check_utf8_char((const uint8_t *)value + i, n - i)))
			return false;
	return n <= LABEL_VALUE_MAX;
}

bool label_next(const char *text, size_t size, size_t *at, struct label_part *ret)
{
	const char *from = text + *at;
	size_t len = 0, key = 0;
	while (*at + len < size && from[len] != '\n')
		len++;
	while (key < len && from[key] != '=')
		key++;
	if (*at + len >= size || key == len)
		return false;
	*ret = (struct label_part){from, from + key + 1, key, len - key - 1};
	*at += len + 1;
	return true;
}

bool label_is_set(const char *text, size_t size)
{
	struct label_part p;
	size_t at = 0, n = 0;
	while (at < size)
		if (!label_next(text, size, &at, &p) || ++n > LABEL_COUNT_MAX || !is_key(p.key, p.key_len) ||
			!is_value(p.value, p.value_len))
			return false;
	return true;
}

static size_t append_label(char *to, size_t at, const struct label_part *p)
{
	memcpy(to + at, p->key, p->key_len);
	at += p->key_len;
	to[at++] = '=';
	memcpy(to + at, p->value, p->value_len);
	at += p->value_len;
	to[at++] = '\n';
	return at;
}

static int compare_keys(const struct label_part *a, const struct label_part *b)
{
	const size_t n = a->key_len < b->key_len ? a->key_len : b->key_len;
	const int r = memcmp(a->key, b->key, n);
	return r ? r : (a->key_len > b->key_len) - (a->key_len < b->key_len);
}

long label_change(const char *text, size_t size, const char *key, const char *value, char *ret)
{
	const struct label_part new = {key, value, key ? strlen(key) : 0, value ? strlen(value) : 0};
	struct label_part p;
	size_t at = 0, to = 0, n = 0;
	bool put_yet = !value;
	if (!key || !is_key(key, new.key_len) || (value && !is_value(value, new.value_len)))
		return -EINVAL;
	while (label_next(text, size, &at, &p)) {
		const int r = compare_keys(&p, &new);
		if (r >= 0 && !put_yet && ++n <= LABEL_COUNT_MAX) {
			to = append_label(ret, to, &new);
			put_yet = true;
		}
		if (r != 0 && ++n <= LABEL_COUNT_MAX)
			to = append_label(ret, to, &p);
	}
	if (!put_yet && ++n <= LABEL_COUNT_MAX)
		to = append_label(ret, to, &new);
	return n > LABEL_COUNT_MAX ? -E2BIG : (long)to;
}
