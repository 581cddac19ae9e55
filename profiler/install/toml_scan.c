/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/install/toml_scan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *next_line(const char *at)
{
	at += strcspn(at, "\n");
	return *at ? at + 1 : at;
}

/* The text behind the '=' of `key`, or NULL. */
static const char *value_of(const char *line, const char *key)
{
	const size_t len = strlen(key);
	line += strspn(line, " \t");
	if (strncmp(line, key, len) != 0)
		return NULL;
	line += len + strspn(line + len, " \t");
	return *line == '=' ? line + 1 + strspn(line + 1, " \t") : NULL;
}

static void read_list(const char *at, struct toml_words *ret)
{
	ret->n = 0;
	for (at++; *at && *at != ']' && ret->n < TOML_WORDS_MAX;) {
		const size_t len = *at == '"' || *at == '\'' ? strcspn(at + 1, *at == '"' ? "\"" : "'") : 0;
		if (*at == '#')
			at = next_line(at);
		else if (*at != '"' && *at != '\'')
			at++;
		else {
			snprintf(ret->words[ret->n++], sizeof(ret->words[0]), "%.*s", (int)len, at + 1);
			at += len + 1 + (at[len + 1] != 0);
		}
	}
}

bool toml_scan_list(const char *text, const char *key, struct toml_words *ret)
{
	bool found = false;
	for (const char *line = text; *line; line = next_line(line)) {
		const char *value = value_of(line, key);
		if (!value || *value != '[')
			continue;
		read_list(value, ret);
		found = true;
	}
	return found;
}

int toml_scan_number(const char *text, const char *key)
{
	int found = -1;
	for (const char *line = text; *line; line = next_line(line)) {
		const char *value = value_of(line, key);
		if (value && *value >= '0' && *value <= '9')
			found = atoi(value);
	}
	return found;
}

static size_t trim_line(const char **line)
{
	size_t len = strcspn(*line, "\n"), space = strspn(*line, " \t");
	space = space < len ? space : len;
	*line += space;
	len -= space;
	while (len && strchr(" \t\r", (*line)[len - 1]))
		len--;
	return len;
}

static bool ends_with(const char *line, size_t len, const char *end)
{
	const size_t n = strlen(end);
	return len >= n && !memcmp(line + len - n, end, n);
}

static bool says_nothing(const char *line, size_t len)
{
	static const char *const empty[] = {"= \"\"", "= ''", "= 0", "= false", "= []", "= {}"};
	bool nothing = len == 0 || *line == '#' || value_of(line, "imports");
	for (size_t i = 0; !nothing && i < sizeof(empty) / sizeof(empty[0]); i++)
		nothing = ends_with(line, len, empty[i]);
	return nothing;
}

static size_t count_lines(const char *text, const char *wanted, size_t wanted_len)
{
	size_t n = 0;
	for (const char *line = text; *line; line = next_line(line)) {
		const char *at = line;
		const size_t len = trim_line(&at);
		n += len == wanted_len && !memcmp(at, wanted, len);
	}
	return n;
}

bool toml_scan_has_all(const char *before, const char *after, const char **ret_missing, size_t *ret_len)
{
	*ret_missing = NULL;
	for (const char *line = before; *line; line = next_line(line)) {
		const char *at = line;
		const size_t len = trim_line(&at);
		if (says_nothing(at, len) || count_lines(after, at, len) >= count_lines(before, at, len))
			continue;
		*ret_missing = at;
		*ret_len = len;
		return false;
	}
	return true;
}
