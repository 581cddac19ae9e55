/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/inproc/inproc_process.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "oci/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define LABEL_CHANGES 500000 /* read a second, per target */
#define LABEL_THREADS 65536  /* threads with known labels, per target */
#define LABEL_THREADS_LEAST 256
#ifndef SO_PEERPIDFD /* since Linux 6.5 */
#define SO_PEERPIDFD 77
#endif
#define APP_FDS 3	/* its connection, or its pidfd; its area; its trees */
#define LAST_MESSAGES 4 /* a greeting, a tree, and a wake-up */
#define HELLO_NS (2 * NSEC_PER_SEC)
#define AGAIN_NS (3 * NSEC_PER_MSEC)  /* until a record that was too young is old enough */
#define QUIET_NS (3 * NSEC_PER_SEC)   /* for a process that has hung up and has no exit record */
#define ORPHAN_NS (60 * NSEC_PER_SEC) /* for a process to come back: it may be asleep, and does so when it runs */

/* True: the process is gone, by its pidfd; without a pidfd: it hung up and has been silent for long enough. */
static bool is_quiet(const struct inproc_process *p)
{
	if (p->sock < 0 && p->process >= 0)
		return fd_wait(p->process, POLLIN, 0) != 0;
	return p->sock < 0 && clock_now() - p->heard > (p->orphan ? ORPHAN_NS : QUIET_NS);
}

/* By its exit record; a process without records: by its connection. Forked children share that, until they connect
 * themselves. */
static bool has_ended(const struct inproc_process *p)
{
	if (p->apps->timers)
		return is_quiet(p);
	const struct process *task = process_table_find(p->apps->sampling->processes, p->inbox.pid);
	return task ? task->exited != 0 : p->orphan ? is_quiet(p) : p->sock < 0;
}

void inproc_window(struct inproc *a, bool last)
{
	for (struct inproc_process *p = a ? a->first : NULL; p; p = p->next)
		inproc_process_look_at_calls(p);
	for (struct inproc_process *p = a && apps_heap(a) ? a->first : NULL; p; p = p->next)
		if (p->orphan || (!p->hello_by && (last || !has_ended(p))))
			live_heap_count(&p->inuse, p->orphan ? NULL : &p->inbox, a->mean, apps_heap(a));
}

void inproc_next_window(struct inproc *a, struct aggregate *const *last, struct aggregate *const *next)
{
	for (struct inproc_process *p = a && apps_heap(a) ? a->first : NULL; p; p = p->next)
		live_heap_move(&p->inuse, last[a->heap], next[a->heap]);
}

/* --- connections --------------------------------------------------------------------------------------------- */

static void send_keep_request(const struct inproc_process *p, uint32_t key, int memory)
{
	p->apps->owner.ops->keep_memory(p->apps->owner.target, key, memory);
}
static uint32_t key_of_area(const struct inproc_process *p)
{
	return (uint32_t)(p->inbox.cookie >> 32);
}
static uint32_t key_of_tree(const struct inproc_process *p)
{
	return (uint32_t)p->inbox.cookie;
}

static bool has_pid(const struct inproc *a, uint32_t pid)
{
	const struct inproc_process *p = a->first;
	while (p && p->inbox.pid != pid)
		p = p->next;
	return p;
}

static void remove_process(struct inproc_process *p)
{
	struct inproc *a = p->apps;
	for (struct inproc_process **at = &a->first; *at; at = &(*at)->next)
		if (*at == p) {
			*at = p->next;
			a->n--;
			break;
		}
	inproc_process_look_at_calls(p);
	if (p->called.memory >= 0)
		send_keep_request(p, key_of_tree(p), -1);
	if (p->remembered)
		send_keep_request(p, key_of_area(p), -1);
	a->lost += p->inbox.lost + p->inbox.missed;
	a->sampling->tally.apps_cpu += p->inbox.cpu;
	event_loop_del(a->owner.loop, &p->source);
	fd_close(p->sock);
	fd_close(p->process);
	shm_reader_close(&p->inbox);
	live_heap_done(&p->inuse);
	calltree_reader_done(&p->called);
	label_history_done(&p->labels);
	if (a->timers && p->inbox.pid && !has_pid(a, p->inbox.pid))
		process_table_ended(a->sampling->processes, p->inbox.pid, (uint64_t)clock_now());
	free(p);
}

/* The process writes any number: a sum stays a value of a profile. */
static uint64_t add_capped(uint64_t a, uint64_t b)
{
	uint64_t sum;
	return __builtin_add_overflow(a, b, &sum) || sum > INT64_MAX ? INT64_MAX : sum;
}

/* Returns how many records, or -errno. */
static int read_records(struct inproc_process *p, int64_t until, bool all)
{
	struct sampling *s = p->apps->sampling;
	const int64_t cpu = clock_cpu();
	const int r = p->hello_by || p->orphan ? 0 : shm_reader_drain(&p->inbox, until, all, inproc_process_record, p);
	s->cost += clock_cpu() - cpu;
	s->tally.apps_cpu += p->inbox.cpu;
	s->tally.inproc_awaited = add_capped(s->tally.inproc_awaited, p->inbox.awaited);
	s->changed |= p->inbox.cpu || p->inbox.awaited;
	p->inbox.cpu = p->inbox.awaited = 0;
	if (r > 0)
		p->heard = clock_now();
	return r;
}

/* Records and calls up to `time` belong to the old mappings. */
void inproc_image_ends(struct inproc *a, uint32_t pid, int64_t time)
{
	for (struct inproc_process *p = a ? a->first : NULL; p; p = p->next) {
		if (p->inbox.pid != pid)
			continue;
		read_records(p, time, false); /* an error shows up again at the next read */
		if (p->called.born < time)
			inproc_process_look_at_calls(p);
	}
}

/* False: p is freed. */
static bool drain_records(struct inproc_process *p, int64_t until, bool all)
{
	const struct inproc_owner *o = &p->apps->owner;
	const int r = read_records(p, until, all);
	if (r >= 0 && shm_reader_is_crowded(&p->inbox))
		o->ops->flush_journal(o->target);
	if (r >= 0 && (!o->ops->has_journal(o->target) || shm_reader_is_crowded(&p->inbox)))
		shm_reader_said(&p->inbox);
	if (r >= 0 && shm_reader_is_behind(&p->inbox))
		o->ops->schedule(o->target, AGAIN_NS);
	if (r >= 0)
		return true;
	log_line(o->ops->log_level(o->target), "target=%s pid=%u outcome=library_refused reason=\"%s\"",
		o->sampling->desc->id, p->inbox.pid, strerror(-r));
	remove_process(p);
	return false;
}

/* Returns a pidfd of the peer; -1 before Linux 6.5. */
static int process_of(int sock)
{
	int fd = -1;
	socklen_t size = sizeof(fd);
	return getsockopt(sock, SOL_SOCKET, SO_PEERPIDFD, &fd, &size) == 0 ? fd : -1;
}

static void hang_up(struct inproc_process *p)
{
	const struct inproc_owner *o = &p->apps->owner;
	event_loop_del(o->loop, &p->source);
	if (p->apps->timers && !p->hello_by)
		p->process = process_of(p->sock);
	p->sock = fd_close(p->sock);
	p->heard = p->apps->hung_up = clock_now();
	if (p->apps->timers)
		o->ops->schedule(o->target, INPROC_LINGER_NS);
	if (p->hello_by)
		remove_process(p);
}

bool inproc_alive(const struct inproc *a)
{
	for (const struct inproc_process *p = a ? a->first : NULL; p; p = p->next)
		if (p->sock >= 0 || ((p->orphan || p->process >= 0) && !is_quiet(p)))
			return true;
	return a && a->hung_up && clock_now() - a->hung_up < INPROC_LINGER_NS;
}

static void take_over(struct inproc_process *p, struct inproc_process *old)
{
	if (old->orphan)
		shm_reader_resume(&p->inbox, old->inbox.read);
	live_heap_take(&p->inuse, &old->inuse);
	calltree_reader_take(&p->called, &old->called);
	p->sampled = old->sampled;
	old->remembered = false; /* by the same key */
	remove_process(old);
}

/* No record tells of an exec here: first read everything of the programs that had this pid before. */
static void begin_image(struct inproc_process *p)
{
	struct inproc *a = p->apps;
	struct sampling *s = a->sampling;
	uint64_t used = 0; /* ns, by the previous program: an exec keeps that clock */
	bool known = false;
	for (struct inproc_process *other = a->first, *next; other; other = next) {
		next = other->next;
		if (other == p || other->hello_by || other->inbox.pid != p->inbox.pid)
			continue;
		if (!drain_records(other, clock_now(), false))
			continue;
		inproc_process_look_at_calls(other);
		other->process = fd_close(other->process); /* the process runs on, with another program */
		used = other->inbox.cpu_seen > used ? other->inbox.cpu_seen : used;
		known = true;
	}
	if (!known && p->inbox.pid == (uint32_t)s->desc->init_pid && !s->started)
		used = UINT64_MAX;
	if (!p->inbox.cpu_seen && used)
		shm_reader_skip_cpu(&p->inbox, used);
	process_table_exec(s->processes, p->inbox.pid);
	sampling_processes_changed(s);
	a->owner.ops->begin(a->owner.target);
}

static uint64_t wanted_calls(const struct inproc *a)
{
	if (a->calls >= a->sampling->desc->n_events)
		return 0;
	return SHM_CALLS | (a->sampling->desc->events[a->calls].with_time ? SHM_CALLS_TIME : 0) |
	       (a->timers ? SHM_CALLS_MAPS : 0);
}

/* Takes the trees of a known process. */
static int on_tree(struct inproc_process *p, const struct shm_tree *t, int memory)
{
	if (t->magic != SHM_TREE_MAGIC || t->version != SHM_VERSION ||
		p->apps->calls >= p->apps->sampling->desc->n_events) {
		fd_close(memory);
		return -EPROTO;
	}
	int r = calltree_reader_open(&p->called, memory);
	if (r == 0 && p->called.cookie != p->inbox.cookie)
		r = -EPROTO;
	if (r < 0)
		calltree_reader_close(&p->called);
	else
		send_keep_request(p, key_of_tree(p), p->called.memory);
	return r;
}

/* True: the same area is known under another cookie. Each would cost us as much, and the target nothing. */
static bool is_anothers(struct inproc_process *p)
{
	struct stat st;
	if (fstat(p->inbox.memory, &st) < 0)
		return true;
	p->ino = st.st_ino;
	const struct inproc_process *other = p->apps->first;
	while (other && (other == p || other->ino != p->ino || other->inbox.cookie == p->inbox.cookie))
		other = other->next;
	return other;
}

/* -errno: the greeting is not valid. */
static int on_hello(struct inproc_process *p, const struct shm_hello *h, int memory)
{
	const struct inproc *a = p->apps;
	const struct event_spec *events = a->sampling->desc->events;
	const bool cpu = a->cpu < a->sampling->desc->n_events;
	const struct shm_welcome w = {SHM_MAGIC, SHM_VERSION, a->mean, cpu ? events[a->cpu].period : 0, wanted_calls(a),
		a->crash < a->sampling->desc->n_events};
	struct inproc_process *old;
	if (h->magic != SHM_MAGIC || h->version != SHM_VERSION || h->size != SHM_SIZE) {
		fd_close(memory);
		return -EPROTO;
	}
	int r = shm_reader_open(memory, &p->inbox);
	if (r < 0)
		return r;
	if (is_anothers(p)) {
		shm_reader_close(&p->inbox);
		return -EPROTO;
	}
	if ((old = inproc_process_find_cookie(p->apps, p->inbox.cookie, p)))
		take_over(p, old);
	else if (a->timers)
		begin_image(p);
	p->hello_by = 0;
	p->apps->seen += !old;
	if (!a->timers) { /* perf events sample it; those samples get its labels */
		send_keep_request(p, key_of_area(p), p->inbox.memory);
		p->remembered = true;
	}
	return fd_send(p->sock, &w, sizeof(w), NULL, 0);
}

static int on_none(struct inproc_process *p, const struct shm_none *none)
{
	if (none->magic == SHM_NONE_MAGIC && none->version == SHM_VERSION) {
		p->apps->unable++;
		p->apps->unable_error = none->error < 0 && none->error > -4096 ? (int)none->error : -EPROTO;
		p->apps->sampling->changed = true;
	}
	return -EPIPE;
}

static int receive_shm_message(struct inproc_process *p)
{
	union {
		struct shm_hello hello;
		struct shm_none none;
		struct shm_tree tree;
		struct shm_stop stop;
		char bytes[64];
	} m;
	int memory = -1;
	size_t n = 0;
	const ssize_t got = fd_recv(p->sock, &m, sizeof(m), &memory, !p->apps->deaf, &n);
	if (got == -EAGAIN)
		return 0;
	if (n && fcntl(memory, F_GET_SEALS) < 0) { /* no memfd: its file system may block close(2) */
		p->apps->deaf |= !p->apps->owner.ops->close_fd(p->apps->owner.target, memory);
		return -EPIPE;
	}
	if (p->hello_by && got == sizeof(m.hello) && n)
		return on_hello(p, &m.hello, memory);
	if (p->hello_by && got == sizeof(m.none) && !n)
		return on_none(p, &m.none);
	if (!p->hello_by && got == sizeof(m.tree) && n)
		return on_tree(p, &m.tree, memory);
	fd_close(n ? memory : -1);
	if (!p->hello_by && got == sizeof(m.stop) && m.stop.magic == SHM_MAGIC && p->apps->sampling->desc->running)
		return -ESHUTDOWN;
	return got == 1 && !p->hello_by ? 0 : -EPIPE;
}

/* Does not close the connections: they end when the last profile is written. */
static void stop_target(struct inproc *a)
{
	const struct shm_welcome nothing = {.magic = SHM_MAGIC, .version = SHM_VERSION};
	for (const struct inproc_process *p = a->first; p; p = p->next)
		if (p->sock >= 0 && !p->hello_by)
			fd_send(p->sock, &nothing, sizeof(nothing), NULL, 0);
	a->owner.ops->end(a->owner.target);
}

static void on_message(void *arg, uint32_t events)
{
	struct inproc_process *p = arg;
	const struct inproc_owner *o = &p->apps->owner;
	struct crash_marker *marker = o->marker; /* of all targets: this one may be freed below */
	marker->target = *o->number;
	const int r = receive_shm_message(p);
	if (r == -ESHUTDOWN)
		stop_target(p->apps); /* may free p */
	else if (r < 0)
		hang_up(p);
	else if (!p->hello_by) {
		o->ops->drain(o->target); /* its mappings up to now */
		drain_records(p, o->sampling->rates->drained, false);
	}
	marker->target = 0;
}

/* A process that has hung up has most likely told everything. It must stay while its memory in use is needed. */
static bool may_go(const struct inproc *a, const struct inproc_process *p)
{
	const bool needed = p->inbox.pid == (uint32_t)a->sampling->desc->init_pid || (apps_heap(a) && !has_ended(p));
	return p->sock < 0 && !p->orphan && !needed;
}

static void make_room(struct inproc *a)
{
	struct inproc_process *oldest = NULL;
	for (struct inproc_process *p = a->first; p; p = p->next)
		oldest = may_go(a, p) ? p : oldest;
	if (oldest && drain_records(oldest, clock_now(), true))
		remove_process(oldest);
}

static void take_in(struct inproc *a, int sock)
{
	struct event_loop *loop = a->owner.loop;
	if (a->n >= INPROC_MAX)
		make_room(a);
	const bool room = a->n < INPROC_MAX && a->owner.ops->free_fds(a->owner.target) >= APP_FDS;
	struct inproc_process *p = room ? calloc(1, sizeof(*p)) : NULL;
	a->turned_away += !p;
	if (!p) {
		fd_close(sock);
		return;
	}
	*p = (struct inproc_process){.apps = a,
		.next = a->first,
		.sock = sock,
		.process = -1,
		.hello_by = deadline_in(HELLO_NS),
		.inbox.memory = -1,
		.called = CALLTREE_READER_NONE};
	p->source.fd = -1;
	p->called.account = &a->called_nodes;
	a->first = p;
	a->n++;
	if (event_loop_add(loop, &p->source, sock, EPOLLIN, on_message, p) < 0)
		remove_process(p);
}

static void on_connect(void *arg, uint32_t events)
{
	struct inproc *a = arg;
	const int sock = accept4(a->source.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (sock < 0 && (errno == EMFILE || errno == ENFILE))
		event_loop_pause(a->owner.loop, &a->source, 1000);
	if (sock >= 0)
		take_in(a, sock);
}

/* Accepts the connections and hears the messages that are still queued at the end: nothing follows them. */
static void hear_last(struct inproc *a)
{
	int sock;
	for (unsigned i = 0;
		i < INPROC_MAX && (sock = accept4(a->source.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0; i++)
		take_in(a, sock);
	for (struct inproc_process *p = a->first, *next; p; p = next) {
		int r = p->sock < 0 ? 0 : receive_shm_message(p);
		for (unsigned i = 1; r == 0 && p->sock >= 0 && i < LAST_MESSAGES; i++)
			r = receive_shm_message(p);
		next = p->next; /* read only now: a hello takes over from another process and frees that one */
		if (r < 0)
			hang_up(p);
	}
}

void inproc_drain(struct inproc *a, int64_t until, bool all)
{
	if (!a)
		return;
	struct rate_control *rates = a->sampling->rates;
	const int64_t began = sample_rate_cpu(rates);
	if (all)
		hear_last(a);
	for (struct inproc_process *p = a->first, *next; p; p = next) {
		next = p->next;
		const bool ended = has_ended(p);
		if (p->hello_by && clock_now() > p->hello_by) {
			remove_process(p);
			continue;
		}
		const bool needed = apps_heap(a) && p->inbox.pid == (uint32_t)a->sampling->desc->init_pid;
		if (drain_records(p, until, all || ended) && ended && !needed)
			remove_process(p);
	}
	sample_rate_drained(rates, began);
}

static uint32_t find_event(const struct target_desc *d, enum event_measure measure)
{
	uint32_t i = 0;
	while (i < d->n_events && event_kind(d->events[i].kind)->measure != measure)
		i++;
	return i;
}

int inproc_new(const struct inproc_owner *o, int sock, struct inproc **ret)
{
	const struct target_desc *d = o->sampling->desc;
	const bool timers = d->strategy == STRATEGY_TIMERS;
	const uint32_t alloc = find_event(d, MEASURES_ALLOC), calls = find_event(d, MEASURES_CALLS);
	const uint32_t crash = find_event(d, MEASURES_CRASH), none = d->n_events;
	const bool any = alloc < none || calls < none || crash < none || timers || d->running;
	struct inproc *a = sock >= 0 && any ? calloc(1, sizeof(*a)) : NULL;
	if (!a)
		return sock >= 0 && any ? -ENOMEM : 0;
	*a = (struct inproc){.owner = *o,
		.sampling = o->sampling,
		.alloc = alloc,
		.calls = calls,
		.heap = find_event(d, MEASURES_LIVE_HEAP),
		.cpu = timers ? find_event(d, MEASURES_CPU) : none,
		.crash = crash,
		.mean = alloc < none ? d->events[alloc].period : 0,
		.blank = d->running ? clock_now() : 0,
		.timers = timers};
	a->source.fd = -1;
	const int r = event_loop_add(o->loop, &a->source, sock, EPOLLIN, on_connect, a);
	if (r < 0) {
		free(a);
		return r;
	}
	*ret = a;
	return 0;
}

struct inproc *inproc_free(struct inproc *a)
{
	if (!a)
		return NULL;
	while (a->first) {
		calltree_reader_close(&a->first->called); /* its last window is over */
		remove_process(a->first);
	}
	event_loop_del(a->owner.loop, &a->source);
	free(a);
	return NULL;
}

unsigned inproc_seen(const struct inproc *a)
{
	return a ? a->seen : 0;
}

uint64_t inproc_fds(const struct inproc *a)
{
	return a ? APP_FDS * (uint64_t)a->n : 0;
}

uint64_t inproc_turned_away(const struct inproc *a)
{
	return a ? a->turned_away : 0;
}

unsigned inproc_unable(const struct inproc *a, int *ret_error)
{
	*ret_error = a ? a->unable_error : 0;
	return a ? a->unable : 0;
}

unsigned inproc_sampled(const struct inproc *a)
{
	return a ? a->sampled : 0;
}

uint64_t inproc_lost(struct inproc *a)
{
	uint64_t n = a ? a->lost : 0;
	for (struct inproc_process *p = a ? a->first : NULL; p; p = p->next) {
		n += p->inbox.lost + p->inbox.missed;
		p->inbox.lost = p->inbox.missed = 0;
	}
	if (a)
		a->lost = 0;
	return n;
}

/* --- labels ---------------------------------------------------------------------------------------------------- */

/* Returns how many changes may be read now. */
static uint64_t label_changes(struct inproc *a, int64_t now)
{
	const uint64_t since = a->label_time ? (uint64_t)(now - a->label_time) : NSEC_PER_SEC;
	a->label_time = now;
	a->label_changes += since < NSEC_PER_SEC ? since * LABEL_CHANGES / NSEC_PER_SEC : LABEL_CHANGES;
	return a->label_changes < LABEL_CHANGES ? a->label_changes : LABEL_CHANGES;
}

void inproc_read_labels(struct inproc *a, uint64_t settled)
{
	if (!a || !a->first)
		return;
	const int64_t now = clock_now();
	struct label_history_limits limits = {.settled = settled,
		.now = (uint64_t)now,
		.changes = label_changes(a, now),
		.threads = LABEL_THREADS / a->n > LABEL_THREADS_LEAST ? LABEL_THREADS / a->n : LABEL_THREADS_LEAST};
	for (struct inproc_process *p = a->first; p; p = p->next)
		if (!p->hello_by && p->inbox.memory >= 0)
			label_history_read(&p->labels, p->inbox.memory, &limits);
	a->label_changes = limits.changes;
}

/* Returns the newest connection of this pid: an older one is from before an exec. */
static struct inproc_process *find_pid(const struct inproc *a, uint32_t pid)
{
	struct inproc_process *p = a ? a->first : NULL;
	while (p && (p->hello_by || p->inbox.memory < 0 || p->inbox.pid != pid))
		p = p->next;
	return p;
}

const char *inproc_labels(const struct inproc *a, uint32_t pid, uint32_t tid, uint64_t time)
{
	struct inproc_process *p = find_pid(a, pid);
	return p ? label_history_at(&p->labels, p->inbox.memory, tid, time) : "";
}

void inproc_thread_ended(const struct inproc *a, uint32_t pid, uint32_t tid, uint64_t time)
{
	struct inproc_process *p = find_pid(a, pid);
	if (p)
		label_history_ended(&p->labels, tid, time);
}

uint64_t inproc_labels_lost(struct inproc *a)
{
	uint64_t n = 0;
	for (struct inproc_process *p = a ? a->first : NULL; p; p = p->next) {
		n += p->labels.lost;
		p->labels.lost = 0;
	}
	return n;
}
