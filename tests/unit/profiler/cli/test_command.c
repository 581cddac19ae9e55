/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/cli/command.h"

#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))
#define WORDS 24

struct given {
	const char *output, *type;
	bool json, all;
	struct profile_filter only;
};

/* As a command does it; `line` is the command line, which is cut into words. */
static int read_line(const char *line, char **argv, struct given *g)
{
	static char text[512];
	const struct command_option options[] = {{.name = "--output", .alias = "-o", .value = &g->output},
		{.name = "--type", .value = &g->type}, {.name = "--json", .on = &g->json},
		{.name = "--all", .on = &g->all}, {.name = "--only", .terms = &g->only}, {0}};
	int argc = 0;
	snprintf(text, sizeof(text), "%s", line);
	for (char *word = text, *end; word; word = end ? end + 1 : NULL) {
		if ((end = strchr(word, ' ')))
			*end = 0;
		argv[argc++] = word;
	}
	argv[argc] = NULL;
	*g = (struct given){0};
	return command_options(argc, argv, options);
}

static const struct taken {
	const char *line, *rest; /* the other arguments, each behind a blank */
	struct given given;
} all_taken[] = {
	{"top", "", {0}},
	{"top a b", " a b", {0}},
	{"top --json", "", {.json = true}},
	{"top a --json b", " a b", {.json = true}},
	{"top --json --all a", " a", {.json = true, .all = true}},
	{"top --output x a", " a", {.output = "x"}},
	{"top a --output=x b", " a b", {.output = "x"}},
	{"top a -o x b", " a b", {.output = "x"}},
	{"top --output= a", " a", {.output = ""}},
	{"top --output x=y", "", {.output = "x=y"}},
	{"top --output=x=y", "", {.output = "x=y"}},
	{"top --output x --output y", "", {.output = "y"}},
	/* the word behind it is the value, also one that looks like an option */
	{"top --output --json", "", {.output = "--json"}},
	{"top --output -- a", " a", {.output = "--"}},
	{"top -o -", "", {.output = "-"}},
	{"top - --json", " -", {.json = true}},
	{"top a -- --json b", " a --json b", {0}},
	{"top --json -- -- a", " -- a", {.json = true}},
	{"top --", "", {0}},
	{"top  --json", " ", {.json = true}}, /* an empty argument */
	{"top --only a --only=b c", " c", {.only = {.n = 2}}},
};

START_TEST(an_option_is_taken)
{
	const struct taken *t = &all_taken[_i];
	char *argv[WORDS], rest[512] = "";
	struct given g;
	int n = read_line(t->line, argv, &g);
	ck_assert_msg(n >= 0, "%s: %s", t->line, command_said());
	for (int i = 1; i <= n; i++)
		snprintf(rest + strlen(rest), sizeof(rest) - strlen(rest), " %s", argv[i]);
	ck_assert_msg(!strcmp(rest, t->rest), "%s: '%s'", t->line, rest);
	ck_assert_pstr_eq(g.output, t->given.output);
	ck_assert_int_eq(g.json, t->given.json);
	ck_assert_int_eq(g.all, t->given.all);
	ck_assert_int_eq(g.only.n, t->given.only.n);
}
END_TEST

#define FOUR " --only=x --only=x --only=x --only=x"

static const struct mistake {
	const char *line, *said;
} mistakes[] = {
	{"top --jsno", "there is no option '--jsno'; is '--json' meant? 'pillion help top'"},
	{"top a --server x", "there is no option '--server'; see 'pillion help top'"},
	{"top --output", "option '--output' needs a value; see 'pillion help top'"},
	{"top a -o", "option '--output' needs a value; see 'pillion help top'"},
	{"top --json=1", "option '--json' takes no value; see 'pillion help top'"},
	{"top --json=", "option '--json' takes no value; see 'pillion help top'"},
	{"top -x", "there is no option '-x'; see 'pillion help top'"},
	{"top -xy a", "there is no option '-xy'; see 'pillion help top'"},
	{"top -:", "there is no option '-:'; see 'pillion help top'"},
	/* getopt_long(3) would take a beginning of a name: an option of tomorrow could begin with it, too */
	{"top --outpu x", "there is no option '--outpu'; is '--output' meant? 'pillion help top'"},
	{"top --out x", "there is no option '--out'; see 'pillion help top'"},
	{"top --out=x", "there is no option '--out=x'; see 'pillion help top'"},
	{"top --jso=1", "there is no option '--jso=1'; is '--json' meant? 'pillion help top'"},
	{"top --outpu", "there is no option '--outpu'; is '--output' meant? 'pillion help top'"},
	{"top --o x", "there is no option '--o'; see 'pillion help top'"},
	{"top --=x", "there is no option '--=x'; see 'pillion help top'"},
	{"top -output x", "there is no option '-output'; see 'pillion help top'"},
	{"top -j", "there is no option '-j'; see 'pillion help top'"},
	{"top -t x", "there is no option '-t'; see 'pillion help top'"},
	{"top -ox", "there is no option '-ox'; see 'pillion help top'"},
	{"top -o=x", "there is no option '-o=x'; see 'pillion help top'"},
	/* the first mistake is the one */
	{"top --output x -x --jsno", "there is no option '-x'; see 'pillion help top'"},
	{"top" FOUR FOUR FOUR FOUR " --only x", "option '--only' may be there 16 times at most"},
};

START_TEST(a_mistake_is_one_sentence)
{
	char *argv[WORDS];
	struct given g;
	ck_assert_int_eq(read_line(mistakes[_i].line, argv, &g), -EINVAL);
	ck_assert_str_eq(command_said(), mistakes[_i].said);
}
END_TEST

/* POSIXLY_CORRECT in the environment ends the options at the first argument in other programs. */
START_TEST(the_environment_changes_nothing)
{
	char *argv[WORDS];
	struct given g;
	setenv("POSIXLY_CORRECT", "1", 1);
	int n = read_line("top a --json", argv, &g);
	unsetenv("POSIXLY_CORRECT");
	ck_assert_int_eq(n, 1);
	ck_assert(g.json);
}
END_TEST

static const struct {
	const char *text;
	bool ok;
	size_t rows;
} rows[] = {{"1", true, 1}, {"20", true, 20}, {"all", true, SIZE_MAX}, {"0", false, 0}, {"-1", false, 0},
	{"1x", false, 0}, {"", false, 0}, {"+1", false, 0}};

START_TEST(a_number_of_rows)
{
	size_t n = 0;
	ck_assert_int_eq(command_rows(rows[_i].text, &n), rows[_i].ok);
	ck_assert_uint_eq(n, rows[_i].rows);
}
END_TEST

static void keep_saying(void)
{
	command_keep_saying(true);
}

static void stop_saying(void)
{
	command_said();
	command_keep_saying(false);
}

UNIT_SUITE(command)
{
	Suite *s = suite_create("command");
	TCase *t = tcase_create("command");

	tcase_add_checked_fixture(t, keep_saying, stop_saying);
	tcase_add_loop_test(t, an_option_is_taken, 0, LENGTH(all_taken));
	tcase_add_loop_test(t, a_mistake_is_one_sentence, 0, LENGTH(mistakes));
	tcase_add_test(t, the_environment_changes_nothing);
	tcase_add_loop_test(t, a_number_of_rows, 0, LENGTH(rows));
	suite_add_tcase(s, t);
	return s;
}
