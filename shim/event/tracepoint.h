/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tracepoint - what tracefs says of the tracepoints among a target's events: their ids, and where in their records the
 * field is whose value is asked for (Documentation/trace/events.rst, "Event formats"). Mostly only root may read it.
 */
#pragma once

#include "oci/base/err.h"
#include "shim/event/target_desc.h"

/*
 * Sets config and value_*. With a sentence: -EACCES, -ENOENT (not mounted, no such tracepoint, no such field: which
 * there are), -EINVAL: a field that is no number.
 */
int tracepoint_find(struct event_spec *s, struct err *e);
/* Of all among `d`'s events. One that is not to be had is left out, with a note; -errno, when no event is left. */
int tracepoints_find(struct target_desc *d, struct err *e);

/* A field of a file `format`. As tracepoint_find, with `name` for its sentences. For tests. */
int tracepoint_field(const char *format, const char *field, const char *name, struct event_spec *ret, struct err *e);
