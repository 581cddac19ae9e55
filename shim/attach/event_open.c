/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/attach/event_open.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "shim/attach/file_opener.h"
#include "shim/attach/proc_maps_copy.h"
#include "shim/event/attach_strategy.h"
#include "shim/event/perf_event.h"
#include "shim/protocol/message_batch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define PASSES_MAX 10 /* over the threads of a target that runs */
#define PASSES_MS 2000
#define PAUSE_MS 10 /* longer than from when a thread inherits events until /proc shows it */
/* Of all descriptors, a target with all rungs takes at most one in so many. */
#define LADDER_SHARE 4
/*
 * Events that a thread may inherit beyond those of one size: each makes creating a thread 1.2 us slower
 * (tests/bench/idle.c).
 */
#define INHERITED_MORE 32

struct waits_role {
	enum perf_role role;
	bool idle;
};

struct work {
	const struct event_open *p;
	size_t n_target; /* those of its descriptors that are sent */
	struct message_batch batch;
	uint32_t events_max;
	bool ladder; /* a sample event for each size of snapshot */
	struct thread_scan *census;
	bool too_many;
	pid_t without_maps;			 /* a process of which another thread must yield the mappings */
	size_t notes_told;			 /* bytes of the notes that went with TARGET */
	char probes[EVENTS_MAX][EVENT_NAME_MAX]; /* perf_want.probe */
};

/* Descriptors for one batch beside the two dozen that we may hold anyway. */
static uint32_t room_for_batch(void)
{
	struct rlimit l;
	uint64_t used = 24;
	if (getrlimit(RLIMIT_NOFILE, &l) < 0)
		return PROTOCOL_BATCH_MAX;
	return l.rlim_cur <= used			? 1
	       : l.rlim_cur - used < PROTOCOL_BATCH_MAX ? (uint32_t)(l.rlim_cur - used)
							: PROTOCOL_BATCH_MAX;
}

/*
 * A sender's own limit of files applies to all descriptors in flight of its user, also to those in the profiler's
 * queues (profiler/daemon/fd_store.h): unix(7), ETOOMANYREFS. We ourselves hold no more than a batch.
 */
void event_open_raise_files(void)
{
	struct rlimit l;
	if (getrlimit(RLIMIT_NOFILE, &l) < 0 || l.rlim_cur >= EVENT_OPEN_FILES)
		return;
	const rlim_t hard = l.rlim_max;
	l = (struct rlimit){EVENT_OPEN_FILES, hard > EVENT_OPEN_FILES ? hard : EVENT_OPEN_FILES};
	if (setrlimit(RLIMIT_NOFILE, &l) == 0)
		return;
	l = (struct rlimit){hard, hard};
	setrlimit(RLIMIT_NOFILE, &l);
}

void event_open_look(struct host_info *ret)
{
	ret->batch_max = room_for_batch();
	ret->n_cpus = perf_online_cpus(ret->cpus, EVENT_OPEN_CPUS_MAX);
	ret->uprobe_type = perf_probe_type(EVENT_TYPE_UPROBE);
	ret->kprobe_type = perf_probe_type(EVENT_TYPE_KPROBE);
	ret->max_rate = perf_max_rate();
}

static struct target_desc *get_target_desc(const struct work *w)
{
	return &w->p->request->desc;
}

/* --- one event ----------------------------------------------------------------------------------------- */

/* Drops the newest feature that older kernels lack. False: there is no other. */
static bool want_less(struct perf_want *want)
{
	bool *features[] = {&want->lost, &want->build_id};
	for (size_t i = 0; i < sizeof(features) / sizeof(features[0]); i++)
		if (*features[i]) {
			*features[i] = false;
			return true;
		}
	return false;
}

/* thread: as our pid namespace numbers it; ignored with the strategy `cgroup`. */
static int open_one(struct work *w, const struct attach_method *a, pid_t thread, struct perf_want *want, int cpu,
	struct perf_layout *layout)
{
	struct perf_event_attr attr;
	bool cgroup = a->strategy == STRATEGY_CGROUP;
	int fd;
	do {
		perf_attr(want, &attr, layout);
		fd = perf_open(&attr, cgroup ? w->p->cgroup : thread, cpu, cgroup ? PERF_FLAG_PID_CGROUP : 0);
	} while (fd == -EINVAL && want_less(want));
	return fd;
}

static struct event_desc describe_event(
	const struct perf_want *want, uint32_t spec, int cpu, const struct perf_layout *layout)
{
	return (struct event_desc){.role = want->role,
		.spec = spec,
		.cpu = cpu,
		.rung = (uint16_t)want->rung,
		.idle = want->idle,
		.layout = *layout};
}

/* -ESRCH, for a thread that is gone, comes without a sentence. */
static int open_and_put(struct work *w, const struct attach_method *a, pid_t thread, struct perf_want *want,
	uint32_t spec, int cpu, struct err *e)
{
	struct perf_layout layout;
	int fd = open_one(w, a, thread, want, cpu, &layout);
	if ((fd == -EMFILE || fd == -ENFILE) && w->batch.n) {
		int r = message_batch_flush_events(&w->batch, false, e); /* passing frees ours */
		if (r < 0)
			return r;
		fd = open_one(w, a, thread, want, cpu, &layout);
	}
	if (fd == -ENODEV)
		return 0; /* went offline since we looked */
	if (fd == -ESRCH && a->strategy == STRATEGY_THREADS)
		return fd;
	if (fd < 0)
		return perf_explain(fd, "perf_event_open", e);
	struct event_desc d = describe_event(want, spec, cpu, &layout);
	return message_batch_put_event(&w->batch, &d, fd, e);
}

static struct perf_want describe_sideband(const struct attach_method *a)
{
	return (struct perf_want){.role = PERF_SIDEBAND,
		.kernel = a->kernel,
		.inherit = a->strategy != STRATEGY_CGROUP,
		.on_exec = a->strategy == STRATEGY_PROCESS,
		.build_id = true};
}

static bool is_of_app(const struct work *w, uint32_t spec)
{
	return event_is_of_app(&get_target_desc(w)->events[spec]);
}

static bool measures_waits(const struct work *w, uint32_t spec)
{
	return event_kind(get_target_desc(w)->events[spec].kind)->measure == MEASURES_OFFCPU;
}

/* Where waits are recorded only part of the time, the side-band counts the switches in the rest of it. */
static struct perf_want own_sideband(const struct work *w, const struct attach_method *a)
{
	struct perf_want want = describe_sideband(a);
	for (uint32_t i = 0; i < get_target_desc(w)->n_events; i++)
		want.counts |= a->strategy == STRATEGY_CGROUP && a->kernel && measures_waits(w, i);
	return want;
}

/*
 * The event that carries the side-band with strategy `threads`: the first that is always on. UINT32_MAX: the side-band
 * has an event of its own.
 */
static uint32_t find_sideband_event(const struct work *w)
{
	for (uint32_t i = 0; i < get_target_desc(w)->n_events; i++)
		if (!measures_waits(w, i) && !is_of_app(w, i))
			return i;
	return UINT32_MAX;
}

static enum stacks stacks_of(const struct work *w, uint32_t spec)
{
	uint32_t own = get_target_desc(w)->events[spec].stacks;
	return own ? own - 1 : w->p->request->stacks;
}

/*
 * May there be snapshots of several sizes? Not of a probe: each event is one more handler for every process that passes
 * there.
 */
static bool has_snapshots(const struct work *w, uint32_t spec)
{
	const struct event_spec *e = &get_target_desc(w)->events[spec];
	const bool probe = event_is(e, NAMED_UPROBE) || event_is(e, NAMED_KPROBE);
	enum stacks s = stacks_of(w, spec);
	return !probe && !measures_waits(w, spec) && !is_of_app(w, spec) && s != STACKS_NONE && s != STACKS_FP;
}

static struct perf_want describe_samples(const struct work *w, const struct attach_method *a, uint32_t spec)
{
	struct perf_want want = describe_sideband(a);
	want.role = PERF_SAMPLES;
	want.lost = true;
	want.spec = get_target_desc(w)->events[spec];
	want.stacks = stacks_of(w, spec);
	want.probe_type = event_is(&want.spec, NAMED_UPROBE) ? w->p->host->uprobe_type : w->p->host->kprobe_type;
	want.probe = w->probes[spec];
	/* saves an event per thread and CPU */
	want.sideband = a->strategy == STRATEGY_THREADS && spec == find_sideband_event(w);
	return want;
}

/* Is there an event of CPU time with such stacks? */
static bool has_clock(const struct work *w, enum stacks stacks)
{
	bool any = false;
	for (uint32_t i = 0; i < get_target_desc(w)->n_events; i++)
		any |= event_kind(get_target_desc(w)->events[i].kind)->measure == MEASURES_CPU &&
		       stacks_of(w, i) == stacks;
	return any;
}

/*
 * The events of waits, at most three (shim/event/perf_event.h). With strategy `cgroup` stacks come later: a runtime's
 * are of no use. Without kernel code the stacks are those of a clock, and an existing clock serves as well.
 */
static size_t roles_of_waits(
	const struct work *w, const struct attach_method *a, uint32_t spec, struct waits_role ret[3])
{
	bool cgroup = a->strategy == STRATEGY_CGROUP;
	size_t n = 0;
	ret[n++] = (struct waits_role){cgroup ? PERF_OFFCPU_SMALL : PERF_SWITCHES, false};
	if (cgroup || a->kernel || !has_clock(w, stacks_of(w, spec)))
		ret[n++] = (struct waits_role){PERF_SAMPLES, cgroup};
	if (cgroup || a->kernel)
		ret[n++] = (struct waits_role){cgroup ? PERF_ROLL_CALL : PERF_OFFCPU_SMALL, true};
	return n;
}

static int put_waits(struct work *w, const struct attach_method *a, pid_t thread, uint32_t spec, int cpu, struct err *e)
{
	struct waits_role roles[3];
	size_t n = roles_of_waits(w, a, spec, roles);
	int r = 0;
	for (size_t i = 0; r == 0 && i < n; i++) {
		struct perf_want want = describe_samples(w, a, spec);
		want.role = roles[i].role;
		want.idle = roles[i].idle;
		r = open_and_put(w, a, thread, &want, spec, cpu, e);
	}
	return r;
}

/* --- strategies `cgroup` and `process`: per CPU -------------------------------------------------------- */

/*
 * Are there snapshots, and enough descriptors for each size of them? One target gets at most a quarter of the
 * profiler's descriptors, so that later targets are profiled as well. Each thread inherits all events: their number is
 * bounded, as each one slows it down.
 */
static bool has_ladder(struct work *w, const struct attach_method *a)
{
	uint32_t cpus = (uint32_t)w->p->host->n_cpus, waits = 0, laddered = 0, n = get_target_desc(w)->n_events;
	for (uint32_t i = 0; i < n; i++) {
		waits += measures_waits(w, i);
		laddered += has_snapshots(w, i);
	}
	uint32_t more = cpus * laddered * (PERF_RUNGS - 1), all = more + cpus * (1 + n - waits + 3 * waits);
	bool few = all > w->events_max / LADDER_SHARE, many = a->strategy == STRATEGY_PROCESS && more > INHERITED_MORE;
	if (!laddered)
		return false;
	if (few)
		target_note(get_target_desc(w),
			"stack snapshots of one size: there are descriptors for no more (LimitNOFILE)");
	else if (many)
		target_note(
			get_target_desc(w), "stack snapshots of one size: every thread would inherit too many events");
	return !few && !many;
}

static int event_open_rungs(struct work *w, const struct attach_method *a, uint32_t spec, int cpu, struct err *e)
{
	int r = 0;
	for (uint32_t rung = 1; r == 0 && rung <= PERF_RUNGS; rung++) {
		struct perf_want want = describe_samples(w, a, spec);
		want.rung = rung;
		want.idle = rung != perf_first_rung(&want.spec);
		r = open_and_put(w, a, get_target_desc(w)->init_pid, &want, spec, cpu, e);
	}
	return r;
}

static int event_open_cpu(struct work *w, const struct attach_method *a, int cpu, struct err *e)
{
	int r = 0;
	for (uint32_t s = 0; r == 0 && s < get_target_desc(w)->n_events; s++) {
		if (is_of_app(w, s))
			continue;
		struct perf_want want = describe_samples(w, a, s);
		if (measures_waits(w, s))
			r = put_waits(w, a, get_target_desc(w)->init_pid, s, cpu, e);
		else if (w->ladder && has_snapshots(w, s))
			r = event_open_rungs(w, a, s, cpu, e);
		else
			r = open_and_put(w, a, get_target_desc(w)->init_pid, &want, s, cpu, e);
	}
	return r;
}

/* Opens all events but the side-band event of the first CPU, which is `first`. */
static int event_open_cpus(struct work *w, const struct attach_method *a, int first_cpu,
	const struct perf_layout *layout, int first, struct err *e)
{
	const struct host_info *h = w->p->host;
	struct perf_want want = own_sideband(w, a);
	struct event_desc d = describe_event(&want, 0, first_cpu, layout);
	int r = message_batch_put_event(&w->batch, &d, first, e);
	for (int i = 0; r == 0 && i < h->n_cpus; i++) {
		want = own_sideband(w, a);
		if (h->cpus[i] != first_cpu)
			r = open_and_put(w, a, get_target_desc(w)->init_pid, &want, 0, h->cpus[i], e);
		if (r == 0)
			r = event_open_cpu(w, a, h->cpus[i], e);
	}
	return r;
}

/* --- strategy `threads`: on every thread, per CPU ------------------------------------------------------ */

static void add_note(struct work *w, const char *fmt, unsigned a, unsigned b)
{
	char text[160];
	snprintf(text, sizeof(text), fmt, a, b);
	target_note(get_target_desc(w), text);
}

static int attach_thread(struct work *w, const struct attach_method *a, pid_t thread, struct err *e)
{
	const struct host_info *h = w->p->host;
	int r = 0;
	for (int i = 0; r == 0 && i < h->n_cpus; i++) {
		struct perf_want alone = describe_sideband(a);
		if (find_sideband_event(w) == UINT32_MAX)
			r = open_and_put(w, a, thread, &alone, 0, h->cpus[i], e);
		for (uint32_t s = 0; r == 0 && s < get_target_desc(w)->n_events; s++) {
			if (is_of_app(w, s))
				continue;
			struct perf_want want = describe_samples(w, a, s);
			r = measures_waits(w, s) ? put_waits(w, a, thread, s, h->cpus[i], e)
						 : open_and_put(w, a, thread, &want, s, h->cpus[i], e);
		}
	}
	return r;
}

/* The number of events of one thread on one CPU. */
static uint32_t events_each(const struct work *w, const struct attach_method *a)
{
	struct waits_role roles[3];
	uint32_t n = find_sideband_event(w) == UINT32_MAX;
	for (uint32_t s = 0; s < get_target_desc(w)->n_events; s++)
		n += measures_waits(w, s) ? (uint32_t)roles_of_waits(w, a, s, roles) : !is_of_app(w, s);
	return n;
}

struct tally {
	unsigned attached, refused, no_room;
};

/* Attaches to every thread that has not been tried yet. */
static int attach_new(struct work *w, const struct attach_method *a, struct tally *y, struct err *e)
{
	uint32_t each = (uint32_t)w->p->host->n_cpus * events_each(w, a);
	for (size_t i = 0; i < thread_scan_count(w->census); i++) {
		struct thread_scan_task *t = thread_scan_at(w->census, i);
		if (t->done || !t->alive)
			continue;
		t->done = true;
		if (w->batch.sent + w->batch.n + each > w->events_max) {
			y->no_room++;
			continue;
		}
		int r = attach_thread(w, a, t->tid, e);
		if (r == -EACCES || r == -EPERM) /* setuid, or another user's */
			y->refused++;
		else if (r == 0)
			y->attached++;
		else if (r != -ESRCH)
			return r;
	}
	return 0;
}

static int scan_threads(struct work *w, struct err *e)
{
	int r = thread_scan_look(w->census);
	if (r == -E2BIG) {
		if (!w->too_many)
			add_note(w, "more than %u threads: the rest is left out%.0d", THREAD_SCAN_MAX, 0);
		w->too_many = true;
		return 0;
	}
	return r < 0 ? err_set(e, r, "cannot list the target's threads in /proc") : r;
}

/*
 * Repeats until a scan after a pause shows no new thread: a thread inherits events before /proc shows it. A thread that
 * is made meanwhile has inherited its creator's events, or shows up in the next scan. If both, the profiler removes the
 * thread's own events again (profiler/sample/event_dedup.h).
 */
static int event_open_threads(struct work *w, const struct attach_method *a, struct err *e)
{
	struct tally y = {0};
	int64_t end = clock_now() + PASSES_MS * NSEC_PER_MSEC;
	int r = 0, new = 1;
	for (int pass = 0; r == 0 && new > 0 && pass < PASSES_MAX &&clock_now() < end; pass++) {
		if (pass)
			usleep(PAUSE_MS * 1000);
		new = scan_threads(w, e);
		r = new < 0 ? new : attach_new(w, a, &y, e);
	}
	if (r == 0 && y.refused)
		add_note(w, "%u of %u threads refused to be attached to (setuid, or another user's)", y.refused,
			y.refused + y.attached);
	if (r == 0 && y.no_room)
		add_note(w, "%u of %u threads not attached to: the profiler has descriptors for no more (LimitNOFILE)",
			y.no_room, y.no_room + y.attached);
	if (r == 0 && !y.attached)
		r = err_say(e, y.no_room ? -EMFILE : -ESRCH, "%s",
			y.no_room ? "the profiler has descriptors for none of its threads: raise LimitNOFILE"
				  : "the process is gone already");
	return r;
}

/* --- processes and mappings ---------------------------------------------------------------------------- */

/*
 * Copies the mappings for the first thread of a process, or for the next one if the first has ended: that one has no
 * memory any more.
 */
static int copy_mappings(struct work *w, const struct thread_scan_task *t)
{
	if (t->proc_pid != t->proc_tid && t->proc_pid != w->without_maps)
		return -1;
	int fd = proc_maps_copy(t->proc_pid, t->proc_tid);
	w->without_maps = fd < 0 ? t->proc_pid : 0;
	return fd < 0 ? -1 : fd;
}

static int put_task(struct work *w, struct thread_scan_task *t, struct err *e)
{
	struct task_desc d = {.pid = t->pid, .tid = t->tid};
	thread_scan_rename(t);
	memcpy(d.name, t->name, sizeof(d.name));
	return message_batch_put_task(&w->batch, &d, copy_mappings(w, t), e);
}

/* Sends the list of threads. All events exist and have a ring: from here on records report every change. */
static int event_open_tasks(struct work *w, bool threads, struct err *e)
{
	unsigned late = 0;
	int r = scan_threads(w, e);
	for (size_t i = 0; r >= 0 && i < thread_scan_count(w->census); i++) {
		struct thread_scan_task *t = thread_scan_at(w->census, i);
		r = t->alive ? put_task(w, t, e) : 0;
		late += t->alive && !t->done && t->pid == t->tid;
	}
	/*
	 * these have inherited events, unless their fork began before we attached to its creator: copying memory can
	 * take that long
	 */
	if (r >= 0 && late && threads)
		add_note(w, "%u processes came meanwhile: one whose fork took longer than attaching is missing%.0d",
			late, 0);
	if (r < 0)
		return r;
	const char *notes = get_target_desc(w)->notes + w->notes_told;
	return message_batch_end_tasks(&w->batch, notes + strspn(notes, "; "), e);
}

/* --- choosing a strategy ------------------------------------------------------------------------------- */

static int send_target(struct work *w, const struct attach_method *a, struct err *e)
{
	union msg *m = &w->batch.msg;
	get_target_desc(w)->strategy = a->strategy;
	m->target.desc = *get_target_desc(w);
	m->target.desc.kernel = a->kernel;
	m->target.desc.running = w->p->running != NULL;
	w->notes_told = strlen(get_target_desc(w)->notes);
	int r = msg_send(w->p->sock, m, MSG_TARGET, w->p->target, w->n_target);
	return r < 0 ? err_set(e, r, "sending to the peer") : 0;
}

/* Opens the event that shows whether this row of the table is possible, on the first CPU that is online. */
static int try_attempt(
	struct work *w, const struct attach_method *a, int *ret_cpu, struct perf_layout *ret_layout, struct err *e)
{
	bool threads = a->strategy == STRATEGY_THREADS;
	if (a->strategy == STRATEGY_CGROUP && w->p->cgroup < 0)
		return err_say(e, -ENOENT, "%s", w->p->request->no_cgroup);
	int fd = -ENODEV;
	for (int i = 0; i < w->p->host->n_cpus && fd == -ENODEV; i++) {
		struct perf_want want = own_sideband(w, a);
		*ret_cpu = w->p->host->cpus[i];
		fd = open_one(w, a, get_target_desc(w)->init_pid, &want, w->p->host->cpus[i], ret_layout);
	}
	if (fd >= 0 && !w->events_max) {
		fd_close(fd);
		return err_say(e, -EPERM, "the profiler may not use perf events");
	}
	if (threads && fd == -ESRCH) /* the leader has ended before its threads: the passes will find those */
		return -ESRCH;
	return fd < 0 ? perf_explain(fd, "perf_event_open", e) : fd;
}

/* The first row that works; its first event is left open, or *ret_first is -ESRCH. `timers` have none. */
static const struct attach_method *choose_method(
	struct work *w, int *ret_first, int *ret_cpu, struct perf_layout *ret_layout, struct err *e)
{
	const struct attach_method *a;
	char text[448];
	enum attach asked = w->p->request->attach;
	for (size_t i = 0; (a = strategy_attempt(asked, w->p->running, get_target_desc(w)->fds & TARGET_APP, i)); i++) {
		struct err why;
		if (a->strategy == STRATEGY_TIMERS)
			return a;
		if (a->kernel && w->p->request->user_only)
			continue;
		*ret_first = try_attempt(w, a, ret_cpu, ret_layout, &why);
		if (*ret_first >= 0 || *ret_first == -ESRCH)
			return a;
		err_say(e, why.code, "%s", why.text);
		snprintf(text, sizeof(text), "not by %s: %.300s", a->name, why.text);
		target_note(get_target_desc(w), text);
	}
	return NULL;
}

/* Does the event exist wherever this row of the table is possible? */
static bool is_certain(const struct event_spec *s)
{
	const struct event_kind *k = event_kind(s->kind);
	return k->type == PERF_TYPE_SOFTWARE && !k->in_kernel && s->only != EVENT_ONLY_KERNEL;
}

/* Checks whether a uprobe or kprobe is possible here at all. */
static int check_probe(const struct perf_want *want, struct err *e)
{
	bool user = event_is(&want->spec, NAMED_UPROBE);
	const char *kind = event_kind(want->spec.kind)->name, *name = event_name(&want->spec);
	if (!user && !event_is(&want->spec, NAMED_KPROBE))
		return 0;
	if (!want->probe_type)
		return err_say(e, -EOPNOTSUPP, "%s %s: this kernel has none (CONFIG_%s_EVENTS)", kind, name,
			user ? "UPROBE" : "KPROBE");
	if (want->inherit)
		return err_say(e, -EOPNOTSUPP,
			"%s %s: for containers, and what else has a cgroup (attach by cgroup): a process that "
			"inherits one cannot fork",
			kind, name);
	return 0;
}

static int explain_event(int error, const struct event_spec *s, struct err *e)
{
	if (event_is(s, NAMED_KPROBE) && (error == -ENOENT || error == -EADDRNOTAVAIL))
		return err_say(
			e, error, "kprobe %s: this kernel has no such function, or several of that name", s->name);
	if (event_is(s, NAMED_KPROBE) && (error == -EINVAL || error == -EILSEQ))
		return err_say(e, error, "kprobe %s: the kernel lets nobody probe it there%s", s->name,
			error == -EILSEQ ? ": no instruction begins at this offset" : "");
	return perf_explain_event(error, event_name(s), e);
}

static bool is_cpu(const struct event_spec *s)
{
	return event_kind(s->kind)->measure == MEASURES_CPU;
}

/*
 * Fails only on errors by which we cannot have this event: any other error will happen again later. The first thread of
 * a running process may have ended: there the event is tried on ourselves.
 */
static int try_event(struct work *w, const struct attach_method *a, uint32_t spec, int cpu, struct err *e)
{
	const struct event_spec *s = &get_target_desc(w)->events[spec];
	if (a->strategy == STRATEGY_TIMERS && !is_cpu(s) && !is_of_app(w, spec))
		return err_say(e, -EOPNOTSUPP, "%s takes perf events, which are refused", event_name(s));
	if (is_of_app(w, spec))
		return get_target_desc(w)->fds & TARGET_APP
			       ? 0
			       : err_say(e, -EOPNOTSUPP,
					 "%s is known within a program alone: start it by `pillion run "
					 "--events %s`",
					 event_name(s), event_name(s));
	if (a->strategy == STRATEGY_TIMERS)
		return 0;
	struct perf_want want = describe_samples(w, a, spec);
	struct perf_layout layout;
	int r = check_probe(&want, e);
	if (r < 0)
		return r;
	if (want.spec.only == EVENT_ONLY_KERNEL && !want.kernel)
		return perf_explain_event(-EACCES, event_name(&want.spec), e);
	pid_t thread = a->strategy == STRATEGY_THREADS ? 0 : get_target_desc(w)->init_pid;
	int fd = open_one(w, a, thread, &want, cpu, &layout);
	if (fd == -ENOENT || fd == -EOPNOTSUPP || fd == -EINVAL || fd == -EACCES || fd == -EPERM || fd == -EILSEQ ||
		fd == -EADDRNOTAVAIL)
		return explain_event(fd, &want.spec, e);
	fd_close(fd);
	return 0;
}

/* Leaves out events that are not available; the others run. */
static int leave_out(struct work *w, const struct attach_method *a, int cpu, struct err *e)
{
	struct target_desc *d = get_target_desc(w);
	struct err why = {0};
	for (uint32_t i = 0; i < d->n_events;) {
		const bool certain = a->strategy != STRATEGY_TIMERS && is_certain(&d->events[i]);
		if (certain || try_event(w, a, i, cpu, &why) == 0) {
			i++;
			continue;
		}
		target_leave_out(d, i, why.text);
		memmove(w->probes[i], w->probes[i + 1], (d->n_events - i) * sizeof(w->probes[0]));
	}
	return d->n_events ? 0 : err_say(e, why.code, "%s", why.text);
}

static uint32_t get_minimum(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* For an older service, which would refuse the whole target for it. TARGET_FILES is the last descriptor. */
static void leave_out_files(struct work *w)
{
	if (!(get_target_desc(w)->fds & TARGET_FILES))
		return;
	get_target_desc(w)->fds &= ~(uint32_t)TARGET_FILES;
	w->n_target--;
	target_note(get_target_desc(w),
		FILE_OPENER_NONE "the service is of a version that takes no process that opens them");
}

static int receive_welcome(struct work *w, struct err *e)
{
	const struct host_info *h = w->p->host;
	union msg *m = &w->batch.msg;
	int r = msg_answer(w->p->sock, w->p->deadline, m, MSG_WELCOME, e);
	if (r < 0)
		return r;
	w->events_max = m->welcome.events_max;
	if (m->head.version < PROTOCOL_FILES)
		leave_out_files(w);
	message_batch_start(&w->batch, w->p->sock, get_minimum(m->welcome.batch_max, h->batch_max), w->p->deadline);
	return h->n_cpus > 0 ? 0 : err_say(e, -ENODATA, "no CPU is online");
}

/* Names a file by its descriptor in /proc/self/fd, so that exactly the file that was checked is probed. */
static void name_probes(struct work *w)
{
	const int *fd = w->p->probes;
	for (uint32_t i = 0; i < get_target_desc(w)->n_events; i++) {
		const struct event_spec *s = &get_target_desc(w)->events[i];
		if (event_is(s, NAMED_UPROBE))
			snprintf(w->probes[i], sizeof(w->probes[i]), "/proc/self/fd/%d", *fd++);
		else if (event_is(s, NAMED_KPROBE))
			snprintf(w->probes[i], sizeof(w->probes[i]), "%.*s", (int)strcspn(s->name, "+"), s->name);
	}
}

/* At a higher rate the kernel stops a clock until its next tick, again and again. */
static void keep_to_rate(struct work *w)
{
	const uint32_t most = w->p->host->max_rate;
	for (uint32_t i = 0; most && i < get_target_desc(w)->n_events; i++) {
		struct event_spec *s = &get_target_desc(w)->events[i];
		if (event_kind(s->kind)->measure != MEASURES_CPU || s->period >= NSEC_PER_SEC / most)
			continue;
		s->period = NSEC_PER_SEC / most;
		add_note(w, "rate lowered to %u Hz: kernel.perf_event_max_sample_rate%.0d", most, 0);
	}
}

/* Only CPU time is left of `wall`. */
static int event_open_timers(struct work *w, const struct attach_method *a, struct err *e)
{
	int r = leave_out(w, a, -1, e);
	for (uint32_t i = 0; r == 0 && i < get_target_desc(w)->n_events; i++)
		get_target_desc(w)->events[i].profiles = PROFILES_OWN;
	if (r == 0)
		r = send_target(w, a, e);
	return r < 0 ? r : msg_answer(w->p->sock, w->p->deadline, &w->batch.msg, MSG_OK, e);
}

static int event_open_all(struct work *w, struct err *e)
{
	struct perf_layout layout;
	int first, cpu = -1;
	const struct attach_method *a = choose_method(w, &first, &cpu, &layout, e);
	if (!a)
		return e->code;
	if (a->strategy == STRATEGY_TIMERS)
		return event_open_timers(w, a, e);
	bool threads = a->strategy == STRATEGY_THREADS;
	int r = leave_out(w, a, cpu, e);
	if (r < 0)
		return fd_close(first), r;
	w->ladder = !threads && has_ladder(w, a);
	if (threads)
		fd_close(first); /* it was an attempt: the passes open their own */
	else if (first < 0)
		return perf_explain(first, "perf_event_open", e);
	r = send_target(w, a, e);
	if (r == 0)
		r = threads ? event_open_threads(w, a, e) : event_open_cpus(w, a, cpu, &layout, first, e);
	if (r == 0)
		r = message_batch_flush_events(&w->batch, true, e);
	if (r == 0 && w->p->running)
		r = event_open_tasks(w, threads, e);
	/* its pid may have become that of another process */
	if (r == 0 && w->p->running && fd_wait(w->p->target[0], POLLIN, 0) == 1)
		r = err_say(e, -ESRCH, "it has ended meanwhile");
	return r;
}

static int init_work(struct work *w, const struct event_open *p, struct err *e)
{
	/* set field by field: pages that stay zero are never touched */
	w->p = p;
	w->n_target = p->n_target;
	w->census = NULL;
	w->too_many = false;
	w->without_maps = 0;
	w->notes_told = strlen(p->request->desc.notes);
	int r = p->running ? thread_scan_new(p->running, &w->census) : 0;
	return r < 0 ? err_set(e, r, "no memory for a list of threads") : 0;
}

int event_open_remapped(const struct event_open *p, struct err *e)
{
	static struct work w;
	int r = init_work(&w, p, e);
	message_batch_start(&w.batch, p->sock, p->host->batch_max, p->deadline);
	if (r == 0)
		r = event_open_tasks(&w, false, e);
	if (r == 0 && fd_wait(p->target[0], POLLIN, 0) == 1)
		r = err_say(e, -ESRCH, "it has ended meanwhile");
	thread_scan_free(w.census);
	return r;
}

int event_open_events(const struct event_open *p, struct err *e)
{
	static struct work w;
	int r = init_work(&w, p, e);
	if (r == 0)
		r = receive_welcome(&w, e);
	if (r == 0) {
		name_probes(&w);
		keep_to_rate(&w);
	}
	if (r == 0)
		r = event_open_all(&w, e);
	thread_scan_free(w.census);
	return r;
}
