/* SPDX-License-Identifier: Apache-2.0 */
/*
 * columns - text in a terminal's columns: wide characters take two, combining ones none.
 */
#pragma once

#include <stdio.h>

/*
 * As utf8_print, in `width` columns at most; longer text ends in "...". Invalid UTF-8, control characters and
 * characters that turn the direction of writing become '?'. Returns the columns used.
 */
unsigned columns_print(FILE *out, const char *text, unsigned width);
/* Returns the columns of the terminal behind a stream; 0: it is no terminal, so text is not to be cut. */
unsigned columns_of(FILE *out);
