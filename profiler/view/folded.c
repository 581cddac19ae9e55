/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/view/folded.h"

#include "oci/base/utf8.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* ';' separates frames, and the count stands behind the last space of a line */
#define PAIRS ";:\n "

struct line {
	char *text;
	int64_t value;
};

/* The value of a label; false: it has none. */
static bool render_label(const struct profile_sample *s, const char *key, FILE *f)
{
	for (size_t i = 0; i < s->n_labels; i++) {
		const struct profile_label *l = &s->labels[i];
		if (strcmp(l->key, key) != 0)
			continue;
		if (l->str)
			utf8_print(f, l->str, PAIRS);
		else
			fprintf(f, "%" PRId64, l->num);
		return true;
	}
	return false;
}

/* The functions of one location, each behind a ';' unless nothing stands before it. */
static void render_lines(const struct profile *p, uint32_t location, bool first, FILE *f)
{
	struct profile_location l;
	profile_location_get(p, location, &l);
	for (size_t k = l.n; k-- > 0; first = false) {
		if (!first)
			putc(';', f);
		utf8_print(f, profile_function_name(p, l.lines[k].function), PAIRS);
	}
}

static int render_stack(const struct profile *p, const struct profile_sample *s, const char *by, char **ret)
{
	size_t size;
	FILE *f = open_memstream(ret, &size);
	if (!f)
		return -ENOMEM;
	bool labelled = render_label(s, by, f);
	for (size_t i = s->n; i-- > 0;)
		render_lines(p, s->locations[i], !labelled && i + 1 == s->n, f);
	int bad = ferror(f);
	if (fclose(f) || bad) {
		free(*ret);
		*ret = NULL;
		return -ENOMEM;
	}
	return 0;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(((const struct line *)a)->text, ((const struct line *)b)->text);
}

/* Stacks that differ in labels or addresses only are one line. */
static void print_stacks(struct line *lines, size_t n, FILE *out)
{
	qsort(lines, n, sizeof(*lines), by_text);
	for (size_t i = 0; i < n;) {
		__int128 sum = 0; /* of at most 2^32 values of 64 bits */
		size_t first = i;
		for (; i < n && !strcmp(lines[i].text, lines[first].text); i++)
			sum += lines[i].value;
		int64_t value = sum > INT64_MAX ? INT64_MAX : sum < INT64_MIN ? INT64_MIN : (int64_t)sum;
		if (value && lines[first].text[0])
			fprintf(out, "%s %lld\n", lines[first].text, (long long)value);
	}
}

int folded_write(const struct profile *p, unsigned type, const char *by, FILE *out)
{
	if (type >= profile_info(p)->n_types)
		return -EINVAL;
	size_t n = profile_samples(p);
	struct line *lines = calloc(n + 1, sizeof(*lines));
	if (!lines)
		return -ENOMEM;
	int r = 0;
	for (size_t i = 0; !r && i < n; i++) {
		struct profile_sample s;
		profile_sample_get(p, i, &s);
		lines[i].value = s.values[type];
		r = render_stack(p, &s, by, &lines[i].text);
	}
	if (!r)
		print_stacks(lines, n, out);
	for (size_t i = 0; i < n; i++)
		free(lines[i].text);
	free(lines);
	return !r && (fflush(out) || ferror(out)) ? -EIO : r;
}
