/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spool_query - the contents of a spool, for readers: its targets, the windows of one, and those of a time range as one
 * profile.
 *
 * A requested name opens nothing: it is compared with the names in the directory, and the equal one is opened, without
 * following links. Only files of spool.h are seen. Files may go at any moment; a file that has gone counts as none.
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

/*
 * Lists the windows of the target with this directory (spool_target.h). -ENOENT: there is none; on failure there is
 * nothing to free.
 */
int spool_query_list(int spool, const char *target, struct spool_listing *ret);
void spool_query_done(struct spool_listing *w);
/* Lists the directories of all targets that have windows, below the spool, malloc'ed, in order; NULL after the last. */
int spool_query_targets(int spool, char ***ret, size_t *ret_n);
void spool_query_targets_done(char **names);
/* Opens a regular file of the target, in `dir`. -ENOENT: there is none. */
int spool_query_open(const struct spool_listing *w, const char *name);
const struct spool_file *spool_query_last(const struct spool_listing *w, const char *event); /* NULL: none */
/*
 * Merges the windows of a range; files that cannot be read or have other sample types are left out, and a comment says
 * so. *ret_n: how many. -ENOENT: there is none; -EFBIG, -ENOMEM: too much; with a sentence.
 */
int spool_query_load(const struct spool_listing *w, const struct spool_query_range *range, struct profile **ret,
	size_t *ret_n, struct err *e);
int spool_query_read(const struct spool_listing *w, const char *name, struct profile **ret, struct err *e);
