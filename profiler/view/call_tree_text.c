/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/view/call_tree_text.h"

#include "oci/base/array.h"
#include "oci/base/string_table.h"
#include "oci/base/utf8.h"
#include "profiler/pprof/value_unit.h"
#include "profiler/view/top_table.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX
#define INDENT_MAX 100 /* deeper rows are not indented further */

struct key {
	uint32_t parent, name;
};

struct row { /* as many as keys, with the same numbers; a parent's is below its child's */
	uint32_t child, next, depth;
};

struct tree {
	const struct profile *p;
	struct string_table keys;
	struct row *rows;
	int64_t *values; /* by row: the own ones of each type, then those with all callees */
	size_t room, values_room;
	unsigned types;
	uint32_t first;
	unsigned sorted_by;
	int64_t least; /* the least such sum of a row that is shown */
};

static int64_t add_saturating(int64_t a, int64_t b)
{
	int64_t sum;
	return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

static int64_t *own_values(const struct tree *t, size_t row)
{
	return t->values + row * 2 * t->types;
}

static int64_t *all_values(const struct tree *t, size_t row)
{
	return own_values(t, row) + t->types;
}

/* The row of a function below another; NONE: at the top */
static int64_t add_row(struct tree *t, uint32_t parent, const char *name)
{
	int64_t string = profile_string_find(t->p, name);
	struct key k = {parent, string < 0 ? 0 : (uint32_t)string};
	int64_t id = string_table_add(&t->keys, &k, sizeof(k));
	if (id < 0 || (size_t)id < t->room)
		return id;
	const size_t had = t->room, width = 2 * t->types * sizeof(*t->values);
	if (array_reserve(&t->values, &t->values_room, (size_t)id + 1, width, 256) < 0 ||
		array_reserve(&t->rows, &t->room, (size_t)id + 1, sizeof(*t->rows), 256) < 0)
		return -ENOMEM;
	memset(own_values(t, had), 0, (t->room - had) * width);
	memset(t->rows + had, 0, (t->room - had) * sizeof(*t->rows));
	return id;
}

static int add_sample(struct tree *t, size_t i)
{
	struct profile_sample s;
	int64_t at = NONE;
	uint32_t depth = 0;
	profile_sample_get(t->p, i, &s);
	for (size_t k = s.n; k-- > 0;) {
		struct profile_location l;
		profile_location_get(t->p, s.locations[k], &l);
		for (size_t m = l.n; m-- > 0;) {
			at = add_row(t, (uint32_t)at, profile_function_name(t->p, l.lines[m].function));
			if (at < 0)
				return (int)at;
			t->rows[at].depth = depth++;
		}
	}
	for (unsigned v = 0; at != NONE && v < t->types; v++)
		own_values(t, (size_t)at)[v] = add_saturating(own_values(t, (size_t)at)[v], s.values[v]);
	return 0;
}

static int by_sum(const void *a, const void *b, void *tree)
{
	const struct tree *t = tree;
	uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
	const int64_t x = all_values(t, i)[t->sorted_by], y = all_values(t, k)[t->sorted_by];
	if (x != y)
		return x < y ? -1 : 1;
	return i < k ? 1 : i > k ? -1 : 0; /* the list is made backwards: those that came first come first */
}

/* Sums, and each one's children in order */
static int link_rows(struct tree *t)
{
	size_t n = t->keys.count;
	uint32_t *order = calloc(n + 1, sizeof(*order));
	if (!order)
		return -ENOMEM;
	for (size_t i = n; i-- > 0;) {
		const struct key *k = t->keys.items[i].data;
		struct row *r = &t->rows[i];
		order[i] = (uint32_t)i;
		r->child = r->next = NONE;
		int64_t *all = all_values(t, i), *above = k->parent == NONE ? NULL : all_values(t, k->parent);
		for (unsigned v = 0; v < t->types; v++) {
			all[v] = add_saturating(all[v], own_values(t, i)[v]);
			if (above)
				above[v] = add_saturating(above[v], all[v]);
		}
	}
	if (n)
		qsort_r(order, n, sizeof(*order), by_sum, t);
	t->first = NONE;
	for (size_t i = 0; i < n; i++) { /* smallest first, each in front of the others */
		const struct key *k = t->keys.items[order[i]].data;
		uint32_t *head = k->parent == NONE ? &t->first : &t->rows[k->parent].child;
		t->rows[order[i]].next = *head;
		*head = order[i];
	}
	free(order);
	return 0;
}

static bool is_time(const struct profile *p, unsigned type)
{
	return value_unit_find(profile_info(p)->types[type].unit).family == UNIT_TIME;
}

static void print_head(const struct profile *p, FILE *out)
{
	for (unsigned v = 0; v < profile_info(p)->n_types; v++)
		if (is_time(p, v))
			fprintf(out, "%12s %12s", "total", "self");
		else
			fprintf(out, "%12s ", profile_info(p)->types[v].type);
	fputs("  function\n", out);
}

static void print_row(const struct tree *t, uint32_t i, FILE *out)
{
	char buf[64];
	const struct row *r = &t->rows[i];
	const struct key *k = t->keys.items[i].data;
	for (unsigned v = 0; v < t->types; v++) {
		const char *unit = profile_info(t->p)->types[v].unit;
		bool time = is_time(t->p, v);
		if (time)
			fprintf(out, "%12s ", top_amount(all_values(t, i)[v], unit, buf, sizeof(buf)));
		fprintf(out, "%12s%s", top_amount(own_values(t, i)[v], unit, buf, sizeof(buf)), time ? "" : " ");
	}
	fprintf(out, "  %*s", 2 * (int)(r->depth < INDENT_MAX ? r->depth : INDENT_MAX), "");
	utf8_print(out, profile_string_get(t->p, k->name), NULL);
	putc('\n', out);
}

static void print_tree(const struct tree *t, FILE *out)
{
	size_t left_out = 0;
	print_head(t->p, out);
	uint32_t i = t->first;
	while (i != NONE) {
		const bool shown = all_values(t, i)[t->sorted_by] >= t->least;
		if (shown)
			print_row(t, i, out);
		left_out += !shown;
		uint32_t next = shown ? t->rows[i].child : NONE;
		for (uint32_t at = i; next == NONE && at != NONE;
			at = ((const struct key *)t->keys.items[at].data)->parent)
			next = t->rows[at].next;
		i = next;
	}
	if (left_out)
		fprintf(out, "%12s %zu branches of less\n", "...", left_out);
}

int call_tree_text_write_by(const struct profile *p, unsigned type, uint32_t least, FILE *out)
{
	struct tree t = {.p = p, .sorted_by = type, .least = INT64_MIN, .types = profile_info(p)->n_types};
	int r = type < t.types ? 0 : -EINVAL;
	for (size_t i = 0; r == 0 && i < profile_samples(p); i++)
		r = add_sample(&t, i);
	if (r == 0 && least)
		t.least = profile_total(p, type) / least;
	if (r == 0)
		r = link_rows(&t);
	if (r == 0) {
		print_tree(&t, out);
		r = fflush(out) || ferror(out) ? -EIO : 0;
	}
	string_table_done(&t.keys);
	free(t.rows);
	free(t.values);
	return r;
}

int call_tree_text_write(const struct profile *p, FILE *out)
{
	return call_tree_text_write_by(p, profile_default_type(p), 0, out);
}
