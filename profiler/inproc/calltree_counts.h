/* SPDX-License-Identifier: Apache-2.0 */
/*
 * calltree_counts - from what a process has called (calltree_reader.h) to a target's counts of MEASURES_CALLS:
 * functions of its modules in place of addresses.
 */
#pragma once

#include "profiler/inproc/calltree_reader.h"
#include "profiler/target/target.h"

/*
 * Adds by how much it has grown to the counts of this event. ret_unknown: there was a function where nothing is known
 * to be mapped. 0 or -errno of calltree_reader_look; -ENOMEM.
 */
int calltree_count(struct calltree_reader *c, struct target *t, uint32_t event, uint32_t pid, bool *ret_unknown);
