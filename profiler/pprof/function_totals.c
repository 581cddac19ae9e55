/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/pprof/function_totals.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* One row per name; `row_of` has room for every string of the profile, the others for every function. */
static size_t name_rows(const struct profile *p, struct function_sum *rows, uint32_t *row_of, uint32_t *of_function)
{
	size_t n = 0;
	for (uint32_t i = 0; i < profile_functions(p); i++) {
		const char *name = profile_function_name(p, i);
		int64_t string = profile_string_find(p, name);
		if (!row_of[string]) {
			rows[n] = (struct function_sum){.name = name};
			row_of[string] = (uint32_t)++n;
		}
		of_function[i] = row_of[string] - 1;
	}
	return n;
}

/* Adds `value` of sample `sample` to every function of the location. */
static void add_lines(const struct profile_location *l, int64_t value, size_t sample, struct function_sum *rows,
	const uint32_t *of_function)
{
	for (size_t i = 0; i < l->n; i++) {
		struct function_sum *r = &rows[of_function[l->lines[i].function]];
		if (r->last != sample + 1)
			r->cum += value;
		r->last = sample + 1;
	}
}

/* go tool pprof -diff_base marks the samples that it compares with: they are the whole then. */
static bool is_diff_base(const struct profile_sample *s)
{
	for (size_t i = 0; i < s->n_labels; i++)
		if (!strcmp(s->labels[i].key, "pprof::base") && s->labels[i].str)
			return !strcmp(s->labels[i].str, "true");
	return false;
}

/* The total is one of amounts, not of balances, as go tool pprof has it (internal/report/report.go, computeTotal). */
static __int128 add_samples(
	const struct profile *p, unsigned type, struct function_sum *rows, const uint32_t *of_function)
{
	__int128 total = 0, base = 0;
	for (size_t i = 0; i < profile_samples(p); i++) {
		struct profile_sample s;
		profile_sample_get(p, i, &s);
		int64_t value = s.values[type];
		total += value < 0 ? -(__int128)value : value;
		if (is_diff_base(&s))
			base += value < 0 ? -(__int128)value : value;
		for (size_t k = 0; k < s.n; k++) {
			struct profile_location l;
			profile_location_get(p, s.locations[k], &l);
			if (!k)
				rows[of_function[l.lines[0].function]].flat += value;
			add_lines(&l, value, i, rows, of_function);
		}
	}
	return base ? base : total;
}

/* A heap profile has many functions that hold nothing any more. */
static size_t drop_empty(struct function_sum *rows, size_t n)
{
	size_t kept = 0;
	for (size_t i = 0; i < n; i++)
		if (rows[i].flat || rows[i].cum)
			rows[kept++] = rows[i];
	return kept;
}

int function_totals_sum(const struct profile *p, unsigned type, struct function_totals *ret)
{
	*ret = (struct function_totals){0};
	if (type >= profile_info(p)->n_types)
		return -EINVAL;
	struct function_sum *rows = calloc(profile_functions(p) + 1, sizeof(*rows));
	uint32_t *row_of = calloc(profile_strings(p), sizeof(*row_of));
	uint32_t *of_function = calloc(profile_functions(p) + 1, sizeof(*of_function));
	const int r = rows && row_of && of_function ? 0 : -ENOMEM;
	if (r == 0) {
		const size_t n = name_rows(p, rows, row_of, of_function);
		ret->total = add_samples(p, type, rows, of_function);
		ret->n = drop_empty(rows, n);
		ret->rows = rows;
	} else {
		free(rows);
	}
	free(row_of);
	free(of_function);
	return r;
}

void function_totals_done(struct function_totals *f)
{
	free(f->rows);
	*f = (struct function_totals){0};
}

int64_t function_totals_clamp(__int128 sum)
{
	return sum > INT64_MAX ? INT64_MAX : sum < INT64_MIN ? INT64_MIN : (int64_t)sum;
}
