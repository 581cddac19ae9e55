/* SPDX-License-Identifier: Apache-2.0 */
/* One byte chooses the layout; the rest is a record in memory of exactly its size. What passes lies inside it. */
#include "profiler/perf/record.h"

#include <stdlib.h>
#include <string.h>

#define FIXED (PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile uint64_t sink;

static uint64_t sum(const struct record *r)
{
	uint64_t n = r->type == PERF_RECORD_COMM ? strlen(r->comm.name) : 0;
	n += r->type == PERF_RECORD_MMAP2 ? strlen(r->mmap.path) : 0;
	for (uint64_t i = 0; r->type == PERF_RECORD_SAMPLE && i < r->sample.n_chain; i++)
		n += r->sample.chain[i];
	for (uint64_t i = 0; r->type == PERF_RECORD_SAMPLE && i < r->sample.stack_size; i++)
		n += r->sample.stack[i];
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct record r;
	if (size < 1 + sizeof(struct perf_event_header) || size > 65536)
		return 0;
	static const uint64_t parts[] = {FIXED, PERF_SAMPLE_CALLCHAIN, PERF_SAMPLE_REGS_USER, PERF_SAMPLE_STACK_USER};
	struct perf_layout l = {.regs_user = data[0] & 16 ? 0xff0fff : PERF_REGS_USER_MASK};
	for (unsigned i = 0; i < 4; i++)
		l.sample_type |= data[0] >> i & 1 ? parts[i] : 0;
	struct perf_event_header *h = malloc(size - 1);
	memcpy(h, data + 1, size - 1);
	h->size = (uint16_t)(size - 1);
	if (record_parse(h, &l, &r) == 0)
		sink = sum(&r);
	free(h);
	return 0;
}
