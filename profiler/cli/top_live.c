/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/cli/top_live.h"

#include "profiler/cli/command.h"
#include "profiler/cli/terminal.h"
#include "profiler/view/columns.h"
#include "profiler/view/top_table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define INPUT_MAX 256
#define LINES_AROUND 4 /* title, totals, the table's head; keys */
#define KEYS "q quit  s self/total  t type  / filter  p pause  arrows PgUp PgDn g G"

struct top_live {
	const char *self;
	const struct top_live_source *source;
	struct terminal *screen;
	struct profile *all, *shown; /* shown: those that fit, or `all` */
	char type[64];		     /* "": the usual one */
	struct top_view view;
	struct profile_filter filter;
	char input[INPUT_MAX], terms[INPUT_MAX]; /* being typed; the text that the terms point into */
	bool typing, paused, end;
	size_t functions;
	uint64_t version;
	char message[512];
};

/* --- the shown part */

static void forget_shown(struct top_live *l)
{
	if (l->shown != l->all)
		profile_free(l->shown);
	l->shown = NULL;
}

static void copy_message(struct top_live *l)
{
	const char *said = command_said();
	if (*said)
		snprintf(l->message, sizeof(l->message), "%s", said);
}

static void apply_filter(struct top_live *l)
{
	struct err e = {0};
	forget_shown(l);
	l->message[0] = 0;
	if (!l->all)
		return;
	l->shown = l->all;
	if (l->filter.n && profile_filter_apply(l->all, &l->filter, &l->shown, &e) < 0) {
		l->shown = l->all;
		snprintf(l->message, sizeof(l->message), "%s", e.text);
	} else if (!profile_samples(l->shown)) {
		snprintf(l->message, sizeof(l->message), "%s", "no sample is like that: / changes the filter");
	}
}

/* After a failure the last picture stays, with a message. */
static int load_profile(struct top_live *l)
{
	struct profile *p;
	unsigned type;
	const int code = l->source->load(l->source->arg, l->type[0] ? l->type : NULL, &p, &type);
	if (code == EXIT_DONE) {
		forget_shown(l);
		profile_free(l->all);
		l->all = p;
		l->view.type = type;
		(void)command_said(); /* files of other types were left out: key t shows them */
		apply_filter(l);
	} else {
		copy_message(l);
	}
	return code;
}

static void refresh_profile(struct top_live *l)
{
	const uint64_t version = l->source->changed(l->source->arg);
	if (version == l->version && l->all)
		return;
	l->version = version;
	(void)load_profile(l);
}

/* --- drawing */

static void put_line(FILE *f, unsigned columns, const char *text)
{
	columns_print(f, text, columns);
	putc('\n', f);
}

static void put_title(const struct top_live *l, unsigned columns, FILE *f)
{
	char text[1024], clock[32] = "";
	const time_t now = time(NULL);
	struct tm tm;
	if (gmtime_r(&now, &tm))
		strftime(clock, sizeof(clock), "%H:%M:%S UTC", &tm);
	snprintf(text, sizeof(text), "pillion top  %s  %s%s", clock, l->paused ? "paused  " : "", l->source->name);
	put_line(f, columns, text);
}

static void put_totals(const struct top_live *l, unsigned columns, FILE *f)
{
	char text[1024], amount[64], terms[INPUT_MAX] = "";
	const struct profile_type *t = &profile_info(l->shown)->types[l->view.type];
	for (size_t i = 0; i < l->filter.n; i++) {
		const size_t at = strlen(terms);
		snprintf(terms + at, sizeof(terms) - at, " %s", l->filter.terms[i]);
	}
	snprintf(text, sizeof(text), "%s %s, by %s, %zu functions%s%s%s%s",
		top_amount(profile_total(l->shown, l->view.type), t->unit, amount, sizeof(amount)), t->type,
		l->view.by_cum ? "total" : "self", l->functions, *terms ? ", filter:" : "", terms,
		l->message[0] ? "; " : "", l->message);
	put_line(f, columns, text);
}

static void put_foot(const struct top_live *l, unsigned columns, FILE *f)
{
	char text[INPUT_MAX + 80];
	snprintf(text, sizeof(text), "filter (KEY=TEXT or a function; empty: all): %s_", l->input);
	columns_print(f, l->typing ? text : KEYS, columns);
}

/* Prints as many lines as the screen has, so that the keys stay where they are. */
static void put_table(struct top_live *l, unsigned rows, unsigned columns, FILE *f)
{
	char *text = NULL;
	size_t size;
	unsigned lines = 0;
	FILE *table = open_memstream(&text, &size);
	if (!table)
		return;
	l->view.rows = rows;
	l->view.columns = columns;
	top_write_view(l->shown, &l->view, &l->functions, table);
	if (fclose(table) == 0) {
		char *rest = text, *line;
		while (lines <= rows && (line = strsep(&rest, "\n")) && rest) {
			put_line(f, columns, line);
			lines++;
		}
	}
	for (; lines <= rows; lines++)
		putc('\n', f);
	free(text);
}

static unsigned table_rows(void)
{
	unsigned rows, columns;
	terminal_size(&rows, &columns);
	return rows > LINES_AROUND + 1 ? rows - LINES_AROUND : 1;
}

static void draw_screen(struct top_live *l)
{
	unsigned rows, columns;
	char *text = NULL, *table = NULL;
	size_t size, table_size;
	terminal_size(&rows, &columns);
	FILE *f = open_memstream(&text, &size), *t = open_memstream(&table, &table_size);
	if (f && t) {
		put_title(l, columns, f);
		if (l->shown)
			put_table(l, table_rows(), columns, t); /* first: it counts the functions */
		fflush(t);
		if (l->shown)
			put_totals(l, columns, f);
		else
			put_line(f, columns, l->message[0] ? l->message : "no window has been written yet");
		fputs(l->shown ? table : "\n", f);
		put_foot(l, columns, f);
	}
	if (f && fclose(f) == 0)
		terminal_draw(text, size);
	if (t)
		fclose(t);
	free(text);
	free(table);
}

/* --- keys */

static void scroll_table(struct top_live *l, long by)
{
	const long last = l->functions > table_rows() ? (long)(l->functions - table_rows()) : 0;
	const long to = by > last - (long)l->view.skip ? last : (long)l->view.skip + by;
	l->view.skip = to < 0 ? 0 : (size_t)to;
}

static void key_sort(struct top_live *l)
{
	l->view.by_cum = !l->view.by_cum;
	l->view.skip = 0;
}

/* Goes to the next sample type of any kind of window: of those loaded, then the usual one again. */
static void key_type(struct top_live *l)
{
	if (!l->all)
		return;
	const struct profile_info *info = profile_info(l->all);
	l->view.type = (l->view.type + 1) % info->n_types;
	snprintf(l->type, sizeof(l->type), "%s", info->types[l->view.type].type);
	l->view.skip = 0;
}

static void key_filter(struct top_live *l)
{
	l->typing = true;
	l->input[0] = 0;
}

static void key_pause(struct top_live *l)
{
	l->paused = !l->paused;
}

static void key_quit(struct top_live *l)
{
	l->end = true;
}

static void key_command(struct top_live *l, int key)
{
	static const struct {
		int key;
		void (*fn)(struct top_live *l);
	} keys[] = {{'q', key_quit}, {'s', key_sort}, {'t', key_type}, {'/', key_filter}, {'p', key_pause}};
	const long page = table_rows(), all = (long)l->functions;
	const struct {
		int key;
		long by;
	} moves[] = {{TERMINAL_UP, -1}, {'k', -1}, {TERMINAL_DOWN, 1}, {'j', 1}, {TERMINAL_PAGE_UP, -page},
		{TERMINAL_PAGE_DOWN, page}, {' ', page}, {TERMINAL_HOME, -all}, {'g', -all}, {TERMINAL_BOTTOM, all},
		{'G', all}};
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (keys[i].key == key)
			keys[i].fn(l);
	for (size_t i = 0; i < sizeof(moves) / sizeof(moves[0]); i++)
		if (moves[i].key == key)
			scroll_table(l, moves[i].by);
}

/* Terms are separated by spaces. */
static void use_input(struct top_live *l)
{
	char *rest = l->terms, *term;
	snprintf(l->terms, sizeof(l->terms), "%s", l->input);
	l->filter.n = 0;
	while ((term = strsep(&rest, " ")) && l->filter.n < PROFILE_FILTER_TERMS_MAX)
		if (*term)
			l->filter.terms[l->filter.n++] = term;
	l->typing = false;
	l->view.skip = 0;
	apply_filter(l);
}

static void key_typed(struct top_live *l, int key)
{
	const size_t len = strlen(l->input);
	if (key == '\r' || key == '\n') {
		use_input(l);
	} else if (key == 033) {
		l->typing = false;
	} else if (key == 0x7f || key == '\b') {
		l->input[len ? len - 1 : 0] = 0;
	} else if (key >= ' ' && key <= 0xff && len + 1 < sizeof(l->input)) {
		l->input[len] = (char)key;
		l->input[len + 1] = 0;
	}
}

static void on_key(struct top_live *l, int key)
{
	if (key == TERMINAL_END)
		l->end = true;
	else if (key == TERMINAL_TIMEOUT)
		l->paused ? (void)0 : refresh_profile(l);
	else if (l->typing)
		key_typed(l, key);
	else
		key_command(l, key);
}

int top_live_run(const char *self, const struct top_live_source *source, const char *type, bool by_cum,
	const struct profile_filter *filter)
{
	static struct top_live l;
	l = (struct top_live){
		.self = self, .source = source, .filter = *filter, .view = {.by_cum = by_cum, .bare = true}};
	snprintf(l.type, sizeof(l.type), "%s", type ? type : "");
	command_keep_saying(true);
	l.version = source->changed(source->arg);
	const int code = load_profile(&l); /* EXIT_NOTHING: data may come later; an error stays one */
	const int r = code == EXIT_DONE || code == EXIT_NOTHING ? terminal_open(&l.screen) : 0;
	if (l.screen)
		for (; !l.end; on_key(&l, terminal_wait(l.screen, source->interval_ms)))
			draw_screen(&l);
	command_keep_saying(false);
	terminal_close(l.screen);
	forget_shown(&l);
	profile_free(l.all);
	if (r < 0)
		return command_fail(self, EXIT_FAILED, "cannot use the terminal: %s; --once prints it", strerror(-r));
	return code == EXIT_DONE || code == EXIT_NOTHING ? EXIT_DONE : command_fail(self, code, "%s", l.message);
}
