/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/libpillion/core/altstack.h"

#include "shim/libpillion/core/syscall.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#define GUARD 4096
#define NEAR 16 /* places that are searched */

enum { FREE, TAKEN };

struct altstack {
	uint32_t state;
	uint32_t tid; /* the owner; 0: none yet */
	uint8_t *at;  /* NULL: none yet */
};
static struct altstack stacks[ALTSTACK_MAX];
static uint32_t next;

static bool is_gone(const struct altstack *a)
{
	const uint32_t tid = __atomic_load_n(&a->tid, __ATOMIC_ACQUIRE);
	const long pid = sys_call(getpid);
	return tid && sys_call(tgkill, pid, tid, 0) == -ESRCH;
}

static bool claim_altstack(struct altstack *a)
{
	uint32_t state = __atomic_load_n(&a->state, __ATOMIC_ACQUIRE);
	if (state == TAKEN) {
		uint32_t tid = a->tid;
		return is_gone(a) &&
		       __atomic_compare_exchange_n(&a->tid, &tid, 0, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
	}
	return __atomic_compare_exchange_n(&a->state, &state, TAKEN, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

static bool map_altstack(struct altstack *a)
{
	if (a->at)
		return true;
	const long at = sys_call(mmap, 0, GUARD + ALTSTACK_SIZE, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
	if (at < 0 && at > -4096)
		return false;
	sys_call(mprotect, at, GUARD, PROT_NONE);
	a->at = (uint8_t *)at + GUARD;
	return true;
}

struct altstack *altstack_take(void)
{
	const uint32_t from = __atomic_load_n(&next, __ATOMIC_RELAXED);
	for (uint32_t i = 0; i < NEAR; i++) {
		struct altstack *a = &stacks[(from + i) % ALTSTACK_MAX];
		if (!claim_altstack(a))
			continue;
		__atomic_store_n(&next, from + i + 1, __ATOMIC_RELAXED);
		if (map_altstack(a))
			return a;
		altstack_release(a);
		return NULL;
	}
	__atomic_store_n(&next, from + NEAR, __ATOMIC_RELAXED);
	return NULL;
}

void altstack_release(struct altstack *a)
{
	const stack_t none = {.ss_flags = SS_DISABLE};
	stack_t now;
	if (a->tid && sys_call(sigaltstack, NULL, &now) == 0 && now.ss_sp == a->at)
		sys_call(sigaltstack, &none, NULL);
	__atomic_store_n(&a->tid, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&next, (uint32_t)(a - stacks), __ATOMIC_RELAXED);
	__atomic_store_n(&a->state, FREE, __ATOMIC_RELEASE);
}

void *altstack_room(struct altstack *a)
{
	return a->at;
}

void altstack_use(struct altstack *a)
{
	const stack_t s = {.ss_sp = a->at, .ss_size = ALTSTACK_SIZE};
	__atomic_store_n(&a->tid, (uint32_t)sys_call(gettid), __ATOMIC_RELEASE);
	sys_call(sigaltstack, &s, NULL);
}

/* The stack that this thread had before, if any. */
static struct altstack *find_altstack(uint32_t tid)
{
	for (struct altstack *a = stacks; a < stacks + ALTSTACK_MAX; a++)
		if (a->at && __atomic_load_n(&a->tid, __ATOMIC_RELAXED) == tid)
			return a;
	return NULL;
}

void altstack_give(void)
{
	stack_t now;
	if (sys_call(sigaltstack, NULL, &now) < 0 || !(now.ss_flags & SS_DISABLE))
		return;
	struct altstack *a = find_altstack((uint32_t)sys_call(gettid));
	a = a ? a : altstack_take();
	if (a)
		altstack_use(a);
}

void altstack_in_child(void)
{
	stack_t now;
	if (sys_call(sigaltstack, NULL, &now) < 0 || now.ss_flags & SS_DISABLE)
		return;
	for (struct altstack *a = stacks; a < stacks + ALTSTACK_MAX; a++)
		if (a->at && a->at == now.ss_sp)
			__atomic_store_n(&a->tid, (uint32_t)sys_call(gettid), __ATOMIC_RELEASE);
}

bool altstack_is_ours(const stack_t *s)
{
	for (const struct altstack *a = stacks; a < stacks + ALTSTACK_MAX; a++)
		if (a->at && a->at == s->ss_sp)
			return true;
	return false;
}
