/* SPDX-License-Identifier: Apache-2.0 */
/* spool_index_read - the entries of an index (spool_index.h) for one target. */
#pragma once

#include <stdint.h>

struct spool_index_target {
	uint64_t profiles, samples;
	char file[400]; /* the last one, below the spool; "": there is none */
};

/*
 * Sums up the profiles of target `id` that began at `since_ns` (of the epoch) or later. `spool`: its directory, open.
 * 0, or -errno: -ENOENT where there is no index. Malformed lines are skipped.
 */
int spool_index_read_target(int spool, const char *id, int64_t since_ns, struct spool_index_target *ret);
