/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/libpillion/selfprof/self_record.h"

#include <errno.h>
#include <string.h>

#define TRAILER 32 /* of records that are no samples: pid and tid, time, cpu, id (struct sample_id) */
#ifndef PERF_RECORD_MISC_SWITCH_OUT
#define PERF_RECORD_MISC_SWITCH_OUT (1 << 13)
#endif

/* The rest of a record. */
struct rest {
	const uint8_t *at;
	size_t n;
	bool bad;
};

static const void *take_bytes(struct rest *r, size_t n)
{
	const uint8_t *at = r->at;
	if (n > r->n) {
		r->bad = true;
		return NULL;
	}
	r->at += n;
	r->n -= n;
	return at;
}

static uint64_t take_word(struct rest *r)
{
	uint64_t word = 0;
	const void *at = take_bytes(r, sizeof(word));
	if (at)
		memcpy(&word, at, sizeof(word));
	return word;
}

static void take_two(struct rest *r, uint32_t *a, uint32_t *b)
{
	const uint64_t word = take_word(r);
	*a = (uint32_t)word;
	*b = (uint32_t)(word >> 32);
}

static const void *take_words(struct rest *r, uint64_t n)
{
	if (n > r->n / 8) {
		r->bad = true;
		return NULL;
	}
	return take_bytes(r, (size_t)n * 8);
}

static uint64_t count_bits(uint64_t mask)
{
	uint64_t n = 0;
	for (; mask; mask &= mask - 1)
		n++;
	return n;
}

static void take_stack(struct rest *r, struct pillion_record *ret)
{
	const uint64_t size = take_word(r);
	if (!size) /* of a kernel thread: the next word is not there either */
		return;
	ret->stack = size % 8 ? NULL : take_words(r, size / 8);
	ret->n_stack = take_word(r);
	r->bad |= !ret->stack || ret->n_stack > size;
}

static void parse_sample(struct rest *r, const struct self_layout *l, struct pillion_record *ret)
{
	uint32_t unused;
	ret->fields = l->fields;
	ret->id = take_word(r);
	ret->ip = take_word(r);
	take_two(r, &ret->pid, &ret->tid);
	ret->time = take_word(r);
	if (l->fields & PILLION_ADDR)
		ret->addr = take_word(r);
	take_two(r, &ret->cpu, &unused);
	if (l->fields & PILLION_CALLCHAIN) {
		ret->n_chain = take_word(r);
		ret->chain = take_words(r, ret->n_chain);
	}
	if (l->fields & PILLION_REGS) {
		ret->regs_abi = take_word(r);
		ret->regs_mask = ret->regs_abi ? l->regs : 0;
		ret->regs = take_words(r, count_bits(ret->regs_mask));
	}
	if (l->fields & PILLION_STACK)
		take_stack(r, ret);
	take_words(r, l->tail);
	r->bad |= r->n != 0;
}

static const char *take_name(struct rest *r)
{
	for (size_t i = 0; i < r->n; i++)
		if (!r->at[i])
			return (const char *)r->at;
	return "";
}

static void parse_mmap(struct rest *r, struct pillion_record *ret)
{
	take_two(r, &ret->of_pid, &ret->of_tid);
	ret->start = take_word(r);
	ret->length = take_word(r);
	ret->offset = take_word(r);
	if (ret->type == PERF_RECORD_MMAP2) {
		take_two(r, &ret->maj, &ret->min);
		ret->inode = take_word(r);
		take_word(r); /* its generation */
		take_two(r, &ret->prot, &ret->flags);
	}
	ret->name = r->bad ? "" : take_name(r);
}

static void parse_comm(struct rest *r, struct pillion_record *ret)
{
	take_two(r, &ret->of_pid, &ret->of_tid);
	ret->name = r->bad ? "" : take_name(r);
}

static void parse_task(struct rest *r, struct pillion_record *ret)
{
	take_two(r, &ret->of_pid, &ret->parent_pid);
	take_two(r, &ret->of_tid, &ret->parent_tid);
	take_word(r);
}

static void parse_lost(struct rest *r, struct pillion_record *ret)
{
	if (ret->type == PERF_RECORD_LOST)
		take_word(r); /* an id; on a shared ring, of an innocent event */
	ret->lost = take_word(r);
}

static void parse_rest(struct rest *r, struct pillion_record *ret)
{
	switch (ret->type) {
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2:
		parse_mmap(r, ret);
		break;
	case PERF_RECORD_COMM:
		parse_comm(r, ret);
		break;
	case PERF_RECORD_FORK:
	case PERF_RECORD_EXIT:
		parse_task(r, ret);
		break;
	case PERF_RECORD_LOST:
	case PERF_RECORD_LOST_SAMPLES:
		parse_lost(r, ret);
		break;
	case PERF_RECORD_SWITCH:
	case PERF_RECORD_SWITCH_CPU_WIDE:
		ret->out = (ret->misc & PERF_RECORD_MISC_SWITCH_OUT) != 0;
		break;
	default:
		break;
	}
}

static int parse_other(const struct perf_event_header *h, struct pillion_record *ret)
{
	const uint8_t *end = (const uint8_t *)h + h->size;
	uint32_t unused;
	if (h->size < sizeof(*h) + TRAILER)
		return -EBADMSG;
	struct rest trailer = {end - TRAILER, TRAILER, false};
	struct rest r = {(const uint8_t *)(h + 1), h->size - sizeof(*h) - TRAILER, false};
	take_two(&trailer, &ret->pid, &ret->tid);
	ret->time = take_word(&trailer);
	take_two(&trailer, &ret->cpu, &unused);
	ret->id = take_word(&trailer);
	parse_rest(&r, ret);
	return r.bad ? -EBADMSG : 0;
}

uint64_t self_record_id(const struct perf_event_header *h)
{
	uint64_t id = 0;
	if (h->size >= sizeof(*h) + sizeof(id))
		memcpy(&id,
			h->type == PERF_RECORD_SAMPLE ? (const uint8_t *)(h + 1)
						      : (const uint8_t *)h + h->size - sizeof(id),
			sizeof(id));
	return id;
}

int self_record_parse(const struct perf_event_header *h, const struct self_layout *l, struct pillion_record *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->size = sizeof(*ret);
	ret->spec = UINT32_MAX;
	ret->type = h->type;
	ret->misc = h->misc;
	ret->bytes = h->size;
	ret->raw = h;
	if (h->size < sizeof(*h))
		return -EBADMSG;
	if (h->type != PERF_RECORD_SAMPLE)
		return parse_other(h, ret);
	struct rest r = {(const uint8_t *)(h + 1), h->size - sizeof(*h), false};
	parse_sample(&r, l, ret);
	return r.bad ? -EBADMSG : 0;
}
