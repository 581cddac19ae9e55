/* SPDX-License-Identifier: Apache-2.0 */
/*
 * push_labels - which labels say something of a whole profile, and names and values that a receiver takes: for the
 * forms of push_encode.h.
 *
 * Shared is what all samples have with one value. Of what says where a profile comes from (service_name, container,
 * container_id, pod, namespace, node) samples that do not have it are no hindrance: they are of the same target.
 *
 * Names for Pyroscope are Prometheus' ([a-zA-Z_][a-zA-Z0-9_]*): other characters become '_', so user.team is user_team.
 * "__", with which a receiver's own names begin, is not the beginning of one: "label" stands before it. Of two that
 * would have the same name the later one gets "_2" behind it.
 */
#pragma once

#include "oci/base/string_table.h"
#include "profiler/pprof/profile.h"
#include "profiler/push/push_encode.h"

#include <stdbool.h>

#define PUSH_LABELS_MAX (PROFILE_LABELS_MAX + 8)
#define PUSH_LABELS_NAME_MAX 256 /* bytes of a name, of Pyroscope's 1024 */

struct push_labels {
	struct profile_label shared[PUSH_LABELS_MAX]; /* by key; texts are the profile's or the source's */
	size_t n;
	const char *service; /* never "" */
};

/* 0, -ENOMEM. The service's and the node's name are among the shared ones also where no sample has them. */
int push_labels_find(const struct profile *p, const struct push_source *of, struct push_labels *ret);
const struct profile_label *push_labels_get(const struct push_labels *l, const char *key); /* NULL: not shared */
bool push_labels_has(const struct push_labels *l, const struct profile_label *label);	   /* with this value */

/* Names that were given to keys: the same key has the same one. */
struct label_names {
	struct string_table keys, taken;
	char **names; /* by number of key */
	size_t room;
};

const char *pushnames_of(struct label_names *n, const char *key); /* NULL: no memory */
int pushnames_take(struct label_names *n, const char *name);	  /* nobody gets that one; 0, -ENOMEM */
void pushnames_done(struct label_names *n);

/* `to` has room for PUSH_LABELS_NAME_MAX: as `name`, of what a name of a metric or of a type may have. Never "". */
void push_labels_name(const char *name, char to[static PUSH_LABELS_NAME_MAX]);
