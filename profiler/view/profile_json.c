/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/view/profile_json.h"

#include "profiler/pprof/function_totals.h"
#include "profiler/view/flame_tree.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

/* By number of the string that is a function's name: a value of each type. */
struct sums {
	int64_t *flat, *cum;
};

static void put_text(const char *text, FILE *out)
{
	putc('"', out);
	flame_tree_json(text, out);
	putc('"', out);
}

static void put_values(const char *key, const int64_t *values, unsigned n, FILE *out)
{
	fprintf(out, "\"%s\": [", key);
	for (unsigned i = 0; i < n; i++)
		fprintf(out, "%s%" PRId64, i ? ", " : "", values[i]);
	putc(']', out);
}

static int find_sums(const struct profile *p, struct sums *s)
{
	const unsigned n = profile_info(p)->n_types;
	int r = 0;
	s->flat = calloc(profile_strings(p), n * sizeof(*s->flat));
	s->cum = calloc(profile_strings(p), n * sizeof(*s->cum));
	if (!s->flat || !s->cum)
		return -ENOMEM;
	for (unsigned type = 0; r == 0 && type < n; type++) {
		struct function_totals f;
		r = function_totals_sum(p, type, &f);
		for (size_t i = 0; r == 0 && i < f.n; i++) {
			const size_t at = (size_t)profile_string_find(p, f.rows[i].name) * n + type;
			s->flat[at] = function_totals_clamp(f.rows[i].flat);
			s->cum[at] = function_totals_clamp(f.rows[i].cum);
		}
		if (r == 0)
			function_totals_done(&f);
	}
	return r;
}

static void put_head(const struct profile *p, FILE *out)
{
	const struct profile_info *info = profile_info(p);
	fprintf(out, "{\"start_ns\": %" PRId64 ", \"duration_ns\": %" PRId64 ",\n\"types\": [", info->time_ns,
		info->duration_ns);
	for (unsigned i = 0; i < info->n_types; i++) {
		fputs(i ? ", {\"type\": " : "{\"type\": ", out);
		put_text(info->types[i].type, out);
		fputs(", \"unit\": ", out);
		put_text(info->types[i].unit, out);
		fprintf(out, ", \"total\": %" PRId64 "}", profile_total(p, i));
	}
	fputs("],\n\"notes\": [", out);
	for (size_t i = 0; i < profile_comments(p); i++) {
		fputs(i ? ", " : "", out);
		put_text(profile_comment_get(p, i), out);
	}
}

static void put_functions(const struct profile *p, const struct sums *s, FILE *out)
{
	const unsigned n = profile_info(p)->n_types;
	fputs("],\n\"functions\": [", out);
	for (uint32_t i = 0; i < profile_functions(p); i++) {
		struct profile_function f;
		profile_function_get(p, i, &f);
		const size_t at = (size_t)profile_string_find(p, f.name) * n;
		fputs(i ? ",\n{\"name\": " : "\n{\"name\": ", out);
		put_text(f.name, out);
		fputs(", \"file\": ", out);
		put_text(f.file, out);
		fputs(", ", out);
		put_values("flat", s->flat + at, n, out);
		fputs(", ", out);
		put_values("cum", s->cum + at, n, out);
		putc('}', out);
	}
}

static void put_labels(const struct profile_sample *s, FILE *out)
{
	fputs(", \"labels\": {", out);
	for (size_t i = 0; i < s->n_labels; i++) {
		fputs(i ? ", " : "", out);
		put_text(s->labels[i].key, out);
		fputs(": ", out);
		if (s->labels[i].str)
			put_text(s->labels[i].str, out);
		else
			fprintf(out, "%" PRId64, s->labels[i].num);
	}
	fputs("}}", out);
}

static void put_samples(const struct profile *p, FILE *out)
{
	fputs("],\n\"samples\": [", out);
	for (size_t i = 0; i < profile_samples(p); i++) {
		struct profile_sample s;
		const char *comma = "";
		profile_sample_get(p, i, &s);
		fputs(i ? ",\n{\"stack\": [" : "\n{\"stack\": [", out);
		for (size_t k = 0; k < s.n; k++) {
			struct profile_location l;
			profile_location_get(p, s.locations[k], &l);
			for (size_t m = 0; m < l.n; m++, comma = ", ")
				fprintf(out, "%s%" PRIu32, comma, l.lines[m].function);
		}
		fputs("], ", out);
		put_values("values", s.values, profile_info(p)->n_types, out);
		put_labels(&s, out);
	}
	fputs("]}\n", out);
}

int profile_json_write(const struct profile *p, FILE *out)
{
	struct sums s = {0};
	const int r = find_sums(p, &s);
	if (r == 0) {
		put_head(p, out);
		put_functions(p, &s, out);
		put_samples(p, out);
	}
	free(s.flat);
	free(s.cum);
	return r == 0 && (fflush(out) || ferror(out)) ? -EIO : r;
}
