/* SPDX-License-Identifier: Apache-2.0 */
/*
 * debuginfod - debug files over the network, by build-id, through elfutils' libdebuginfod: which servers, its cache and
 * how long it waits is in its environment (debuginfod_find_debuginfo(3): DEBUGINFOD_URLS, _CACHE_PATH, _TIMEOUT, ...).
 *
 * The library is looked for when the first file is wanted: a `pillion` without it does everything else. What comes
 * over the network is a stranger's: whoever gets it looks at it as at any debug file.
 */
#pragma once

#include "oci/base/err.h"
#include "profiler/elf/debuglink.h"

struct debuginfod_client;
int debuginfod_client_open(struct debuginfod_client **ret, struct err *e);	/* -ENOENT: there is no library */
struct debuginfod_client *debuginfod_client_close(struct debuginfod_client *f); /* NULL is fine; returns NULL */
/*
 * An open file of the cache, for the caller to close, and what to call the place it is from, valid until the next call.
 * -ENOENT: the servers have none. Any other -errno: they are not to be had, and asking again would take as long.
 */
int debuginfod_client_fetch(
	struct debuginfod_client *f, const struct build_id *id, const char **ret_from, struct err *e);
