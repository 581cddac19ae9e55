/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/libpillion/selfprof/self_session.h"

#include "shim/libpillion/core/export.h"
#include "shim/libpillion/core/syscall.h"
#include "shim/libpillion/selfprof/self_error.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/resource.h>

#define PAGE 4096u
#define RING_BYTES (512u << 10)
#define PASSES 10
#define BUDGET_MS 2000
#define FD_PERCENT 50
#define INTERVAL_MS 100
#define TIMED_MS 10
#define CLOSE_NS 5000000u /* for closing in between, while rings fill */
#define TEND_NS 1000000000u

PILLION_API const char *pillion_strategy_name(unsigned strategy)
{
	const struct self_strategy *s = self_strategy(strategy);
	return s ? s->name : NULL;
}

/* --- the spec -------------------------------------------------------------------------------------------------- */

static uint32_t or_default(uint32_t value, uint32_t fallback)
{
	return value ? value : fallback;
}

static int take_spec(struct pillion_session *s, const struct pillion_session_spec *from)
{
	if (from->size != sizeof(s->spec))
		return self_fail(-EINVAL,
			"session: its size is %ld: set it to sizeof(struct pillion_session_spec), of this library's "
			"header",
			(long)from->size);
	s->spec = *from;
	s->strategy = self_strategy(s->spec.strategy);
	if (!s->strategy)
		return self_fail(-EINVAL, "session: there is no strategy %ld", (long)s->spec.strategy);
	if (!s->spec.events || !s->spec.n_events || s->spec.n_events > PILLION_EVENTS_MAX)
		return self_fail(-EINVAL, "session: %ld events: it takes 1 to %ld", (long)s->spec.n_events,
			(long)PILLION_EVENTS_MAX);
	if (s->spec.fd_percent > 100)
		return self_fail(-EINVAL, "session: %ld per cent of the descriptors: it takes 1 to 100",
			(long)s->spec.fd_percent);
	s->spec.fd_percent = or_default(s->spec.fd_percent, FD_PERCENT);
	s->spec.passes = or_default(s->spec.passes, PASSES);
	s->spec.budget_ms = or_default(s->spec.budget_ms, BUDGET_MS);
	if (s->spec.ring_bytes & (s->spec.ring_bytes - 1) || (s->spec.ring_bytes && s->spec.ring_bytes < PAGE))
		return self_fail(-EINVAL, "session: rings of %ld bytes: it takes a power of two, from 4096 on",
			(long)s->spec.ring_bytes);
	return 0;
}

/* One event carries the side-band of all. */
static void take_sideband(struct pillion_session *s)
{
	uint32_t any = 0, all = PILLION_NO_MAPPINGS;
	for (uint32_t i = 0; i < s->spec.n_events; i++) {
		any |= s->events_spec[i].flags & (PILLION_SWITCHES | PILLION_DATA_MAPPINGS);
		all &= s->events_spec[i].flags;
	}
	uint32_t *flags = &s->events_spec[s->spec.n_events - 1].flags;
	*flags = (*flags & ~PILLION_NO_MAPPINGS) | any | all;
}

/* Software counters get the same fields in front of their tails: else two could have records of one length. */
static void share_fields(struct pillion_session *s)
{
	struct pillion_event_spec all = {0};
	for (uint32_t i = 0; i < s->spec.n_events; i++) {
		const struct pillion_event_spec *e = &s->events_spec[i];
		if (!self_is_shared(e))
			continue;
		all.fields |= e->fields;
		all.regs |= e->fields & PILLION_REGS && !e->regs ? SELF_REGS : e->regs;
		all.stack = e->stack > all.stack ? e->stack : all.stack;
	}
	for (uint32_t i = 0; i < s->spec.n_events; i++)
		if (self_is_shared(&s->events_spec[i])) {
			s->events_spec[i].fields = all.fields;
			s->events_spec[i].regs = all.regs;
			s->events_spec[i].stack = all.stack;
		}
}

/* Tells software counters apart by their records' length (self_event.h). */
static int take_events(struct pillion_session *s)
{
	uint32_t shared = 0;
	int r = 0;
	for (uint32_t i = 0; r == 0 && i < s->spec.n_events; i++) {
		r = self_take_spec(&s->spec.events[i], &s->events_spec[i]);
		if (r == 0 && self_is_shared(&s->events_spec[i]))
			s->tail[i] = shared++;
	}
	s->spec.events = s->events_spec;
	if (r == 0) {
		take_sideband(s);
		share_fields(s);
	}
	if (r == 0 && shared > SELF_TAILS)
		return self_fail(-E2BIG,
			"session: %ld software counters, and records of no more than %ld can be told apart: use two "
			"sessions",
			(long)shared, (long)SELF_TAILS);
	return r;
}

/* Raises the limit of descriptors, once. Whether there are more now. */
static bool raise_limit(struct pillion_session *s)
{
	struct rlimit most;
	if (!(s->spec.flags & PILLION_RAISE_NOFILE) || s->status.raised ||
		sys_call(prlimit64, 0, RLIMIT_NOFILE, 0, &most) < 0 || most.rlim_cur >= most.rlim_max)
		return false;
	most.rlim_cur = most.rlim_max;
	s->status.raised = sys_call(prlimit64, 0, RLIMIT_NOFILE, &most, 0) == 0;
	return s->status.raised;
}

static void free_leaders(struct pillion_session *s)
{
	if (s->leaders)
		self_unmap(s->leaders, 2 * (size_t)s->n_cpus * sizeof(*s->leaders));
	s->leaders = s->bells = NULL;
}

static int take_cpus(struct pillion_session *s)
{
	int online[SELF_CPUS_MAX];
	const int n = self_cpus(s->cpus, SELF_CPUS_MAX);
	if (n <= 0)
		return self_fail(n ? n : -ENODEV, "session: which CPUs there are is not to be found out");
	if (n != s->n_cpus) /* one was plugged in since it was opened */
		free_leaders(s);
	s->n_cpus = n;
	const int up = self_online_cpus(online, SELF_CPUS_MAX);
	s->status.cpus_offline = up > 0 && up < s->n_cpus ? (uint32_t)(s->n_cpus - up) : 0;
	const size_t bytes = (size_t)s->n_cpus * sizeof(*s->leaders);
	if (!s->leaders)
		s->leaders = self_map(2 * bytes);
	if (!s->leaders)
		return self_fail(-ENOMEM, "session: no memory");
	s->bells = s->leaders + s->n_cpus;
	for (int i = 0; i < 2 * s->n_cpus; i++)
		s->leaders[i] = (struct pillion_event){.fd = -1};
	return 0;
}

static struct pillion_session *free_session(struct pillion_session *s)
{
	free_leaders(s);
	self_unmap(s->open.events, s->open.room);
	self_unmap(s->look.tids, s->look.room);
	self_unmap(s->superfluous.events, s->superfluous.room);
	self_unmap(s, sizeof(*s));
	return NULL;
}

PILLION_API int pillion_session_open(
	const struct pillion_session_spec *spec, const struct pillion_listener *l, struct pillion_session **ret)
{
	struct pillion_session *s = self_map(sizeof(*s));
	if (!s)
		return self_fail(-ENOMEM, "session: no memory");
	s->pid = (uint32_t)sys_call(getpid);
	int r = take_spec(s, spec);
	if (r == 0)
		r = take_events(s);
	if (r == 0)
		r = take_cpus(s);
	if (r == 0 && (r = self_reader_init(&s->reader, l, s->spec.interval_ms, false)) == -EMFILE && raise_limit(s))
		r = self_reader_init(&s->reader, l, s->spec.interval_ms, false);
	if (r < 0) {
		free_session(s);
		return r;
	}
	s->reader.record = self_demux;
	s->reader.arg = s;
	*ret = s;
	return 0;
}

/* --- attach, detach ----------------------------------------------------------------------------------------- */

static bool is_foreign(const struct pillion_session *s)
{
	return s->pid != (uint32_t)sys_call(getpid);
}

/* Releases everything but the counts. */
static void let_go(struct pillion_session *s)
{
	for (size_t i = 0; i < s->open.n; i++)
		self_event_close(s->open.events[i]);
	for (int i = 0; i < s->n_cpus; i++)
		self_event_close(&s->leaders[i]);
	s->open.n = s->reader.n = s->superfluous.n = 0;
	s->status.fds = 0;
	self_event_dedup_done(&s->heard);
	memset(&s->heard, 0, sizeof(s->heard));
	self_threads_done(&s->threads);
	self_pool_done(&s->pool);
	s->attached = false;
}

static void begin_anew(struct pillion_session *s)
{
	const struct pillion_session_status had = s->status;
	let_go(s);
	s->status = (struct pillion_session_status){.size = sizeof(s->status),
		.cpus_offline = had.cpus_offline,
		.user_only = had.user_only,
		.raised = had.raised};
}

static void count_files(struct pillion_session *s)
{
	struct rlimit most = {0};
	s->files = self_open_files();
	sys_call(prlimit64, 0, RLIMIT_NOFILE, 0, &most);
	s->files_most = most.rlim_cur > INT32_MAX ? INT32_MAX : (long)(most.rlim_cur * s->spec.fd_percent / 100);
}

static void set_timed(struct pillion_session *s, bool timed)
{
	s->timed = s->reader.timed = timed;
	s->reader.interval_ms = or_default(s->spec.interval_ms, timed ? TIMED_MS : INTERVAL_MS);
}

/*
 * Attaches with the descriptors that there are: after the limit was raised, then with rings that need none, then to as
 * many threads as there are descriptors for. Each only if it was allowed.
 */
static int attach_somehow(struct pillion_session *s)
{
	const uint32_t flags = s->spec.flags, ring = s->spec.ring_bytes;
	set_timed(s, flags & PILLION_TIMED);
	s->fewer = false;
	for (;;) {
		begin_anew(s);
		count_files(s);
		s->spec.ring_bytes = or_default(ring, s->timed ? PAGE : RING_BYTES);
		int r = self_attach(s);
		const bool short_of = r == -EMFILE || r == -ENFILE || (r == -EPERM && s->timed);
		if (!short_of) {
			s->spec.ring_bytes = ring;
			return r;
		}
		if (r == -EMFILE && raise_limit(s))
			continue;
		if (!s->timed && flags & PILLION_ALLOW_TIMED) {
			set_timed(s, true);
		} else if (!s->fewer && flags & PILLION_ALLOW_FEWER) {
			s->fewer = true;
		} else {
			s->spec.ring_bytes = ring;
			return r;
		}
	}
}

PILLION_API int pillion_session_attach(struct pillion_session *s)
{
	if (is_foreign(s))
		return self_fail(-ECHILD, "attach: it is the parent's");
	if (s->attached)
		return self_fail(-EBUSY, "attach: it is attached");
	int r = take_cpus(s);
	if (r == 0 && (r = self_probe(s)) == -EMFILE && raise_limit(s))
		r = self_probe(s);
	if (r == 0 && s->open_flags & PILLION_PERF_CLOCK)
		r = self_clock_offset_measure(&s->clock);
	if (r == 0)
		r = attach_somehow(s);
	if (r < 0) {
		let_go(s);
		return r;
	}
	s->attached = true;
	s->status.timed = s->timed;
	s->status.clock_measured = s->clock.on;
	s->status.clock_error = s->clock.error;
	return 0;
}

PILLION_API int pillion_session_detach(struct pillion_session *s)
{
	if (is_foreign(s))
		return self_fail(-ECHILD, "detach: it is the parent's");
	if (!s->attached)
		return self_fail(-EINVAL, "detach: it is not attached");
	const int r = self_reader_begin(&s->reader);
	if (r < 0)
		return r;
	self_reader_drain(&s->reader);
	let_go(s);
	__atomic_store_n(&s->reader.running, 0, __ATOMIC_RELEASE);
	return 0;
}

/* --- a run -------------------------------------------------------------------------------------------------- */

/* A CPU's ring wakes the reader by an event on the reading thread: no other is sure to be there all the time. */
static void hang_bells(struct pillion_session *s)
{
	static const struct pillion_event_spec nothing = {
		.size = sizeof(nothing), .type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_DUMMY};
	for (size_t i = 0; i < s->reader.n; i++) {
		struct self_source *source = &s->reader.sources[i];
		struct pillion_event *bell = &s->bells[source->owner - s->leaders];
		source->poll = -1;
		if (source->owner->tid == (uint32_t)sys_call(gettid)) {
			source->poll = source->owner->fd;
			continue;
		}
		if (self_event_open(bell, &nothing, 0, source->owner->cpu,
			    (s->open_flags & ~PILLION_INHERIT) | SELF_LEADER) < 0)
			continue;
		s->status.fds++;
		if (self_event_redirect(bell, source->owner) == 0)
			source->poll = bell->fd;
	}
}

static void take_bells(struct pillion_session *s)
{
	for (int i = 0; i < s->n_cpus; i++)
		if (s->bells[i].fd >= 0) {
			self_event_close(&s->bells[i]);
			s->status.fds--;
		}
}

/* Closes events of threads that have ended, with all that they made: the kernel says POLLHUP. */
static void close_gone(struct pillion_session *s)
{
	struct pollfd polls[64];
	struct pillion_event *of[64];
	size_t n = 0;
	for (size_t i = 0; i <= s->open.n; i++) {
		if (i < s->open.n && s->open.events[i]->fd >= 0 && !s->open.events[i]->from) {
			of[n] = s->open.events[i];
			polls[n++] = (struct pollfd){.fd = s->open.events[i]->fd};
		}
		if (n < 64 && (i < s->open.n || !n))
			continue;
		sys_call(poll, polls, n, 0);
		for (size_t k = 0; k < n; k++)
			if (polls[k].revents & POLLHUP)
				self_session_close_event(s, of[k]);
		n = 0;
	}
}

static void on_tick(void *arg)
{
	struct pillion_session *s = arg;
	const uint64_t now = self_clock();
	self_close_superfluous(s, now + CLOSE_NS);
	s->reader.busy = s->superfluous.n != 0;
	if (s->unsure && self_threads_settle(&s->threads))
		s->look_again = true;
	s->unsure = false;
	if (s->look_again && s->strategy->follow && !s->status.left_out)
		self_attach_late(s);
	if (now - s->tended < TEND_NS)
		return;
	s->tended = now;
	self_event_dedup_sweep(&s->heard, now);
	if (!s->timed && s->strategy->per_cpu) {
		close_gone(s);
		self_reader_drain(&s->reader); /* asking for POLLHUP consumes the ring's wakeup */
	}
	if (s->clock.on)
		self_clock_offset_measure(&s->clock);
}

PILLION_API int pillion_session_run(struct pillion_session *s)
{
	if (!s->attached)
		return self_fail(-EINVAL, "run: it is not attached");
	const int r = self_reader_begin(&s->reader);
	if (r < 0)
		return r;
	s->reader.tick = on_tick;
	if (!s->timed && s->strategy->per_cpu)
		hang_bells(s);
	self_reader_run(&s->reader);
	take_bells(s);
	self_reader_end(&s->reader);
	return 0;
}

PILLION_API int pillion_session_stop(struct pillion_session *s)
{
	return self_reader_stop(&s->reader);
}

PILLION_API int pillion_session_status(struct pillion_session *s, struct pillion_session_status *ret)
{
	const uint32_t size = ret->size;
	if (size != sizeof(*ret))
		return self_fail(-EINVAL, "status: its size is %ld: set it to sizeof(struct pillion_session_status)",
			(long)size);
	*ret = s->status;
	ret->size = size;
	return 0;
}

PILLION_API struct pillion_session *pillion_session_close(struct pillion_session *s)
{
	if (!s)
		return NULL;
	let_go(s);
	self_reader_done(&s->reader);
	return free_session(s);
}
