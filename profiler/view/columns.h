/* SPDX-License-Identifier: Apache-2.0 */
/*
 * columns - text in a terminal's columns: wide characters take two, combining ones none.
 */
#pragma once

#include <stdio.h>

/*
 * As utf8_print, in `width` columns at most; what is longer ends in "...". Bytes that are no UTF-8, control characters
 * and those that turn the direction of writing become '?'. Returns the columns that were used.
 */
unsigned columns_print(FILE *out, const char *text, unsigned width);
/* Of the terminal behind a stream; 0: it is none, so nothing is to be cut. */
unsigned columns_of(FILE *out);
