/*
 * calltree_file - a calling-context tree that a program wrote (shim/libpillion/calltree/calltree_dump.h has the format), parsed
 * and checked. The program is a stranger: numbers may be anything, addresses may lie nowhere; but there are no cycles,
 * every parent is there, and no count is past its cap. Lines of a kind that we do not know are passed over.
 */
#pragma once

#include "oci/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TREEFILE_MAX (192u << 20) /* bytes; a full tree has 100 */
#define TREEFILE_NODES_MAX (2u << 20)
#define TREEFILE_MAPPINGS_MAX 65536
#define TREEFILE_GONE_MAX 1024
#define TREEFILE_NONE UINT32_MAX

struct treefile_mapping {
	uint64_t start, end, offset;
	const char *path;     /* "//anon" where there is none */
	const char *build_id; /* lower-case hex, "" */
	uint32_t gone;	      /* its number; 0: it was there at the end */
};

struct treefile_node {
	uint64_t fn, site, calls, ns; /* fn 0: calls for which there was no room */
	uint32_t id;
	uint32_t parent; /* index of a node before it; TREEFILE_NONE: the first of its thread */
	uint32_t gone;	 /* fn or site is of the module with that number, or one before */
};

struct treefile {
	char *text;
	uint32_t pid;
	bool timed;
	uint64_t unplaced; /* calls on threads that had no tree */
	struct treefile_mapping *mappings;
	size_t n_mappings, n_gone; /* those that were there, by address; behind them those that are gone */
	struct treefile_node *nodes;
	size_t n_nodes;
};

/*
 * text: malloc'ed, with a NUL behind len bytes; taken, also on failure. 0; -EBADMSG, -EFBIG with a sentence that goes
 * on behind the file's name; -ENOMEM.
 */
int treefile_parse(char *text, size_t len, struct treefile **ret, struct err *e);
struct treefile *treefile_free(struct treefile *f); /* NULL is fine */
/* Where an address (struct treefile_node.fn, .site) was mapped, without its mark in *address; NULL: nowhere. */
const struct treefile_mapping *treefile_find(const struct treefile *f, uint64_t *address, uint32_t gone);
