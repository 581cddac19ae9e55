/* SPDX-License-Identifier: Apache-2.0 */
/*
 * target_list - what `pillion ps` is told: pages of targets, the latest first, each as it is when its page is made.
 *
 * A page is a bounded piece of work: a few counters, and one read of cpu.stat for each of PROTOCOL_LISTED_MAX targets.
 * No event is asked, for that would interrupt the CPU that it counts on: so `lost` is what the kernel said at the end
 * of the last window.
 */
#pragma once

#include "profiler/target/engine.h"
#include "shim/protocol/messages.h"

/* Those that come behind `before`, the serial of the last one of the page before; UINT64_MAX: the first page. */
void target_list_fill(struct engine *g, uint64_t before, struct msg_listing *m);
