/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/view/top_table.h"

#include "oci/base/clock.h"
#include "oci/base/utf8.h"
#include "profiler/pprof/function_totals.h"
#include "profiler/pprof/value_unit.h"
#include "profiler/view/columns.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TARGETS_SHOWN 3
#define NOTES_SHOWN 20
#define NAME_COLUMN 45 /* where names begin */

/* Units that go tool pprof does not show either. */
static bool is_plain_number(const char *unit)
{
	return !strcmp(unit, "count") || !strcmp(unit, "sample") || !strcmp(unit, "unit");
}

const char *top_amount(int64_t value, const char *unit, char *buf, size_t size)
{
	static const struct {
		enum unit_family family;
		const char *name;
		double factor; /* rows of a family: largest first */
	} rows[] = {
		{UNIT_TIME, "hrs", 3600e9},
		{UNIT_TIME, "mins", 60e9},
		{UNIT_TIME, "s", 1e9},
		{UNIT_TIME, "ms", 1e6},
		{UNIT_TIME, "us", 1e3},
		{UNIT_TIME, "ns", 1},
		{UNIT_MEMORY, "PB", 1ull << 50}, /* as go tool pprof calls them */
		{UNIT_MEMORY, "TB", 1ull << 40},
		{UNIT_MEMORY, "GB", 1u << 30},
		{UNIT_MEMORY, "MB", 1u << 20},
		{UNIT_MEMORY, "kB", 1u << 10},
		{UNIT_MEMORY, "B", 1},
	};
	const struct value_unit of = value_unit_find(unit);
	const double scaled = (double)value * (double)of.factor, absolute = scaled < 0 ? -scaled : scaled;
	const char *shown = value && !is_plain_number(unit) ? unit : "";
	double factor = 1;
	for (size_t i = 0; value && i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (rows[i].family != of.family || absolute < rows[i].factor)
			continue;
		factor = rows[i].factor;
		shown = rows[i].name;
		break;
	}
	int n = factor > 1 ? snprintf(buf, size, "%.2f", scaled / factor) : snprintf(buf, size, "%" PRId64, value);
	if (factor > 1 && n > 3 && (size_t)n < size && !strcmp(buf + n - 3, ".00"))
		n -= 3;
	if (n >= 0 && (size_t)n < size)
		snprintf(buf + n, size - (size_t)n, "%s", shown);
	for (char *c = buf; *c; c++) /* a unit out of a file */
		if (*c < ' ' || *c > '~')
			*c = '?';
	return buf;
}

/* The format of go tool pprof: two decimals, two digits below 1 %. */
static const char *format_percent(__int128 value, __int128 total, char *buf, size_t size)
{
	double share = total ? (double)value / (double)total * 100 : 0;
	if (share < 0)
		share = -share;
	if (share >= 99.95 && share <= 100.05)
		snprintf(buf, size, "100%%");
	else
		snprintf(buf, size, share >= 1 ? "%.2f%%" : "%.2g%%", share);
	return buf;
}

static int by_flat(const void *a, const void *b)
{
	const struct function_sum *x = a, *y = b;
	if (x->flat != y->flat)
		return x->flat < y->flat ? 1 : -1;
	if (x->cum != y->cum)
		return x->cum < y->cum ? 1 : -1;
	return strcmp(x->name, y->name);
}

static int by_cum(const void *a, const void *b)
{
	const struct function_sum *x = a, *y = b;
	return x->cum == y->cum ? by_flat(a, b) : x->cum < y->cum ? 1 : -1;
}

static void print_name(const char *name, unsigned columns, FILE *out)
{
	if (columns)
		columns_print(out, name, columns > NAME_COLUMN ? columns - NAME_COLUMN : 1);
	else
		utf8_print(out, name, NULL);
	putc('\n', out);
}

/* Those before `skip` count in sum%, too. */
static void print_rows(
	const struct function_totals *f, const struct top_view *v, size_t end, const char *unit, FILE *out)
{
	char flat[64], cum[64], share[3][32];
	__int128 sum = 0;

	fprintf(out, "%10s %6s %6s %10s %6s\n", "flat", "flat%", "sum%", "cum", "cum%");
	for (size_t i = 0; i < end; i++) {
		const struct function_sum *row = &f->rows[i];
		sum += row->flat;
		if (i < v->skip)
			continue;
		fprintf(out, "%10s %6s %6s %10s %6s  ",
			top_amount(function_totals_clamp(row->flat), unit, flat, sizeof(flat)),
			format_percent(row->flat, f->total, share[0], sizeof(share[0])),
			format_percent(sum, f->total, share[1], sizeof(share[1])),
			top_amount(function_totals_clamp(row->cum), unit, cum, sizeof(cum)),
			format_percent(row->cum, f->total, share[2], sizeof(share[2])));
		print_name(row->name, v->columns, out);
	}
}

int top_write_view(const struct profile *p, const struct top_view *v, size_t *ret_n, FILE *out)
{
	struct function_totals f;
	int r = function_totals_sum(p, v->type, &f);
	if (r < 0)
		return r;
	const size_t skip = v->skip < f.n ? v->skip : f.n, end = f.n - skip < v->rows ? f.n : skip + v->rows;
	if (f.n)
		qsort(f.rows, f.n, sizeof(*f.rows), v->by_cum ? by_cum : by_flat);
	print_rows(&f, v, end, profile_info(p)->types[v->type].unit, out);
	if (end < f.n && !v->bare)
		fprintf(out, "%10s %zu more functions\n", "...", f.n - end);
	if (ret_n)
		*ret_n = f.n;
	r = fflush(out) || ferror(out) ? -EIO : 0;
	function_totals_done(&f);
	return r;
}

int top_write(const struct profile *p, unsigned type, size_t rows, FILE *out)
{
	return top_write_view(p, &(struct top_view){.type = type, .rows = rows}, NULL, out);
}

/* --- the header */

static const char *find_label(const struct profile_sample *s, const char *key)
{
	for (size_t i = 0; i < s->n_labels; i++)
		if (s->labels[i].str && !strcmp(s->labels[i].key, key))
			return s->labels[i].str;
	return NULL;
}

/* The values of the first label that names a target; how many, at most TARGETS_SHOWN + 1. */
static size_t find_targets(const struct profile *p, const char **found)
{
	static const char *const keys[] = {"service_name", "container", "exe", "process"};
	size_t n = 0;
	for (size_t k = 0; !n && k < sizeof(keys) / sizeof(keys[0]); k++) {
		for (size_t i = 0; i < profile_samples(p) && n <= TARGETS_SHOWN; i++) {
			struct profile_sample s;
			profile_sample_get(p, i, &s);
			const char *value = find_label(&s, keys[k]);
			bool known = !value;
			for (size_t j = 0; !known && j < n; j++)
				known = found[j] == value; /* interned */
			if (!known)
				found[n++] = value;
		}
	}
	return n;
}

void top_targets(const struct profile *p, const char *source, FILE *out)
{
	const char *found[TARGETS_SHOWN + 1];
	size_t n = find_targets(p, found);
	if (!n)
		found[n++] = source;
	for (size_t i = 0; i < n && i < TARGETS_SHOWN; i++) {
		fputs(i ? ", " : "", out);
		utf8_print(out, found[i], NULL);
	}
	if (n > TARGETS_SHOWN)
		fputs(", and more", out);
}

/* Of many windows there are many, which say much the same. */
static void print_notes(const struct profile *p, FILE *out)
{
	const size_t n = profile_comments(p);
	for (size_t i = 0; i < n && i < NOTES_SHOWN; i++) {
		fprintf(out, "%-9s ", "note");
		utf8_print(out, profile_comment_get(p, i), NULL);
		putc('\n', out);
	}
	if (n > NOTES_SHOWN)
		fprintf(out, "%-9s %zu more, of other windows\n", "...", n - NOTES_SHOWN);
}

int top_header(const struct profile *p, const char *source, FILE *out)
{
	const struct profile_info *info = profile_info(p);
	char amount[64], when[64] = "unknown";
	time_t start = (time_t)(info->time_ns / NSEC_PER_SEC);
	struct tm tm;

	fprintf(out, "%-9s ", "target");
	top_targets(p, source, out);
	putc('\n', out);
	if (info->time_ns && gmtime_r(&start, &tm))
		strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S UTC", &tm);
	fprintf(out, "%-9s %s\n", "start", when);
	if (info->duration_ns) /* a heap profile has none */
		fprintf(out, "%-9s %s\n", "duration",
			top_amount(info->duration_ns, "nanoseconds", amount, sizeof(amount)));
	fprintf(out, "%-9s ", "total");
	for (unsigned i = 0; i < info->n_types; i++) {
		top_amount(profile_total(p, i), info->types[i].unit, amount, sizeof(amount));
		fprintf(out, "%s%s ", i ? ", " : "", amount);
		utf8_print(out, info->types[i].type, NULL);
	}
	putc('\n', out);
	print_notes(p, out);
	return ferror(out) ? -EIO : 0;
}
