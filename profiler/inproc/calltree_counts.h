/* SPDX-License-Identifier: Apache-2.0 */
/*
 * calltree_counts - turns the calls of a process (calltree_reader.h) into a target's counts of MEASURES_CALLS:
 * functions of its modules in place of addresses.
 */
#pragma once

#include "profiler/inproc/calltree_reader.h"
#include "profiler/inproc/inproc.h"

/*
 * Adds the growth since the last look to the counts of this event. ret_unknown: a function lies where no mapping is
 * known. 0, -errno of calltree_reader_look, or -ENOMEM.
 */
int calltree_count(
	struct calltree_reader *c, const struct inproc_owner *o, uint32_t event, uint32_t pid, bool *ret_unknown);
