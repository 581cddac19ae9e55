/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/view/flame_html.h"

#include "oci/base/array.h"
#include "oci/base/utf8.h"
#include "profiler/view/flame_tree.h"
#include "profiler/view/top_table.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH 1200.
#define ROW 18
#define HEAD 44		/* above the first row */
#define LEAST 0.2	/* narrower frames are left out */
#define LETTER 7.25	/* of a monospaced font of 12 px, a little more than most have */
#define SHARE_FULL 0.10 /* a change of the share by so much has the full colour */

struct drawing {
	const struct flame_html *f;
	struct flame_tree t;
	double *total, *before; /* by node */
	uint32_t *first, *next; /* child and sibling + 1, the largest first; 0: none */
	double all, all_before;
	unsigned depth;
	FILE *out;
};

static const char *name_of(const struct drawing *d, uint32_t node)
{
	return d->t.names.items[d->t.nodes.items[node].b].data;
}

static void sum_up(struct drawing *d)
{
	const size_t width = 2 * d->t.n_types;
	for (size_t i = 0; i < d->t.rows.count; i++) {
		d->total[d->t.rows.items[i].a] += (double)d->t.values[i * width + d->f->type];
		d->before[d->t.rows.items[i].a] += (double)d->t.values[i * width + d->t.n_types + d->f->type];
	}
	for (size_t i = d->t.nodes.count; i-- > 0;) {
		const uint64_t up = d->t.nodes.items[i].a;
		*(up ? &d->total[up - 1] : &d->all) += d->total[i];
		*(up ? &d->before[up - 1] : &d->all_before) += d->before[i];
	}
}

static const double *sort_by;
static int smallest_first(const void *a, const void *b)
{
	const double x = sort_by[*(const uint32_t *)a], y = sort_by[*(const uint32_t *)b];
	return x != y ? (x > y) - (x < y) : *(const uint32_t *)b > *(const uint32_t *)a ? 1 : -1;
}

/* Put in front of their siblings in this order, so that the largest is the first. first[0] is that of the roots. */
static int link_children(struct drawing *d)
{
	const size_t n = d->t.nodes.count;
	uint32_t *order = reallocarray(NULL, n + 1, sizeof(*order));
	if (!order)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		order[i] = (uint32_t)i;
	sort_by = d->total;
	qsort(order, n, sizeof(*order), smallest_first);
	for (size_t i = 0; i < n; i++) {
		uint32_t *head = &d->first[d->t.nodes.items[order[i]].a];
		d->next[order[i]] = *head;
		*head = order[i] + 1;
	}
	free(order);
	return 0;
}

/* Letters of most scripts of the East are twice as wide; so every character of three bytes and more counts as two. */
static size_t get_char_width(const unsigned char *c)
{
	return utf8_valid(c) > 2 ? 2 : 1;
}

/* `most`: columns. A character that XML forbids, or that is invisible, becomes '?'. */
static void write_escaped_text(const char *text, size_t most, FILE *out)
{
	const unsigned char *c = (const unsigned char *)text;
	for (size_t used = 0, length; *c && used + get_char_width(c) <= most; c += length) {
		length = utf8_valid(c);
		const uint32_t is = length ? utf8_decode(c, length) : 0;
		used += get_char_width(c);
		length = length ? length : 1;
		if (is == '<')
			fputs("&lt;", out);
		else if (is == '&')
			fputs("&amp;", out);
		else if (!is || utf8_is_deceptive(is) || (is & 0xffff) >= 0xfffe)
			putc('?', out);
		else
			fwrite(c, 1, length, out);
	}
}

static size_t width_of(const char *text)
{
	size_t n = 0;
	for (const unsigned char *c = (const unsigned char *)text; *c;
		n += get_char_width(c), c += utf8_valid(c) ? utf8_valid(c) : 1)
		;
	return n;
}

/* Drops the path of the package, as Go and Java write it: the end of a name says more. */
static const char *last_part(const char *name)
{
	const char *last = name;
	for (const char *c = name; *c && *c != '(' && *c != '<'; c++)
		if (*c == '/' &&
			(c[1] == '_' || utf8_valid((const unsigned char *)c + 1) > 1 || isalnum((unsigned char)c[1])))
			last = c + 1;
	return name[0] == '[' ? name : last;
}

static unsigned compute_hue(const char *text)
{
	unsigned h = 0;
	while (*text)
		h = h * 31 + (unsigned char)*text++;
	return h * 47 % 360;
}

static void write_colour(const struct drawing *d, uint32_t node)
{
	const char *name = name_of(d, node);
	if (d->f->before) {
		const double moved =
			d->total[node] / d->all - (d->all_before > 0 ? d->before[node] / d->all_before : 0);
		const double much = fmin(1, fabs(moved) / SHARE_FULL);
		if (fabs(moved) < 0.0005)
			fputs("hsl(0,0%,90%)", d->out);
		else
			fprintf(d->out, "hsl(%d,85%%,%.0f%%)", moved > 0 ? 8 : 215, 92 - 22 * much);
		return;
	}
	const uint32_t text = (uint32_t)d->t.nodes.items[node].b;
	if (name[0] == '[')
		fputs("hsl(0,0%,87%)", d->out);
	else
		fprintf(d->out, "hsl(%u,62%%,%u%%)", compute_hue(d->t.modules.items[d->t.module[text]].data),
			80 + text % 4 * 2);
}

static void write_tooltip(const struct drawing *d, uint32_t node)
{
	char amount[64];
	const char *unit = profile_info(d->f->of)->types[d->f->type].unit;
	write_escaped_text(name_of(d, node), 2000, d->out);
	fprintf(d->out, " %s, %.2f %%", top_amount((int64_t)d->total[node], unit, amount, sizeof(amount)),
		100 * d->total[node] / d->all);
	if (d->f->before)
		fprintf(d->out, ", before %.2f %%", d->all_before > 0 ? 100 * d->before[node] / d->all_before : 0);
}

static void write_frame(const struct drawing *d, uint32_t node, double x, double width, unsigned row)
{
	const char *whole = name_of(d, node), *name = whole;
	const size_t room = width > 8 ? (size_t)((width - 8) / LETTER) : 0;
	fputs("<g><title>", d->out);
	write_tooltip(d, node);
	fprintf(d->out, "</title><rect x=\"%.2f\" y=\"%u\" width=\"%.2f\" height=\"%u\" fill=\"", x, HEAD + row * ROW,
		width > 2 ? width - 0.5 : width, ROW - 1);
	write_colour(d, node);
	fputs("\"/>", d->out);
	if (room >= 3) {
		if (width_of(whole) > room)
			name = last_part(whole);
		const bool cut = width_of(name) > room;
		fprintf(d->out, "<text x=\"%.2f\" y=\"%u\">", x + 4, HEAD + row * ROW + 13);
		write_escaped_text(name, cut ? room - 2 : room, d->out);
		fputs(cut ? "..</text>" : "</text>", d->out);
	}
	fputs("</g>\n", d->out);
}

/* Stacks may be deep: so without recursion. `draw` false: measures the depth alone. */
struct level {
	uint32_t node; /* + 1 */
	double x, end; /* of its caller: children with negative values must not make it wider */
};
static int walk_tree(struct drawing *d, bool draw)
{
	const double scale = WIDTH / d->all;
	size_t room = 0, row = 0;
	struct level *path = NULL;
	if (array_reserve(&path, &room, 1, sizeof(*path), 64) < 0)
		return -ENOMEM;
	path[0] = (struct level){d->first[0], 0, WIDTH};
	for (;;) {
		const struct level *at = &path[row];
		const double width = at->node ? fmin(d->total[at->node - 1] * scale, at->end - at->x) : 0;
		if (width < LEAST) { /* the next siblings are smaller still */
			if (row-- == 0)
				break;
			path[row].x = path[row + 1].end;
			path[row].node = d->next[path[row].node - 1];
			continue;
		}
		const uint32_t node = at->node - 1;
		const double x = at->x;
		d->depth = row + 1 > d->depth ? (unsigned)row + 1 : d->depth;
		if (draw)
			write_frame(d, node, x, width, (unsigned)row);
		if (array_reserve(&path, &room, ++row + 1, sizeof(*path), 64) < 0) {
			free(path);
			return -ENOMEM;
		}
		path[row] = (struct level){d->first[node + 1], x, x + width};
	}
	free(path);
	return 0;
}

static int write_svg(struct drawing *d)
{
	const struct profile_info *info = profile_info(d->f->of);
	char amount[64];
	int r = d->all > 0 ? walk_tree(d, false) : 0;
	if (r < 0)
		return r;
	const unsigned height = HEAD + d->depth * ROW + 8;
	fprintf(d->out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"-4 0 %.0f %u\" width=\"%.0f\" height=\"%u\" "
		"font-family=\"ui-monospace,Menlo,Consolas,monospace\" font-size=\"12\" fill=\"#181818\">\n"
		"<rect x=\"-4\" width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n<text x=\"4\" y=\"18\" "
		"font-size=\"15\" "
		"font-family=\"system-ui,sans-serif\">",
		WIDTH + 8, height, WIDTH + 8, height);
	write_escaped_text(d->f->title, 120, d->out);
	fputs("</text>\n<text x=\"4\" y=\"36\" font-family=\"system-ui,sans-serif\" fill=\"#595959\">", d->out);
	if (d->all > 0) {
		fprintf(d->out, "%s ",
			top_amount((int64_t)d->all, info->types[d->f->type].unit, amount, sizeof(amount)));
		write_escaped_text(info->types[d->f->type].type, 60, d->out);
		if (d->f->before)
			fputs("; red: a larger share than before, blue: a smaller one", d->out);
	} else {
		fputs("nothing of this type in the profile", d->out);
	}
	fputs("</text>\n", d->out);
	r = d->all > 0 ? walk_tree(d, true) : 0;
	fputs("</svg>\n", d->out);
	return r < 0 ? r : fflush(d->out) || ferror(d->out) ? -EIO : 0;
}

int flame_html_svg(const struct flame_html *f, FILE *out)
{
	struct drawing d = {.f = f, .out = out};
	if (f->type >= profile_info(f->of)->n_types)
		return -EINVAL;
	int r = flame_tree_build(&d.t, f->of, f->before);
	const size_t n = d.t.nodes.count + 1;
	if (r == 0) {
		d.total = calloc(n, sizeof(*d.total));
		d.before = calloc(n, sizeof(*d.before));
		d.first = calloc(n, sizeof(*d.first));
		d.next = calloc(n, sizeof(*d.next));
		r = d.total && d.before && d.first && d.next ? 0 : -ENOMEM;
	}
	if (r == 0) {
		sum_up(&d);
		r = link_children(&d);
	}
	if (r == 0)
		r = write_svg(&d);
	free(d.total);
	free(d.before);
	free(d.first);
	free(d.next);
	flame_tree_done(&d.t);
	return r;
}
