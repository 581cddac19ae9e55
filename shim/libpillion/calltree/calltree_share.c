/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calling-context trees for a profiler that has asked for them: in memory that it reads (calltree_layout.h), at any
 * moment and without asking, so that no thread is stopped for it. Counts are cumulative: another profiler has all of
 * them.
 *
 * The memory is passed when the process has connected, and whenever it connects again. A forked child makes its own at
 * its first function call, and connects then. A thread looks at the connection when it calls its first function.
 */
#include "shim/libpillion/calltree/calltree.h"
#include "shim/libpillion/core/arena.h"
#include "shim/libpillion/core/connection.h"
#include "shim/libpillion/core/feature.h"
#include "shim/libpillion/core/syscall.h"
#include "shim/libpillion/maps/code_ranges.h"
#include "shim/libpillion/maps/maps_send.h"

#include <string.h>
#include <sys/socket.h>

#define CALLTREE_SHARE_SIZE (16u << 20) /* 258,048 nodes */

static struct {
	struct owned_fd memory; /* in a forked child its parent's, until it makes its own */
	bool on, stopped;
	bool maps; /* we send the mappings */
	struct code code;
	uint32_t telling;
	uint64_t maps_told;
} shared = {.memory = {.fd = -1}};

static void *make_shared_memory(void)
{
	void *at = NULL;
	owned_fd_let_go(&shared.memory);
	shared.telling = 0; /* the thread at work is in another process */
	if (owned_fd_memory("pillion-tree", CALLTREE_SHARE_SIZE, &shared.memory, &at) == 0)
		return at;
	owned_fd_let_go(&shared.memory);
	return NULL;
}

static enum tree_clock clock_of(uint64_t calls)
{
	return calls & SHM_CALLS_TIME ? calltree_clock_best() : TREE_CLOCK_NONE;
}

static void start_counting_calls(uint64_t calls)
{
	const struct calltree_memory memory = {
		make_shared_memory(), CALLTREE_SHARE_SIZE, ARENA_OWN, make_shared_memory};
	if (!memory.shared)
		return;
	shared.on = calltree_start(clock_of(calls), &memory) == 0 && (void *)arena_header() == memory.shared;
	if (shared.on)
		return;
	sys_call(munmap, memory.shared, CALLTREE_SHARE_SIZE); /* the program counts by itself, into memory of its own */
	owned_fd_let_go(&shared.memory);
}

static void pass_on(const struct connection *p)
{
	arena_header()->cookie = p->area.head->cookie;
	const struct shm_tree tree = {SHM_TREE_MAGIC, SHM_VERSION, CALLTREE_SHARE_SIZE};
	owned_fd_pass(&shared.memory, p->sock.fd, &tree, sizeof(tree));
}

/* Does nothing while another thread is at work. */
static void tell_maps(struct connection *p, uint64_t wanted)
{
	uint32_t nobody = 0;
	if (!__atomic_compare_exchange_n(&shared.telling, &nobody, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return;
	maps_send_tell(p, &shared.code);
	shared.maps_told = wanted;
	__atomic_store_n(&shared.telling, 0, __ATOMIC_RELEASE);
}

static void take_welcome(struct connection *p, const struct shm_welcome *w)
{
	const uint64_t calls = w->calls;
	if (!(calls & SHM_CALLS)) {
		if (shared.on)
			calltree_stop();
		shared.stopped = shared.on;
		return;
	}
	if (!shared.on)
		start_counting_calls(calls);
	else if (shared.stopped)
		calltree_start(clock_of(calls), &(struct calltree_memory){0});
	shared.stopped = false;
	/* a forked child may not have called any function yet, and has its parent's memory until it makes its own */
	if (!shared.on || !arena_ready() || !owned_fd_is(&shared.memory))
		return;
	pass_on(p);
	shared.maps = calls & SHM_CALLS_MAPS;
	if (shared.maps)
		tell_maps(p, __atomic_load_n(&p->area.head->maps, __ATOMIC_RELAXED));
}

/* The calling thread has called its first function. */
static void tend_connection(void)
{
	struct thread_state *t = &thread_own;
	if (!shared.on || connection_is_quiet() || !thread_state_enter(t))
		return;
	struct connection *p = connection_get();
	if (p)
		connection_tend(p, connection_clock());
	thread_state_leave(t);
}

/* There is a new node, of a call of `fn`: sends the mappings, if they are new and this is the only source of them. */
static void tell_new_maps(uint64_t fn)
{
	struct connection *p = shared.maps && !connection_is_quiet() ? connection_now() : NULL;
	const uint64_t wanted = p ? __atomic_load_n(&p->area.head->maps, __ATOMIC_RELAXED) : 0;
	if (p && (wanted != shared.maps_told || !code_has(&shared.code, fn)))
		tell_maps(p, wanted);
}

static __attribute__((constructor(101))) void register_calltree_share(void)
{
	static const struct calltree_observer observer = {tend_connection, tell_new_maps};
	static struct feature calls = {.welcome = take_welcome};
	calltree_observe(&observer);
	feature_register(&calls);
}
