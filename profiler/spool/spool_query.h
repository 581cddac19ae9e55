/*
 * spool_query - what lies in a spool, for who reads it: its targets, the windows of one, and those of a time range as one
 * profile.
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

#define WINDOWS_BYTES_MAX (128u << 20) /* of the files of a range, as they lie there */

struct window_file {
	char *name;
	int64_t start_s;
	char event[64];
};

struct windows {
	int dir; /* of the target, owned */
	struct window_file *files;
	size_t n; /* in the order of their start */
};

struct windows_range {
	const char *event;    /* "cpu" */
	int64_t from_s, to_s; /* windows that begin then, both included */
};

/* The windows of the target with this directory (spool_target.h). -ENOENT: there is none; on failure there is nothing
 * to free. */
int windows_list(int spool, const char *target, struct windows *ret);
void windows_done(struct windows *w);
/* The directories of all targets that have windows, below the spool, malloc'ed, in order; NULL behind the last. */
int windows_targets(int spool, char ***ret, size_t *ret_n);
void windows_targets_done(char **names);
/* An open file, regular: of the target's, of `dir`'s. -ENOENT: there is no such one. */
int windows_open(const struct windows *w, const char *name);
const struct window_file *windows_last(const struct windows *w, const char *event); /* NULL: none */
/*
 * Merged; what could not be read or has other sample types is left out, and a comment says so. *ret_n of them. -ENOENT:
 * there is none; -EFBIG, -ENOMEM: too much; with a sentence.
 */
int windows_load(
	const struct windows *w, const struct windows_range *range, struct profile **ret, size_t *ret_n, struct err *e);
int windows_read(const struct windows *w, const char *name, struct profile **ret, struct err *e);
