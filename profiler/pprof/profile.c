/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/pprof/profile.h"

#include "oci/base/array.h"
#include "oci/base/string_table.h"
#include "oci/base/utf8.h"
#include "profiler/pprof/value_unit.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Everything is an interned byte string. Text is interned first and never moves, so the structs below hold pointers
 * to it and are interned by their own bytes in turn: none of them may have padding.
 */
struct mapping_key {
	uint64_t start, limit, offset;
	const char *file, *build_id;
};
struct location_key { /* only the part with lines is used */
	uint64_t address;
	uint32_t mapping, n;
	struct profile_line lines[PROFILE_LINES_MAX];
};
struct sample_key {
	uint32_t stack, labels;
};
_Static_assert(sizeof(struct mapping_key) == 3 * 8 + 2 * sizeof(char *), "padding");
_Static_assert(sizeof(struct location_key) == 16 + 8 * PROFILE_LINES_MAX, "padding");
_Static_assert(sizeof(struct profile_function) == 3 * sizeof(char *) + 8, "padding");
_Static_assert(sizeof(struct profile_label) == 3 * sizeof(char *) + 8, "padding");

struct profile {
	struct profile_info info;
	struct profile_type *types; /* of `info` */
	struct string_table strings, mappings, functions, locations, stacks, labels, samples;
	unsigned *has; /* one set per mapping */
	size_t has_room;
	int64_t *values; /* n_types per sample */
	size_t values_room;
	const char **comments;
	size_t n_comments, comments_room;
	bool steady;
	struct string_table seen; /* pointers to long texts that are steady */
	const char **kept;	  /* the copy of each of them */
	size_t kept_room;
};
#define ROOM_FIRST 16
#define LONG_TEXT 512 /* bytes; a shorter one is read as fast as its pointer is found */

/* --- text */

/* Bytes of `text` before the first that is not UTF-8. */
static size_t utf8_prefix(const char *text)
{
	const unsigned char *s = (const unsigned char *)text;
	size_t n = 0;
	while (s[n]) {
		size_t length = utf8_valid(s + n);
		if (!length)
			break;
		n += length;
	}
	return n;
}

static int64_t add_text(struct profile *p, const char *text)
{
	if (!text)
		text = "";
	size_t size = strlen(text) + 1, good = utf8_prefix(text);
	if (good + 1 == size)
		return string_table_add(&p->strings, text, size);
	char *copy = malloc(size);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, text, size);
	for (; good + 1 < size; good += utf8_prefix(copy + good))
		copy[good] = '?';
	int64_t id = string_table_add(&p->strings, copy, size);
	free(copy);
	return id;
}

static const char *copy_text(struct profile *p, const char *text)
{
	int64_t id = p->strings.count && (!text || !text[0]) ? 0 : add_text(p, text);
	return id < 0 ? NULL : p->strings.items[id].data;
}

static const char *copy_long_text(struct profile *p, const char *text)
{
	const size_t before = p->seen.count;
	const int64_t id = string_table_add(&p->seen, &text, sizeof(text));
	if (id < 0 || array_reserve(&p->kept, &p->kept_room, p->seen.count, sizeof(*p->kept), ROOM_FIRST) < 0)
		return NULL;
	if (p->seen.count > before)
		p->kept[id] = copy_text(p, text);
	return p->kept[id];
}

/* Returns the lasting copy of `text`; NULL when out of memory. */
static const char *keep_text(struct profile *p, const char *text)
{
	return p->steady && text && strlen(text) >= LONG_TEXT ? copy_long_text(p, text) : copy_text(p, text);
}

void profile_lock_strings(struct profile *p, bool on)
{
	p->steady = on;
	string_table_done(&p->seen);
	free(p->kept);
	p->kept = NULL;
	p->kept_room = 0;
}

static int keep_type(struct profile *p, struct profile_type *t)
{
	t->type = keep_text(p, t->type);
	t->unit = keep_text(p, t->unit);
	return t->type && t->unit ? 0 : -ENOMEM;
}

/* --- life */

int profile_new(const struct profile_info *info, struct profile **ret)
{
	if (info->n_types < 1)
		return -EINVAL;
	struct profile *p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	p->info = *info;
	p->info.types = p->types = calloc(info->n_types, sizeof(*p->types));
	int r = p->types && keep_text(p, "") ? 0 : -ENOMEM; /* string 0 */
	for (unsigned i = 0; !r && i < info->n_types; i++) {
		p->types[i] = info->types[i];
		r = keep_type(p, &p->types[i]);
	}
	if (!r)
		r = keep_type(p, &p->info.period_type);
	if (!r && info->default_type && !(p->info.default_type = keep_text(p, info->default_type)))
		r = -ENOMEM;
	if (r < 0)
		profile_free(p);
	else
		*ret = p;
	return r;
}

struct profile *profile_free(struct profile *p)
{
	if (!p)
		return NULL;
	struct string_table *tables[] = {
		&p->strings, &p->mappings, &p->functions, &p->locations, &p->stacks, &p->labels, &p->samples};
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		string_table_done(tables[i]);
	profile_lock_strings(p, false);
	free(p->types);
	free(p->has);
	free(p->values);
	free(p->comments);
	free(p);
	return NULL;
}

/* --- building */

int64_t profile_mapping(struct profile *p, uint64_t start, uint64_t limit, uint64_t offset, const char *file,
	const char *build_id, unsigned has)
{
	struct mapping_key key = {start, limit, offset, keep_text(p, file), keep_text(p, build_id)};
	if (!key.file || !key.build_id ||
		array_reserve(&p->has, &p->has_room, p->mappings.count + 1, sizeof(*p->has), ROOM_FIRST) < 0)
		return -ENOMEM;
	size_t before = p->mappings.count;
	int64_t id = string_table_add(&p->mappings, &key, sizeof(key));
	if (id >= 0)
		p->has[id] = has | (p->mappings.count == before ? p->has[id] : 0);
	return id;
}

int64_t profile_function(struct profile *p, const struct profile_function *f)
{
	struct profile_function key = {
		keep_text(p, f->name), keep_text(p, f->system_name), keep_text(p, f->file), f->start_line};
	if (!key.name || !key.system_name || !key.file)
		return -ENOMEM;
	if (key.system_name == key.name) /* interned */
		key.system_name = p->strings.items[0].data;
	return string_table_add(&p->functions, &key, sizeof(key));
}

static int64_t name_by_offset(struct profile *p, uint32_t mapping, uint64_t address)
{
	char name[256];
	struct profile_mapping m;
	if (mapping != PROFILE_NONE)
		profile_mapping_get(p, mapping, &m);
	if (mapping == PROFILE_NONE || !m.file[0])
		return profile_function(p, &(struct profile_function){.name = "?"});
	const char *slash = strrchr(m.file, '/');
	snprintf(name, sizeof(name), "%.200s+0x%" PRIx64, slash ? slash + 1 : m.file, address - m.start + m.offset);
	return profile_function(p, &(struct profile_function){.name = name});
}

static bool lines_exist(const struct profile *p, const struct profile_line *lines, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (lines[i].function >= p->functions.count)
			return false;
	return true;
}

int64_t profile_location(
	struct profile *p, uint32_t mapping, uint64_t address, const struct profile_line *lines, size_t n)
{
	struct location_key key = {.address = address, .mapping = mapping};

	if ((mapping != PROFILE_NONE && mapping >= p->mappings.count) || !lines_exist(p, lines, n))
		return -EINVAL;
	struct profile_line named = {0};
	if (!n) {
		int64_t id = name_by_offset(p, mapping, address);
		if (id < 0)
			return id;
		named.function = (uint32_t)id;
		lines = &named;
		n = 1;
	}
	key.n = n < PROFILE_LINES_MAX ? (uint32_t)n : PROFILE_LINES_MAX;
	memcpy(key.lines, lines, key.n * sizeof(*lines));
	key.lines[key.n - 1] = lines[n - 1];
	return string_table_add(&p->locations, &key, offsetof(struct location_key, lines) + key.n * sizeof(*lines));
}

int64_t profile_named_location(struct profile *p, uint32_t mapping, uint64_t address, const char *name)
{
	int64_t function = profile_function(p, &(struct profile_function){.name = name});
	struct profile_line line = {.function = (uint32_t)function};
	return function < 0 ? function : profile_location(p, mapping, address, &line, 1);
}

/* Sorted by key, one label per key, text that lasts: equal sets get equal bytes. Returns how many. */
static int64_t keep_labels(struct profile *p, const struct profile_label *labels, size_t n, struct profile_label *kept)
{
	size_t have = 0;
	for (size_t i = 0; i < n; i++) {
		const struct profile_label *l = &labels[i];
		if (l->str && !l->str[0])
			continue;
		struct profile_label fresh = {.key = keep_text(p, l->key),
			.str = l->str ? keep_text(p, l->str) : NULL,
			.unit = keep_text(p, l->str ? NULL : l->unit),
			.num = l->str ? 0 : l->num};
		if (!fresh.key || !fresh.unit || (l->str && !fresh.str))
			return -ENOMEM;
		size_t at = have;
		while (at > 0 && strcmp(kept[at - 1].key, fresh.key) > 0)
			at--;
		if (at > 0 && kept[at - 1].key == fresh.key)
			continue;
		memmove(&kept[at + 1], &kept[at], (have - at) * sizeof(*kept));
		kept[at] = fresh;
		have++;
	}
	return (int64_t)have;
}

int64_t profile_sum(int64_t a, int64_t b)
{
	int64_t sum;
	if (__builtin_add_overflow(a, b, &sum))
		return b < 0 ? INT64_MIN : INT64_MAX;
	return sum;
}

static int add_values(struct profile *p, struct sample_key key, const int64_t *values)
{
	unsigned n = p->info.n_types;
	size_t before = p->samples.count;
	int r = array_reserve(&p->values, &p->values_room, (before + 1) * n, sizeof(*p->values), ROOM_FIRST);
	if (r < 0)
		return r;
	int64_t id = string_table_add(&p->samples, &key, sizeof(key));
	if (id < 0)
		return (int)id;
	int64_t *sum = &p->values[(size_t)id * n];
	for (unsigned i = 0; i < n; i++)
		sum[i] = p->samples.count > before ? values[i] : profile_sum(sum[i], values[i]);
	return 0;
}

int64_t profile_labels(struct profile *p, const struct profile_label *labels, size_t n)
{
	struct profile_label kept[PROFILE_LABELS_MAX];
	if (n > PROFILE_LABELS_MAX)
		return -EINVAL;
	int64_t have = keep_labels(p, labels, n, kept);
	return have < 0 ? have : string_table_add(&p->labels, kept, (size_t)have * sizeof(*kept));
}

int profile_sample_of(struct profile *p, const uint32_t *locations, size_t n, const int64_t *values, uint32_t label_set)
{
	if (label_set >= p->labels.count)
		return -EINVAL;
	for (size_t i = 0; i < n; i++)
		if (locations[i] >= p->locations.count)
			return -EINVAL;
	int64_t stack = string_table_add(&p->stacks, n ? locations : &(uint32_t){0}, n * sizeof(*locations));
	if (stack < 0)
		return (int)stack;
	return add_values(p, (struct sample_key){(uint32_t)stack, label_set}, values);
}

int profile_sample(struct profile *p, const uint32_t *locations, size_t n, const int64_t *values,
	const struct profile_label *labels, size_t n_labels)
{
	int64_t set = profile_labels(p, labels, n_labels);
	return set < 0 ? (int)set : profile_sample_of(p, locations, n, values, (uint32_t)set);
}

int profile_comment(struct profile *p, const char *text)
{
	const char *kept = keep_text(p, text);
	if (!kept ||
		array_reserve(&p->comments, &p->comments_room, p->n_comments + 1, sizeof(*p->comments), ROOM_FIRST) < 0)
		return -ENOMEM;
	p->comments[p->n_comments++] = kept;
	return 0;
}

int profile_comment_once(struct profile *p, const char *text)
{
	const char *kept = keep_text(p, text);
	for (size_t i = 0; kept && i < p->n_comments; i++)
		if (p->comments[i] == kept)
			return 0;
	return kept ? profile_comment(p, kept) : -ENOMEM;
}

bool profile_same_types(const struct profile_info *a, const struct profile_info *b)
{
	if (a->n_types != b->n_types)
		return false;
	for (unsigned i = 0; i < a->n_types; i++)
		if (strcmp(a->types[i].type, b->types[i].type) || strcmp(a->types[i].unit, b->types[i].unit))
			return false;
	return true;
}

/* Type names that differ by a last 's' are one: "sample", "samples". */
static bool is_same_name(const char *a, const char *b)
{
	const size_t n = strlen(a), m = strlen(b);
	const size_t short_n = n - (n && a[n - 1] == 's'), short_m = m - (m && b[m - 1] == 's');
	return short_n == short_m && !memcmp(a, b, short_n);
}

static bool is_compatible(const struct profile_type *a, const struct profile_type *b)
{
	const struct value_unit u = value_unit_find(a->unit), v = value_unit_find(b->unit);
	return is_same_name(a->type, b->type) &&
	       (!strcmp(a->unit, b->unit) || (u.family != UNIT_OTHER && u.family == v.family));
}

/* Gives a type the name and the unit of `as`, which is not coarser. */
static int convert_type(struct profile *p, unsigned type, const struct profile_type *as)
{
	const int64_t times = value_unit_find(p->types[type].unit).factor / value_unit_find(as->unit).factor;
	p->types[type] = *as;
	for (size_t i = 0; times > 1 && i < p->samples.count; i++) {
		int64_t *value = &p->values[i * p->info.n_types + type], was = *value;
		if (__builtin_mul_overflow(was, times, value))
			*value = was < 0 ? INT64_MIN : INT64_MAX;
	}
	return keep_type(p, &p->types[type]);
}

int profile_match_types(struct profile *a, struct profile *b)
{
	int r = a->info.n_types == b->info.n_types ? 0 : -EINVAL;
	for (unsigned i = 0; r == 0 && i < a->info.n_types; i++)
		r = is_compatible(&a->types[i], &b->types[i]) ? 0 : -EINVAL;
	for (unsigned i = 0; r == 0 && i < a->info.n_types; i++) {
		const int64_t u = value_unit_find(a->types[i].unit).factor,
			      v = value_unit_find(b->types[i].unit).factor;
		const struct profile_type as = {a->types[i].type, u <= v ? a->types[i].unit : b->types[i].unit};
		r = convert_type(a, i, &as);
		if (r == 0)
			r = convert_type(b, i, &as);
	}
	return r;
}

/* --- reading back */

const struct profile_info *profile_info(const struct profile *p)
{
	return &p->info;
}

static bool has_values(const struct profile *p, unsigned type)
{
	for (size_t i = 0; i < p->samples.count; i++)
		if (p->values[i * p->info.n_types + type])
			return true;
	return false;
}

unsigned profile_default_type(const struct profile *p)
{
	const unsigned n = p->info.n_types;
	const int found = p->info.default_type ? profile_type_find(p, p->info.default_type) : -ENOENT;
	const unsigned stated = found < 0 ? n - 1 : (unsigned)found;
	unsigned type = n;
	if (has_values(p, stated))
		return stated;
	while (type > 0 && !has_values(p, type - 1))
		type--;
	return type ? type - 1 : stated;
}

size_t profile_samples(const struct profile *p)
{
	return p->samples.count;
}

void profile_sample_get(const struct profile *p, size_t i, struct profile_sample *ret)
{
	const struct sample_key *key = p->samples.items[i].data;
	const struct string_table_item *stack = &p->stacks.items[key->stack], *labels = &p->labels.items[key->labels];
	*ret = (struct profile_sample){
		.locations = stack->data,
		.n = stack->size / sizeof(uint32_t),
		.values = &p->values[i * p->info.n_types],
		.labels = labels->data,
		.n_labels = labels->size / sizeof(struct profile_label),
	};
}

void profile_location_get(const struct profile *p, uint32_t id, struct profile_location *ret)
{
	const struct location_key *l = p->locations.items[id].data;
	*ret = (struct profile_location){l->mapping, l->address, l->lines, l->n};
}

void profile_function_get(const struct profile *p, uint32_t id, struct profile_function *ret)
{
	*ret = *(const struct profile_function *)p->functions.items[id].data;
}

void profile_mapping_get(const struct profile *p, uint32_t id, struct profile_mapping *ret)
{
	const struct mapping_key *m = p->mappings.items[id].data;
	*ret = (struct profile_mapping){m->start, m->limit, m->offset, m->file, m->build_id, p->has[id]};
}

size_t profile_mappings(const struct profile *p)
{
	return p->mappings.count;
}

size_t profile_functions(const struct profile *p)
{
	return p->functions.count;
}

size_t profile_locations(const struct profile *p)
{
	return p->locations.count;
}

size_t profile_comments(const struct profile *p)
{
	return p->n_comments;
}

const char *profile_comment_get(const struct profile *p, size_t i)
{
	return p->comments[i];
}

const char *profile_function_name(const struct profile *p, uint32_t id)
{
	return ((const struct profile_function *)p->functions.items[id].data)->name;
}

size_t profile_strings(const struct profile *p)
{
	return p->strings.count;
}

const char *profile_string_get(const struct profile *p, uint32_t id)
{
	return p->strings.items[id].data;
}

int64_t profile_string_find(const struct profile *p, const char *text)
{
	return string_table_find(&p->strings, text, strlen(text) + 1);
}

int64_t profile_total(const struct profile *p, unsigned type)
{
	int64_t sum = 0;
	for (size_t i = 0; i < p->samples.count; i++)
		sum = profile_sum(sum, p->values[i * p->info.n_types + type]);
	return sum;
}

int profile_type_find(const struct profile *p, const char *type)
{
	for (unsigned i = 0; i < p->info.n_types; i++)
		if (!strcmp(p->info.types[i].type, type))
			return (int)i;
	return -ENOENT;
}

void profile_extend(struct profile *p, int64_t time_ns, int64_t duration_ns)
{
	if (time_ns && (!p->info.time_ns || time_ns < p->info.time_ns))
		p->info.time_ns = time_ns;
	p->info.duration_ns = profile_sum(p->info.duration_ns, duration_ns);
}
