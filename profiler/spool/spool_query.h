/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spool_query - what lies in a spool, for who reads it: its targets, the windows of one, and those of a time range as
 * one profile.
 *
 * A name that somebody asks for opens nothing: it is compared with what the directory has, and that is opened, without
 * following links. Only what spool.h makes is seen. Files may go at any moment; one that has gone was none.
 */
#pragma once

#include "oci/base/err.h"
#include "profiler/pprof/profile.h"
#include "profiler/spool/spool.h"

#include <stddef.h>
#include <stdint.h>

#define SPOOL_QUERY_BYTES_MAX (128u << 20) /* of the files of a range, as they lie there */

struct spool_file {
	char *name;
	int64_t start_s;
	char event[64];
};

struct spool_listing {
	int dir; /* of the target, owned */
	struct spool_file *files;
	size_t n; /* in the order of their start */
};

struct spool_query_range {
	const char *event;    /* "cpu" */
	int64_t from_s, to_s; /* windows that begin then, both included */
};

/* The windows of the target with this directory (spool_target.h). -ENOENT: there is none; on failure there is nothing
 * to free. */
int spool_query_list(int spool, const char *target, struct spool_listing *ret);
void spool_query_done(struct spool_listing *w);
/* The directories of all targets that have windows, below the spool, malloc'ed, in order; NULL behind the last. */
int spool_query_targets(int spool, char ***ret, size_t *ret_n);
void spool_query_targets_done(char **names);
/* An open file, regular: of the target's, of `dir`'s. -ENOENT: there is no such one. */
int spool_query_open(const struct spool_listing *w, const char *name);
const struct spool_file *spool_query_last(const struct spool_listing *w, const char *event); /* NULL: none */
/*
 * Merged; what could not be read or has other sample types is left out, and a comment says so. *ret_n of them. -ENOENT:
 * there is none; -EFBIG, -ENOMEM: too much; with a sentence.
 */
int spool_query_load(const struct spool_listing *w, const struct spool_query_range *range, struct profile **ret,
	size_t *ret_n, struct err *e);
int spool_query_read(const struct spool_listing *w, const char *name, struct profile **ret, struct err *e);
