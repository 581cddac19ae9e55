/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/push/profile_split.h"

#include "oci/base/array.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRUNCATED "[truncated: depth]" /* as the unwinder calls it */

struct making {
	const struct profile_split *of;
	struct profile *to;
	uint32_t *mappings, *functions, *locations; /* number in `from` -> number in `to`, or PROFILE_NONE */
	char *copies[2 * PROFILE_LABELS_MAX];	    /* of texts that were cut, until free_copies() */
	size_t n_copies;
	bool no_memory; /* for a copy */
	uint32_t *stack;
	size_t stack_room;
	uint32_t truncated;		    /* location of TRUNCATED, or PROFILE_NONE */
	const struct profile_label *labels; /* label set of the last sample (it never moves), and its number in `to` */
	size_t n_labels;
	uint32_t set;
};

size_t profile_split_cut(const char *text, size_t max)
{
	size_t len = strnlen(text, max + 1);
	if (len <= max)
		return len;
	for (len = max; len && ((unsigned char)text[len] & 0xc0) == 0x80; len--) /* inside of a character */
		;
	return len;
}

/* The result is valid until free_copies(). */
static const char *truncate_text(struct making *m, const char *text)
{
	const size_t n = profile_split_cut(text, m->of->text_max);
	if (!text[n])
		return text;
	char *copy = strndup(text, n);
	if (!copy) {
		m->no_memory = true;
		return "";
	}
	m->copies[m->n_copies++] = copy;
	return copy;
}

/* Frees the cut texts, which the profile has copied. */
static int free_copies(struct making *m, int r)
{
	while (m->n_copies)
		free(m->copies[--m->n_copies]);
	return r < 0 || !m->no_memory ? r : -ENOMEM;
}

static int store_id(int64_t id, uint32_t *ret)
{
	if (id < 0)
		return (int)id;
	*ret = (uint32_t)id;
	return 0;
}

static int add_mapping(struct making *m, uint32_t id)
{
	struct profile_mapping in;
	if (m->mappings[id] != PROFILE_NONE)
		return 0;
	profile_mapping_get(m->of->from, id, &in);
	int r = store_id(profile_mapping(m->to, in.start, in.limit, in.offset, truncate_text(m, in.file),
				 truncate_text(m, in.build_id), in.has),
		&m->mappings[id]);
	return free_copies(m, r);
}

static int add_function(struct making *m, uint32_t id)
{
	struct profile_function in;
	if (m->functions[id] != PROFILE_NONE)
		return 0;
	profile_function_get(m->of->from, id, &in);
	in.name = truncate_text(m, in.name);
	in.system_name = truncate_text(m, in.system_name);
	in.file = truncate_text(m, in.file);
	return free_copies(m, store_id(profile_function(m->to, &in), &m->functions[id]));
}

static int add_location(struct making *m, uint32_t id)
{
	struct profile_location in;
	struct profile_line lines[PROFILE_LINES_MAX];
	if (m->locations[id] != PROFILE_NONE)
		return 0;
	profile_location_get(m->of->from, id, &in);
	int r = in.mapping == PROFILE_NONE ? 0 : add_mapping(m, in.mapping);
	for (size_t i = 0; r == 0 && i < in.n; i++) {
		r = add_function(m, in.lines[i].function);
		lines[i] = (struct profile_line){m->functions[in.lines[i].function], in.lines[i].line};
	}
	if (r < 0)
		return r;
	const uint32_t mapping = in.mapping == PROFILE_NONE ? PROFILE_NONE : m->mappings[in.mapping];
	return store_id(profile_location(m->to, mapping, in.address, lines, in.n), &m->locations[id]);
}

static int add_truncated(struct making *m)
{
	if (m->truncated != PROFILE_NONE)
		return 0;
	int64_t function = profile_function(m->to, &(struct profile_function){.name = TRUNCATED});
	if (function < 0)
		return (int)function;
	const struct profile_line line = {.function = (uint32_t)function};
	return store_id(profile_location(m->to, PROFILE_NONE, 0, &line, 1), &m->truncated);
}

/* Puts the stack into m->stack, leaf first. Returns its length, or -errno. */
static int64_t add_stack(struct making *m, const struct profile_sample *s)
{
	size_t n = s->n;
	int r = 0;
	if (n > m->of->depth_max) {
		n = m->of->depth_max - 1;
		r = add_truncated(m);
	}
	if (array_reserve(&m->stack, &m->stack_room, n + 1, sizeof(*m->stack), 0) < 0)
		return -ENOMEM;
	for (size_t i = 0; r == 0 && i < n; i++) {
		r = add_location(m, s->locations[i]);
		m->stack[i] = m->locations[s->locations[i]];
	}
	if (n < s->n)
		m->stack[n++] = m->truncated;
	return r < 0 ? r : (int64_t)n;
}

static int add_labels(struct making *m, const struct profile_sample *s)
{
	struct profile_label kept[PROFILE_LABELS_MAX];
	size_t n = s->n_labels;
	if (m->set != PROFILE_NONE && m->labels == s->labels && m->n_labels == n)
		return 0;
	if (m->of->labels)
		n = m->of->labels(m->of->arg, s, kept);
	else
		memcpy(kept, s->labels, n * sizeof(*kept));
	for (size_t i = 0; i < n; i++) {
		kept[i].key = truncate_text(m, kept[i].key);
		kept[i].str = kept[i].str ? truncate_text(m, kept[i].str) : NULL;
	}
	m->labels = s->labels;
	m->n_labels = s->n_labels;
	return free_copies(m, store_id(profile_labels(m->to, kept, n), &m->set));
}

static int add_sample(struct making *m, size_t i)
{
	struct profile_sample s;
	profile_sample_get(m->of->from, i, &s);
	int64_t n = add_stack(m, &s);
	int r = n < 0 ? (int)n : add_labels(m, &s);
	return r < 0 ? r : profile_sample_of(m->to, m->stack, (size_t)n, s.values, m->set);
}

static int add_comments(struct making *m)
{
	const struct profile_split *of = m->of;
	char text[128];
	int r = 0;
	for (size_t i = 0; r == 0 && i < profile_comments(of->from); i++)
		r = free_copies(m, profile_comment(m->to, truncate_text(m, profile_comment_get(of->from, i))));
	if (r < 0 || of->n == profile_samples(of->from))
		return r;
	snprintf(text, sizeof(text), "samples %zu to %zu of %zu: the whole is too large for one request", of->first + 1,
		of->first + of->n, profile_samples(of->from));
	return profile_comment(m->to, text);
}

static uint32_t *nothing_yet(size_t n)
{
	uint32_t *numbers = reallocarray(NULL, n + 1, sizeof(*numbers));
	if (numbers)
		memset(numbers, 0xff, (n + 1) * sizeof(*numbers)); /* PROFILE_NONE */
	return numbers;
}

int profile_split_make(const struct profile_split *of, struct profile **ret)
{
	struct making m = {.of = of, .truncated = PROFILE_NONE, .set = PROFILE_NONE};
	int r = profile_new(&of->info, &m.to);
	m.mappings = nothing_yet(profile_mappings(of->from));
	m.functions = nothing_yet(profile_functions(of->from));
	m.locations = nothing_yet(profile_locations(of->from));
	if (r == 0 && (!m.mappings || !m.functions || !m.locations))
		r = -ENOMEM;
	for (size_t i = 0; r == 0 && i < of->n; i++)
		r = add_sample(&m, of->first + i);
	if (r == 0)
		r = add_comments(&m);
	free(m.mappings);
	free(m.functions);
	free(m.locations);
	free(m.stack);
	if (r < 0)
		profile_free(m.to);
	else
		*ret = m.to;
	return r;
}
