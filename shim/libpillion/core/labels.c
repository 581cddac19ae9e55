/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/libpillion/core/labels.h"

#include "shim/libpillion/abi/label_text.h"
#include "shim/libpillion/core/feature.h"
#include "shim/libpillion/core/syscall.h"

#include <errno.h>
#include <string.h>

_Static_assert(sizeof(((struct shm_set *)0)->text) >= LABEL_TEXT_MAX, "all of a thread's");

#define THREADS 4096 /* threads whose sets are remembered */
#define NEAR 16
#define WAKE_EACH (SHM_CHANGES / 2)

/* --- sets ------------------------------------------------------------------------------------------------------- */

static struct set {
	uint32_t state; /* 0: free; SET_TAKEN; SET_THERE */
	uint32_t size;
	uint64_t hash;
	char text[LABEL_TEXT_MAX];
} sets[SHM_SETS];
enum { SET_FREE, SET_TAKEN, SET_THERE };

/* FNV-1a */
static uint64_t hash_of(const char *text, size_t n)
{
	uint64_t h = 0xcbf29ce484222325;
	for (size_t i = 0; i < n; i++)
		h = (h ^ (uint8_t)text[i]) * 0x100000001b3;
	return h;
}

/* Returns its number, from 1 on; 0: no room. A set that two threads add at once may get two numbers. */
static uint32_t number_of(const char *text, size_t n)
{
	const uint64_t hash = hash_of(text, n);
	for (uint32_t i = 0; i < SHM_SETS; i++) {
		struct set *s = &sets[(hash + i) % SHM_SETS];
		uint32_t state = __atomic_load_n(&s->state, __ATOMIC_ACQUIRE);
		if (state == SET_THERE && s->hash == hash && s->size == n && !memcmp(s->text, text, n))
			return (uint32_t)(s - sets) + 1;
		if (state != SET_FREE || !__atomic_compare_exchange_n(&s->state, &state, SET_TAKEN, false,
						 __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			continue;
		memcpy(s->text, text, n);
		s->size = (uint32_t)n;
		s->hash = hash;
		__atomic_store_n(&s->state, SET_THERE, __ATOMIC_RELEASE);
		return (uint32_t)(s - sets) + 1;
	}
	return 0;
}

/* Concurrent writers write the same. */
uint32_t labels_in(const struct shm *a, uint32_t set)
{
	struct shm_set *to = set ? &a->sets[set - 1] : NULL;
	if (to && !__atomic_load_n(&to->size, __ATOMIC_ACQUIRE)) {
		memcpy(to->text, sets[set - 1].text, sets[set - 1].size);
		__atomic_store_n(&to->size, sets[set - 1].size, __ATOMIC_RELEASE);
	}
	return set;
}

/* --- the sets of threads ---------------------------------------------------------------------------------------- */

static struct holder {
	uint32_t tid, set;
} holders[THREADS];

static bool remember_in(struct holder *h, uint32_t tid, bool anybody, uint32_t set)
{
	uint32_t whose = __atomic_load_n(&h->tid, __ATOMIC_RELAXED);
	if (whose != tid &&
		(!anybody || __atomic_load_n(&h->set, __ATOMIC_RELAXED) ||
			!__atomic_compare_exchange_n(&h->tid, &whose, tid, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)))
		return false;
	__atomic_store_n(&h->set, set, __ATOMIC_RELEASE);
	return true;
}

/* In the thread's place, else in a free one. Without room a later profiler is not told. */
static void store_holder(uint32_t tid, uint32_t set)
{
	for (uint32_t i = 0; i < 2 * NEAR; i++)
		if (remember_in(&holders[(tid + i % NEAR) % THREADS], tid, i >= NEAR, set))
			return;
}

/* Adds a change to the ring. Returns its time. */
static uint64_t append_change(struct connection *p, uint32_t tid, uint32_t set)
{
	const struct shm *a = &p->area;
	const uint64_t time = (uint64_t)connection_clock();
	labels_in(a, set);
	const uint64_t n = __atomic_fetch_add(&a->head->changes, 1, __ATOMIC_ACQ_REL);
	struct shm_change *c = &a->changes[n % SHM_CHANGES];
	__atomic_store_n(&c->number, 0, __ATOMIC_RELEASE);
	c->time = time;
	c->tid = tid;
	c->set = set;
	__atomic_store_n(&c->number, n + 1, __ATOMIC_RELEASE);
	if (n % WAKE_EACH == WAKE_EACH - 1)
		connection_wake(p);
	return time;
}

static void tell_all_labels(struct connection *p)
{
	const uint32_t self = (uint32_t)sys_call(gettid);
	if (thread_own.labels)
		append_change(p, self, thread_own.labels);
	for (uint32_t i = 0; i < THREADS; i++) {
		const uint32_t tid = __atomic_load_n(&holders[i].tid, __ATOMIC_RELAXED);
		const uint32_t set = __atomic_load_n(&holders[i].set, __ATOMIC_ACQUIRE);
		/* others are of a parent, or ended */
		if (set && tid != self && sys_call(tgkill, p->pid, tid, 0) == 0)
			append_change(p, tid, set);
	}
}

static __attribute__((constructor(101))) void register_labels(void)
{
	static struct feature labels = {.connected = tell_all_labels};
	feature_register(&labels);
}

/* --- the calling thread ----------------------------------------------------------------------------------------- */

/*
 * The thread's tid in this process, also without a connection. A child that was forked since then gets its own at its
 * first sample.
 */
static uint32_t own_tid(struct thread_state *t, const struct connection *p)
{
	if (!t->tid || (p && t->pid != p->pid)) {
		if (connection_is_quiet())
			return t->tid;
		t->tid = (uint32_t)sys_call(gettid);
		t->pid = p ? p->pid : (uint32_t)sys_call(getpid);
	}
	return t->tid;
}

int labels_set(const char *key, const char *value)
{
	struct thread_state *t = &thread_own;
	struct connection *p = connection_now();
	const struct set *had = t->labels ? &sets[t->labels - 1] : NULL;
	char text[LABEL_TEXT_MAX];
	const long n = label_change(had ? had->text : "", had ? had->size : 0, key, value, text);
	if (n < 0)
		return (int)n;
	const uint32_t set = n ? number_of(text, (size_t)n) : 0;
	if (n && !set)
		return -ENOSPC;
	if (set == t->labels)
		return 0;
	const uint32_t tid = own_tid(t, p);
	t->labels = set;
	store_holder(tid, set);
	if (p) /* if perf events take the samples, nothing else tends it */
		connection_tend(p, (int64_t)append_change(p, tid, set));
	return 0;
}
