/* SPDX-License-Identifier: Apache-2.0 */
/*
 * manual: the pages of the manual, in mdoc(7), from the texts of --help: each option is written once. In a help text,
 * the lines of "usage:" are the synopsis; a line that begins with two spaces is an item, up to two spaces more, and the
 * text behind those and further in describes it; "example:" goes to the end; the rest is text.
 */
#include "profiler/cli/command.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EXAMPLE "example: "
#define USAGE "usage: "

/* Prints text without requests or escapes; each sentence has a line, as mdoc(7) wants it. */
static void put_text(FILE *out, const char *text)
{
	for (size_t i = 0; text[i]; i++) {
		if ((i == 0 || text[i - 1] == '\n') && (text[i] == '.' || text[i] == '\''))
			fputs("\\&", out);
		if (text[i] == '\\')
			fputs("\\e", out);
		else if (text[i] == ' ' && i && strchr(".!?", text[i - 1]) && text[i + 1] >= 'A' && text[i + 1] <= 'Z')
			fputc('\n', out);
		else
			fputc(text[i], out);
	}
	fputc('\n', out);
}

/* Prints arguments of a macro, so that none is taken for another macro's name. */
static void put_words(FILE *out, const char *text, size_t len)
{
	for (const char *at = text, *end = text + len; at < end;) {
		size_t n = strcspn(at, " ");
		if (n > (size_t)(end - at))
			n = (size_t)(end - at);
		fputs(" \\&", out);
		for (size_t i = 0; i < n; i++)
			fputs(at[i] == '\\' ? "\\e" : at[i] == '"' ? "\\(dq" : (char[]){at[i], 0}, out);
		at += n;
		at += strspn(at, " ");
	}
	fputc('\n', out);
}

static void put_head(FILE *out, const char *page, const char *section, const char *line)
{
	const char *epoch = getenv("SOURCE_DATE_EPOCH");
	time_t now = epoch ? (time_t)strtoll(epoch, NULL, 10) : time(NULL);
	struct tm tm;
	char month[32];
	gmtime_r(&now, &tm);
	strftime(month, sizeof(month), "%B", &tm);
	fprintf(out, ".Dd %s %d, %d\n.Dt ", month, tm.tm_mday, tm.tm_year + 1900);
	for (size_t i = 0; page[i]; i++)
		fputc(toupper((unsigned char)page[i]), out);
	fprintf(out, " %s\n.Os pillion " VERSION "\n.Sh NAME\n.Nm %s\n.Nd %s\n", section, page, line);
}

/* --- the parts of a help text ---------------------------------------------------------------------------- */

struct body {
	FILE *out;
	bool in_list, wants_paragraph;
	char examples[2048];
};

static void end_list(struct body *b)
{
	if (b->in_list)
		fputs(".El\n", b->out);
	b->in_list = false;
}

static void put_item(struct body *b, const char *line)
{
	const char *head = line + strspn(line, " "), *what = strstr(head, "  ");
	if (!b->in_list)
		fputs(".Bl -tag -width Ds\n", b->out);
	b->in_list = true;
	b->wants_paragraph = false;
	fputs(".It", b->out);
	put_words(b->out, head, what ? (size_t)(what - head) : strlen(head));
	if (!what)
		return;
	what += strspn(what, " ");
	put_text(b->out, what);
}

/* "--option" may stand further in than "-o, --option"; any other such line continues the item before it. */
static bool is_item(const struct body *b, const char *line)
{
	const size_t indent = strspn(line, " ");
	return indent >= 2 && (!b->in_list || indent <= 4 || line[indent] == '-');
}

static void put_line(struct body *b, const char *line)
{
	if (!line[0]) {
		b->wants_paragraph = true;
	} else if (!strncmp(line, EXAMPLE, strlen(EXAMPLE))) {
		const size_t used = strlen(b->examples);
		snprintf(b->examples + used, sizeof(b->examples) - used, "%s\n", line + strlen(EXAMPLE));
	} else if (is_item(b, line)) {
		put_item(b, line);
	} else {
		if (line[0] != ' ')
			end_list(b);
		if (b->wants_paragraph)
			fputs(".Pp\n", b->out);
		b->wants_paragraph = false;
		line += strspn(line, " ");
		put_text(b->out, line);
	}
}

static void put_body(struct body *b, char *text)
{
	for (char *line; (line = strsep(&text, "\n"));)
		if (text || line[0])
			put_line(b, line);
	end_list(b);
}

/* Prints the lines of "usage:"; returns the rest. */
static char *put_synopsis(FILE *out, char *text)
{
	fputs(".Sh SYNOPSIS\n", out);
	for (char *line; text && *text && *text != '\n';) {
		line = strsep(&text, "\n");
		line += strncmp(line, USAGE, strlen(USAGE)) ? strspn(line, " ") : strlen(USAGE);
		fputs(".Dl", out);
		put_words(out, line, strlen(line));
	}
	return text;
}

/* Prints the output of `print` as the body of a section. */
static int put_printed(struct body *b, void (*print)(FILE *out, const void *arg), const void *arg, bool synopsis)
{
	char *text = NULL, *rest;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	if (!f)
		return -1;
	print(f, arg);
	if (fclose(f) != 0)
		return -1;
	rest = synopsis ? put_synopsis(b->out, text) : text;
	if (synopsis)
		fputs(".Sh DESCRIPTION\n", b->out);
	put_body(b, rest + strspn(rest, "\n"));
	free(text);
	return 0;
}

/* --- pages ------------------------------------------------------------------------------------------------- */

static void print_help(FILE *out, const void *c)
{
	command_help(c, out);
}

static void print_options(FILE *out, const void *source)
{
	options_help(out, *(const enum option_source *)source);
}

static void put_statuses(FILE *out)
{
	fputs(".Sh EXIT STATUS\n0 done; 1 failed; 2 a mistake in the command line; 3 nothing matched.\n", out);
}

static int put_command(FILE *out, const struct command *c)
{
	struct body b = {.out = out};
	char page[64];
	snprintf(page, sizeof(page), "pillion-%s", c->name);
	put_head(out, page, "1", c->line);
	if (put_printed(&b, print_help, c, true) < 0)
		return EXIT_FAILED;
	if (!c->own_options && strcmp(c->name, "doctor") != 0)
		put_statuses(out);
	fputs(".Sh EXAMPLES\n", out);
	for (char *rest = b.examples, *line; (line = strsep(&rest, "\n")) && *line;) {
		fputs(".Dl", out);
		put_words(out, line, strlen(line));
	}
	fputs(".Sh SEE ALSO\n.Xr pillion 1 ,\n.Xr pillion.conf 5\n", out);
	return EXIT_DONE;
}

static int put_list(FILE *out)
{
	put_head(out, "pillion", "1", "a profiler for containers and programs");
	fputs(".Sh SYNOPSIS\n.Nm\n.Ar COMMAND\n.Op Ar ARGUMENT ...\n.Sh DESCRIPTION\n"
	      "An annotation on a container,\n.Dq io.pillion.profile=cpu ,\n"
	      "gives its profile from its first instruction;\n.Nm\nprofiles what is no container, and shows profiles.\n"
	      "Each command has a page of its own.\n.Bl -tag -width Ds\n",
		out);
	for (size_t i = 0; commands[i]; i++)
		if (!commands[i]->hidden)
			fprintf(out, ".It Xr pillion-%s 1\n%s\n", commands[i]->name, commands[i]->line);
	fputs(".El\n.Sh FILES\n.Bl -tag -width Ds\n.It Pa /etc/pillion/pillion.conf\nsettings:\n.Xr pillion.conf 5\n"
	      ".It Pa /var/lib/pillion/profiles\nfinished windows, a directory for each target\n"
	      ".It Pa /run/pillion/control.sock\nwhere a service listens\n.El\n",
		out);
	put_statuses(out);
	fputs(".Sh SEE ALSO\n.Xr pillion 3 ,\n.Xr pillion.conf 5 ,\n.Xr pillion-hook 8 ,\n.Xr pilliond 8\n", out);
	return EXIT_DONE;
}

static const struct {
	enum option_source source;
	const char *title, *text;
} sources[] = {
	{OPTION_FILE, "KEYS",
		"In\n.Pa /etc/pillion/pillion.conf\nand then, for a plain user,\n.Pa ~/.config/pillion/pillion.conf "
		".\n"},
	{OPTION_POLICY, "POLICY",
		"In\n.Pa /etc/pillion/policy.conf ,\nwhich bounds what any source may ask for; it is root's.\n"},
	{OPTION_ENV, "ENVIRONMENT", "Stronger than a file, weaker than a flag.\n"},
	{OPTION_ANNOTATION, "ANNOTATIONS",
		"Of a container; with\n.Dq /container.NAME\nbehind it, of that container of a Pod alone.\n"},
};

static int put_conf(FILE *out)
{
	put_head(out, "pillion.conf", "5", "settings of pillion");
	fputs(".Sh DESCRIPTION\nLines\n.Dq key = value ;\nwhat is behind # is not read.\nDurations are a whole number "
	      "and "
	      "a unit (ms s m h d), sizes a whole number and a unit (KiB MiB GiB), switches 1 or 0.\n",
		out);
	for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++) {
		struct body b = {.out = out};
		fprintf(out, ".Sh %s\n%s", sources[i].title, sources[i].text);
		if (put_printed(&b, print_options, &sources[i].source, false) < 0)
			return EXIT_FAILED;
	}
	fputs(".Sh SEE ALSO\n.Xr pillion 1 ,\n.Xr pilliond 8\n", out);
	return EXIT_DONE;
}

static int print_pages(void)
{
	puts("pillion.1\npillion.conf.5");
	for (size_t i = 0; commands[i]; i++)
		if (!commands[i]->hidden)
			printf("pillion-%s.1\n", commands[i]->name);
	return EXIT_DONE;
}

static int run(int argc, char **argv)
{
	char page[64];
	if (argc < 2)
		return print_pages();
	if (!strcmp(argv[1], "pillion.1"))
		return put_list(stdout);
	if (!strcmp(argv[1], "pillion.conf.5"))
		return put_conf(stdout);
	for (size_t i = 0; commands[i]; i++) {
		snprintf(page, sizeof(page), "pillion-%s.1", commands[i]->name);
		if (!commands[i]->hidden && !strcmp(argv[1], page))
			return put_command(stdout, commands[i]);
	}
	return command_fail(argv[0], EXIT_NOTHING, "there is no page '%s'; 'pillion manual' lists them", argv[1]);
}

const struct command cmd_manual = {
	.name = "manual",
	.line = "pages of the manual, as they are installed",
	.help = "usage: pillion manual [PAGE]\n"
		"\n"
		"Without an argument, the names of all pages.\n"
		"\n"
		"example: pillion manual pillion-top.1 | mandoc\n",
	.run = run,
	.hidden = true,
};
