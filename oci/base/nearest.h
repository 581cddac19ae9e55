/* SPDX-License-Identifier: Apache-2.0 */
/* nearest - which of the names that there are was meant by one that is not: for the sentence about a typing error. */
#pragma once

#include <stddef.h>

#define NEAREST_MAX 32 /* no name is longer */

/*
 * Letters that are to be changed, left out or put in, or to change places with their neighbour, to make `name` of the
 * `len` bytes that were typed (Damerau-Levenshtein, adjacent transpositions alone). NEAREST_MAX: one is too long.
 */
size_t nearest_distance(const char *typed, size_t len, const char *name);
/* A distance is near when it is less than that. */
size_t nearest_limit(size_t len);
