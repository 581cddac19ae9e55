/* SPDX-License-Identifier: Apache-2.0 */
/* One byte chooses the layout; the rest is a record in memory of exactly its size. What passes lies inside it. */
#include "shim/libpillion/selfprof/self_record.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile uint64_t sink;

static uint64_t sum(const struct pillion_record *r)
{
	uint64_t n = r->name ? strlen(r->name) : 0;
	for (uint64_t i = 0; i < r->n_chain; i++)
		n += r->chain[i];
	for (uint64_t mask = r->regs_mask, i = 0; mask; mask &= mask - 1)
		n += r->regs[i++];
	for (uint64_t i = 0; i < r->n_stack; i++)
		n += r->stack[i];
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pillion_record r;
	if (size < 1 + sizeof(struct perf_event_header) || size > 65536)
		return 0;
	const struct self_layout l = {.fields = data[0] & 15,
		.tail = data[0] >> 4 & 3,
		.regs = data[0] & 64 ? SELF_REGS : 0x1c0,
		.stack = 64};
	struct perf_event_header *h = malloc(size - 1);
	memcpy(h, data + 1, size - 1);
	h->size = (uint16_t)(size - 1);
	sink = self_record_id(h);
	if (self_record_parse(h, &l, &r) == 0)
		sink += sum(&r);
	free(h);
	return 0;
}
