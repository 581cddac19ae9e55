/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/view/columns.h"

#include "oci/base/utf8.h"

#include <locale.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#define DOTS "..."
#define DOTS_WIDTH 3

struct character {
	size_t length; /* in bytes */
	unsigned width;
	uint32_t shown; /* '?' in place of an unsafe character; 0: the bytes themselves */
};

static struct character decode_character(const unsigned char *s)
{
	const size_t length = utf8_valid(s);
	const uint32_t c = length ? utf8_decode(s, length) : 0;
	if (!length || utf8_is_deceptive(c))
		return (struct character){length ? length : 1, 1, '?'};
	const int width = wcwidth((wchar_t)c);
	return (struct character){length, width < 0 ? 1 : (unsigned)width, 0};
}

static void print_character(FILE *out, const unsigned char *s, const struct character *c)
{
	if (c->shown)
		putc((int)c->shown, out);
	else
		fwrite(s, 1, c->length, out);
}

/* Columns of the text, counted no further than `width` + 1. */
static unsigned count_columns(const unsigned char *s, unsigned width)
{
	unsigned used = 0;
	while (*s && used <= width) {
		const struct character c = decode_character(s);
		used += c.width;
		s += c.length;
	}
	return used;
}

static unsigned print_text(FILE *out, const char *text, unsigned width)
{
	const unsigned char *s = (const unsigned char *)text;
	const bool cut = count_columns(s, width) > width, dots = cut && width > DOTS_WIDTH;
	const unsigned room = dots ? width - DOTS_WIDTH : width;
	unsigned used = 0;
	while (*s) {
		const struct character c = decode_character(s);
		if (used + c.width > room)
			break;
		print_character(out, s, &c);
		used += c.width;
		s += c.length;
	}
	if (dots)
		fputs(DOTS, out);
	return dots ? used + DOTS_WIDTH : used;
}

/* The widths are those of Unicode, whatever the user's locale is. */
unsigned columns_print(FILE *out, const char *text, unsigned width)
{
	static locale_t unicode;
	if (!unicode)
		unicode = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
	const locale_t before = unicode ? uselocale(unicode) : (locale_t)0;
	const unsigned used = print_text(out, text, width);
	if (unicode)
		uselocale(before);
	return used;
}

unsigned columns_of(FILE *out)
{
	struct winsize w = {0};
	return isatty(fileno(out)) && ioctl(fileno(out), TIOCGWINSZ, &w) == 0 ? w.ws_col : 0;
}
