/* SPDX-License-Identifier: Apache-2.0 */
/*
 * complete: a shell's completions, from the texts of the help: the list of commands, the options that a command's help
 * shows (a line that begins with one), the events and the sample types. A line each, "word TAB description". An empty
 * result is no mistake: then the shell offers files.
 */
#include "profiler/cli/command.h"
#include "shim/event/event_spec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_match(const char *prefix, const char *word, size_t len, const char *what, size_t what_len)
{
	if (len >= strlen(prefix) && !strncmp(word, prefix, strlen(prefix)))
		printf("%.*s\t%.*s\n", (int)len, word, (int)what_len, what);
}

static void offer_commands(const char *prefix)
{
	for (size_t i = 0; commands[i]; i++)
		if (!commands[i]->hidden)
			print_match(prefix, commands[i]->name, strlen(commands[i]->name), commands[i]->line,
				strlen(commands[i]->line));
}

/* "  -n, --rows ROWS   how many": offers the words that begin with '-' up to two spaces, and the text behind those. */
static void offer_line(const char *prefix, const char *line)
{
	const char *at = line + strspn(line, " "), *what = strstr(at, "  ");
	if (at < line + 2 || *at != '-')
		return;
	const char *end = what ? what : at + strlen(at);
	what = what ? what + strspn(what, " ") : "";
	while (at < end) {
		const size_t len = strcspn(at, " ,=");
		if (*at == '-' && len > 1)
			print_match(prefix, at, len, what, strlen(what));
		at += len;
		at += strspn(at, " ,=");
	}
}

static void offer_options(const struct command *c, const char *prefix)
{
	char *text = NULL, *line, *rest;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	if (!f)
		return;
	command_help(c, f);
	if (fclose(f) == 0)
		for (rest = text; (line = strsep(&rest, "\n"));)
			offer_line(prefix, line);
	free(text);
}

/* Offers completions of the last event of a list, with those before it. */
static void offer_events(const char *prefix)
{
	const char *last = strrchr(prefix, ',');
	const size_t before = last ? (size_t)(last + 1 - prefix) : 0;
	for (uint32_t i = 0; i < event_kinds(); i++) {
		const struct event_kind *k = event_kind(i);
		if (k->naming == NAMED_NOT && !strncmp(k->name, prefix + before, strlen(prefix + before)))
			printf("%.*s%s\t%s\n", (int)before, prefix, k->name, k->help);
	}
}

static void offer_types(const char *prefix)
{
	for (uint32_t i = 0; i < event_kinds(); i++) {
		const char *type = event_kind(i)->sample_type;
		uint32_t first = 0;
		while (strcmp(event_kind(first)->sample_type, type) != 0)
			first++;
		if (first == i)
			print_match(prefix, type, strlen(type), event_kind(i)->sample_unit,
				strlen(event_kind(i)->sample_unit));
	}
}

static const struct {
	const char *option;
	void (*offer)(const char *prefix);
} values[] = {{"--events", offer_events}, {"--type", offer_types}};

/* argv: the words so far, the last one is under way. */
static int run(int argc, char **argv)
{
	const char *prefix = argc > 1 ? argv[argc - 1] : "";
	if (argc <= 2 || (argc == 3 && !strcmp(argv[1], "help"))) {
		offer_commands(prefix);
		return EXIT_DONE;
	}
	const struct command *c = command_find(argv[1]);
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
		if (!strcmp(argv[argc - 2], values[i].option)) {
			values[i].offer(prefix);
			return EXIT_DONE;
		}
	for (int i = 2; i < argc - 1; i++)
		if (!strcmp(argv[i], "--")) /* the rest is another program's */
			return EXIT_DONE;
	if (c && prefix[0] == '-')
		offer_options(c, prefix);
	return EXIT_DONE;
}

const struct command cmd_complete = {
	.name = "complete",
	.line = "completions, for a shell",
	.help = "usage: pillion complete WORD...\n"
		"\n"
		"Prints completions of the last word, one per line: word, tab, description.\n"
		"\n"
		"example: pillion complete top --ty\n",
	.run = run,
	.own_options = true,
	.hidden = true,
};
