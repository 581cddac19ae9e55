/* SPDX-License-Identifier: Apache-2.0 */
/*
 * terminal - the terminal as a picture that is drawn again and again: its second page, no echo, keys one by one.
 *
 * By plain control sequences (ECMA-48, xterm's 1049), which every terminal of today knows. When the program ends, by a
 * signal too, the terminal is as it was; after a SIGKILL, which cannot be caught, `reset` repairs it. Ctrl-Z stops the
 * program, with the terminal as it was, and `fg` draws it again. Output is a frame at a time, so nothing flickers.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct terminal;

enum { /* results of terminal_wait other than characters */
	TERMINAL_TIMEOUT = -1,
	TERMINAL_RESIZED = -2, /* or the program was stopped: draw */
	TERMINAL_END = -3,     /* Ctrl-C, or the terminal is gone */
	TERMINAL_UP = 0x1000,
	TERMINAL_DOWN,
	TERMINAL_PAGE_UP,
	TERMINAL_PAGE_DOWN,
	TERMINAL_HOME,
	TERMINAL_BOTTOM,
};

bool terminal_possible(void);		  /* stdin and stdout are a terminal that obeys (TERM is not dumb) */
int terminal_open(struct terminal **ret); /* 0 or -errno */
struct terminal *terminal_close(struct terminal *s);
void terminal_size(unsigned *ret_rows, unsigned *ret_columns);
/* Draws lines, at most as many and as wide as fit. */
void terminal_draw(const char *text, size_t len);
/* Returns a key, or one of the above. Signals that end a program are delivered in here, with the terminal as it was. */
int terminal_wait(struct terminal *s, int timeout_ms);
