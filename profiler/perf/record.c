/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/perf/record.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

/* sample_id_all trailer of our sample_type: { u32 pid, tid; u64 time; u32 cpu, res; u64 id; } */
#define TRAILER 32
#define SAMPLE_FIXED (PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU)

/* A position in a record that never leaves it. */
struct cursor {
	const uint8_t *at, *end;
};

static int take_bytes(struct cursor *c, size_t n, const void **ret)
{
	if ((size_t)(c->end - c->at) < n)
		return -EBADMSG;
	*ret = c->at;
	c->at += n;
	return 0;
}

static int take_u64(struct cursor *c, uint64_t *ret)
{
	const void *p;
	int r = take_bytes(c, sizeof(*ret), &p);
	if (r == 0)
		memcpy(ret, p, sizeof(*ret));
	return r;
}

static int take_two_u32(struct cursor *c, uint32_t *first, uint32_t *second)
{
	uint64_t v;
	int r = take_u64(c, &v);
	if (r == 0) {
		*first = (uint32_t)v;
		*second = (uint32_t)(v >> 32);
	}
	return r;
}

static uint64_t read_u64(const uint8_t *p)
{
	uint64_t v;
	memcpy(&v, p, sizeof(v));
	return v;
}

int record_peek(const struct perf_event_header *h, uint64_t *ret_id, uint64_t *ret_time)
{
	const uint8_t *p = (const uint8_t *)h;
	if (h->size < sizeof(*h) + TRAILER)
		return -EBADMSG;
	if (h->type == PERF_RECORD_SAMPLE) { /* identifier, ip, tid, time */
		*ret_id = read_u64(p + 8);
		*ret_time = read_u64(p + 32);
	} else {
		*ret_id = read_u64(p + h->size - 8);
		*ret_time = read_u64(p + h->size - 24);
	}
	return 0;
}

/* { u64 nr; u64 ips[nr]; } */
static int parse_chain(struct cursor *c, struct record_sample *s)
{
	const void *p = NULL;
	int r = take_u64(c, &s->n_chain);
	if (r < 0 || s->n_chain > (size_t)(c->end - c->at) / 8)
		return -EBADMSG;
	r = take_bytes(c, s->n_chain * 8, &p);
	s->chain = p;
	return r;
}

static int parse_all_regs(struct cursor *c, struct unwind_regs *ret)
{
	_Static_assert(__builtin_popcountll(PERF_REGS_USER_MASK) == UNWIND_REGS, "as the kernel writes them");
	const void *p;
	int r = take_bytes(c, sizeof(*ret), &p);
	if (r == 0)
		memcpy(ret, p, sizeof(*ret));
	return r;
}

static int parse_place(struct cursor *c, struct unwind_regs *ret)
{
	int r = take_u64(c, &ret->r[UNWIND_FP]);
	if (r == 0)
		r = take_u64(c, &ret->r[UNWIND_SP]);
	return r < 0 ? r : take_u64(c, &ret->r[UNWIND_IP]);
}

/* { u64 abi; u64 regs[]; } with no registers for ABI_NONE (a kernel thread) */
static int parse_regs(struct cursor *c, uint64_t which, struct record_sample *s)
{
	uint64_t abi;
	int r = take_u64(c, &abi);
	if (r < 0 || abi == PERF_SAMPLE_REGS_ABI_NONE)
		return r;
	r = which == PERF_REGS_USER_MASK    ? parse_all_regs(c, &s->regs)
	    : which == PERF_REGS_PLACE_MASK ? parse_place(c, &s->regs)
					    : -EBADMSG;
	s->has_regs = r == 0 && abi == PERF_SAMPLE_REGS_ABI_64;
	return r;
}

/* { u64 value; u64 time_running; }: the one format that has it */
static int parse_read(struct cursor *c, struct record_sample *s)
{
	int r = take_u64(c, &s->value);
	return r < 0 ? r : take_u64(c, &s->running);
}

/* { u32 size; char data[size]; }, of 8 bytes' multiple in all */
static int parse_raw(struct cursor *c, struct record_sample *s)
{
	const void *p = NULL;
	int r = take_bytes(c, sizeof(s->raw_size), &p);
	if (r < 0)
		return r;
	memcpy(&s->raw_size, p, sizeof(s->raw_size));
	r = take_bytes(c, s->raw_size, &p);
	s->raw = p;
	return r;
}

/* { u64 size; char data[size]; u64 dyn_size; } with dyn_size only where size is not 0 */
static int parse_stack(struct cursor *c, struct record_sample *s)
{
	uint64_t size, dyn = 0;
	const void *p = NULL;
	int r = take_u64(c, &size);
	if (r < 0 || size == 0)
		return r;
	r = take_bytes(c, size, &p);
	if (r == 0)
		r = take_u64(c, &dyn);
	if (r < 0 || dyn > size)
		return -EBADMSG;
	s->stack = p;
	s->stack_size = dyn;
	return 0;
}

static int parse_sample(struct cursor *c, const struct perf_layout *l, struct record *ret)
{
	struct record_sample *s = &ret->sample;
	uint32_t reserved;
	uint64_t id;
	if ((l->sample_type & SAMPLE_FIXED) != SAMPLE_FIXED)
		return -EBADMSG;
	memset(s, 0, sizeof(*s));
	int r = take_u64(c, &id);
	if (r == 0)
		r = take_u64(c, &s->ip);
	if (r == 0)
		r = take_two_u32(c, &ret->pid, &ret->tid);
	if (r == 0)
		r = take_u64(c, &ret->time);
	if (r == 0)
		r = take_two_u32(c, &ret->cpu, &reserved);
	if (r == 0 && l->sample_type & PERF_SAMPLE_READ)
		r = l->flags & LAYOUT_RUNNING ? parse_read(c, s) : -EBADMSG;
	if (r == 0 && l->sample_type & PERF_SAMPLE_CALLCHAIN)
		r = parse_chain(c, s);
	if (r == 0 && l->sample_type & PERF_SAMPLE_RAW)
		r = parse_raw(c, s);
	if (r == 0 && l->sample_type & PERF_SAMPLE_REGS_USER)
		r = parse_regs(c, l->regs_user, s);
	if (r == 0 && l->sample_type & PERF_SAMPLE_STACK_USER)
		r = parse_stack(c, s);
	return r;
}

static int take_string(struct cursor *c, const char **ret)
{
	const char *s = (const char *)c->at;
	size_t room = (size_t)(c->end - c->at);
	if (room == 0 || !memchr(s, 0, room))
		return -EBADMSG;
	*ret = s;
	return 0;
}

/* { u32 pid, tid; u64 addr, len, pgoff; union { {u32 maj, min; u64 ino, gen;} {u8 len; u8 res[3]; u8 id[20];} };
 *   u32 prot, flags; char filename[]; } */
static int parse_mmap(struct cursor *c, struct record *ret)
{
	struct record_mmap *m = &ret->mmap;
	uint32_t prot, flags;
	const void *identity = NULL;
	memset(m, 0, sizeof(*m));
	int r = take_two_u32(c, &ret->pid, &ret->tid);
	if (r == 0)
		r = take_u64(c, &m->start);
	if (r == 0)
		r = take_u64(c, &m->len);
	if (r == 0)
		r = take_u64(c, &m->pgoff);
	if (r == 0)
		r = take_bytes(c, 24, &identity);
	if (r == 0)
		r = take_two_u32(c, &prot, &flags);
	if (r == 0)
		r = take_string(c, &m->path);
	if (r < 0)
		return r;
	const uint8_t *p = identity;
	if (ret->misc & PERF_RECORD_MISC_MMAP_BUILD_ID) {
		m->build_id_len = p[0] <= sizeof(m->build_id) ? p[0] : 0;
		memcpy(m->build_id, p + 4, m->build_id_len);
	} else {
		memcpy(&m->maj, p, 4);
		memcpy(&m->min, p + 4, 4);
		m->ino = read_u64(p + 8);
		m->generation = read_u64(p + 16);
	}
	m->exec = prot & PROT_EXEC;
	return 0;
}

static int parse_body(struct cursor *c, const struct perf_layout *l, struct record *ret)
{
	int r;
	switch (ret->type) {
	case PERF_RECORD_SAMPLE:
		return parse_sample(c, l, ret);
	case PERF_RECORD_MMAP2:
		return parse_mmap(c, ret);
	case PERF_RECORD_COMM:
		r = take_two_u32(c, &ret->pid, &ret->tid);
		ret->comm.exec = ret->misc & PERF_RECORD_MISC_COMM_EXEC;
		return r < 0 ? r : take_string(c, &ret->comm.name);
	case PERF_RECORD_FORK:
	case PERF_RECORD_EXIT:
		r = take_two_u32(c, &ret->pid, &ret->task.ppid);
		return r < 0 ? r : take_two_u32(c, &ret->tid, &ret->task.ptid);
	case PERF_RECORD_LOST:
		r = take_u64(c, &ret->lost.id);
		return r < 0 ? r : take_u64(c, &ret->lost.count);
	case PERF_RECORD_LOST_SAMPLES:
		ret->lost.id = ret->id;
		return take_u64(c, &ret->lost.count);
	default:
		return 0; /* THROTTLE and whatever comes: type, id and time are enough */
	}
}

int record_parse(const struct perf_event_header *h, const struct perf_layout *layout, struct record *ret)
{
	struct cursor c = {(const uint8_t *)(h + 1), (const uint8_t *)h + h->size};
	ret->type = h->type;
	ret->misc = h->misc;
	ret->pid = ret->tid = ret->cpu = ret->by = 0;
	int r = record_peek(h, &ret->id, &ret->time);
	if (r < 0)
		return r;
	if (h->type != PERF_RECORD_SAMPLE) {
		c.end -= TRAILER;
		ret->pid = (uint32_t)read_u64(c.end);
		ret->tid = (uint32_t)(read_u64(c.end) >> 32);
		ret->by = ret->tid;
		ret->cpu = (uint32_t)read_u64(c.end + 16);
	}
	r = parse_body(&c, layout, ret);
	if (h->type == PERF_RECORD_SAMPLE)
		ret->by = ret->tid;
	return r;
}
