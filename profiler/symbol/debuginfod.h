/* SPDX-License-Identifier: Apache-2.0 */
/*
 * debuginfod - fetches debug files over the network, by build-id, through elfutils' libdebuginfod. Its environment sets
 * the servers, the cache and the timeout (debuginfod_find_debuginfo(3): DEBUGINFOD_URLS, _CACHE_PATH, _TIMEOUT, ...).
 *
 * The library is loaded when the first file is wanted: a `pillion` without it does everything else. A file from the
 * network is untrusted: the caller treats it like any debug file.
 */
#pragma once

#include "oci/base/err.h"
#include "profiler/elf/debuglink.h"

struct debuginfod_client;
int debuginfod_client_open(struct debuginfod_client **ret, struct err *e);	/* -ENOENT: there is no library */
struct debuginfod_client *debuginfod_client_close(struct debuginfod_client *f); /* NULL is fine; returns NULL */
/*
 * Returns an open file of the cache, for the caller to close. *ret_from: the name of its origin, valid until the next
 * call. -ENOENT: the servers have none. Any other -errno: the servers cannot be reached, and asking again would take as
 * long.
 */
int debuginfod_client_fetch(
	struct debuginfod_client *f, const struct build_id *id, const char **ret_from, struct err *e);
