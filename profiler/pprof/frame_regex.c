/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/pprof/frame_regex.h"

#include "oci/base/array.h"
#include "oci/base/utf8.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PROGRAM_MAX 8192 /* instructions, and ranges of characters */
#define REPEAT_MAX 1000	 /* regexp/syntax/parse.go */
#define DEPTH_MAX 200	 /* of groups */
#define CHARACTER_MAX 0x10ffff
#define CHAIN_END 0

enum op { ONE_OF, SPLIT, JUMP, NOTHING, TEXT_BEGIN, TEXT_END, WORD_EDGE, NO_WORD_EDGE, MATCH };

/* Jumps are relative, so a piece of the program can be moved and copied. */
struct instruction {
	uint8_t op; /* enum op */
	bool negated, folded;
	int32_t a, b; /* ONE_OF: its first range, their number; JUMP: to a; SPLIT: to a and b */
};

struct range {
	uint32_t first, last;
};

struct frame_regex {
	struct instruction *program;
	struct range *ranges;
	uint32_t *threads[2], *stack, *added; /* added: by instruction, the position + 1 at which it was added last */
	uint32_t n, n_ranges;
};

struct parser {
	const unsigned char *at;
	struct frame_regex *x;
	size_t room, ranges_room;
	unsigned depth;
	bool fold, dot_all, quoted; /* (?i), (?s), within \Q...\E */
	int error;
};

static const struct range digits[] = {{'0', '9'}}, spaces[] = {{'\t', '\n'}, {'\f', '\r'}, {' ', ' '}},
			  words[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
static const struct {
	const char *name;
	size_t n;
	struct range ranges[4];
} posix_classes[] = {
	{"alnum", 3, {{'0', '9'}, {'A', 'Z'}, {'a', 'z'}}},
	{"alpha", 2, {{'A', 'Z'}, {'a', 'z'}}},
	{"ascii", 1, {{0, 0x7f}}},
	{"blank", 2, {{'\t', '\t'}, {' ', ' '}}},
	{"cntrl", 2, {{0, 0x1f}, {0x7f, 0x7f}}},
	{"digit", 1, {{'0', '9'}}},
	{"graph", 1, {{'!', '~'}}},
	{"lower", 1, {{'a', 'z'}}},
	{"print", 1, {{' ', '~'}}},
	{"punct", 4, {{'!', '/'}, {':', '@'}, {'[', '`'}, {'{', '~'}}},
	{"space", 2, {{'\t', '\r'}, {' ', ' '}}},
	{"upper", 1, {{'A', 'Z'}}},
	{"word", 4, {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}},
	{"xdigit", 3, {{'0', '9'}, {'A', 'F'}, {'a', 'f'}}},
};

/* Returns the length of a character: a byte that is no UTF-8 is U+FFFD, as Go has it. */
static size_t decode_character(const unsigned char *s, uint32_t *ret)
{
	const size_t length = utf8_valid(s);
	*ret = length ? utf8_decode(s, length) : 0xfffd;
	return length ? length : 1;
}

/* --- the program */

static void set_error(struct parser *p, int error)
{
	if (!p->error)
		p->error = error;
}

/* Makes room for `n` instructions at `at`. Returns false if there is none: the parser has an error then. */
static bool insert_instructions(struct parser *p, uint32_t at, uint32_t n)
{
	struct frame_regex *x = p->x;
	if (p->error || n > PROGRAM_MAX - x->n)
		set_error(p, -E2BIG);
	else if (array_reserve(&x->program, &p->room, x->n + n, sizeof(*x->program), 64) < 0)
		set_error(p, -ENOMEM);
	if (p->error)
		return false;
	memmove(x->program + at + n, x->program + at, (x->n - at) * sizeof(*x->program));
	x->n += n;
	return true;
}

static void insert_instruction(struct parser *p, uint32_t at, enum op op, int32_t a, int32_t b)
{
	if (insert_instructions(p, at, 1))
		p->x->program[at] = (struct instruction){.op = (uint8_t)op, .a = a, .b = b};
}

static void append_instruction(struct parser *p, enum op op, int32_t a, int32_t b)
{
	insert_instruction(p, p->x->n, op, a, b);
}

static void append_copy(struct parser *p, uint32_t from, uint32_t n)
{
	const uint32_t at = p->x->n;
	if (insert_instructions(p, at, n))
		memcpy(p->x->program + at, p->x->program + from, n * sizeof(*p->x->program));
}

static void add_range(struct parser *p, uint32_t first, uint32_t last)
{
	struct frame_regex *x = p->x;
	if (x->n_ranges == PROGRAM_MAX)
		set_error(p, -E2BIG);
	else if (array_reserve(&x->ranges, &p->ranges_room, x->n_ranges + 1, sizeof(*x->ranges), 64) < 0)
		set_error(p, -ENOMEM);
	if (!p->error)
		x->ranges[x->n_ranges++] = (struct range){first, last};
}

/* Adds ranges, which are in order, or all between them. */
static void add_ranges(struct parser *p, const struct range *ranges, size_t n, bool negated)
{
	uint32_t from = 0;
	for (size_t i = 0; i < n; i++) {
		if (!negated)
			add_range(p, ranges[i].first, ranges[i].last);
		else if (ranges[i].first > from)
			add_range(p, from, ranges[i].first - 1);
		from = ranges[i].last + 1;
	}
	if (negated)
		add_range(p, from, CHARACTER_MAX);
}

/* Appends the instruction for the ranges from `first` on. */
static void append_ranges(struct parser *p, uint32_t first, bool negated)
{
	append_instruction(p, ONE_OF, (int32_t)first, (int32_t)(p->x->n_ranges - first));
	if (!p->error) {
		p->x->program[p->x->n - 1].negated = negated;
		p->x->program[p->x->n - 1].folded = p->fold;
	}
}

static void append_character(struct parser *p, uint32_t c)
{
	const uint32_t first = p->x->n_ranges;
	add_range(p, c, c);
	append_ranges(p, first, false);
}

/* --- the pattern */

static uint32_t take_character(struct parser *p)
{
	uint32_t c;
	if (!*p->at || !utf8_valid(p->at)) {
		set_error(p, -EINVAL);
		return 0;
	}
	p->at += decode_character(p->at, &c);
	return c;
}

static bool take_byte(struct parser *p, char c)
{
	const bool is = *p->at == (unsigned char)c;
	p->at += is;
	return is;
}

/* \d, \s, \w and their opposites. */
static bool take_perl_class(struct parser *p)
{
	const char kind = p->at[0] == '\\' ? (char)p->at[1] : 0;
	if (!kind || !strchr("dDsSwW", kind))
		return false;
	p->at += 2;
	const bool negated = kind == 'D' || kind == 'S' || kind == 'W';
	if (kind == 'd' || kind == 'D')
		add_ranges(p, digits, 1, negated);
	else if (kind == 's' || kind == 'S')
		add_ranges(p, spaces, 3, negated);
	else
		add_ranges(p, words, 4, negated);
	return true;
}

static int digit_value(unsigned char c, unsigned base)
{
	const int value = c >= '0' && c <= '9'	 ? c - '0'
			  : c >= 'a' && c <= 'f' ? c - 'a' + 10
			  : c >= 'A' && c <= 'F' ? c - 'A' + 10
						 : 16;
	return value < (int)base ? value : -1;
}

static uint32_t take_number(struct parser *p, unsigned base, unsigned digits_max)
{
	uint32_t value = 0;
	for (unsigned i = 0; i < digits_max && digit_value(*p->at, base) >= 0; i++)
		value = value * base + (uint32_t)digit_value(*p->at++, base);
	return value;
}

/* Behind \x: two digits, or any number of them in braces. */
static uint32_t take_hex(struct parser *p)
{
	const bool braces = take_byte(p, '{');
	const unsigned char *from = p->at;
	const uint32_t c = take_number(p, 16, braces ? 7 : 2);
	if (braces ? p->at == from || !take_byte(p, '}') : p->at != from + 2)
		set_error(p, -EINVAL);
	if (c > CHARACTER_MAX)
		set_error(p, -EINVAL);
	return c;
}

/* Behind '\': a character. */
static uint32_t take_escaped(struct parser *p)
{
	static const char from[] = "aftnrv", to[] = "\a\f\t\n\r\v";
	const unsigned char c = *p->at;
	const char *known = c ? strchr(from, c) : NULL;
	const bool letter = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'), digit = c >= '0' && c <= '9';
	if (known || c == 'x') {
		p->at++;
		return known ? (uint32_t)to[known - from] : take_hex(p);
	}
	if (c == '0' || (c >= '1' && c <= '7' && p->at[1] >= '0' && p->at[1] <= '7'))
		return take_number(p, 8, 3);
	if (!c || c >= 0x80 || letter || digit) /* \pL, a back reference, \z in a class */
		set_error(p, -EINVAL);
	else
		p->at++;
	return c;
}

static uint32_t take_class_character(struct parser *p)
{
	return take_byte(p, '\\') ? take_escaped(p) : take_character(p);
}

/* [:alpha:], [:^alpha:] */
static bool take_posix_class(struct parser *p)
{
	const char *name = (const char *)p->at + 2,
		   *end = p->at[0] == '[' && p->at[1] == ':' ? strstr(name, ":]") : NULL;
	if (!end)
		return false;
	const bool negated = name < end && *name == '^';
	name += negated;
	p->at = (const unsigned char *)end + 2;
	for (size_t i = 0; i < sizeof(posix_classes) / sizeof(posix_classes[0]); i++)
		if (strlen(posix_classes[i].name) == (size_t)(end - name) &&
			!strncmp(posix_classes[i].name, name, (size_t)(end - name))) {
			add_ranges(p, posix_classes[i].ranges, posix_classes[i].n, negated);
			return true;
		}
	set_error(p, -EINVAL);
	return true;
}

/* Behind '['. */
static void parse_class(struct parser *p)
{
	const uint32_t from = p->x->n_ranges;
	const bool negated = take_byte(p, '^');
	for (bool first = true; !p->error && (first || *p->at != ']'); first = false) {
		if (take_posix_class(p) || take_perl_class(p))
			continue;
		const uint32_t c = take_class_character(p);
		const bool range = p->at[0] == '-' && p->at[1] && p->at[1] != ']';
		p->at += range;
		const uint32_t last = range ? take_class_character(p) : c;
		if (last < c)
			set_error(p, -EINVAL);
		add_range(p, c, last);
	}
	if (!take_byte(p, ']'))
		set_error(p, -EINVAL);
	append_ranges(p, from, negated);
}

/* {n}, {n,}, {n,m}: otherwise the brace is a character. */
static bool take_counts(struct parser *p, uint32_t *ret_min, uint32_t *ret_max)
{
	const unsigned char *const from = p->at;
	bool good = take_byte(p, '{') && digit_value(*p->at, 10) >= 0;
	*ret_min = *ret_max = good ? take_number(p, 10, 5) : 0;
	if (good && take_byte(p, ',')) {
		const bool bounded = digit_value(*p->at, 10) >= 0;
		*ret_max = bounded ? take_number(p, 10, 5) : UINT32_MAX;
	}
	good = good && take_byte(p, '}');
	if (!good)
		p->at = from;
	else if (*ret_min > REPEAT_MAX || (*ret_max != UINT32_MAX && (*ret_max > REPEAT_MAX || *ret_max < *ret_min)))
		set_error(p, -EINVAL);
	return good;
}

/* Takes a repetition operator, greedy or not: that decides how long a match is, not whether there is one. */
static bool take_repetition(struct parser *p, uint32_t *ret_min, uint32_t *ret_max)
{
	*ret_min = *p->at == '+';
	*ret_max = *p->at == '?' ? 1 : UINT32_MAX;
	if (!take_byte(p, '*') && !take_byte(p, '+') && !take_byte(p, '?') && !take_counts(p, ret_min, ret_max))
		return false;
	take_byte(p, '?');
	return true;
}

static void parse_alternatives(struct parser *p);

/* Behind "(?": flags, for a group or for the rest of this one. Returns whether a group begins. */
static bool parse_flags(struct parser *p)
{
	bool on = true, any = false;
	if (p->at[0] == 'P' && p->at[1] == '<') {
		const char *end = strchr((const char *)p->at, '>');
		const size_t n = end ? (size_t)(end - (const char *)p->at) - 2 : 0;
		if (!n || strspn((const char *)p->at + 2,
				  "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") != n)
			set_error(p, -EINVAL);
		else
			p->at = (const unsigned char *)end + 1;
		return true;
	}
	for (; *p->at && *p->at != ':' && *p->at != ')'; p->at++) {
		if (*p->at == '-' && on)
			on = any = false;
		else if (strchr("imsU", *p->at)) /* m and U do not decide whether a name of one line matches */
			any = true;
		else
			set_error(p, -EINVAL);
		p->fold = *p->at == 'i' ? on : p->fold;
		p->dot_all = *p->at == 's' ? on : p->dot_all;
		if (p->error)
			return true;
	}
	if (!on && !any)
		set_error(p, -EINVAL);
	if (take_byte(p, ':'))
		return true;
	if (!take_byte(p, ')'))
		set_error(p, -EINVAL);
	return false;
}

/* Behind '('. Returns false for flags alone, which nothing can repeat. */
static bool parse_group(struct parser *p)
{
	const bool fold = p->fold, dot_all = p->dot_all;
	if (take_byte(p, '?') && !parse_flags(p))
		return false;
	if (++p->depth > DEPTH_MAX)
		set_error(p, -E2BIG);
	if (!p->error)
		parse_alternatives(p);
	p->depth--;
	if (!take_byte(p, ')'))
		set_error(p, -EINVAL);
	p->fold = fold;
	p->dot_all = dot_all;
	return true;
}

/* Behind '\', outside of a class: what is no character. */
static bool parse_escaped_place(struct parser *p)
{
	switch (*p->at) {
	case 'A':
		append_instruction(p, TEXT_BEGIN, 0, 0);
		break;
	case 'z':
		append_instruction(p, TEXT_END, 0, 0);
		break;
	case 'b':
		append_instruction(p, WORD_EDGE, 0, 0);
		break;
	case 'B':
		append_instruction(p, NO_WORD_EDGE, 0, 0);
		break;
	default:
		return false;
	}
	p->at++;
	return true;
}

/* Parses what a repetition can follow. Returns false if none can. */
static bool parse_atom(struct parser *p)
{
	const uint32_t first = p->x->n_ranges;
	uint32_t min, max;
	if (p->quoted) {
		append_character(p, take_character(p));
		return true;
	}
	if (take_perl_class(p)) {
		append_ranges(p, first, false);
		return true;
	}
	if (take_byte(p, '('))
		return parse_group(p);
	if (take_byte(p, '[')) {
		parse_class(p);
	} else if (take_byte(p, '.')) {
		if (!p->dot_all)
			add_range(p, '\n', '\n');
		append_ranges(p, first, true);
	} else if (take_byte(p, '^')) {
		append_instruction(p, TEXT_BEGIN, 0, 0);
	} else if (take_byte(p, '$')) {
		append_instruction(p, TEXT_END, 0, 0);
	} else if (take_byte(p, '\\')) {
		if (!parse_escaped_place(p))
			append_character(p, take_escaped(p));
	} else if (take_repetition(p, &min, &max)) { /* of nothing */
		set_error(p, -EINVAL);
	} else {
		append_character(p, take_character(p));
	}
	return true;
}

/* Makes the code from `from` on, which stands there once, appear from `min` to `max` times. */
static void repeat_code(struct parser *p, uint32_t from, uint32_t min, uint32_t max)
{
	const uint32_t n = p->x->n - from;
	const int32_t length = (int32_t)n;
	if (min == 0 && max == 0) {
		p->x->n = from;
		append_instruction(p, NOTHING, 0, 0);
		return;
	}
	for (uint32_t i = 1; i < min && !p->error; i++)
		append_copy(p, from, n);
	if (max == UINT32_MAX && min > 0) {
		append_instruction(p, SPLIT, -length, 1);
	} else if (max == UINT32_MAX) {
		insert_instruction(p, from, SPLIT, 1, length + 2);
		append_instruction(p, JUMP, -(length + 1), 0);
	} else if (min == 0) {
		insert_instruction(p, from, SPLIT, 1, length + 1);
		for (uint32_t i = 1; i < max && !p->error; i++)
			append_copy(p, from, n + 1);
	} else {
		for (uint32_t i = min; i < max && !p->error; i++) {
			append_instruction(p, SPLIT, 1, length + 1);
			append_copy(p, from, n);
		}
	}
}

static void parse_sequence(struct parser *p)
{
	const uint32_t begin = p->x->n;
	while (!p->error && *p->at) {
		uint32_t min, max;
		if (p->at[0] == '\\' && p->at[1] == (p->quoted ? 'E' : 'Q')) {
			p->quoted = !p->quoted;
			p->at += 2;
			continue;
		}
		if (!p->quoted && (*p->at == '|' || *p->at == ')'))
			break;
		const uint32_t from = p->x->n;
		const bool repeatable = parse_atom(p);
		if (p->quoted && p->at[0] == '\\' &&
			p->at[1] == 'E') { /* a repetition behind it is of the last character */
			p->quoted = false;
			p->at += 2;
		}
		if (p->quoted || p->error || !take_repetition(p, &min, &max))
			continue;
		if (!repeatable || take_repetition(p, &(uint32_t){0}, &(uint32_t){0})) /* a** */
			set_error(p, -EINVAL);
		if (!p->error)
			repeat_code(p, from, min, max);
	}
	if (p->x->n == begin) /* each piece has an instruction, so that no repetition of it is free */
		append_instruction(p, NOTHING, 0, 0);
}

/* Jumps to the end are a chain until the end is known. */
static void parse_alternatives(struct parser *p)
{
	uint32_t chain = CHAIN_END, from = p->x->n;
	parse_sequence(p);
	while (!p->error && take_byte(p, '|')) {
		insert_instruction(p, from, SPLIT, 1, (int32_t)(p->x->n - from) + 2);
		append_instruction(p, JUMP, (int32_t)chain, 0);
		chain = p->x->n - 1; /* never 0: a SPLIT is before it */
		from = p->x->n;
		parse_sequence(p);
	}
	while (!p->error && chain != CHAIN_END) {
		struct instruction *jump = &p->x->program[chain];
		const uint32_t next = (uint32_t)jump->a;
		jump->a = (int32_t)(p->x->n - chain);
		chain = next;
	}
}

int frame_regex_compile(const char *pattern, struct frame_regex **ret)
{
	struct frame_regex *x = calloc(1, sizeof(*x));
	struct parser p = {.at = (const unsigned char *)pattern, .x = x};
	if (!x)
		return -ENOMEM;
	parse_alternatives(&p);
	if (*p.at) /* a parenthesis too many */
		set_error(&p, -EINVAL);
	append_instruction(&p, MATCH, 0, 0);
	if (!p.error) {
		for (unsigned i = 0; i < 2; i++)
			x->threads[i] = calloc(x->n, sizeof(*x->threads[i]));
		x->stack = calloc(2 * (size_t)x->n, sizeof(*x->stack));
		x->added = calloc(x->n, sizeof(*x->added));
		if (!x->threads[0] || !x->threads[1] || !x->stack || !x->added)
			set_error(&p, -ENOMEM);
	}
	if (p.error)
		frame_regex_free(x);
	else
		*ret = x;
	return p.error;
}

struct frame_regex *frame_regex_free(struct frame_regex *x)
{
	if (x) {
		free(x->program);
		free(x->ranges);
		free(x->threads[0]);
		free(x->threads[1]);
		free(x->stack);
		free(x->added);
	}
	free(x);
	return NULL;
}

/* --- matching */

struct place {
	uint32_t number;       /* of the character, from 1 on */
	uint32_t before, here; /* characters; 0: none */
};

static bool is_word(uint32_t c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || c == '_' || (c >= 'a' && c <= 'z');
}

static bool holds_here(enum op op, const struct place *at)
{
	switch (op) {
	case NOTHING:
		return true;
	case TEXT_BEGIN:
		return at->number == 1;
	case TEXT_END:
		return !at->here;
	case WORD_EDGE:
		return is_word(at->before) != is_word(at->here);
	case NO_WORD_EDGE:
		return is_word(at->before) == is_word(at->here);
	default:
		return false;
	}
}

/* Adds the threads that begin at instruction `i`, each once for a place. Returns whether one of them has matched. */
static bool add_threads(
	struct frame_regex *x, uint32_t i, const struct place *at, uint32_t *to, uint32_t *n, uint64_t *steps)
{
	uint32_t depth = 0;
	x->stack[depth++] = i;
	while (depth && *steps) {
		i = x->stack[--depth];
		if (x->added[i] == at->number)
			continue;
		x->added[i] = at->number;
		--*steps;
		const struct instruction *o = &x->program[i];
		if (o->op == MATCH)
			return true;
		if (o->op == ONE_OF)
			to[(*n)++] = i;
		else if (o->op == JUMP || o->op == SPLIT)
			x->stack[depth++] = i + (uint32_t)o->a;
		else if (holds_here((enum op)o->op, at))
			x->stack[depth++] = i + 1;
		if (o->op == SPLIT)
			x->stack[depth++] = i + (uint32_t)o->b;
	}
	return false;
}

static bool has_character(const struct frame_regex *x, const struct instruction *o, uint32_t c)
{
	for (int32_t i = 0; i < o->b; i++)
		if (c >= x->ranges[o->a + i].first && c <= x->ranges[o->a + i].last)
			return true;
	return false;
}

static bool consumes(const struct frame_regex *x, const struct instruction *o, uint32_t c)
{
	const bool letter = o->folded && ((c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'));
	return (has_character(x, o, c) || (letter && has_character(x, o, c ^ 0x20))) != o->negated;
}

bool frame_regex_matches(struct frame_regex *x, const char *text, uint64_t *steps)
{
	const unsigned char *s = (const unsigned char *)text;
	struct place at = {0};
	uint32_t n = 0;
	bool matched = false;
	memset(x->added, 0, x->n * sizeof(*x->added));
	*steps -= x->n < *steps ? x->n : *steps;
	for (bool more = true; more && !matched && *steps;) {
		const uint32_t *threads = x->threads[at.number % 2];
		uint32_t *next = x->threads[(at.number + 1) % 2], n_next = 0;
		const uint32_t consumed = at.here;
		at.before = consumed;
		at.number++;
		more = *s != 0;
		at.here = 0;
		if (more)
			s += decode_character(s, &at.here);
		for (uint32_t i = 0; i < n && !matched && *steps; i++) {
			const struct instruction *o = &x->program[threads[i]];
			const uint64_t cost = (uint64_t)o->b;
			*steps -= cost < *steps ? cost : *steps;
			matched = consumes(x, o, consumed) && add_threads(x, threads[i] + 1, &at, next, &n_next, steps);
		}
		matched = matched || add_threads(x, 0, &at, next, &n_next, steps);
		n = n_next;
	}
	return matched;
}
