/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/view/calltree_file.h"

#include "oci/base/array.h"
#include "profiler/process/proc_maps.h"
#include "shim/libpillion/abi/calltree_layout.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ROOM_FIRST 256

struct parser {
	struct calltree_file *f;
	size_t line; /* from 1 */
	size_t mappings_room, nodes_room;
	struct calltree_file_mapping *last; /* that an "id" is about */
	struct calltree_file_mapping *gone;
	bool ended;
};

struct calltree_file *calltree_file_free(struct calltree_file *f)
{
	if (f) {
		free(f->text);
		free(f->mappings);
		free(f->nodes);
	}
	free(f);
	return NULL;
}

static int set_line_error(const struct parser *p, struct err *e, const char *what)
{
	return err_say(e, -EBADMSG, "line %zu: %s", p->line, what);
}

/* --- words --------------------------------------------------------------------------------------------- */

static int parse_digit(char c, unsigned base)
{
	int d = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : 99;
	return d < (int)base ? d : -1;
}

/* A number and the blank behind it, or the end */
static bool parse_number(char **at, unsigned base, uint64_t *ret)
{
	uint64_t n = 0;
	char *p = *at;
	for (int d; (d = parse_digit(*p, base)) >= 0; p++)
		if (__builtin_mul_overflow(n, base, &n) || __builtin_add_overflow(n, (unsigned)d, &n))
			return false;
	if (p == *at || (*p && *p != ' '))
		return false;
	*at = *p ? p + 1 : p;
	*ret = n;
	return true;
}

static bool parse_uint32(char **at, uint32_t *ret)
{
	uint64_t n;
	if (!parse_number(at, 10, &n) || n >= UINT32_MAX)
		return false;
	*ret = (uint32_t)n;
	return true;
}

/* --- lines --------------------------------------------------------------------------------------------- */

static int parse_mapping(struct parser *p, char *rest, uint32_t gone, struct err *e)
{
	struct calltree_file *f = p->f;
	struct calltree_file_mapping m = {.build_id = "", .gone = gone};
	struct module_key key;
	uint64_t len;
	p->last = NULL;
	int r = proc_maps_line(rest, &m.start, &len, &m.offset, &key);
	if (r < 0)
		return set_line_error(p, e, "it is no mapping");
	if (r == 0)
		return 0; /* not executable */
	m.end = m.start + len;
	m.path = key.path;
	if (gone ? f->n_gone >= CALLTREE_FILE_GONE_MAX : f->n_mappings >= CALLTREE_FILE_MAPPINGS_MAX)
		return err_say(e, -EFBIG, "it has too many mappings");
	if (gone) {
		p->last = &p->gone[f->n_gone++];
	} else {
		if (array_reserve(&f->mappings, &p->mappings_room, f->n_mappings + 1, sizeof(m), ROOM_FIRST) < 0)
			return err_set(e, -ENOMEM, "cannot read it");
		p->last = &f->mappings[f->n_mappings++];
	}
	*p->last = m;
	return 0;
}

static int map_line(struct parser *p, char *rest, struct err *e)
{
	return parse_mapping(p, rest, 0, e);
}

static int gone_line(struct parser *p, char *rest, struct err *e)
{
	uint32_t n;
	return parse_uint32(&rest, &n) && n ? parse_mapping(p, rest, n, e) : set_line_error(p, e, "it has no number");
}

static int id_line(struct parser *p, char *rest, struct err *e)
{
	size_t n = 0;
	while (parse_digit(rest[n], 16) >= 0)
		n++;
	if (rest[n] || n > 2 * ELF_BUILD_ID_MAX)
		return set_line_error(p, e, "it is no build-id");
	if (p->last)
		p->last->build_id = rest;
	return 0;
}

static int by_id(const void *a, const void *b)
{
	const struct calltree_file_node *x = a, *y = b;
	return x->id < y->id ? -1 : x->id > y->id;
}

/* Numbers rise, so a parent is before its children. One that is not there was being made: its children stand alone. */
static uint32_t parent_of(const struct calltree_file *f, uint32_t id)
{
	const struct calltree_file_node key = {.id = id}, *at = NULL;
	if (id && f->n_nodes)
		at = bsearch(&key, f->nodes, f->n_nodes, sizeof(key), by_id);
	return at ? (uint32_t)(at - f->nodes) : CALLTREE_FILE_NONE;
}

static int node_line(struct parser *p, char *rest, struct err *e)
{
	struct calltree_file *f = p->f;
	struct calltree_file_node n = {0};
	bool full;
	uint32_t parent;
	if (!parse_uint32(&rest, &n.id) || !parse_uint32(&rest, &parent))
		return set_line_error(p, e, "a node without a number");
	full = !strncmp(rest, "full ", 5);
	rest += full ? 5 : 0;
	if ((!full && !parse_number(&rest, 16, &n.fn)) || !parse_number(&rest, 16, &n.site) ||
		!parse_number(&rest, 10, &n.calls) || !parse_number(&rest, 10, &n.ns) ||
		!parse_uint32(&rest, &n.gone) || n.calls > INT64_MAX || n.ns > INT64_MAX)
		return set_line_error(p, e, "a node without its numbers");
	if (!n.id || parent >= n.id || (f->n_nodes && f->nodes[f->n_nodes - 1].id >= n.id))
		return set_line_error(p, e, "a node out of order");
	if (f->n_nodes >= CALLTREE_FILE_NODES_MAX)
		return err_say(e, -EFBIG, "it has too many nodes");
	if (array_reserve(&f->nodes, &p->nodes_room, f->n_nodes + 1, sizeof(n), ROOM_FIRST) < 0)
		return err_set(e, -ENOMEM, "cannot read it");
	n.parent = parent_of(f, parent);
	f->nodes[f->n_nodes++] = n;
	return 0;
}

static int pid_line(struct parser *p, char *rest, struct err *e)
{
	return parse_uint32(&rest, &p->f->pid) ? 0 : set_line_error(p, e, "it is no pid");
}

static int clock_line(struct parser *p, char *rest, struct err *e)
{
	p->f->timed = strcmp(rest, "none") != 0;
	return 0;
}

static int unplaced_line(struct parser *p, char *rest, struct err *e)
{
	return parse_number(&rest, 10, &p->f->unplaced) && p->f->unplaced <= INT64_MAX
		       ? 0
		       : set_line_error(p, e, "it is no number");
}

static int end_line(struct parser *p, char *rest, struct err *e)
{
	uint64_t n;
	p->ended = parse_number(&rest, 10, &n) && n == p->f->n_nodes;
	return p->ended ? 0 : set_line_error(p, e, "there are more or fewer nodes than it says");
}

static int one_line(struct parser *p, char *line, struct err *e)
{
	static const struct {
		const char *word;
		int (*parse)(struct parser *p, char *rest, struct err *e);
	} kinds[] = {
		{"node ", node_line},
		{"map ", map_line},
		{"id ", id_line},
		{"gone ", gone_line},
		{"pid ", pid_line},
		{"clock ", clock_line},
		{"unplaced ", unplaced_line},
		{"end ", end_line},
	};
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strncmp(line, kinds[i].word, strlen(kinds[i].word)))
			return kinds[i].parse(p, line + strlen(kinds[i].word), e);
	return 0;
}

/* --- the whole ----------------------------------------------------------------------------------------- */

static int by_start(const void *a, const void *b)
{
	const struct calltree_file_mapping *x = a, *y = b;
	return x->start < y->start ? -1 : x->start > y->start;
}

/* By address; those that are gone behind. */
static int sort_mappings(struct parser *p, struct err *e)
{
	struct calltree_file *f = p->f;
	size_t n = f->n_mappings + f->n_gone;
	struct calltree_file_mapping *all = reallocarray(f->mappings, n + 1, sizeof(*all));
	if (!all)
		return err_set(e, -ENOMEM, "cannot read it");
	f->mappings = all;
	if (f->n_mappings)
		qsort(all, f->n_mappings, sizeof(*all), by_start);
	memcpy(all + f->n_mappings, p->gone, f->n_gone * sizeof(*all));
	return 0;
}

static int parse_tree(struct parser *p, char *text, size_t len, struct err *e)
{
	static const char first[] = "pillion-tree 1\n";
	if (len < strlen(first) || strncmp(text, first, strlen(first)) != 0)
		return err_say(e, -EBADMSG,
			"it is no calling-context tree that we know: PILLION_TREE=FILE in a program's environment, or "
			"pillion_tree_dump() writes one");
	char *end;
	int r = 0;
	for (char *line = text; r == 0 && (end = memchr(line, '\n', len - (size_t)(line - text))); line = end + 1) {
		*end = 0;
		p->line++;
		r = p->ended ? set_line_error(p, e, "something is behind its end") : one_line(p, line, e);
	}
	if (r == 0 && !p->ended)
		r = err_say(e, -EBADMSG, "it is cut off; let the program write it once more");
	return r == 0 ? sort_mappings(p, e) : r;
}

int calltree_file_parse(char *text, size_t len, struct calltree_file **ret, struct err *e)
{
	struct parser p = {
		.f = calloc(1, sizeof(*p.f)),
		.gone = calloc(CALLTREE_FILE_GONE_MAX, sizeof(*p.gone)),
	};
	int r;
	if (!p.f || !p.gone) {
		free(text);
		r = err_set(e, -ENOMEM, "cannot read it");
	} else {
		p.f->text = text;
		r = parse_tree(&p, text, len, e);
	}
	free(p.gone);
	if (r < 0)
		calltree_file_free(p.f);
	else
		*ret = p.f;
	return r;
}

const struct calltree_file_mapping *calltree_file_find(const struct calltree_file *f, uint64_t *address, uint32_t gone)
{
	const struct calltree_file_mapping *best = NULL;
	if (*address & TREE_FN_GONE) {
		*address &= ~TREE_FN_GONE;
		for (size_t i = f->n_mappings; i < f->n_mappings + f->n_gone; i++) {
			const struct calltree_file_mapping *m = &f->mappings[i];
			if (m->gone <= gone && *address >= m->start && *address < m->end &&
				(!best || m->gone > best->gone))
				best = m;
		}
		return best;
	}
	size_t low = 0, high = f->n_mappings;
	while (low < high) {
		size_t mid = low + (high - low) / 2;
		if (f->mappings[mid].start <= *address)
			low = mid + 1;
		else
			high = mid;
	}
	best = low ? &f->mappings[low - 1] : NULL;
	return best && *address < best->end ? best : NULL;
}
