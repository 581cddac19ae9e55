/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/target/target.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "oci/base/log.h"
#include "oci/isolation/cgroup.h"
#include "profiler/inproc/inproc.h"
#include "profiler/offcpu/offcpu.h"
#include "profiler/process/debug_file.h"
#include "profiler/process/proc_maps.h"
#include "profiler/process/supervisor_link.h"
#include "profiler/sample/event_counts.h"
#include "profiler/sample/sample_stack.h"
#include "profiler/spool/spool_lock.h"
#include "profiler/target/checkpoint/checkpoint_write.h"
#include "profiler/target/crash_record.h"
#include "profiler/target/symbol_requests.h"
#include "profiler/target/target_inproc.h"
#include "profiler/target/target_offcpu.h"
#include "profiler/target/target_open.h"
#include "profiler/target/target_rate.h"
#include "profiler/target/target_usage.h"
#include "profiler/target/window.h"
#include "shim/event/attach_strategy.h"

#include <errno.h>
#include <limits.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#define LOOK_FOR_END_NS (2 * NSEC_PER_SEC)
#define AHEAD_FIRST_NS (1 * NSEC_PER_SEC)
#define AHEAD_SESSION_NS (100 * NSEC_PER_MSEC) /* no addresses have names yet, and the user waits for the end */
#define AHEAD_NS (10 * NSEC_PER_SEC)
#define VALUE_MAX (1ull << 44)	      /* of one sample: a larger value is no amount; thousands of these can be summed */
#define WRITTEN_NS (5 * NSEC_PER_SEC) /* at the end, for the exporter: it writes them all the same */

/* --- life ---------------------------------------------------------------------------------------------- */

struct target *target_find(struct engine *g, const char *id)
{
	struct target *t = g->targets;
	while (t && strcmp(t->desc.id, id) != 0)
		t = t->next;
	return t;
}

static bool is_known_target(const struct engine *g, const struct target_desc *d)
{
	for (const struct target *t = g->targets; t; t = t->next)
		if (!strcmp(t->desc.id, d->id) && t->desc.host_pid == d->host_pid &&
			t->desc.start_time == d->start_time)
			return true;
	return false;
}

static void on_end_signal(void *arg, uint32_t events)
{
	struct target *t = arg;
	struct crash_marker *at = t->engine->host.at;
	if (target_has_ended(t)) {
		at->target = t->number; /* should its last window kill us */
		target_end(t);
		at->target = 0;
		return;
	}
	/* The init is gone but others live on (--pid=host), or the cgroup only changed: a pidfd stays readable */
	if (t->watch.pid_source.fd >= 0 && fd_wait(t->watch.pidfd, POLLIN, 0) == 1) {
		event_loop_del(t->engine->loop, &t->watch.pid_source);
		spool_lock_set_state(t->engine->spool.lock, SPOOL_LOCK_LIVES_ON);
	}
}

static void watch_end(struct target *t)
{
	struct event_loop *l = t->engine->loop;
	if (t->usage.events >= 0)
		event_loop_add(l, &t->watch.cgroup_source, t->usage.events, EPOLLPRI, on_end_signal, t);
	event_loop_add(l, &t->watch.pid_source, t->watch.pidfd, EPOLLIN, on_end_signal, t);
}

static struct module *resolve_module(void *arg, const struct module_key *key)
{
	struct module *m;
	return target_module(arg, key, target_open_file, &m) == 0 ? m : NULL;
}

int target_tasks_new(struct target *t)
{
	struct process_table *fresh;
	int r = process_table_new(resolve_module, t, &fresh);
	if (r < 0)
		return r;
	process_table_free(t->sampling.processes);
	t->sampling.processes = fresh;
	return 0;
}

static void take_fds(struct target *t, const int *fds)
{
	int *fields[] = {&t->watch.pidfd, &t->fs.tree, &t->usage.cgroup, &t->fs.exe, &t->usage.events,
		&t->usage.cpu_stat, &t->app, &t->fs.opener.sock}; /* as enum target_fd */
	int n = 0;
	for (unsigned bit = 0; bit < sizeof(fields) / sizeof(fields[0]); bit++)
		if (t->desc.fds & 1u << bit)
			*fields[bit] = fds[n++];
}

/* Adds an event for memory in use to `alloc`, if there is room for one more event. */
static void add_heap(struct target_desc *d)
{
	for (uint32_t i = 0; i < d->n_events; i++)
		if (event_kind(d->events[i].kind)->measure == MEASURES_ALLOC) {
			if (d->n_events == EVENTS_MAX) {
				target_note(d, "alloc: what is in use is left out: one event less, and it has a place");
				return;
			}
			d->events[d->n_events++] = (struct event_spec){.kind = (uint32_t)event_heap(),
				.period = d->events[i].period,
				.profiles = PROFILES_ALLOC};
			return;
		}
}

int target_new(struct engine *g, const struct target_desc *d, const int *fds, struct target **ret, struct err *e)
{
	int n_fds = __builtin_popcount(d->fds);
	struct target *t = is_known_target(g, d) ? NULL : calloc(1, sizeof(*t));
	if (!t) {
		struct target_files_account account = {.name = d->id, .born = clock_now()};
		for (int i = 0; i < n_fds; i++)
			target_files_close_passed(g->symbols.files, &account, fds[i]);
		return is_known_target(g, d) ? err_say(e, -EALREADY, "this container is profiled already")
					     : err_set(e, -ENOMEM, "no memory for a target");
	}
	t->engine = g;
	engine_schedule_all(g);
	t->fs.maps_left = PROC_MAPS_OF_TARGET;
	t->serial = ++g->last_serial;
	t->born = clock_now();
	t->desc = *d;
	add_heap(&t->desc);
	t->sampling = (struct sampling){
		.desc = &t->desc, .rates = &g->rates, .unwind = g->symbols.unwind, .jit_room = &g->symbols.jit_room};
	t->fs.account = (struct target_files_account){.name = t->desc.id, .born = t->born};
	t->fs.opener = TARGET_FILES_OPENER(-1, t->desc.id);
	t->watch.pidfd = t->fs.tree = t->usage.cgroup = t->fs.exe = t->usage.events = t->usage.cpu_stat = t->app = -1;
	t->watch.pid_source.fd = t->watch.cgroup_source.fd = -1;
	take_fds(t, fds);
	int r = target_tasks_new(t);
	if (r == 0 && d->strategy == STRATEGY_THREADS)
		r = event_dedup_new(&t->events.dedup);
	for (uint32_t i = 0; r == 0 && i < t->desc.n_events; i++)
		r = window_counts(t, &t->sampling.counts[i]);
	if (r == 0)
		r = target_offcpu_new(t);
	if (r == 0)
		r = target_inproc_new(t);
	t->next = g->targets;
	g->targets = t;
	g->n_targets++;
	if (r < 0) {
		target_forget(t);
		return err_set(e, r, "no memory for a target");
	}
	*ret = t;
	return 0;
}

static int add_stream(struct target *t, const struct event_desc *d, int fd, struct open_event *st)
{
	struct engine *g = t->engine;
	/* a second redirect would cost a grace period of the kernel for each */
	int r = g->perf.resuming ? cpu_rings_has(g->perf.rings, d->cpu) : cpu_rings_redirect(g->perf.rings, d->cpu, fd);
	if (r < 0)
		return r;
	st->fd = fd;
	st->cpu = d->cpu;
	st->role = d->role;
	st->spec = d->role == PERF_SIDEBAND ? 0 : d->spec; /* of no event */
	st->index = t->events.n_announced;
	st->rung = d->role == PERF_SAMPLES ? d->rung : 0;
	st->layout = d->layout;
	st->target = t;
	r = open_events_add(g->perf.events, st);
	if (r < 0)
		return r;
	st->next_of_target = t->events.list;
	t->events.list = st;
	g->n_events++;
	t->saved.streams = t->sampling.changed = true;
	if (st->rung)
		stack_dump_size_add(&t->events.dump_sizes[st->spec], st->rung, st->layout.stack_user, d->idle);
	return 0;
}

int target_add_event(struct target *t, const struct event_desc *d, int fd, struct err *e)
{
	struct open_event *st = calloc(1, sizeof(*st));
	int r = st ? 0 : -ENOMEM;
	if (r == 0 && d->role != PERF_SIDEBAND &&
		(d->spec >= t->desc.n_events || event_is_of_app(&t->desc.events[d->spec])))
		r = -EINVAL;
	if (r == 0 && ioctl(fd, PERF_EVENT_IOC_ID, &st->id) < 0)
		r = err_set(e, -errno, "a descriptor that is no perf event");
	else if (r == 0 && (r = add_stream(t, d, fd, st)) < 0 && r != -ENODEV)
		err_set(e, r, "event on CPU %d", d->cpu);
	else if (r < 0 && r != -ENODEV)
		err_set(e, r, "event on CPU %d", d->cpu);
	if (r < 0) {
		fd_close(fd);
		free(st);
	}
	t->events.n_announced += r == 0 || r == -ENODEV;
	t->events.n_uncovered += r == -ENODEV; /* a CPU without a ring: it was offline when we started */
	return r == -ENODEV ? 0 : r;
}

int target_arm(struct target *t, uint32_t n_events, struct err *e)
{
	if (n_events != t->events.n_announced || (!t->events.list && t->desc.strategy != STRATEGY_TIMERS))
		return err_say(e, -EPROTO, "%u events announced, %u received", n_events, t->events.n_announced);
	t->sampling.tally.cpu_usage = t->usage.cpu_first = target_cpu_usage(t);
	for (uint32_t i = 0; i < t->desc.n_events; i++)
		stack_dump_size_limit(&t->events.dump_sizes[i], cpu_rings_size(t->engine->perf.rings));
	watch_end(t);
	offcpu_arm(t->offcpu);
	t->armed = true;
	log_line(LOG_INFO, "target=%s name=\"%s\" state=armed strategy=%s kernel=%u events=%u", t->desc.id,
		t->desc.name, strategy_name(t->desc.strategy), t->desc.kernel, t->events.n_announced);
	return 0;
}

static void ahead_plan(struct target *t)
{
	t->names.ahead_step = t->engine->role.single ? AHEAD_SESSION_NS : AHEAD_FIRST_NS;
	t->names.ahead_due = t->sampling.began + t->names.ahead_step;
	engine_schedule_target(t->engine, t, t->names.ahead_due - clock_now());
}

static void counting_start(struct target *t, int64_t began)
{
	t->sampling.started = true;
	t->sampling.began = began;
	ahead_plan(t);
	target_set_window_start(t, began);
}

/* Counting begins here: discards the kernel's earlier counts. */
static void begin_running(struct target *t, const char *notes)
{
	if (notes[0])
		target_note(&t->desc, notes);
	for (struct open_event *st = t->events.list; st; st = st->next_of_target) {
		if (st->role == PERF_SAMPLES)
			event_counts_rebase(st);
	}
	counting_start(t, clock_now());
	offcpu_attached(t->offcpu);
	t->saved.streams = t->sampling.changed = true;
}

void target_begin(struct target *t)
{
	if (!t->sampling.started && t->armed)
		begin_running(t, "");
}

void target_tasks(struct target *t, const struct msg_tasks *m, const int *maps)
{
	size_t next = 0;
	for (uint32_t i = 0; i < m->n; i++) {
		const struct task_desc *d = &m->tasks[i];
		if (t->sampling.quarantined && d->has_maps)
			fd_close(maps[next++]);
		if (t->sampling.quarantined)
			continue;
		process_table_adopt(t->sampling.processes, (uint32_t)d->pid, (uint32_t)d->tid, d->name);
		offcpu_adopt(t->offcpu, (uint32_t)d->pid, (uint32_t)d->tid);
		if (!d->has_maps)
			continue;
		int r = process_table_adopt_maps(t->sampling.processes, (uint32_t)d->pid, maps[next], &t->fs.maps_left);
		if (r < 0)
			log_line(engine_peer_level(t->engine), "target=%s pid=%d outcome=no_mappings reason=\"%s\"",
				t->desc.id, d->pid, strerror(-r));
		fd_close(maps[next++]);
	}
	sampling_processes_changed(&t->sampling);
	if (!m->last)
		return;
	if (t->desc.running)
		begin_running(t, m->notes);
	else
		log_line(LOG_INFO, "target=%s outcome=remapped tasks=%zu", t->desc.id,
			process_table_count(t->sampling.processes));
	t->fs.maps_left = PROC_MAPS_OF_TARGET;
	checkpoint_tasks(t->engine->commit, t);
}

static void drop_stream(struct target *t, struct open_event *st)
{
	struct open_event **at = &t->events.list;
	while (*at != st)
		at = &(*at)->next_of_target;
	*at = st->next_of_target;
	open_events_remove(t->engine->perf.events, st);
	t->engine->n_events--;
	fd_close(st->fd);
	free(st);
}

static void close_all(struct target *t)
{
	struct engine *g = t->engine;
	for (struct target **at = &g->targets; *at; at = &(*at)->next)
		if (*at == t) {
			*at = t->next;
			g->n_targets--;
			break;
		}
	if (t->spool.unwritten)
		exporter_client_cancel_owner(g->spool.exporter, t);
	checkpoint_gone(g->commit, t);
	target_rate_release(t);
	offcpu_close(t->offcpu);
	t->apps = inproc_free(t->apps);
	fd_close(t->app);
	while (t->events.list)
		drop_stream(t, t->events.list);
	event_loop_del(g->loop, &t->watch.pid_source);
	event_loop_del(g->loop, &t->watch.cgroup_source);
	fd_close(t->watch.pidfd);
	fd_close(t->usage.cgroup);
	fd_close(t->usage.events);
	fd_close(t->usage.cpu_stat);
	fd_close(t->fs.tree);
	fd_close(t->fs.opener.sock);
	target_files_close_passed(g->symbols.files, &t->fs.account, t->fs.exe);
	for (unsigned i = 0; i < EVENTS_MAX; i++)
		aggregate_free(t->sampling.counts[i]);
	symbol_requests_free(t->names.ahead);
	target_offcpu_free(t);
	for (struct window *w = t->window.over, *next; w; w = next) {
		next = w->next;
		window_free(w);
	}
	crash_record_forget(t);
	pair_table_done(&t->names.not_named);
	event_dedup_free(t->events.dedup);
	process_table_free(t->sampling.processes);
	if (t->fs.has_own_modules)
		modules_drop(g->symbols.modules, t->serial);
	free(t);
}

void target_forget(struct target *t)
{
	close_all(t);
}

static void tell_ended(struct target *t)
{
	struct msg_ended m = {.samples = t->sampling.samples};
	if (t->spool.last_profile[0])
		snprintf(m.profile, sizeof(m.profile), "%s/%s", t->engine->spool.path, t->spool.last_profile);
	t->owner.on_ended(t->owner.arg, &m);
}

void target_end(struct target *t)
{
	if (t->ending)
		return;
	t->ending = true; /* the drain below may bring records that lead here again */
	spool_lock_set_state(t->engine->spool.lock, SPOOL_LOCK_ENDED);
	target_cpu_usage(t); /* before anything else: the cgroup is about to go */
	if (t->sampling.started && !target_has_ended(t))
		offcpu_call_now(t->offcpu);
	engine_drain(t->engine, true);
	if (t->desc.strategy == STRATEGY_TIMERS) /* no process has connected: the profile says so */
		target_begin(t);
	window_close(t, true);
	offcpu_close(t->offcpu);
	while (t->events.list)
		drop_stream(t, t->events.list);
	event_loop_del(t->engine->loop, &t->watch.pid_source);
	event_loop_del(t->engine->loop, &t->watch.cgroup_source);
	target_free_if_done(t);
}

/* The exporter has its profiles: closes its files, which are not needed any more, as a tree pins a file system. */
static void wait_for_exporter(struct target *t)
{
	t->spool.written_by = deadline_in(WRITTEN_NS);
	fd_close(t->fs.tree);
	fd_close(t->fs.opener.sock);
	target_files_close_passed(t->engine->symbols.files, &t->fs.account, t->fs.exe);
	t->fs.tree = t->fs.opener.sock = t->fs.exe = -1;
}

void target_free_if_done(struct target *t)
{
	if (!t->ending || t->window.over || t->crash.records)
		return;
	if (t->spool.unwritten && !t->spool.written_by)
		wait_for_exporter(t);
	if (t->spool.unwritten && clock_now() < t->spool.written_by)
		return;
	if (t->spool.unwritten)
		log_line(engine_peer_level(t->engine),
			"target=%s outcome=late reason=\"the spool is slow: %u profiles are not written yet\"",
			t->desc.id, t->spool.unwritten);
	log_line(LOG_INFO, "target=%s name=\"%s\" state=ended", t->desc.id, t->desc.name);
	if (t->owner.on_ended)
		tell_ended(t);
	close_all(t);
}

static void on_named_ahead(void *arg)
{
	struct target *t = arg;
	t->names.ahead = symbol_requests_free(t->names.ahead);
}

/*
 * Asks for names in advance: a runtime may wait for the end, which then finds most of them. Debug information is opened
 * anew each time, so it asks less and less often, and only in the first window, whose end asks for all: a program
 * mostly runs the same code from its beginning on. Returns milliseconds to the next time; -1: none is planned.
 */
static int name_ahead(struct target *t, int64_t now)
{
	if (t->names.ahead && symbol_requests_round(t->names.ahead, now) < 0)
		return -1;
	if (!t->sampling.started || t->names.ahead || t->window.seq)
		return -1;
	if (now < t->names.ahead_due)
		return deadline_left_ms(t->names.ahead_due);
	t->names.ahead_step *= 3;
	t->names.ahead_due = now + t->names.ahead_step;
	int64_t cpu = clock_cpu();
	t->names.ahead = symbol_requests_start(
		t, t->sampling.counts, t->desc.n_events, SYMBOL_REQUESTS_WINDOW, now + AHEAD_NS, on_named_ahead, t);
	t->sampling.cost += clock_cpu() - cpu;
	return deadline_left_ms(t->names.ahead_due);
}

/* --- stack snapshots ----------------------------------------------------------------------------------- */

static struct open_event *find_rung(const struct target *t, const struct open_event *like, uint32_t rung)
{
	struct open_event *st = t->events.list;
	while (st && !(st->rung == rung && st->spec == like->spec && st->cpu == like->cpu))
		st = st->next_of_target;
	return st;
}

/*
 * On every CPU the new event of a clock is enabled before the old one is disabled: no time is left out, and the
 * microseconds between count twice. Events that the kernel counts must not be sampled by two at once
 * (shim/event/perf_event.h). A clock begins a new period there: the one under way, less than a period for each CPU (or
 * each thread, where events are inherited), yields no sample.
 */
static int switch_dump_size(struct target *t, uint32_t spec, uint32_t from, uint32_t to)
{
	const bool clock = event_kind(t->desc.events[spec].kind)->measure == MEASURES_CPU;
	for (struct open_event *st = t->events.list; st; st = st->next_of_target) {
		const struct open_event *old = st->spec == spec && st->rung == to ? find_rung(t, st, from) : NULL;
		if (old && ((!clock && ioctl(old->fd, PERF_EVENT_IOC_DISABLE, 0) < 0) ||
				   ioctl(st->fd, PERF_EVENT_IOC_ENABLE, 0) < 0 ||
				   (clock && ioctl(old->fd, PERF_EVENT_IOC_DISABLE, 0) < 0)))
			return -errno;
	}
	return 0;
}

/* Not before the program begins: until its exec all are disabled, and the exec enables those that wait for it. */
static void fit_snapshots(struct target *t, int64_t now)
{
	for (uint32_t i = 0; t->sampling.started && !target_rate_paused(t) && i < t->desc.n_events; i++) {
		struct stack_dump_size *l = &t->events.dump_sizes[i];
		uint32_t from = l->at, to = stack_dump_size_look(l, now);
		if (to == from)
			continue;
		int r = switch_dump_size(t, i, from, to);
		stack_dump_size_moved(l, to);
		l->crooked |= r < 0; /* never again */
		log_line(r < 0 ? LOG_WARNING : LOG_INFO,
			"target=%s event=%s snapshot=%u was=%u outcome=%s reason=\"%s\"", t->desc.id,
			event_name(&t->desc.events[i]), l->size[to], l->size[from],
			r < 0 ? "not_switched" : "snapshot_size", r < 0 ? strerror(-r) : "stacks need another size");
	}
}

/* -1: unknown here. */
static int until_window_end(const struct target *t, int64_t now)
{
	int64_t ms = (t->sampling.window_mono + t->desc.window_s * NSEC_PER_SEC - now) / NSEC_PER_MSEC + 1;
	return t->sampling.started && ms < INT_MAX ? (int)ms : -1;
}

/* We are notified of a cgroup's end; so as not to depend on that alone we check, too, but not a thousand times a
 * second. */
static bool is_over(struct target *t, int64_t now)
{
	if (t->watch.cgroup_source.fd >= 0 && t->desc.strategy == STRATEGY_CGROUP && now < t->watch.next_look)
		return false;
	t->watch.next_look = now + LOOK_FOR_END_NS;
	return target_has_ended(t);
}

int target_round(struct target *t, int64_t now)
{
	if (!t->armed)
		return -1;
	const int crashes = crash_record_round(t, now);
	if (t->ending && t->window.over)
		return event_loop_sooner(window_round(t, now), crashes);
	if (t->ending && t->crash.records)
		return crashes;
	if (t->ending) {
		int left = deadline_left_ms(t->spool.written_by);
		target_free_if_done(t); /* may free it */
		return left;
	}
	if (t->desc.strategy != STRATEGY_CGROUP)
		target_cpu_usage(t);
	if (is_over(t, now)) {
		target_end(t);
		return 0;
	}
	fit_snapshots(t, now);
	inproc_drain(t->apps, t->engine->rates.drained, false);
	int call = 0, ahead = -1;
	if (t->sampling.started && (t->early || now - t->sampling.window_mono >= t->desc.window_s * NSEC_PER_SEC)) {
		call = offcpu_call(t->offcpu);
		if (!call)
			window_close(t, false);
	} else {
		ahead = name_ahead(t, now);
	}
	if (call)
		return call;
	int turn = offcpu_round(t->offcpu, now);
	int names = window_round(t, now), next = until_window_end(t, now);
	return event_loop_sooner(
		event_loop_sooner(event_loop_sooner(event_loop_sooner(names, next), ahead), turn), crashes);
}

/* --- records ------------------------------------------------------------------------------------------- */

static void start_counting(struct target *t, const struct record *r)
{
	const int64_t now = clock_now();
	/* the opener of the event chose this value */
	counting_start(t, r->time < (uint64_t)now ? (int64_t)r->time : now);
	offcpu_begin(t->offcpu);
}

/* A copy that ends before its size holds the whole stack: a larger one would have no more. */
static void note_snapshot(
	struct target *t, const struct open_event *st, const struct record_sample *s, enum unwind_stop stop)
{
	if (!st->rung || !s->has_regs)
		return;
	bool cut = stop == UNWIND_STACK && s->stack_size >= st->layout.stack_user;
	t->sampling.tally.rungs[st->spec][st->rung]++;
	stack_dump_size_saw(&t->events.dump_sizes[st->spec], st->rung, cut, unwind_reach(t->engine->symbols.unwind));
}

/* Returns the value of a tracepoint's field, 0 if it is negative (an error, mostly); for other events 1. */
static uint64_t value_of(const struct event_spec *s, const struct record_sample *sample)
{
	uint64_t value = 0;
	if (!s->value_size)
		return 1;
	if ((uint64_t)s->value_at + s->value_size > sample->raw_size || s->value_size > sizeof(value))
		return 0;
	memcpy(&value, sample->raw + s->value_at, s->value_size); /* little-endian, as all machines of elf.h */
	const bool negative = s->value_signed && value >> (8 * s->value_size - 1);
	return negative ? 0 : value;
}

/* Returns the sample's value in the unit of the profile. */
static uint64_t worth_of(struct target *t, uint32_t spec, const struct record_sample *sample, uint64_t weight)
{
	uint64_t worth, *sum = &t->sampling.tally.value[spec];
	if (!t->desc.events[spec].value_size)
		return weight;
	if (__builtin_mul_overflow(weight, value_of(&t->desc.events[spec], sample), &worth) || worth > VALUE_MAX)
		worth = VALUE_MAX;
	*sum = *sum + worth > INT64_MAX ? INT64_MAX : *sum + worth;
	return worth;
}

static void on_plain(struct target *t, struct open_event *st, const struct record *r, uint64_t weight)
{
	struct stack_frame frames[AGGREGATE_STACK_MAX];
	const struct sample_origin who = {r->pid, r->tid, "", "", "", NULL};
	const struct sample_detail when = sampling_detail(&t->sampling, r);
	const enum event_measure measure = event_kind(t->desc.events[st->spec].kind)->measure;
	if (measure != MEASURES_OFFCPU)
		aggregate_add_at(t->sampling.counts[st->spec], frames, sample_stack_plain(r, frames), &who, &when, 1,
			worth_of(t, st->spec, &r->sample, weight));
	if (measure != MEASURES_COUNT)
		offcpu_record(t->offcpu, st, r, NULL, 0);
}

static void on_sample(struct target *t, struct open_event *st, const struct record *r)
{
	static const struct stack_frame outside = {.kind = FRAME_SPECIAL, .name = frame_outside};
	struct stack_frame frames[AGGREGATE_STACK_MAX];
	uint64_t weight = sample_rate_weight(&t->sampling.rate, t->desc.events[st->spec].period, (int64_t)r->time);
	const enum event_measure measure = event_kind(t->desc.events[st->spec].kind)->measure;
	const bool waits = measure == MEASURES_OFFCPU;
	struct sample_tally *tally = &t->sampling.tally;
	/* a sample that is read after its window's end counts in the next one: a late drain loses nothing */
	if (!t->sampling.started || (int64_t)r->time < t->sampling.began) {
		tally->before++;
		tally->before_weight[st->spec] += weight;
		return;
	}
	if (!waits && !sampling_take(&t->sampling, st->spec, (int64_t)r->time, weight, r->sample.stack_size))
		return;
	tally->samples++;
	t->sampling.samples++;
	tally->weight[st->spec] += waits ? 0 : weight;
	struct aggregate *a = t->sampling.counts[st->spec];
	if (t->sampling.quarantined) {
		on_plain(t, st, r, weight);
		return;
	}
	struct process *p = r->pid ? process_table_get(t->sampling.processes, r->pid) : NULL;
	if (!p && waits) {
		offcpu_record(t->offcpu, st, r, NULL, 0);
		return;
	}
	if (!p) { /* pid 0: the kernel cannot name it in the opener's pid namespace */
		struct sample_origin nobody = {.process = "", .thread = "", .exe = ""};
		tally->outside++;
		aggregate_add(a, &outside, 1, &nobody, 1, worth_of(t, st->spec, &r->sample, weight));
		return;
	}
	enum unwind_stop stop;
	size_t n = sampling_stack(&t->sampling, p, r, &st->layout, frames, &stop);
	struct sample_origin who = {r->pid, r->tid, p->comm, process_table_thread_name(p, r->tid), p->exe,
		inproc_labels(t->apps, r->pid, r->tid, r->time)};
	struct sample_detail when = sampling_detail(&t->sampling, r);
	note_snapshot(t, st, &r->sample, stop);
	p->sampled = true;
	if (!waits)
		aggregate_add_at(a, frames, n, &who, &when, 1, worth_of(t, st->spec, &r->sample, weight));
	if (measure != MEASURES_COUNT)
		offcpu_record(t->offcpu, st, r, frames, n);
}

void target_lost(struct target *t, uint64_t count, uint32_t cpu, int64_t time, bool shared)
{
	if (!t->sampling.started)
		return;
	*(shared ? &t->sampling.tally.lost_shared : &t->sampling.tally.lost) += count;
	offcpu_lost(t->offcpu, shared ? 0 : count, cpu, time);
	process_table_lossy(t->sampling.processes);
	checkpoint_lossy(t->engine->commit, t);
}

void target_damaged(struct target *t, uint64_t times, int64_t time)
{
	t->sampling.changed = true;
	t->sampling.tally.damaged += times;
	target_lost(t, 0, 0, time, false);
}

/* Of two events of a thread, keeps the earlier one (profiler/sample/event_dedup.h). False: the record is of the later
 * one. */
static bool keep_earlier(struct target *t, struct open_event *st, struct dedup_entry *by)
{
	struct open_event *other = by->id ? open_events_find(t->engine->perf.events, by->id) : NULL;
	if (!other || other == st) { /* the first record, or its earlier event is closed by now */
		by->id = st->id;
		return true;
	}
	struct open_event *later = st->id > other->id ? st : other;
	by->id = later == st ? other->id : st->id;
	t->sampling.tally.doubled++;
	/* the supervisor holds it, too: until that is closed, every new thread inherits it, at a cost */
	ioctl(later->fd, PERF_EVENT_IOC_DISABLE, 0);
	supervisor_request(
		t->engine->host.channel, &(struct worker_request){REQUEST_CLOSE_EVENT, t->number, later->index}, -1);
	drop_stream(t, later);
	return later != st;
}

static bool keep_single(struct target *t, struct open_event *st, const struct record *r)
{
	const bool sample = r->type == PERF_RECORD_SAMPLE;
	bool whoever = sample && event_is(&t->desc.events[st->spec], NAMED_TRACEPOINT);
	bool wanted = true;
	if (!whoever && r->by && r->by != UINT32_MAX) {
		struct dedup_entry *by =
			event_dedup_by(t->events.dedup, r->by, (uint32_t)st->cpu, st->spec + EVENTS_MAX * st->role);
		wanted = !by || (!(sample && by->time == r->time) && keep_earlier(t, st, by));
		if (by && sample)
			by->time = r->time;
	}
	if (r->type == PERF_RECORD_FORK || r->type == PERF_RECORD_EXIT)
		event_dedup_forget(t->events.dedup, r->tid);
	return wanted;
}

static void on_sideband(struct target *t, const struct record *r)
{
	bool exec = r->type == PERF_RECORD_COMM && r->comm.exec;
	if (exec && !t->sampling.started && !t->desc.running && r->pid == (uint32_t)t->desc.init_pid)
		start_counting(t, r);
	offcpu_sideband(t->offcpu, r);
	if (exec || (r->type == PERF_RECORD_EXIT && r->pid == r->tid))
		inproc_image_ends(t->apps, r->pid, (int64_t)r->time);
	if (r->type == PERF_RECORD_EXIT)
		inproc_thread_ended(t->apps, r->pid, r->tid, r->time);
	if (!t->sampling.quarantined)
		process_table_record(t->sampling.processes, r);
}

/* True: the record changes the known processes; no other record does. */
static bool is_sideband(const struct record *r)
{
	return r->type == PERF_RECORD_COMM || r->type == PERF_RECORD_FORK || r->type == PERF_RECORD_EXIT ||
	       (r->type == PERF_RECORD_MMAP2 && r->mmap.exec);
}

void target_record(struct target *t, struct open_event *st, const struct perf_event_header *h)
{
	struct record r;
	t->sampling.changed = true;
	if (st->role == PERF_OFFCPU_SMALL || st->role == PERF_SWITCHES)
		sampling_note_switch(&t->sampling, h->size);
	else
		sampling_note_record(&t->sampling, h->type == PERF_RECORD_SAMPLE, h->size);
	if (record_parse(h, &st->layout, &r) < 0) {
		t->sampling.tally.malformed++;
		return;
	}
	if (t->events.dedup && !keep_single(t, st, &r))
		return;
	if (r.type == PERF_RECORD_SAMPLE && st->role == PERF_SAMPLES) {
		on_sample(t, st, &r);
	} else if (r.type == PERF_RECORD_SAMPLE || (r.type == PERF_RECORD_SWITCH && st->role == PERF_SWITCHES)) {
		offcpu_record(t->offcpu, st, &r, NULL, 0);
	} else if (r.type == PERF_RECORD_THROTTLE) {
		t->sampling.tally.throttled++;
	} else if (is_sideband(&r)) {
		if (!t->sampling.quarantined)
			checkpoint_record(t->engine->commit, t, &r, h);
		on_sideband(t, &r);
	}
}

/* --- of a predecessor ---------------------------------------------------------------------------------- */

void target_replay(struct target *t, const struct perf_event_header *h)
{
	static const struct perf_layout none;
	struct record r;
	if (record_parse(h, &none, &r) == 0 && is_sideband(&r))
		on_sideband(t, &r);
}

/* Between two rungs a predecessor may have enabled one and not yet disabled the other. */
static void set_rungs(struct target *t)
{
	for (unsigned pass = 0; pass < 2; pass++)
		for (struct open_event *st = t->events.list; st; st = st->next_of_target) {
			const struct stack_dump_size *l = &t->events.dump_sizes[st->spec];
			if (st->rung && !l->crooked && (st->rung == l->at) == !pass)
				ioctl(st->fd, pass ? PERF_EVENT_IOC_DISABLE : PERF_EVENT_IOC_ENABLE, 0);
		}
}

void target_set_window_start(struct target *t, int64_t mono)
{
	t->sampling.window_mono = mono;
	t->window.real = clock_real() - (clock_now() - mono);
}

void target_reset_clock(struct target *t)
{
	uint64_t ran = 0;
	memset(t->window.kernel, 0, sizeof(t->window.kernel));
	target_rate_ran(t, &ran);
	t->window.ran_then = ran ? ran : t->window.ran_then;
}

void target_resume(struct target *t, int64_t gap)
{
	t->sampling.changed = true;
	if (!t->sampling.started)
		return;
	ahead_plan(t);
	set_rungs(t);
	target_rate_resume(t);
	offcpu_resume(t->offcpu);
	t->sampling.tally.restarts++;
	t->sampling.tally.gap += (uint64_t)gap;
	log_line(LOG_INFO, "target=%s outcome=resumed gap_ms=%lld samples=%llu", t->desc.id,
		(long long)(gap / NSEC_PER_MSEC), (unsigned long long)t->sampling.tally.samples);
}

void target_resume_blank(struct target *t)
{
	begin_running(t, "nothing is known of what was before: the profiler was restarted and had to begin anew");
	set_rungs(t);
	target_rate_resume(t);
	offcpu_resume(t->offcpu);
	target_reset_clock(t);
	process_table_lossy(t->sampling.processes);
	inproc_reset_counts(t->apps);
	log_line(LOG_INFO, "target=%s outcome=restarted_empty", t->desc.id);
}
