/* SPDX-License-Identifier: Apache-2.0 */
/*
 * html - building blocks of all pages of pilliond: a head and an end, text that stays text, cells of a table. No
 * script; the one style stands in the page, and the nonce in the answer's header permits it (pages.h).
 */
#pragma once

#include <stdint.h>
#include <stdio.h>

/* Writes text for between tags and for quoted attributes. Control characters, except newlines, and bytes that are
 * no UTF-8 become '?'. */
void page_text(FILE *out, const char *text);
void page_head(FILE *out, const char *nonce, const char *title, const char *root); /* root: the path to the list */
void page_end(FILE *out);
void page_cell(FILE *out, const char *text, int right);
/* Formats a time in UTC: "2026-01-01 00:00:00" for people; with between = 'T' "2026-01-01T00:00:00", as a form does. */
const char *page_time(int64_t seconds, char between, char buf[static 32]);
