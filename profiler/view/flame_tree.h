/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flame_tree - the stacks of one or two profiles as a tree of functions: nodes by (parent, name), root first; and the
 * samples, as rows of (node of the leaf, set of labels, values). Both writers of flame_html.h use it.
 */
#pragma once

#include "oci/base/pair_table.h"
#include "oci/base/string_table.h"
#include "profiler/pprof/profile.h"

#include <stdio.h>

struct flame_tree {
	struct string_table names;   /* texts with their NUL; the number is that of `nodes` */
	struct string_table modules; /* the same */
	uint32_t *module;	     /* by name: where the name was seen first */
	struct pair_table nodes;     /* (parent + 1, name): a parent stands before its children */
	struct string_table sets;    /* of labels: JSON objects */
	struct pair_table rows;	     /* (node, set) */
	unsigned n_types;
	int64_t *values; /* by row: n_types of the profile, then n_types of the one to compare with */
};

/* before: NULL, or a profile of the same types. 0, -EINVAL (other types), -ENOMEM; flame_tree_done() also on failure.
 */
int flame_tree_build(struct flame_tree *t, const struct profile *of, const struct profile *before);
void flame_tree_done(struct flame_tree *t);

/* Prints the inside of a JSON string, safe in a page and on a terminal: escapes '<', '&' and misleading characters
 * (utf8.h). */
void flame_tree_json(const char *text, FILE *out);
