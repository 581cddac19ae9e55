/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/base/json/json_write.h"
#include "oci/base/utf8.h"
#include "profiler/cli/command.h"
#include "profiler/view/profile_diff.h"
#include "profiler/view/top_table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_DEFAULT 20

/* Smaller than 0.001: as such. */
static const char *chance_of(double chance, char *buf, size_t size)
{
	if (chance < 0)
		return "-";
	snprintf(buf, size, chance < 0.001 ? "<.001" : "%.3f", chance);
	return buf;
}

static void print_side(const char *name, const struct profile *p, const char *type)
{
	const unsigned i = (unsigned)profile_type_find(p, type);
	const int count = profile_type_find(p, "samples");
	char amount[64], duration[64];
	printf("%-9s %s ", name,
		top_amount(profile_total(p, i), profile_info(p)->types[i].unit, amount, sizeof(amount)));
	utf8_print(stdout, type, NULL);
	if (count >= 0 && (unsigned)count != i)
		printf(", %lld samples", (long long)profile_total(p, (unsigned)count));
	if (profile_info(p)->duration_ns)
		printf(", in %s", top_amount(profile_info(p)->duration_ns, "nanoseconds", duration, sizeof(duration)));
	putchar('\n');
}

static int print_table(const struct profile_delta *l, size_t rows, bool all)
{
	const bool counted = l->n && l->rows[0].chance >= 0;
	const size_t some = all || !counted ? l->n : l->n_sure, shown = rows < some ? rows : some;
	char chance[32];
	if (shown)
		printf("\n%8s %8s %8s %7s\n", "before", "after", "points", "chance");
	for (size_t i = 0; i < shown; i++) {
		const struct function_delta *m = &l->rows[i];
		printf("%7.2f%% %7.2f%% %+8.2f %7s  ", 100 * m->before, 100 * m->after, 100 * (m->after - m->before),
			chance_of(m->chance, chance, sizeof(chance)));
		utf8_print(stdout, m->name, NULL);
		putchar('\n');
	}
	if (shown < l->n)
		printf(shown < some ? "%8s %zu more functions\n"
			: shown	    ? "%8s %zu more functions, which moved no more than by chance (--all)\n"
				    : "\n%8s %zu functions, none of which moved more than by chance (--all)\n",
			"...", l->n - shown);
	return ferror(stdout) ? -EIO : 0;
}

static int print_json(const struct profile_delta *l, const char *type)
{
	struct jsonout *doc = json_write_object(), *rows = json_write_array();
	int r = json_write_add(doc, "type", json_write_text(type));
	for (size_t i = 0; r == 0 && i < l->n; i++) {
		const struct function_delta *m = &l->rows[i];
		struct jsonout *row = json_write_object();
		r = json_write_add(row, "function", json_write_text(m->name));
		if (r == 0)
			r = json_write_add(row, "before", json_write_share(m->before));
		if (r == 0)
			r = json_write_add(row, "after", json_write_share(m->after));
		if (r == 0)
			r = m->chance < 0 ? json_write_add_null(row, "chance")
					  : json_write_add(row, "chance", json_write_share(m->chance));
		if (r == 0)
			r = json_write_add(row, "sure", json_write_bool(i < l->n_sure));
		if (r == 0)
			r = json_write_add(rows, NULL, row);
		else
			json_write_free(row);
	}
	if (r == 0)
		r = json_write_add(doc, "functions", rows);
	else
		json_write_free(rows);
	if (r == 0)
		r = json_write_out(doc, stdout);
	json_write_free(doc);
	return r;
}

static int run(int argc, char **argv)
{
	const char *rows_text = NULL, *type = NULL;
	bool json = false, all = false, cum = false;
	const struct command_option options[] = {{.name = "--rows", .alias = "-n", .value = &rows_text},
		{.name = "--type", .value = &type}, {.name = "--json", .on = &json}, {.name = "--all", .on = &all},
		{.name = "--cum", .on = &cum}, {0}};
	struct profile *before = NULL, *after = NULL;
	struct profile_delta l = {0};
	unsigned of_before, of_after;
	int n = command_options(argc, argv, options);
	size_t rows = ROWS_DEFAULT;
	if (n < 0)
		return EXIT_USAGE;
	if (n != 2)
		return command_fail(argv[0], EXIT_USAGE, "give two: before and after; see 'pillion help diff'");
	if (rows_text && !command_rows(rows_text, &rows))
		return command_fail(
			argv[0], EXIT_USAGE, "'%s' is not a number of rows: give 1, 2, ... or 'all'", rows_text);
	int code = command_load(argv[0], 1, argv + 1, type, &before, &of_before);
	if (code == EXIT_DONE) {
		type = profile_info(before)->types[of_before].type;
		code = command_load(argv[0], 1, argv + 2, type, &after, &of_after);
	}
	int r = code == EXIT_DONE ? profile_diff_find(before, after, type, cum, &l) : 0;
	if (code == EXIT_DONE && r == 0 && json) {
		r = print_json(&l, type);
	} else if (code == EXIT_DONE && r == 0) {
		print_side("before", before, type);
		print_side("after", after, type);
		r = print_table(&l, rows, all);
	}
	profile_diff_done(&l);
	profile_free(before);
	profile_free(after);
	return r < 0 ? command_fail(argv[0], EXIT_FAILED, "cannot compare: %s", strerror(-r)) : code;
}

const struct command cmd_diff = {
	.name = "diff",
	.line = "the functions whose share has changed",
	.help = "usage: pillion diff BEFORE AFTER [-n ROWS|all] [--type TYPE] [--cum] [--all] [--json]\n"
		"\n"
		"BEFORE and AFTER are each a file, or a directory whose profiles are merged. Compared is the share\n"
		"of all that functions have, so the two need not be of one length.\n" COMMAND_TARGET_HELP "\n"
		"chance is how often a change as large is seen where nothing has changed, by the numbers of\n"
		"samples. Shown are functions that moved by more than chance, with all functions in view\n"
		"(chance times their number is below 0.05).\n"
		"\n"
		"  -n, --rows ROWS   how many functions (default 20)\n"
		"      --all         also those that moved no more than by chance\n"
		"      --cum         what functions have with all that they call; else what is their own\n"
		"      --type TYPE   the sample type: samples, cpu, offcpu, ... (default: the last of BEFORE)\n"
		"      --json        all of it, for scripts\n"
		"\n"
		"As a picture: pillion flame AFTER --before BEFORE\n"
		"\n"
		"example: pillion diff monday.pb.gz tuesday.pb.gz\n",
	.run = run,
};
