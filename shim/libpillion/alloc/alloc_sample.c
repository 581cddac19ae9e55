/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/libpillion/alloc/alloc_sample.h"

#include "shim/libpillion/alloc/live_slots.h"
#include "shim/libpillion/core/connection.h"
#include "shim/libpillion/core/labels.h"
#include "shim/libpillion/core/stack_copy.h"
#include "shim/libpillion/core/syscall.h"
#include "shim/libpillion/core/thread_name.h"
#include "shim/libpillion/cputime/cpu_timers.h"

#include <string.h>

/* xorshift64* (Vigna, 2016) */
static uint64_t draw_random(uint64_t *random)
{
	*random ^= *random >> 12;
	*random ^= *random << 25;
	*random ^= *random >> 27;
	return *random * 0x2545f4914f6cdd1d;
}

/* ln(x) of x in (0, 1]: 2^e * m, and the series of atanh for the rest; good to 1e-9. There is no libm. */
static double compute_log(double x)
{
	uint64_t bits;
	memcpy(&bits, &x, sizeof(bits));
	const int exponent = (int)(bits >> 52) - 1023;
	bits = (bits & 0xfffffffffffff) | 0x3ff0000000000000;
	memcpy(&x, &bits, sizeof(x));
	const double z = (x - 1) / (x + 1), z2 = z * z;
	double sum = 0;
	for (int k = 21; k > 0; k -= 2)
		sum = sum * z2 + 1.0 / k;
	return 2 * z * sum + exponent * 0.693147180559945309;
}

int64_t alloc_sample_draw(uint64_t *random, uint64_t mean)
{
	const double u = ((double)(draw_random(random) >> 11) + 1) / 9007199254740992.0;
	const double distance = -compute_log(u) * (double)mean;
	return distance < 1 ? 1 : (int64_t)distance;
}

static void seed_random(struct thread_state *t)
{
	t->random ^= (uintptr_t)t * 0x9e3779b97f4a7c15 ^ (uint64_t)connection_clock();
	if (!connection_is_quiet())
		t->random ^= ticks_read();
	t->random = t->random ? t->random : 1;
	for (int i = 0; i < 4; i++)
		draw_random(&t->random);
}

/*
 * A thread begins somewhere between two samples. By an exponential distribution that is as far from the next as the
 * last one was. The bytes of this allocation, taken from `left` already, count.
 */
static bool start_interval(struct thread_state *t, uint64_t mean)
{
	if (!t->random)
		seed_random(t);
	t->mean = mean;
	t->left += mean ? alloc_sample_draw(&t->random, mean) : (int64_t)CONNECTION_MEAN_NONE;
	return mean && t->left < 0;
}

static void update_tid(struct thread_state *t, const struct connection *p)
{
	if (t->pid == p->pid || connection_is_quiet())
		return;
	t->tid = (uint32_t)sys_call(gettid);
	t->pid = p->pid;
}

/* While no profiler has said what it wants: the bytes since the last check are in no sample. The area counts them. */
static void await_profiler(struct thread_state *t, struct connection *p)
{
	const bool inherited = p && t->pid && t->pid != p->pid; /* by fork(2): our parent has counted them */
	uint64_t bytes = (uint64_t)-t->left + (inherited ? 0 : t->awaited);
	if (p) {
		__atomic_fetch_add(&p->area.head->awaited, bytes, __ATOMIC_RELAXED);
		update_tid(t, p);
		bytes = 0;
	}
	t->mean = 0;
	t->left = CONNECTION_MEAN_AWAITED;
	t->awaited = bytes + CONNECTION_MEAN_AWAITED;
	if (p)
		connection_tend(p, connection_clock());
}

/* The profiler has answered, or none will: what this thread has not told the area yet. No system call here. */
static void end_awaiting(struct thread_state *t, struct connection *p)
{
	if (p && (!t->pid || t->pid == p->pid))
		__atomic_fetch_add(&p->area.head->awaited, t->awaited, __ATOMIC_RELAXED);
	t->awaited = 0;
}

void alloc_sample_put_off(struct thread_state *t)
{
	if (!t->awaited && !connection_is_awaited()) {
		t->left += t->mean ? (int64_t)t->mean : (int64_t)CONNECTION_MEAN_NONE;
		return;
	}
	t->left += (int64_t)CONNECTION_MEAN_AWAITED;
	t->awaited += CONNECTION_MEAN_AWAITED;
}

bool alloc_sample_due(struct thread_state *t, size_t failed)
{
	if (!connection_has_begun()) {
		t->left = 0;
		return false;
	}
	struct connection *p = connection_get();
	const uint64_t mean = p ? __atomic_load_n(&p->mean, __ATOMIC_RELAXED) : 0;
	if (!mean && connection_is_awaited()) {
		t->left += (int64_t)failed;
		if (t->left < 0)
			await_profiler(t, p);
		return false;
	}
	if (t->awaited)
		end_awaiting(t, p);
	if (mean != t->mean || !mean) {
		t->left = t->left < -(int64_t)CONNECTION_MEAN_NONE && !mean ? 0 : t->left;
		if (!start_interval(t, mean))
			return false;
	}
	t->left = alloc_sample_draw(&t->random, mean);
	return true;
}

void alloc_sample_record(struct thread_state *t, const struct shm_regs *r, const void *ptr, size_t bytes)
{
	struct connection *p = connection_now();
	struct shm_place place;
	bool wake;
	if (!p)
		return;
	update_tid(t, p);
	const uint64_t id = live_slots_add(&p->area, ptr, bytes);
	const uint32_t most = stack_copy_size(r->sp, (uint64_t)(uintptr_t)__builtin_thread_pointer());
	const int64_t now = connection_clock();
	const uint32_t more = cpu_timers_more();
	if (shm_reserve(&p->area, (uint32_t)sizeof(struct shm_record) + more + most, &place, &wake)) {
		struct shm_record *to = (struct shm_record *)place.at;
		uint8_t *stack = (uint8_t *)(to + 1) + more;
		*to = (struct shm_record){.kind = SHM_ALLOC,
			.tid = t->tid,
			.time = (uint64_t)now,
			.regs = *r,
			.bytes = bytes,
			.id = id,
			.labels = labels_in(&p->area, t->labels),
			.more = more};
		if (more)
			thread_name_read((struct shm_more *)(to + 1));
		to->stack = stack_copy(t->tid, r->sp, stack, most);
		place.size = (uint32_t)sizeof(*to) + more + to->stack;
		shm_publish(&p->area, &place);
	}
	if (wake)
		connection_wake(p);
	connection_tend(p, now);
}

uint32_t alloc_sample_find(const void *ptr)
{
	const struct connection *p = connection_now();
	return p ? live_slots_find(&p->area, ptr) : 0;
}

void alloc_sample_freed(uint32_t found, const void *ptr)
{
	const struct connection *p = found ? connection_now() : NULL;
	if (p)
		live_slots_empty(&p->area, found, ptr);
}
