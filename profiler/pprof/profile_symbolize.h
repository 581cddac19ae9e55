/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profile_symbolize - the names and lines that a finished profile lacks, from the debug information of its modules'
 * build-ids.
 *
 * Looked for in this order: /usr/lib/debug/.build-id; the module's own file, if it is there and has the build-id;
 * debuginfod, if there are servers. Each address of a module is asked about once, whatever number of profiles has it.
 * Whatever is found is opened here but looked into by the symbolizer alone.
 */
#pragma once

#include "oci/base/err.h"
#include "profiler/pprof/profile.h"

#include <stdbool.h>
#include <stdio.h>

struct profile_symbolize;
/* network: debuginfod may be asked. */
int profile_symbolize_open(bool network, struct profile_symbolize **ret, struct err *e);
struct profile_symbolize *profile_symbolize_close(struct profile_symbolize *s); /* NULL is fine; returns NULL */
/* *ret: the profile with what was found; NULL: nothing was, or nothing is missing. */
int profile_symbolize_run(struct profile_symbolize *s, const struct profile *p, struct profile **ret, struct err *e);

struct profile_symbolize_sums {
	size_t modules, without; /* those where something was missing; of them, those without debug information */
};
/* One line for each module in which something was missing, and the sums. */
void profile_symbolize_report(const struct profile_symbolize *s, FILE *out, struct profile_symbolize_sums *ret);
const char *profile_symbolize_network_failure(const struct profile_symbolize *s); /* a sentence; NULL: none */
