/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/libpillion/selfprof/self_strategy.h"

#include "shim/libpillion/core/syscall.h"
#include "shim/libpillion/selfprof/self_error.h"
#include "shim/libpillion/selfprof/self_mmap_alloc.h"
#include "shim/libpillion/selfprof/self_session.h"

#include <errno.h>
#include <string.h>

#define PAGE 4096u

static const struct self_strategy table[] = {
	[PILLION_PER_CORE] = {"per core", true, true, true, true},
	[PILLION_PROCESS] = {"process", true, true, false, false},
	[PILLION_THREADS] = {"threads", false, false, true, false},
	[PILLION_THREAD] = {"thread", false, false, false, false},
};

const struct self_strategy *self_strategy(uint32_t which)
{
	return which < sizeof(table) / sizeof(table[0]) ? &table[which] : NULL;
}

static const struct pillion_event_spec nothing = {
	.size = sizeof(nothing), .type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_DUMMY};

/* --- permissions of the kernel --------------------------------------------------------------------------------- */

static int try_open(uint32_t flags, int cpu)
{
	struct pillion_event e;
	const int r = self_event_open(&e, &nothing, 0, cpu, flags | SELF_LEADER);
	if (r == 0)
		self_event_close(&e);
	return r;
}

static int refuse_kernel(const struct pillion_session *s)
{
	for (uint32_t i = 0; i < s->spec.n_events; i++)
		if (self_is_in_kernel(&s->events_spec[i]) || s->events_spec[i].flags & PILLION_KERNEL_ONLY)
			return self_fail(-EACCES,
				"event %ld: it happens in kernel code, of which nothing is told here "
				"(kernel.perf_event_paranoid above 1): no sample would ever come",
				(long)i);
	return 0;
}

static const struct pillion_event_spec faults = {.size = sizeof(faults),
	.type = PERF_TYPE_SOFTWARE,
	.config = PERF_COUNT_SW_PAGE_FAULTS,
	.period = 1,
	.flags = PILLION_USER_ONLY};

/* The id of the first sample in its ring; 0: there is none. */
static uint64_t sampled_id(const struct pillion_event *e)
{
	uint64_t id = 0;
	if (__atomic_load_n(&e->ring.page->data_head, __ATOMIC_ACQUIRE))
		memcpy(&id, e->ring.data + sizeof(struct perf_event_header), sizeof(id));
	return id;
}

/* Two events see one fault: whether they share an id. If that cannot be found out, they do. */
static bool shares_ids(uint32_t flags)
{
	struct pillion_event two[2] = {{.fd = -1}, {.fd = -1}};
	char *page = self_map(PAGE);
	bool shared = true, well = page != NULL;
	for (int i = 0; well && i < 2; i++)
		well = self_event_open(&two[i], &faults, 0, -1, flags & PILLION_PERF_CLOCK) == 0 &&
		       self_event_map(&two[i], PAGE) == 0;
	if (well) {
		*(volatile char *)page = 1;
		shared = sampled_id(&two[0]) != two[0].id || sampled_id(&two[1]) != two[1].id;
	}
	for (int i = 0; i < 2; i++)
		self_event_close(&two[i]);
	self_unmap(page, PAGE);
	return shared;
}

int self_probe(struct pillion_session *s)
{
	uint32_t flags = s->spec.flags & PILLION_SESSION_PERF_CLOCK ? PILLION_PERF_CLOCK : 0;
	int r = try_open(flags, -1);
	if (r == -EACCES) {
		flags |= SELF_USER_ONLY;
		r = try_open(flags, -1);
	}
	if (r == -EINVAL) { /* before Linux 4.1 */
		flags |= PILLION_PERF_CLOCK;
		r = try_open(flags, -1);
	}
	if (r < 0)
		return self_fail_open(r, "session");
	if (flags & SELF_USER_ONLY && (r = refuse_kernel(s)) < 0)
		return r;
	if (s->strategy->inherit) {
		flags |= PILLION_INHERIT;
		if (try_open(flags | SELF_INHERIT_THREADS, -1) == 0)
			flags |= SELF_INHERIT_THREADS;
	}
	s->open_flags = flags;
	s->ids_shared = shares_ids(flags);
	s->status.user_only = (flags & SELF_USER_ONLY) != 0;
	return 0;
}

/* --- descriptors -------------------------------------------------------------------------------------------- */

static bool has_room(const struct pillion_session *s, uint32_t fds)
{
	return s->files + s->status.fds + fds <= s->files_most;
}

static int out_of_budget(const struct pillion_session *s)
{
	return self_fail(-EMFILE,
		"session: it would take more than %ld descriptors, which is %ld per cent of RLIMIT_NOFILE: raise it, "
		"or allow timed reading",
		s->files_most, (long)s->spec.fd_percent);
}

/* --- rings of CPUs ------------------------------------------------------------------------------------------ */

static void close_leaders(struct pillion_session *s)
{
	for (int i = 0; i < s->n_cpus; i++)
		if (s->leaders[i].fd >= 0) {
			self_event_close(&s->leaders[i]);
			s->status.fds--;
		}
}

/* 0; -EPERM: not of this size; -errno with a sentence. */
static int open_leaders(struct pillion_session *s)
{
	int r = 0;
	for (int i = 0; r == 0 && i < s->n_cpus; i++) {
		struct pillion_event *e = &s->leaders[i];
		r = self_event_open(e, &nothing, 0, s->cpus[i], (s->open_flags & ~PILLION_INHERIT) | SELF_LEADER);
		if (r == -ENODEV) {
			r = 0;
			continue;
		}
		if (r < 0) {
			r = self_fail_open(r, "session");
			break;
		}
		s->status.fds++;
		r = self_event_map(e, s->status.ring_bytes);
		if (r < 0 && r != -EPERM)
			r = self_fail(r, "session: no ring for a CPU (errno %ld)", -(long)r);
	}
	if (r < 0)
		close_leaders(s);
	return r;
}

static int make_rings(struct pillion_session *s)
{
	int r = -EPERM;
	for (s->status.ring_bytes = s->spec.ring_bytes; (r = open_leaders(s)) == -EPERM && s->status.ring_bytes > PAGE;)
		s->status.ring_bytes /= 2;
	if (r == -EPERM)
		return self_fail(
			r, "session: not a page of a ring may be locked (RLIMIT_MEMLOCK, kernel.perf_event_mlock_kb)");
	for (int i = 0; r == 0 && i < s->n_cpus; i++)
		if (s->leaders[i].ring.page)
			r = self_reader_add(&s->reader,
				&(struct self_source){
					.ring = s->leaders[i].ring, .owner = &s->leaders[i], .poll = s->leaders[i].fd});
	return r;
}

/* --- a thread ----------------------------------------------------------------------------------------------- */

void self_session_close_event(struct pillion_session *s, struct pillion_event *e)
{
	s->status.fds -= e->fd >= 0;
	for (size_t i = 0; e->ring.page && i < s->reader.n; i++)
		if (s->reader.sources[i].owner == e) {
			s->reader.sources[i].ring = (struct self_ring){0};
			s->reader.sources[i].poll = -1;
		}
	self_event_close(e);
}

/*
 * Gives an event a ring of its own. If it is timed, its descriptor is closed: it goes on, and so do those that inherit
 * it.
 */
static int give_ring(struct pillion_session *s, struct pillion_event *e)
{
	int r = self_event_map(e, s->status.ring_bytes);
	if (r == 0 && s->timed) {
		sys_call(close, e->fd);
		e->fd = -1;
		s->status.fds--;
	}
	if (r == 0)
		r = self_reader_add(&s->reader,
			&(struct self_source){.ring = e->ring, .owner = e, .only = s->timed ? e : NULL, .poll = e->fd});
	return r;
}

/* `first`: of this thread and CPU, or NULL */
static int set_output(struct pillion_session *s, struct pillion_event *e, struct pillion_event *first, int cpu)
{
	if (s->timed)
		return give_ring(s, e);
	if (s->strategy->per_cpu)
		return self_event_redirect(e, &s->leaders[cpu]);
	return first ? self_event_redirect(e, first) : give_ring(s, e);
}

static int add_event(struct pillion_session *s, uint32_t tid, int cpu, uint32_t spec, struct pillion_event *first,
	struct pillion_event **ret)
{
	/* the side-band is on the event that is opened last: a thread that inherits it has all */
	const uint32_t sideband = spec + 1 == s->spec.n_events ? SELF_SIDEBAND : 0;
	struct pillion_event *e = self_take(&s->pool, sizeof(*e));
	if (!e || self_grow((void **)&s->open.events, &s->open.room, (s->open.n + 1) * sizeof(e)) < 0)
		return -ENOMEM;
	int r = self_event_open(e, &s->events_spec[spec], tid, s->strategy->per_cpu ? s->cpus[cpu] : -1,
		s->open_flags | sideband | SELF_TAIL(s->tail[spec]));
	if (r < 0)
		return r;
	e->spec = spec;
	s->status.fds++;
	s->open.events[s->open.n++] = e;
	r = set_output(s, e, first, cpu);
	*ret = e;
	return r;
}

/* -ENODEV: the CPU is offline, which is no error. */
static int attach_cpu(struct pillion_session *s, uint32_t tid, int cpu)
{
	struct pillion_event *e = NULL, *first = NULL;
	int r = 0;
	for (uint32_t i = 0; r == 0 && i < s->spec.n_events; i++) {
		r = add_event(s, tid, cpu, i, first, &e);
		first = first ? first : e;
	}
	return r == -ENODEV ? 0 : r;
}

static void take_back(struct pillion_session *s, size_t from)
{
	for (size_t i = from; i < s->open.n; i++)
		self_session_close_event(s, s->open.events[i]);
	s->open.n = from;
}

static int set_attach_error(const struct pillion_session *s, int error)
{
	if (error == -EPERM && s->timed)
		return self_fail(error,
			"session: more rings than this user may lock (RLIMIT_MEMLOCK, kernel.perf_event_mlock_kb)");
	return self_fail_open(error, "session");
}

static int attach_thread(struct pillion_session *s, uint32_t tid)
{
	const size_t before = s->open.n;
	const int cpus = s->strategy->per_cpu ? s->n_cpus : 1;
	int r = has_room(s, s->timed ? 1 : (uint32_t)cpus * s->spec.n_events) ? 0 : out_of_budget(s);
	if (r < 0)
		return r;
	for (int i = 0; r == 0 && i < cpus; i++)
		if (s->timed || !s->strategy->per_cpu || s->leaders[i].ring.page)
			r = attach_cpu(s, tid, i);
	if (r < 0)
		take_back(s, before);
	else if (s->open.n > before)
		s->open.events[s->open.n - 1]->last = true;
	s->status.threads += r == 0;
	return r < 0 && r != -ESRCH ? set_attach_error(s, r) : r;
}

/* --- all of them -------------------------------------------------------------------------------------------- */

static int note_tid(void *arg, uint32_t tid)
{
	struct pillion_session *s = arg;
	if (self_grow((void **)&s->look.tids, &s->look.room, (s->look.n + 1) * sizeof(tid)) < 0)
		return -ENOMEM;
	s->look.tids[s->look.n++] = tid;
	return 0;
}

/* The threads that have no events, in s->tids: how many, or -errno. */
static int list_new_threads(struct pillion_session *s)
{
	const uint64_t began = self_clock();
	size_t n = 0;
	s->look.n = 0;
	if (!s->strategy->all_threads) {
		note_tid(s, (uint32_t)sys_call(gettid));
		return self_threads_seen(&s->threads, s->look.tids[0], began) == SELF_NOT_KNOWN ? 1
												: (int)(s->look.n = 0);
	}
	const int r = self_each_number("/proc/self/task", note_tid, s);
	if (r < 0)
		return self_fail(r, "session: no list of threads (/proc/self/task, errno %ld)", -(long)r);
	self_threads_look(&s->threads);
	if (s->strategy->follow) {
		self_reader_scan(&s->reader, self_foresee, s);
		self_threads_settle(&s->threads);
	}
	for (size_t i = 0; i < s->look.n; i++)
		if (self_threads_seen(&s->threads, s->look.tids[i], began) <= SELF_UNSURE)
			s->look.tids[n++] = s->look.tids[i];
	self_threads_looked(&s->threads, began);
	s->look.n = n;
	return (int)n;
}

#define DRAIN_NS 5000000u /* while it runs, rings go on filling */

/* Passes over a thread that cannot be had; if out of descriptors, returns that to the caller. */
static int attach_all(struct pillion_session *s)
{
	uint64_t drained = self_clock();
	int r = 0;
	for (size_t i = 0; r == 0 && i < s->look.n; i++) {
		const uint32_t first = (uint32_t)s->open.n;
		r = attach_thread(s, s->look.tids[i]);
		const bool short_of = r == -EMFILE || r == -ENFILE || (s->timed && r == -EPERM);
		enum self_having having = SELF_OWN;
		if (r == -ESRCH) {
			r = 0;
			continue;
		}
		if (r == -EACCES || (r == -EPERM && !short_of)) {
			s->status.refused++;
			having = SELF_REFUSED;
			r = 0;
		} else if (short_of && s->fewer) {
			s->status.left_out++;
			having = SELF_REFUSED;
			r = 0;
		}
		s->last_own = self_clock();
		if (s->reader.running && s->last_own - drained > DRAIN_NS) {
			self_reader_drain(&s->reader);
			drained = s->last_own;
		}
		if (r == 0)
			r = self_threads_own(&s->threads, s->look.tids[i], having, s->last_own, first);
	}
	return r;
}

static int run_passes(struct pillion_session *s, uint32_t most, uint64_t end)
{
	int r = list_new_threads(s);
	while (r > 0 && s->status.passes < most && (s->status.passes == 0 || self_clock() < end)) {
		s->status.passes++;
		r = attach_all(s);
		if (r == 0)
			r = s->strategy->follow ? list_new_threads(s) : 0;
	}
	if (r < 0)
		return r;
	s->status.stable = r == 0;
	s->look_again = r > 0 && s->strategy->follow;
	s->status.late = (uint32_t)r;
	return 0;
}

int self_attach(struct pillion_session *s)
{
	int r = 0;
	if (s->timed)
		s->status.ring_bytes = s->spec.ring_bytes;
	else if (!has_room(s, s->strategy->per_cpu ? (uint32_t)s->n_cpus : 1))
		r = out_of_budget(s);
	else if (s->strategy->per_cpu)
		r = make_rings(s);
	else
		s->status.ring_bytes = s->spec.ring_bytes;
	if (r < 0)
		return r;
	r = run_passes(s, s->spec.passes, self_clock() + s->spec.budget_ms * 1000000ull);
	if (r == 0 && !s->status.threads)
		r = s->status.refused ? self_fail(-EACCES, "session: the kernel refused all threads")
				      : self_fail(-EMFILE, "session: descriptors for none of the threads");
	s->status.inherited = (uint32_t)self_threads_count(&s->threads, SELF_INHERITED);
	s->status.events = (uint32_t)s->open.n;
	s->status.rings = (uint32_t)s->reader.n;
	return r;
}

#define LATE_PASSES 10
#define LATE_NS 200000000u

void self_attach_late(struct pillion_session *s)
{
	const uint32_t had = s->status.passes, late = s->status.late, stable = s->status.stable;
	const bool fewer = s->fewer;
	s->fewer = true; /* the run goes on without threads that cannot be had */
	s->status.passes = 0;
	run_passes(s, LATE_PASSES, self_clock() + LATE_NS);
	s->status.passes = had; /* of the attachment */
	s->status.late = late;
	s->status.stable = stable;
	s->fewer = fewer;
	s->status.rings = (uint32_t)s->reader.n;
	s->status.events = (uint32_t)s->open.n;
}
