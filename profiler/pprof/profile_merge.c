/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/pprof/profile_merge.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct profile_merge {
	struct profile *to;
	const struct profile *from;
	uint32_t *mappings, *functions, *locations; /* number in `from` -> number in `to` */
	profile_merge_lines_fn *lines;		    /* NULL: all have their own */
	profile_merge_want_fn *want;		    /* NULL: all samples */
	void *arg;
};

/* Notes the result of a profile function. */
static int store_id(int64_t id, uint32_t *ret)
{
	if (id < 0)
		return (int)id;
	*ret = (uint32_t)id;
	return 0;
}

static int add_mapping(struct profile_merge *g, uint32_t id, unsigned has)
{
	struct profile_mapping m;
	profile_mapping_get(g->from, id, &m);
	return store_id(
		profile_mapping(g->to, m.start, m.limit, m.offset, m.file, m.build_id, m.has | has), &g->mappings[id]);
}

static int add_function(struct profile_merge *g, uint32_t id)
{
	struct profile_function f;
	profile_function_get(g->from, id, &f);
	return store_id(profile_function(g->to, &f), &g->functions[id]);
}

static int own_lines(struct profile_merge *g, const struct profile_location *l, struct profile_line *ret)
{
	int r = 0;
	for (size_t i = 0; !r && i < l->n; i++) {
		if (g->lines) /* else all functions are there */
			r = add_function(g, l->lines[i].function);
		ret[i] = (struct profile_line){g->functions[l->lines[i].function], l->lines[i].line};
	}
	return r < 0 ? r : (int)l->n;
}

static int add_location(struct profile_merge *g, uint32_t id)
{
	struct profile_location l;
	struct profile_line lines[PROFILE_LINES_MAX];
	unsigned has = 0;

	profile_location_get(g->from, id, &l);
	int n = g->lines ? g->lines(g->arg, g->to, id, lines, &has) : 0;
	if (n > 0 && l.mapping != PROFILE_NONE && add_mapping(g, l.mapping, has) < 0)
		n = -ENOMEM;
	if (n == 0)
		n = own_lines(g, &l, lines);
	if (n < 0)
		return n;
	uint32_t mapping = l.mapping == PROFILE_NONE ? PROFILE_NONE : g->mappings[l.mapping];
	return store_id(profile_location(g->to, mapping, l.address, lines, (size_t)n), &g->locations[id]);
}

static int add_sample(struct profile_merge *g, size_t i)
{
	struct profile_sample s;
	profile_sample_get(g->from, i, &s);
	if (g->want && !g->want(g->arg, g->from, &s))
		return 0;
	uint32_t *stack = reallocarray(NULL, s.n + 1, sizeof(*stack));
	if (!stack)
		return -ENOMEM;
	for (size_t k = 0; k < s.n; k++)
		stack[k] = g->locations[s.locations[k]];
	int r = profile_sample(g->to, stack, s.n, s.values, s.labels, s.n_labels);
	free(stack);
	return r;
}

static int add_all(struct profile_merge *g)
{
	int r = 0;
	for (uint32_t i = 0; !r && i < profile_mappings(g->from); i++)
		r = add_mapping(g, i, 0);
	for (uint32_t i = 0; !r && !g->lines && i < profile_functions(g->from); i++)
		r = add_function(g, i);
	for (uint32_t i = 0; !r && i < profile_locations(g->from); i++)
		r = add_location(g, i);
	for (size_t i = 0; !r && i < profile_samples(g->from); i++)
		r = add_sample(g, i);
	return r;
}

static int add_comments(struct profile *to, const struct profile *from)
{
	int r = 0;
	for (size_t i = 0; !r && i < profile_comments(from); i++)
		r = profile_comment_once(to, profile_comment_get(from, i));
	return r;
}

static int run(struct profile_merge *g, struct err *e)
{
	g->mappings = calloc(profile_mappings(g->from) + 1, sizeof(*g->mappings));
	g->functions = calloc(profile_functions(g->from) + 1, sizeof(*g->functions));
	g->locations = calloc(profile_locations(g->from) + 1, sizeof(*g->locations));
	profile_lock_strings(g->to, !g->lines); /* texts from `lines` come from anywhere */
	int r = g->mappings && g->functions && g->locations ? add_all(g) : -ENOMEM;
	free(g->mappings);
	free(g->functions);
	free(g->locations);
	if (!r)
		r = add_comments(g->to, g->from);
	profile_lock_strings(g->to, false);
	return r < 0 ? err_set(e, r, "cannot merge") : 0;
}

int profile_merge_add(struct profile *to, const struct profile *from, struct err *e)
{
	const struct profile_info *info = profile_info(from);
	if (!profile_same_types(profile_info(to), info))
		return err_say(e, -EINVAL, "its sample types differ from those of the files before it");
	struct profile_merge g = {.to = to, .from = from};
	int r = run(&g, e);
	if (!r)
		profile_extend(to, info->time_ns, info->duration_ns);
	return r;
}

static int copy_profile(struct profile_merge *g, struct profile **ret, struct err *e)
{
	int r = profile_new(profile_info(g->from), &g->to);
	if (r < 0)
		return err_set(e, r, "cannot copy a profile");
	r = run(g, e);
	if (r < 0)
		profile_free(g->to);
	else
		*ret = g->to;
	return r;
}

int profile_merge_copy(
	const struct profile *from, profile_merge_lines_fn *lines, void *arg, struct profile **ret, struct err *e)
{
	struct profile_merge g = {.from = from, .lines = lines, .arg = arg};
	return copy_profile(&g, ret, e);
}

int profile_merge_some(
	const struct profile *from, profile_merge_want_fn *want, void *arg, struct profile **ret, struct err *e)
{
	struct profile_merge g = {.from = from, .want = want, .arg = arg};
	return copy_profile(&g, ret, e);
}
