/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sample_stack - the frames of one sample: kernel frames from the call chain, user frames from registers and stack
 * snapshot (or from the call chain where the kernel walked frame pointers), and at the root why it ends early.
 */
#pragma once

#include "profiler/perf/record.h"
#include "profiler/process/process_table.h"
#include "profiler/sample/aggregate.h"

/* Leaf first into `frames` (AGGREGATE_STACK_MAX of them); how many. *ret_stop: UNWIND_END for a complete stack. */
size_t sample_stack_frames(struct unwind *u, struct process *p, const struct record *r,
	const struct perf_layout *layout, struct jit_room *room, struct stack_frame *frames,
	enum unwind_stop *ret_stop);
/* Of a target that is quarantined: the kernel's frames, one address of its own, and that it is so. How many. */
size_t sample_stack_plain(const struct record *r, struct stack_frame *frames);
/*
 * The return addresses of the callers that the topmost PERF_STACK_PLACE bytes of the stack tell, at most `max`; how
 * many. From a whole sample the same as from a small record of the same place.
 */
size_t sample_stack_callers(
	struct unwind *u, const struct process *p, const struct record_sample *s, uint64_t *ret, size_t max);
/* Of an address alone: an instruction's, or a return address. */
struct stack_frame sample_stack_frame(struct process *p, uint64_t ip, bool is_return, struct jit_room *room);
