/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/target/profile/profile_builder.h"

#include <stdio.h>
#include <string.h>

static void add_label(struct profile_builder *b, size_t *n, const char *key, const char *value)
{
	if (value[0] && *n < PROFILE_LABELS_MAX)
		b->labels[(*n)++] = (struct profile_label){.key = key, .str = value};
}

/* Go's decoder (github.com/google/pprof, profile/encode.go, postDecode) drops a number of 0 that has no unit: CPU 0,
 * pid 0. */
static void put_number(struct profile_builder *b, size_t *n, const char *key, int64_t value, const char *unit)
{
	if (!unit && value == 0)
		unit = "number";
	if (*n < PROFILE_LABELS_MAX)
		b->labels[(*n)++] = (struct profile_label){.key = key, .num = value, .unit = unit};
}

static const char *user_label(const struct target_desc *d, const char *key)
{
	for (uint32_t i = 0; i < d->n_labels; i++)
		if (!strcmp(d->labels[i].key, key))
			return d->labels[i].value;
	return NULL;
}

static const char *service_name(const struct target_desc *d)
{
	const char *asked = user_label(d, "service_name");
	return asked ? asked : d->service[0] ? d->service : d->name[0] ? d->name : d->id;
}

/* A tenant's labels stand below "user.", so they cannot pass for ours. */
void profile_labels_fix(struct profile_builder *b)
{
	const struct target_desc *d = &b->t->desc;
	size_t n = 0;
	add_label(b, &n, "service_name", service_name(d));
	add_label(b, &n, "container", d->name);
	add_label(b, &n, "container_id", d->id);
	add_label(b, &n, "pod", d->pod);
	add_label(b, &n, "namespace", d->pod_namespace);
	add_label(b, &n, "node", b->t->engine->role.node);
	add_label(b, &n, "cgroup", d->detail & DETAIL_CGROUP ? d->cgroup : "");
	for (uint32_t i = 0; i < d->n_labels; i++) {
		snprintf(b->user_keys[i], sizeof(b->user_keys[i]), "user.%s", d->labels[i].key);
		add_label(b, &n, b->user_keys[i], d->labels[i].value);
	}
	b->n_fixed = n;
}

/* Adds the labels that the program gave the thread; a key of the whole target wins. */
static void put_thread_labels(struct profile_builder *b, const char *text, size_t *n)
{
	struct label_part part;
	const size_t size = text ? strlen(text) : 0;
	for (size_t at = 0, i = 0; i < LABEL_COUNT_MAX && label_next(text, size, &at, &part); i++) {
		char *key = b->thread_labels[i].key, *value = b->thread_labels[i].value;
		snprintf(key, sizeof(b->thread_labels[i].key), "user.%.*s", (int)part.key_len, part.key);
		snprintf(value, sizeof(b->thread_labels[i].value), "%.*s", (int)part.value_len, part.value);
		if (!user_label(&b->t->desc, key + strlen("user.")))
			add_label(b, n, key, value);
	}
}

/* `us` counts from the beginning of the profile: its samples are as far apart as they were. */
int64_t profile_labels_add(struct profile_builder *b, const struct sample_origin *who, const struct sample_detail *when)
{
	size_t labels = b->n_fixed;
	add_label(b, &labels, "process", who->process);
	add_label(b, &labels, "exe", who->exe);
	add_label(b, &labels, "thread", who->thread);
	if (who->pid) {
		put_number(b, &labels, "pid", who->pid, NULL);
		put_number(b, &labels, "tid", who->tid, NULL);
	}
	put_thread_labels(b, who->labels, &labels);
	if (when->cpu)
		put_number(b, &labels, "cpu", when->cpu - 1, NULL);
	if (when->us)
		put_number(b, &labels, "timestamp", b->w->real + (when->us - 1) * 1000ll, "nanoseconds");
	return profile_labels(b->p, b->labels, labels);
}
