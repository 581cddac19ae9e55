/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/view/flame_html.h"

#include "profiler/pprof/value_unit.h"
#include "profiler/view/flame_tree.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

/* The page, in two halves: the data stands between them. */
__asm__(".section .rodata\n"
	".global flame_html\n"
	".hidden flame_html\n"
	"flame_html:\n"
	".incbin \"profiler/view/flame.html\"\n"
	".byte 0\n"
	".previous\n");
extern const char flame_html[];

#define MARK "@DATA@"
#define NONCE "@NONCE@" /* where an attribute may stand */

static void write_text_member(const char *key, const char *value, FILE *out)
{
	fprintf(out, "\"%s\":\"", key);
	flame_tree_json(value, out);
	fputs("\",\n", out);
}

static void write_text_array(const char *key, const struct string_table *from, FILE *out)
{
	fprintf(out, "\"%s\":[", key);
	for (size_t i = 0; i < from->count; i++) {
		fputs(i ? ",\"" : "\"", out);
		flame_tree_json(from->items[i].data, out);
		putc('"', out);
	}
	fputs("],\n", out);
}

static void write_notes(const struct profile *p, FILE *out)
{
	fputs("\"notes\":[", out);
	for (size_t i = 0; i < profile_comments(p); i++) {
		fputs(i ? ",\"" : "\"", out);
		flame_tree_json(profile_comment_get(p, i), out);
		putc('"', out);
	}
	fputs("],\n", out);
}

/* For the page, which knows nanoseconds and bytes: how many of them a unit is. */
static void write_factor(const char *unit, FILE *out)
{
	const struct value_unit u = value_unit_find(unit);
	const char *base = u.family == UNIT_TIME ? "nanoseconds" : u.family == UNIT_MEMORY ? "bytes" : unit;
	if (strcmp(base, unit) != 0)
		fprintf(out, ",\"%s\",%" PRId64, base, u.factor);
}

static void write_types(const struct profile_info *info, FILE *out)
{
	fputs("\"types\":[", out);
	for (unsigned i = 0; i < info->n_types; i++) {
		fputs(i ? ",[\"" : "[\"", out);
		flame_tree_json(info->types[i].type, out);
		fputs("\",\"", out);
		flame_tree_json(info->types[i].unit, out);
		putc('"', out);
		write_factor(info->types[i].unit, out);
		putc(']', out);
	}
	fputs("],\n", out);
}

/* Parents as the distance to them, 0: a root. */
static void write_tree(const struct flame_tree *t, FILE *out)
{
	fputs("\"module\":[", out);
	for (size_t i = 0; i < t->names.count; i++)
		fprintf(out, "%s%" PRIu32, i ? "," : "", t->module[i]);
	fputs("],\n\"name\":[", out);
	for (size_t i = 0; i < t->nodes.count; i++)
		fprintf(out, "%s%" PRIu64, i ? "," : "", t->nodes.items[i].b);
	fputs("],\n\"up\":[", out);
	for (size_t i = 0; i < t->nodes.count; i++) {
		const uint64_t parent = t->nodes.items[i].a;
		fprintf(out, "%s%" PRIu64, i ? "," : "", parent ? i + 1 - parent : 0);
	}
	fputs("],\n", out);
}

static void write_rows(const struct flame_tree *t, bool compared, FILE *out)
{
	fputs("\"sets\":[", out);
	for (size_t i = 0; i < t->sets.count; i++)
		fprintf(out, "%s%s", i ? "," : "", (const char *)t->sets.items[i].data);
	fputs("],\n\"leaf\":[", out);
	for (size_t i = 0; i < t->rows.count; i++)
		fprintf(out, "%s%" PRIu64, i ? "," : "", t->rows.items[i].a);
	fputs("],\n\"set\":[", out);
	for (size_t i = 0; i < t->rows.count; i++)
		fprintf(out, "%s%" PRIu64, i ? "," : "", t->rows.items[i].b);
	fputs("],\n\"values\":[", out);
	for (unsigned k = 0; k < (compared ? 2 : 1) * t->n_types; k++) {
		fputs(k ? ",\n[" : "[", out);
		for (size_t i = 0; i < t->rows.count; i++)
			fprintf(out, "%s%" PRId64, i ? "," : "", t->values[i * 2 * t->n_types + k]);
		putc(']', out);
	}
	fputs("]", out);
}

static void write_data(const struct flame_html *f, const struct flame_tree *t, FILE *out)
{
	const struct profile_info *info = profile_info(f->of);
	fputs("{", out);
	write_text_member("title", f->title, out);
	fprintf(out, "\"start\":%" PRId64 ",\"duration\":%" PRId64 ",\"type\":%u,\"compared\":%s,\n",
		info->time_ns / 1000000, info->duration_ns, f->type, f->before ? "true" : "false");
	fprintf(out, "\"served\":%s,\"refresh\":%u,\n", f->served ? "true" : "false", f->refresh_s);
	write_notes(f->of, out);
	write_types(info, out);
	write_text_array("names", &t->names, out);
	write_text_array("modules", &t->modules, out);
	write_tree(t, out);
	write_rows(t, f->before != NULL, out);
	fputs("}", out);
}

static void write_markup(const char *from, const char *to, const char *nonce, FILE *out)
{
	for (const char *at; (at = memmem(from, (size_t)(to - from), NONCE, strlen(NONCE)));
		from = at + strlen(NONCE)) {
		fwrite(from, 1, (size_t)(at - from), out);
		if (nonce)
			fprintf(out, " nonce=\"%s\"", nonce);
	}
	fwrite(from, 1, (size_t)(to - from), out);
}

int flame_html_page(const struct flame_html *f, FILE *out)
{
	struct flame_tree t;
	const char *mark = strstr(flame_html, MARK);
	if (f->type >= profile_info(f->of)->n_types)
		return -EINVAL;
	int r = flame_tree_build(&t, f->of, f->before);
	if (r == 0) {
		const char *rest = mark + strlen(MARK);
		write_markup(flame_html, mark, f->nonce, out);
		write_data(f, &t, out);
		write_markup(rest, rest + strlen(rest), f->nonce, out);
		r = fflush(out) || ferror(out) ? -EIO : 0;
	}
	flame_tree_done(&t);
	return r;
}
