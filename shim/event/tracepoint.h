/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tracepoint - reads tracefs for the tracepoints among a target's events: their ids, and the place of a requested field
 * in their records (Documentation/trace/events.rst, "Event formats"). Mostly only root may read it.
 */
#pragma once

#include "oci/base/err.h"
#include "shim/event/target_desc.h"

/*
 * Sets config and value_*. With a sentence: -EACCES, -ENOENT (not mounted, no such tracepoint, no such field: the
 * sentence lists those there are), -EINVAL: a field that is no number.
 */
int tracepoint_find(struct event_spec *s, struct err *e);
/*
 * The same for all of `d`'s events. One that is not available is left out, with a note; -errno when no event is left.
 */
int tracepoints_find(struct target_desc *d, struct err *e);

/* Finds a field in a file `format`. As tracepoint_find, with `name` for its sentences. For tests. */
int tracepoint_field(const char *format, const char *field, const char *name, struct event_spec *ret, struct err *e);
