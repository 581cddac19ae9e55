/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/view/flame_tree.h"

#include "oci/base/utf8.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NO_ROOT 0 /* in the place of parent + 1 */

/* A label with its own value in each sample: as sets there would be as many as samples. */
static bool is_single(const char *key)
{
	return !strcmp(key, "timestamp");
}

void flame_tree_json(const char *text, FILE *out)
{
	for (const unsigned char *c = (const unsigned char *)text; *c;) {
		const size_t length = utf8_valid(c) ? utf8_valid(c) : 1;
		const uint32_t is = length > 1 ? utf8_decode(c, length) : *c;
		if (strchr("\"\\<>&", (int)*c) || (is <= 0xffff && utf8_is_deceptive(is)))
			fprintf(out, "\\u%04x", is);
		else
			fwrite(c, 1, length, out);
		c += length;
	}
}

static int64_t add_text(struct string_table *to, const char *text)
{
	return string_table_add(to, text, strlen(text) + 1);
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash && slash[1] ? slash + 1 : path;
}

/* Adds a name; it belongs to the module where it was seen first. */
static int64_t add_name(struct flame_tree *t, const struct profile *p, uint32_t function, uint32_t mapping)
{
	const size_t before = t->names.count;
	const int64_t name = add_text(&t->names, profile_function_name(p, function));
	if (name < 0 || t->names.count == before)
		return name;
	struct profile_mapping m = {.file = ""};
	if (mapping != PROFILE_NONE)
		profile_mapping_get(p, mapping, &m);
	const int64_t module = add_text(&t->modules, base_name(m.file));
	if ((before & (before - 1)) == 0) { /* a power of two, or none */
		uint32_t *more = reallocarray(t->module, before ? 2 * before : 1, sizeof(*more));
		if (!more)
			return -ENOMEM;
		t->module = more;
	}
	t->module[name] = module < 0 ? 0 : (uint32_t)module;
	return module < 0 ? module : name;
}

static int64_t add_stack(struct flame_tree *t, const struct profile *p, const struct profile_sample *s)
{
	int64_t node = NO_ROOT - 1;
	for (size_t i = s->n; i-- > 0;) {
		struct profile_location l;
		profile_location_get(p, s->locations[i], &l);
		for (size_t k = l.n; k-- > 0;) {
			const int64_t name = add_name(t, p, l.lines[k].function, l.mapping);
			node = name < 0 ? name : pair_table_add(&t->nodes, (uint64_t)(node + 1), (uint64_t)name);
			if (node < 0)
				return node;
		}
	}
	return node;
}

static int64_t add_set(struct flame_tree *t, const struct profile_sample *s)
{
	char *text;
	size_t size;
	bool some = false;
	FILE *f = open_memstream(&text, &size);
	if (!f)
		return -ENOMEM;
	putc('{', f);
	for (size_t i = 0; i < s->n_labels; i++) {
		const struct profile_label *l = &s->labels[i];
		if (is_single(l->key))
			continue;
		fputs(some ? ",\"" : "\"", f);
		flame_tree_json(l->key, f);
		fputs("\":\"", f);
		if (l->str)
			flame_tree_json(l->str, f);
		else
			fprintf(f, "%" PRId64, l->num);
		putc('"', f);
		some = true;
	}
	putc('}', f);
	if (fclose(f))
		return -ENOMEM;
	const int64_t set = add_text(&t->sets, text);
	free(text);
	return set;
}

static int make_room(struct flame_tree *t, size_t had)
{
	const size_t width = 2 * t->n_types;
	if ((had & (had - 1)) == 0) {
		int64_t *more = reallocarray(t->values, (had ? 2 * had : 1) * width, sizeof(*more));
		if (!more)
			return -ENOMEM;
		t->values = more;
	}
	memset(t->values + had * width, 0, width * sizeof(*t->values));
	return 0;
}

/* half: 0: of the profile, 1: of the one to compare with */
static int add_sample(struct flame_tree *t, const struct profile *p, const struct profile_sample *s, unsigned half)
{
	const int64_t node = add_stack(t, p, s), set = add_set(t, s);
	if (node < 0 || set < 0)
		return s->n ? -ENOMEM : 0;
	const size_t had = t->rows.count;
	const int64_t row = pair_table_add(&t->rows, (uint64_t)node, (uint64_t)set);
	int r = row < 0 ? (int)row : t->rows.count > had ? make_room(t, had) : 0;
	for (unsigned i = 0; r == 0 && i < t->n_types; i++) {
		int64_t *value = &t->values[((size_t)row * 2 + half) * t->n_types + i];
		*value = profile_sum(*value, s->values[i]);
	}
	return r;
}

static int add_profile(struct flame_tree *t, const struct profile *p, unsigned half)
{
	int r = 0;
	for (size_t i = 0; r == 0 && i < profile_samples(p); i++) {
		struct profile_sample s;
		profile_sample_get(p, i, &s);
		r = add_sample(t, p, &s, half);
	}
	return r;
}

int flame_tree_build(struct flame_tree *t, const struct profile *of, const struct profile *before)
{
	*t = (struct flame_tree){.n_types = profile_info(of)->n_types};
	if (before && !profile_same_types(profile_info(of), profile_info(before)))
		return -EINVAL;
	int r = add_profile(t, of, 0);
	return r == 0 && before ? add_profile(t, before, 1) : r;
}

void flame_tree_done(struct flame_tree *t)
{
	string_table_done(&t->names);
	string_table_done(&t->modules);
	string_table_done(&t->sets);
	pair_table_done(&t->nodes);
	pair_table_done(&t->rows);
	free(t->module);
	free(t->values);
	*t = (struct flame_tree){0};
}
