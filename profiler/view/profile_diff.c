/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/view/profile_diff.h"

#include "profiler/pprof/function_totals.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One profile: sums by the type asked for, and numbers of samples. */
struct side {
	struct function_totals by, counts;
	bool counted;
};

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct function_sum *)a)->name, ((const struct function_sum *)b)->name);
}

/* Returns the type that counts samples: `type` itself, if its unit is "count". */
static int count_of(const struct profile *p, int type)
{
	if (!strcmp(profile_info(p)->types[type].unit, "count"))
		return type;
	return profile_type_find(p, "samples");
}

static int open_side(struct side *s, const struct profile *p, const char *type)
{
	const int i = profile_type_find(p, type);
	if (i < 0)
		return -EINVAL;
	const int count = count_of(p, i);
	int r = function_totals_sum(p, (unsigned)i, &s->by);
	if (r == 0 && count >= 0)
		r = function_totals_sum(p, (unsigned)count, &s->counts);
	s->counted = count >= 0;
	if (r == 0)
		qsort(s->by.rows, s->by.n, sizeof(*s->by.rows), by_name);
	if (r == 0 && s->counted)
		qsort(s->counts.rows, s->counts.n, sizeof(*s->counts.rows), by_name);
	return r;
}

static void close_side(struct side *s)
{
	function_totals_done(&s->by);
	function_totals_done(&s->counts);
}

static double value_of(const struct function_totals *f, const char *name, bool cum)
{
	const struct function_sum key = {.name = name};
	const struct function_sum *row = f->n ? bsearch(&key, f->rows, f->n, sizeof(*f->rows), by_name) : NULL;
	return row ? (double)(cum ? row->cum : row->flat) : 0;
}

static double compute_share(const struct function_totals *f, const char *name, bool cum)
{
	return f->total ? value_of(f, name, cum) / (double)f->total : 0;
}

static double compute_p_value(const struct side *a, const struct side *b, const char *name, bool cum)
{
	const double n = (double)a->counts.total, m = (double)b->counts.total;
	if (!a->counted || !b->counted || n <= 0 || m <= 0)
		return -1;
	const double x = value_of(&a->counts, name, cum), y = value_of(&b->counts, name, cum);
	const double both = (x + y) / (n + m), spread = sqrt(both * (1 - both) * (1 / n + 1 / m));
	return spread > 0 ? erfc(fabs(x / n - y / m) / spread / sqrt(2)) : 1;
}

static void add_row(
	struct profile_delta *l, const struct side *before, const struct side *after, const char *name, bool cum)
{
	struct function_delta m = {
		name, compute_share(&before->by, name, cum), compute_share(&after->by, name, cum), -1};
	if (m.before == 0 && m.after == 0)
		return;
	m.chance = compute_p_value(before, after, name, cum);
	l->rows[l->n++] = m;
}

static bool is_sure(const struct function_delta *m, size_t n)
{
	return m->chance >= 0 && m->chance * (double)n < PROFILE_DIFF_SURE;
}

static int by_move(const void *a, const void *b)
{
	const struct function_delta *x = a, *y = b;
	const double p = fabs(x->after - x->before), q = fabs(y->after - y->before);
	return p != q ? (p < q) - (p > q) : strcmp(x->name, y->name);
}

/* Sorts the sure ones first, then all others. */
static void sort_rows(struct profile_delta *l, struct function_delta *room)
{
	size_t unsure = 0;
	qsort(l->rows, l->n, sizeof(*l->rows), by_move);
	for (size_t i = 0; i < l->n; i++)
		if (is_sure(&l->rows[i], l->n))
			l->rows[l->n_sure++] = l->rows[i];
		else
			room[unsure++] = l->rows[i];
	memcpy(l->rows + l->n_sure, room, unsure * sizeof(*room));
}

/* Lists a name of both once: the names of `before` alone come last. */
static int list_functions(struct profile_delta *l, const struct side *before, const struct side *after, bool cum)
{
	const size_t most = before->by.n + after->by.n;
	struct function_delta *room = calloc(most + 1, sizeof(*room));
	l->rows = calloc(most + 1, sizeof(*l->rows));
	if (!room || !l->rows) {
		free(room);
		return -ENOMEM;
	}
	for (size_t i = 0; i < after->by.n; i++)
		add_row(l, before, after, after->by.rows[i].name, cum);
	for (size_t i = 0; i < before->by.n; i++)
		if (!after->by.n ||
			!bsearch(&before->by.rows[i], after->by.rows, after->by.n, sizeof(*after->by.rows), by_name))
			add_row(l, before, after, before->by.rows[i].name, cum);
	sort_rows(l, room);
	free(room);
	return 0;
}

int profile_diff_find(const struct profile *before, const struct profile *after, const char *type, bool cum,
	struct profile_delta *ret)
{
	struct side a = {0}, b = {0};
	*ret = (struct profile_delta){0};
	int r = open_side(&a, before, type);
	if (r == 0)
		r = open_side(&b, after, type);
	if (r == 0)
		r = list_functions(ret, &a, &b, cum);
	close_side(&a);
	close_side(&b);
	return r;
}

void profile_diff_done(struct profile_delta *l)
{
	free(l->rows);
	*l = (struct profile_delta){0};
}
