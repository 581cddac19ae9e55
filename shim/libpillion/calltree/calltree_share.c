#include "shim/libpillion/calltree/calltree_share.h"

#include "shim/libpillion/calltree/calltree.h"
#include "shim/libpillion/core/arena.h"
#include "shim/libpillion/core/code_ranges.h"
#include "shim/libpillion/core/maps_send.h"
#include "shim/libpillion/core/syscall.h"

#include <string.h>
#include <sys/socket.h>

static struct {
	struct held memory; /* a forked child's, until it makes its own: its parent's */
	bool on, stopped;
	bool maps; /* we tell what is mapped */
	struct code code;
	uint32_t telling;
	uint64_t maps_told;
} shared = {.memory = {.fd = -1}};

static void *make(void)
{
	void *at = NULL;
	held_let_go(&shared.memory);
	shared.telling = 0; /* whoever was at it is in another process */
	if (held_memory("pillion-tree", TREE_SHARED_SIZE, &shared.memory, &at) == 0)
		return at;
	held_let_go(&shared.memory);
	return NULL;
}

static enum tree_clock clock_of(uint64_t calls)
{
	return calls & AREA_CALLS_TIME ? tree_clock_best() : TREE_CLOCK_NONE;
}

static void start(uint64_t calls)
{
	const struct tree_memory memory = {make(), TREE_SHARED_SIZE, ARENA_OWN, make};
	if (!memory.shared)
		return;
	shared.on = tree_start(clock_of(calls), &memory) == 0 && (void *)arena_header() == memory.shared;
	if (shared.on)
		return;
	sys_call(munmap, memory.shared, TREE_SHARED_SIZE); /* the program counts by itself, into memory of its own */
	held_let_go(&shared.memory);
}

static void pass_on(const struct process *p)
{
	arena_header()->cookie = p->area.head->cookie;
	const struct area_tree tree = {AREA_TREE_MAGIC, AREA_VERSION, TREE_SHARED_SIZE};
	held_pass(&shared.memory, p->sock.fd, &tree, sizeof(tree));
}

/* Whoever comes while another one is at it does without. */
static void tell_maps(struct process *p, uint64_t wanted)
{
	uint32_t nobody = 0;
	if (!__atomic_compare_exchange_n(&shared.telling, &nobody, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return;
	maps_area_tell(p, &shared.code);
	shared.maps_told = wanted;
	__atomic_store_n(&shared.telling, 0, __ATOMIC_RELEASE);
}

void tree_shared_welcome(struct process *p, uint64_t calls)
{
	if (!(calls & AREA_CALLS)) {
		if (shared.on)
			tree_stop();
		shared.stopped = shared.on;
		return;
	}
	if (!shared.on)
		start(calls);
	else if (shared.stopped)
		tree_start(clock_of(calls), &(struct tree_memory){0});
	shared.stopped = false;
	/* a forked child may have called nothing yet, and has its parent's memory until it makes its own */
	if (!shared.on || !arena_ready() || !held_is(&shared.memory))
		return;
	pass_on(p);
	shared.maps = calls & AREA_CALLS_MAPS;
	if (shared.maps)
		tell_maps(p, __atomic_load_n(&p->area.head->maps, __ATOMIC_RELAXED));
}

void tree_shared_look(void)
{
	struct thread *t = &thread_own;
	if (!shared.on || process_is_quiet() || !thread_enter(t))
		return;
	struct process *p = process_get();
	if (p)
		process_tend(p, process_clock());
	thread_leave(t);
}

void tree_shared_called(uint64_t fn)
{
	struct process *p = shared.maps && !process_is_quiet() ? process_now() : NULL;
	const uint64_t wanted = p ? __atomic_load_n(&p->area.head->maps, __ATOMIC_RELAXED) : 0;
	if (p && (wanted != shared.maps_told || !code_has(&shared.code, fn)))
		tell_maps(p, wanted);
}
