/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sample_stack - the frames of one sample: kernel frames from the call chain, user frames from registers and stack
 * snapshot (or from the call chain where the kernel walked frame pointers), and at the root the reason if it ends
 * early.
 */
#pragma once

#include "profiler/perf/record.h"
#include "profiler/process/process_table.h"
#include "profiler/sample/aggregate.h"

/*
 * Writes the frames, leaf first, to `frames` (AGGREGATE_STACK_MAX of them) and returns their number. *ret_stop:
 * UNWIND_END for a complete stack.
 */
size_t sample_stack_frames(struct unwind *u, struct process *p, const struct record *r,
	const struct perf_layout *layout, struct jit_room *room, struct stack_frame *frames,
	enum unwind_stop *ret_stop);
/* For a quarantined target: the kernel's frames, one address of its own and "[quarantined]". Returns their number. */
size_t sample_stack_plain(const struct record *r, struct stack_frame *frames);
/*
 * Reads the return addresses of callers from the topmost PERF_STACK_PLACE bytes of the stack, at most `max`; returns
 * their number. A whole sample gives the same ones as a small record of the same place.
 */
size_t sample_stack_callers(
	struct unwind *u, const struct process *p, const struct record_sample *s, uint64_t *ret, size_t max);
/* Makes the frame of one address: an instruction's, or a return address. */
struct stack_frame sample_stack_frame(struct process *p, uint64_t ip, bool is_return, struct jit_room *room);
