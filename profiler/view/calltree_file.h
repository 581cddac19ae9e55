/* SPDX-License-Identifier: Apache-2.0 */
/*
 * calltree_file - a calling-context tree that a program wrote (shim/libpillion/calltree/calltree_dump.h has the
 * format), parsed and checked. The program is not trusted: numbers may be anything, addresses may lie nowhere; but
 * there are no cycles, every parent is there, and no count is past its cap. Lines of an unknown kind are skipped.
 */
#pragma once

#include "oci/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CALLTREE_FILE_MAX (192u << 20) /* bytes; a full tree has 100 */
#define CALLTREE_FILE_NODES_MAX (2u << 20)
#define CALLTREE_FILE_MAPPINGS_MAX 65536
#define CALLTREE_FILE_GONE_MAX 1024
#define CALLTREE_FILE_NONE UINT32_MAX

struct calltree_file_mapping {
	uint64_t start, end, offset;
	const char *path;     /* "//anon" where there is none */
	const char *build_id; /* lower-case hex, "" */
	uint32_t gone;	      /* its number; 0: it was there at the end */
};

struct calltree_file_node {
	uint64_t fn, site, calls, ns; /* fn 0: calls for which there was no room */
	uint32_t id;
	uint32_t parent; /* index of a node before it; CALLTREE_FILE_NONE: the first of its thread */
	uint32_t gone;	 /* fn or site is of the module with that number, or one before */
};

struct calltree_file {
	char *text;
	uint32_t pid;
	bool timed;
	uint64_t unplaced; /* calls on threads that had no tree */
	struct calltree_file_mapping *mappings;
	size_t n_mappings, n_gone; /* those that were there, by address; behind them those that are gone */
	struct calltree_file_node *nodes;
	size_t n_nodes;
};

/*
 * text: malloc'ed, with a NUL behind len bytes; taken, also on failure. 0; -EBADMSG, -EFBIG with a sentence that goes
 * on behind the file's name; -ENOMEM.
 */
int calltree_file_parse(char *text, size_t len, struct calltree_file **ret, struct err *e);
struct calltree_file *calltree_file_free(struct calltree_file *f); /* NULL is fine */
/* Where an address (struct calltree_file_node.fn, .site) was mapped, without its mark in *address; NULL: nowhere. */
const struct calltree_file_mapping *calltree_file_find(const struct calltree_file *f, uint64_t *address, uint32_t gone);
