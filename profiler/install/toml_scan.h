/* SPDX-License-Identifier: Apache-2.0 */
/*
 * toml_scan - finds a few settings in TOML configuration of engines. No parser: the engine's own decides about validity
 * (engine_exec.h); this finds where to look.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define TOML_WORDS_MAX 32
struct toml_words {
	char words[TOML_WORDS_MAX][256];
	size_t n;
};

/* Finds the last `key = [...]` that is no comment, in any table. */
bool toml_scan_list(const char *text, const char *key, struct toml_words *ret);
/* Returns the number of the last `key = N`, or -1. */
int toml_scan_number(const char *text, const char *key);
/*
 * Tells whether all lines of `before` are in `after`, in any order and as often; lines that are empty, zero or false,
 * and `imports`, need not be. *ret_missing: the first missing line, in `before` (len bytes), or NULL.
 */
bool toml_scan_has_all(const char *before, const char *after, const char **ret_missing, size_t *ret_len);
