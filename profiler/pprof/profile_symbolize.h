/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profile_symbolize - the names and lines that a finished profile lacks, from the debug information of its modules'
 * build-ids.
 *
 * Looked for in this order: /usr/lib/debug/.build-id; the module's own file, if it is there and has the build-id;
 * debuginfod, if there are servers. Each address of a module is asked about once, however many profiles have it. Files
 * are opened here but read by the symbolizer alone.
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
/* *ret: the profile with the names and lines that were found; NULL: none were found, or none are missing. */
int profile_symbolize_run(struct profile_symbolize *s, const struct profile *p, struct profile **ret, struct err *e);

struct profile_symbolize_sums {
	size_t modules, without; /* modules that lacked names or lines; of them, those without debug information */
};
/* Writes one line for each module that lacked names or lines, and returns the sums. */
void profile_symbolize_report(const struct profile_symbolize *s, FILE *out, struct profile_symbolize_sums *ret);
const char *profile_symbolize_network_failure(const struct profile_symbolize *s); /* a sentence; NULL: none */
