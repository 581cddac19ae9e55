/* SPDX-License-Identifier: Apache-2.0 */
/*
 * utf8 - makes names from a target safe for a line of output: a terminal must not obey them.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/*
 * Makes a text safe in place: control characters, and bytes that are no UTF-8, become '?'. The text gets no longer.
 */
void utf8_clean(char *text);
/* Length of the UTF-8 sequence at `s` (RFC 3629, section 4), 0 if there is none. */
size_t utf8_valid(const unsigned char *s);
uint32_t utf8_decode(const unsigned char *s, size_t length); /* of such a sequence */
/* Is it a control character, a zero-width one or one of bidirectional text? They make a name look like another. */
bool utf8_is_deceptive(uint32_t c);
/*
 * Prints for a terminal: deceptive characters, and bytes that are no UTF-8, are shown as '?'. `pairs` replaces single
 * characters before that, "from" and "to" in turn: ";:\n " turns ';' into ':' and a newline into a space. NULL: none.
 */
void utf8_print(FILE *out, const char *text, const char *pairs);
