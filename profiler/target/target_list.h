/* SPDX-License-Identifier: Apache-2.0 */
/*
 * target_list - the answer to `pillion ps`: pages of targets, the latest first, each as it is when its page is made.
 *
 * A page is a bounded piece of work: a few counters, and one read of cpu.stat for each of PROTOCOL_LISTED_MAX targets.
 * No event is read, for that would interrupt the CPU that it counts on: so `lost` is the kernel's count at the end of
 * the last window.
 */
#pragma once

#include "profiler/target/engine_state.h"
#include "shim/protocol/messages.h"

/* Fills a page with targets after `before`, the last serial of the previous page; UINT64_MAX: the first page. */
void target_list_fill(struct engine *g, uint64_t before, struct msg_listing *m);
