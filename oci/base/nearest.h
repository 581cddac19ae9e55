/* SPDX-License-Identifier: Apache-2.0 */
/* nearest - finds the existing name that an unknown name is meant to be: for the sentence about a typing error. */
#pragma once

#include <stddef.h>

#define NEAREST_MAX 32 /* no name is longer */

/*
 * Returns the least number of changed, removed, added or swapped neighbouring letters that make `name` of the `len`
 * typed bytes (Damerau-Levenshtein, adjacent transpositions alone). NEAREST_MAX: one is too long.
 */
size_t nearest_distance(const char *typed, size_t len, const char *name);
/* A smaller distance is near. */
size_t nearest_limit(size_t len);
