/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/push/push_labels.h"

#include "oci/base/array.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N(a) (sizeof(a) / sizeof((a)[0]))
#define SERVICE "service_name"
#define ALIKE_MAX 100 /* highest number behind a name */

/* --- shared labels: within a profile equal texts have the same pointer (profile.h), so pointers are compared */

struct candidate {
	struct profile_label label;
	bool origin; /* may be missing */
	bool differs;
};

struct finding {
	struct candidate candidates[PUSH_LABELS_MAX];
	size_t n;
};

static bool is_origin(const char *key)
{
	static const char *const keys[] = {SERVICE, "container", "container_id", "pod", "namespace", "node"};
	for (size_t i = 0; i < N(keys); i++)
		if (!strcmp(key, keys[i]))
			return true;
	return false;
}

static const struct profile_label *label_of(const struct profile_sample *s, const char *key)
{
	for (size_t i = 0; i < s->n_labels; i++)
		if (s->labels[i].key == key)
			return &s->labels[i];
	return NULL;
}

static bool has_candidate(const struct finding *f, const char *key)
{
	for (size_t i = 0; i < f->n; i++)
		if (f->candidates[i].label.key == key)
			return true;
	return false;
}

/* first: the profile's first sample; all its labels may be shared. */
static void look_at(struct finding *f, const struct profile_sample *s, bool first)
{
	for (size_t i = 0; i < f->n; i++) {
		struct candidate *c = &f->candidates[i];
		const struct profile_label *l = label_of(s, c->label.key);
		c->differs |= l ? l->str != c->label.str || l->num != c->label.num : !c->origin;
	}
	for (size_t i = 0; i < s->n_labels; i++) {
		const bool origin = is_origin(s->labels[i].key);
		if (f->n < N(f->candidates) && (first || origin) && !has_candidate(f, s->labels[i].key))
			f->candidates[f->n++] = (struct candidate){.label = s->labels[i], .origin = origin};
	}
}

static int look_at_all(struct finding *f, const struct profile *p)
{
	struct string_table seen = {0}; /* label sets, which never move */
	int r = 0;
	for (size_t i = 0; r == 0 && i < profile_samples(p); i++) {
		struct profile_sample s;
		profile_sample_get(p, i, &s);
		const struct profile_sample set = {.labels = s.labels, .n_labels = s.n_labels};
		const size_t before = seen.count;
		if (string_table_add(&seen, &set, sizeof(set)) < 0)
			r = -ENOMEM;
		else if (seen.count > before)
			look_at(f, &s, i == 0);
	}
	string_table_done(&seen);
	return r;
}

static void insert_label(struct push_labels *l, struct profile_label label)
{
	size_t at = l->n;
	for (; at > 0 && strcmp(l->shared[at - 1].key, label.key) > 0; at--)
		l->shared[at] = l->shared[at - 1];
	l->shared[at] = label;
	l->n++;
}

static const char *text_of(const struct push_labels *l, const char *key)
{
	const struct profile_label *found = push_labels_get(l, key);
	return found && found->str ? found->str : "";
}

static const char *service_of(const struct push_labels *l, const struct push_source *of)
{
	const char *const names[] = {
		text_of(l, SERVICE), text_of(l, "container"), text_of(l, "container_id"), of->target};
	for (size_t i = 0; i < N(names); i++)
		if (names[i][0])
			return names[i];
	return "unknown_service"; /* OpenTelemetry's default */
}

static bool has_node(const struct finding *f)
{
	for (size_t i = 0; i < f->n; i++)
		if (!strcmp(f->candidates[i].label.key, "node"))
			return true;
	return false;
}

int push_labels_find(const struct profile *p, const struct push_source *of, struct push_labels *ret)
{
	struct finding f = {.n = 0};
	int r = look_at_all(&f, p);
	if (r < 0)
		return r;
	ret->n = 0;
	for (size_t i = 0; i < f.n && ret->n < PROFILE_LABELS_MAX; i++)
		if (!f.candidates[i].differs)
			insert_label(ret, f.candidates[i].label);
	ret->service = service_of(ret, of);
	if (!push_labels_get(ret, SERVICE))
		insert_label(ret, (struct profile_label){.key = SERVICE, .str = ret->service, .unit = ""});
	if (!has_node(&f) && of->node[0])
		insert_label(ret, (struct profile_label){.key = "node", .str = of->node, .unit = ""});
	return 0;
}

const struct profile_label *push_labels_get(const struct push_labels *l, const char *key)
{
	for (size_t i = 0; i < l->n; i++)
		if (!strcmp(l->shared[i].key, key))
			return &l->shared[i];
	return NULL;
}

bool push_labels_has(const struct push_labels *l, const struct profile_label *label)
{
	const struct profile_label *found = push_labels_get(l, label->key);
	if (!found || !found->str != !label->str)
		return false;
	return found->str ? !strcmp(found->str, label->str) : found->num == label->num;
}

/* --- names */

void push_labels_name(const char *name, char to[static PUSH_LABELS_NAME_MAX])
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
	char clean[PUSH_LABELS_NAME_MAX - sizeof("label")];
	snprintf(clean, sizeof(clean), "%s", name[0] ? name : "_");
	for (char *c = clean; *c; c++)
		if (!strchr(allowed, *c))
			*c = '_';
	const char *before = !strncmp(clean, "__", 2) ? "label" : clean[0] >= '0' && clean[0] <= '9' ? "_" : "";
	snprintf(to, PUSH_LABELS_NAME_MAX, "%s%s", before, clean);
}

int pushnames_take(struct label_names *n, const char *name)
{
	return string_table_add(&n->taken, name, strlen(name) + 1) < 0 ? -ENOMEM : 0;
}

static char *fresh_name(struct label_names *n, const char *key)
{
	char name[PUSH_LABELS_NAME_MAX], numbered[PUSH_LABELS_NAME_MAX + 16];
	push_labels_name(key, name);
	snprintf(numbered, sizeof(numbered), "%s", name);
	for (unsigned i = 2; i <= ALIKE_MAX && string_table_find(&n->taken, numbered, strlen(numbered) + 1) >= 0; i++)
		snprintf(numbered, sizeof(numbered), "%s_%u", name, i);
	return pushnames_take(n, numbered) < 0 ? NULL : strdup(numbered);
}

const char *pushnames_of(struct label_names *n, const char *key)
{
	const size_t before = n->keys.count;
	const int64_t id = string_table_add(&n->keys, key, strlen(key) + 1);
	if (id < 0)
		return NULL;
	if (n->keys.count == before)
		return (size_t)id < n->room ? n->names[id] : NULL;
	const size_t had = n->room;
	if (array_reserve(&n->names, &n->room, n->keys.count, sizeof(*n->names), 2) < 0)
		return NULL;
	memset(n->names + had, 0, (n->room - had) * sizeof(*n->names));
	return n->names[id] = fresh_name(n, key);
}

void pushnames_done(struct label_names *n)
{
	for (size_t i = 0; i < n->keys.count && i < n->room; i++)
		free(n->names[i]);
	free(n->names);
	string_table_done(&n->keys);
	string_table_done(&n->taken);
}
