/* SPDX-License-Identifier: Apache-2.0 */
/*
 * toml_scan - the few things that we look for in configuration that engines keep as TOML. No parser: the engine's own
 * says what is right (engine_exec.h); this finds where to look.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define TOML_WORDS_MAX 32
struct toml_words {
	char words[TOML_WORDS_MAX][256];
	size_t n;
};

/* The last `key = [...]` that is no comment, whatever its table. */
bool toml_scan_list(const char *text, const char *key, struct toml_words *ret);
/* The last `key = N`, or -1. */
int toml_scan_number(const char *text, const char *key);
/*
 * Is all that one says also said by the other? By lines, in any order; what is empty, zero or false, and `imports`,
 * need not be. *ret_missing: the first that is not, in `before` (len bytes), or NULL.
 */
bool toml_scan_has_all(const char *before, const char *after, const char **ret_missing, size_t *ret_len);
