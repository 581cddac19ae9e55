/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/sample/sampling.h"

#include "profiler/sample/sample_stack.h"

/*
 * The cost of taking a sample: tests/bench/sampling.c on a virtual machine (AMD EPYC, Linux 6.18), where an interrupt
 * is dear. On a physical machine it is a fraction, so that the estimate is on the safe side there.
 */
#define SAMPLE_NS 20000
#define SAMPLE_NS_PER_KIB 150
#define SWITCH_NS 300 /* a small record of a switch */
/*
 * Unwinding and counting a sample takes as long as noting so many mmap, fork and comm records: on the same machine 4.4
 * us for stacks of three frames, and several times that for deep ones; 0.9 us for a record of a shell that runs one
 * program after the other.
 */
#define SAMPLE_RECORDS 8

enum rate_way sampling_rate_way(const struct sampling *s)
{
	switch (s->desc->strategy) {
	case STRATEGY_CGROUP:
		return RATE_PERIOD;
	case STRATEGY_PROCESS:
		return RATE_DUTY_CYCLE;
	default:
		return RATE_DROP_SAMPLES;
	}
}

void sampling_note_record(struct sampling *s, bool sample, size_t bytes)
{
	s->records++;
	s->bytes += bytes;
	s->rates->n_records += sample ? SAMPLE_RECORDS : 1;
	if (sample) {
		s->rates->n_samples += SAMPLE_RECORDS;
		s->rate.samples++;
		s->rate.bytes += bytes;
	}
}

void sampling_note_switch(struct sampling *s, size_t bytes)
{
	s->records++;
	s->bytes += bytes;
	s->rates->n_records++;
	s->rates->n_samples++;
	s->rates->sampling += SWITCH_NS;
}

bool sampling_take(struct sampling *s, uint32_t spec, int64_t time, uint64_t weight, size_t stack)
{
	const enum rate_way way = sampling_rate_way(s);
	s->tally.taken[spec]++;
	s->tally.counted[spec] += way == RATE_PERIOD ? weight : s->desc->events[spec].period;
	s->rates->sampling += SAMPLE_NS + stack * SAMPLE_NS_PER_KIB / 1024;
	return !s->rate.n_steps || way != RATE_DROP_SAMPLES || sample_rate_keep(&s->rate, spec, time);
}

size_t sampling_stack(struct sampling *s, struct process *p, const struct record *r, const struct perf_layout *layout,
	struct stack_frame *frames, enum unwind_stop *ret_stop)
{
	const uint64_t had = unwind_code_stacks(s->unwind);
	const size_t n = sample_stack_frames(s->unwind, p, r, layout, s->jit_room, frames, ret_stop);
	s->tally.stops[*ret_stop]++;
	s->tally.code_stacks += unwind_code_stacks(s->unwind) - had;
	return n;
}

struct sample_detail sampling_detail(const struct sampling *s, const struct record *r)
{
	const int64_t us = ((int64_t)r->time - s->window_mono) / 1000;
	struct sample_detail when = {s->desc->detail & DETAIL_CPU ? r->cpu + 1 : 0, 0};
	if (s->desc->detail & DETAIL_TIME) /* a window has an hour at most, which is less than 2^32 us */
		when.us = us < 0 ? 1 : us < UINT32_MAX ? (uint32_t)us + 1 : UINT32_MAX;
	return when;
}

void sampling_processes_changed(struct sampling *s)
{
	s->changed = s->processes_changed = true;
}
