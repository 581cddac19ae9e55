/* SPDX-License-Identifier: Apache-2.0 */
/*
 * html - what all pages of pilliond's are made with: a head and an end, text that stays text, cells of a table.
 * No script; the one style stands in the page and is let in by the nonce in the answer's head (pages.h).
 */
#pragma once

#include <stdint.h>
#include <stdio.h>

/* Between tags and in quoted attributes. Control characters and what is no UTF-8 become '?'. */
void page_text(FILE *out, const char *text);
void page_head(FILE *out, const char *nonce, const char *title, const char *root); /* root: the way to the list */
void page_end(FILE *out);
void page_cell(FILE *out, const char *text, int right);
/* "2026-01-01 00:00:00": as people write it, in UTC; "2026-01-01T00:00:00": as a form does. */
const char *page_time(int64_t seconds, char between, char buf[static 32]);
