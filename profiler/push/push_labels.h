/* SPDX-License-Identifier: Apache-2.0 */
/*
 * push_labels - finds the labels that hold for a whole profile, and makes names and values that a receiver takes: for
 * the forms of push_encode.h.
 *
 * A label is shared if all samples have it with one value. A label of the origin (service_name, container,
 * container_id, pod, namespace, node) may be missing in some samples: these are of the same target.
 *
 * Names for Pyroscope are Prometheus' ([a-zA-Z_][a-zA-Z0-9_]*): other characters become '_', so user.team is user_team.
 * A name that begins with "__", as a receiver's own names do, gets "label" before it. Of two labels that would have the
 * same name the later one gets "_2" behind it.
 */
#pragma once

#include "oci/base/string_table.h"
#include "profiler/pprof/profile.h"
#include "profiler/push/push_encode.h"

#include <stdbool.h>

#define PUSH_LABELS_MAX (PROFILE_LABELS_MAX + 8)
#define PUSH_LABELS_NAME_MAX 256 /* bytes of a name; Pyroscope takes 1024 */

struct push_labels {
	struct profile_label shared[PUSH_LABELS_MAX]; /* by key; texts are borrowed from the profile or the source */
	size_t n;
	const char *service; /* never "" */
};

/* Finds the shared labels; the service's and the node's name are among them even if no sample has them. 0, -ENOMEM. */
int push_labels_find(const struct profile *p, const struct push_source *of, struct push_labels *ret);
const struct profile_label *push_labels_get(const struct push_labels *l, const char *key); /* NULL: not shared */
bool push_labels_has(const struct push_labels *l, const struct profile_label *label);	   /* with this value */

/* Names that were given to keys: the same key has the same one. */
struct label_names {
	struct string_table keys, taken;
	char **names; /* by number of key */
	size_t room;
};

const char *pushnames_of(struct label_names *n, const char *key); /* Returns a key's name; NULL: no memory */
int pushnames_take(struct label_names *n, const char *name);	  /* reserves a name; 0, -ENOMEM */
void pushnames_done(struct label_names *n);

/* Makes a name with the characters that a name of a metric or of a type may have. Never "". `to` has room for
 * PUSH_LABELS_NAME_MAX. */
void push_labels_name(const char *name, char to[static PUSH_LABELS_NAME_MAX]);
