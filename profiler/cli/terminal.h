/*
 * terminal - the terminal as a picture that is drawn again and again: its second page, no echo, keys one by one.
 *
 * By plain control sequences (ECMA-48, xterm's 1049), which every terminal of today knows. Whatever ends the program,
 * signals included, the terminal is as it was: what cannot be caught (SIGKILL) is repaired by `reset`. Ctrl-Z stops it,
 * with the terminal as it was, and `fg` draws it again. Output is a frame at a time, so nothing flickers.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct screen;

enum { /* what screen_wait returns but characters */
	SCREEN_TIMEOUT = -1,
	SCREEN_RESIZED = -2, /* or it was stopped: draw */
	SCREEN_END = -3,     /* Ctrl-C, or the terminal is gone */
	SCREEN_UP = 0x1000,
	SCREEN_DOWN,
	SCREEN_PAGE_UP,
	SCREEN_PAGE_DOWN,
	SCREEN_HOME,
	SCREEN_BOTTOM,
};

bool screen_possible(void);	      /* stdin and stdout are a terminal that obeys (TERM is not dumb) */
int screen_open(struct screen **ret); /* 0 or -errno */
struct screen *screen_close(struct screen *s);
void screen_size(unsigned *ret_rows, unsigned *ret_columns);
/* Lines that are as many and as wide as fit. */
void screen_draw(const char *text, size_t len);
/* A key, or one of the above. The signals that end a program are delivered behind this, the terminal as it was. */
int screen_wait(struct screen *s, int timeout_ms);
