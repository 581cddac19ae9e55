/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/daemon/worker.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "oci/base/log.h"
#include "oci/isolation/seccomp.h"
#include "profiler/daemon/settings_reload.h"
#include "profiler/daemon/worker_handover.h"
#include "profiler/inproc/inproc.h"
#include "profiler/sample/cpu_coverage.h"
#include "profiler/target/checkpoint/checkpoint_read.h"
#include "profiler/target/checkpoint/checkpoint_write.h"
#include "profiler/target/engine.h"
#include "profiler/target/exporter_link.h"
#include "profiler/target/symbolizer_link.h"
#include "profiler/target/target_list.h"
#include "profiler/target/target_usage.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define DEAF_MAX 100
#define PAUSE_MS 100
#define TRIM_DELAY (10 * NSEC_PER_SEC)

struct connection {
	struct worker *worker;
	struct connection *next;
	struct event_loop_source source;
	int sock;
	int64_t deadline;
	uint32_t number;
	uint64_t listed; /* serial of the last target that was listed here */
	struct target *target;
	bool stopping; /* the worker before us was told to end its target */
};

struct worker {
	struct engine *engine;
	struct event_loop_source source; /* the channel */
	struct connection *connections;
	unsigned n;
	int64_t first;	 /* the earliest of their deadlines, or earlier */
	int64_t trim_at; /* 0: no connection ended since the heap was trimmed */
	union msg msg;	 /* one message at a time */
	struct supervisor_order order;
	struct settings settings;
	int64_t orphan_until; /* 0: there is a supervisor */
	bool parking;
	unsigned deaf; /* orders in a row that could not be received */
};

size_t order_size(const struct supervisor_order *o)
{
	size_t head = offsetof(struct supervisor_order, id);
	switch (o->kind) {
	case ORDER_CHECK_END:
		return head + sizeof(o->id);
	case ORDER_SETTINGS:
		return head + sizeof(o->settings);
	case ORDER_OUTCOME:
		return head + sizeof(o->outcome);
	default:
		return head;
	}
}

/* --- connections --------------------------------------------------------------------------------------- */

static void on_ended(void *arg, const struct msg_ended *ended)
{
	struct connection *c = arg;
	union msg m = {.ended = *ended};
	c->target = NULL;
	c->deadline = c->worker->first = 0; /* hung up in the next round */
	msg_send(c->sock, &m, MSG_ENDED, NULL, 0);
}

static void hang_up(struct connection *c)
{
	struct worker *w = c->worker;
	if (c->target && c->target->sampling.started) {
		target_end(c->target); /* the peer gets ENDED, */
		if (c->target) {       /* a little later if the last window waits for names */
			event_loop_del(w->engine->loop, &c->source);
			c->deadline = INT64_MAX;
			return;
		}
	} else if (c->target) {
		if (!c->target->armed)
			log_line(engine_peer_level(w->engine),
				"target=%s outcome=unprofiled reason=\"the hook went away before it was armed\"",
				c->target->desc.id);
		msg_send(c->sock, &(union msg){.ended = {.samples = 0}}, MSG_ENDED, NULL, 0);
		target_forget(c->target);
	}
	for (struct connection **at = &w->connections; *at; at = &(*at)->next)
		if (*at == c) {
			*at = c->next;
			w->n--;
			break;
		}
	event_loop_del(w->engine->loop, &c->source);
	fd_close(c->sock);
	free(c);
	if (!w->trim_at)
		w->trim_at = clock_now() + TRIM_DELAY;
}

/*
 * Many targets at a time leave free pages between those of targets that live on. free() keeps them, for malloc_trim(3)
 * to return. Returns milliseconds until it is time, -1: never.
 */
static int trim_heap(struct worker *w, int64_t now)
{
	if (!w->trim_at)
		return -1;
	if (now < w->trim_at)
		return deadline_left_ms(w->trim_at);
	w->trim_at = 0;
	malloc_trim(0);
	return -1;
}

/* --- one handler per message --------------------------------------------------------------------------- */

static void bind_target(struct connection *c, struct target *t)
{
	c->target = t;
	t->number = c->number;
	t->owner.on_ended = on_ended;
	t->owner.arg = c;
}

static int on_target(struct connection *c, union msg *m, const int *fds, struct err *e)
{
	int r = target_new(c->worker->engine, &m->target.desc, fds, &c->target, e);
	if (r == 0)
		bind_target(c, c->target);
	if (r == 0 && m->target.desc.strategy == STRATEGY_TIMERS) {
		r = target_arm(c->target, 0, e);
		return r < 0 ? r : msg_send(c->sock, m, MSG_OK, NULL, 0);
	}
	return r;
}

static int on_events(struct connection *c, union msg *m, const int *fds, struct err *e)
{
	struct target *t = c->target;
	int r = t->armed ? err_say(e, -EPROTO, "events behind the last") : 0;
	for (uint32_t i = 0; i < m->events.n; i++) {
		if (r == 0)
			r = target_add_event(t, &m->events.events[i], fds[i], e);
		else
			fd_close(fds[i]);
	}
	if (r == 0 && m->events.total)
		r = target_arm(t, m->events.total, e);
	return r < 0 ? r : msg_send(c->sock, m, MSG_OK, NULL, 0);
}

static int on_tasks(struct connection *c, union msg *m, const int *fds, struct err *e)
{
	struct target *t = c->target;
	if (!t->armed || (t->sampling.started && t->desc.running)) {
		fd_close_each(fds, m->head.fds);
		return err_say(e, -EPROTO, "tasks out of turn");
	}
	target_tasks(t, &m->tasks, fds);
	return msg_send(c->sock, m, MSG_OK, NULL, 0);
}

static int on_stop(struct connection *c, union msg *m, const int *fds, struct err *e)
{
	if (c->target->sampling.started)
		target_end(c->target);
	return -ESHUTDOWN;
}

/*
 * Sends one page each time that the socket has room, so a peer that stops reading holds no more than the socket's
 * buffer, until the deadline.
 */
static void on_room(void *arg, uint32_t events)
{
	struct connection *c = arg;
	union msg *m = &c->worker->msg;
	target_list_fill(c->worker->engine, c->listed, &m->listing);
	int r = msg_send(c->sock, m, MSG_LISTING, NULL, 0);
	if (r == -EAGAIN)
		return;
	if (m->listing.n)
		c->listed = m->listing.targets[m->listing.n - 1].serial;
	if (r < 0 || m->listing.last)
		hang_up(c);
}

static int on_list(struct connection *c, union msg *m, const int *fds, struct err *e)
{
	struct event_loop *l = c->worker->engine->loop;
	c->listed = UINT64_MAX;
	event_loop_del(l, &c->source);
	return event_loop_add(l, &c->source, c->sock, EPOLLOUT, on_room, c);
}

static const struct handler {
	int (*fn)(struct connection *c, union msg *m, const int *fds, struct err *e);
	bool numbered, has_target; /* messages that must have come before */
} handlers[MSG_TYPES] = {
	[MSG_TARGET] = {on_target, true, false},
	[MSG_EVENTS] = {on_events, true, true},
	[MSG_TASKS] = {on_tasks, true, true},
	[MSG_STOP] = {on_stop, true, true},
	[MSG_LIST] = {on_list, false, false},
};

static int dispatch_message(struct connection *c, union msg *m, const int *fds, size_t n, struct err *e)
{
	const struct handler *h = &handlers[m->head.type];
	if (!h->fn || !!c->number != h->numbered || !!c->target != h->has_target) {
		fd_close_each(fds, n);
		return err_say(e, -EPROTO, "message type %u was not expected here", m->head.type);
	}
	return h->fn(c, m, fds, e);
}

/*
 * True: the target goes on without its peer, the supervisor, as we hold all its descriptors, too. A running target
 * ends: it was attached, and lives as long as that connection.
 */
static bool outlives_supervisor(const struct connection *c)
{
	return c->worker->engine->host.handover >= 0 && c->target && c->target->armed && !c->target->desc.running;
}

static void take_message(struct connection *c)
{
	union msg *m = &c->worker->msg;
	int fds[PROTOCOL_BATCH_MAX];
	size_t n;
	struct err e = {0};
	int r = msg_take(c->sock, m, fds, &n, &e);
	if (r == -EAGAIN)
		return;
	if ((r == -EPIPE || r == -EMFILE) && outlives_supervisor(c)) {
		event_loop_del(c->worker->engine->loop, &c->source);
		c->sock = fd_close(c->sock);
		return;
	}
	if (r == 0)
		r = dispatch_message(c, m, fds, n, &e);
	if (r < 0) {
		if (e.code) {
			log_line(engine_peer_level(c->worker->engine), "peer=hook outcome=refused reason=\"%s\"",
				e.text);
			msg_refuse(c->sock, &e);
		}
		hang_up(c);
	}
}

static void on_message(void *arg, uint32_t events)
{
	struct connection *c = arg;
	struct engine *g = c->worker->engine;
	g->host.at->target = c->number; /* should we die of it */
	take_message(c);
	g->host.at->target = 0;
}

static unsigned count_lists(const struct worker *w)
{
	unsigned n = 0;
	for (const struct connection *c = w->connections; c; c = c->next)
		n += !c->number;
	return n;
}

static struct connection *add_connection(struct worker *w, int sock, uint32_t number)
{
	struct connection *c = calloc(1, sizeof(*c));
	if (!c)
		return NULL;
	fcntl(sock, F_SETFL, O_NONBLOCK);
	*c = (struct connection){.worker = w, .sock = sock, .number = number, .next = w->connections};
	c->deadline = number ? INT64_MAX : deadline_in(WORKER_PATIENCE_MS * NSEC_PER_MSEC);
	if (event_loop_add(w->engine->loop, &c->source, sock, EPOLLIN, on_message, c) < 0) {
		free(c);
		return NULL;
	}
	w->connections = c;
	w->n++;
	w->first = c->deadline < w->first ? c->deadline : w->first;
	return c;
}

int worker_serve(struct worker *w, int sock, uint32_t number)
{
	struct err e = {0};
	int r = 0;
	if (!number && count_lists(w) >= WORKER_LISTS_MAX)
		r = err_say(&e, -EBUSY, "pilliond answers %u others already", WORKER_LISTS_MAX);
	else if (!add_connection(w, sock, number))
		r = err_set(&e, -ENOMEM, "pilliond");
	if (r < 0) {
		msg_refuse(sock, &e);
		fd_close(sock);
	}
	return r;
}

int worker_round(struct worker *w)
{
	int64_t now = clock_now();
	if (w->first <= now) { /* rings wake us far more often than connections end */
		w->first = INT64_MAX;
		for (struct connection *c = w->connections, *next; c; c = next) {
			next = c->next;
			if (c->deadline <= now)
				hang_up(c);
			else if (c->deadline < w->first)
				w->first = c->deadline;
		}
	}
	return event_loop_sooner(w->first == INT64_MAX ? -1 : deadline_left_ms(w->first), trim_heap(w, now));
}

unsigned worker_connections(const struct worker *w)
{
	return w->n;
}

int worker_new(struct engine *g, struct worker **ret)
{
	struct worker *w = calloc(1, sizeof(*w));
	if (!w)
		return -ENOMEM;
	w->engine = g;
	w->source.fd = -1;
	*ret = w;
	return 0;
}

struct worker *worker_free(struct worker *w)
{
	if (!w)
		return NULL;
	while (w->connections) {
		struct connection *c = w->connections;
		hang_up(c);
		if (c == w->connections) { /* its target is still ending: the connection will not be told */
			c->target->owner.on_ended = NULL;
			c->target = NULL;
		}
	}
	event_loop_del(w->engine->loop, &w->source);
	free(w);
	return NULL;
}

/* --- orders -------------------------------------------------------------------------------------------- */

static void check_target_end(struct worker *w, const char *id)
{
	struct target *t = target_find(w->engine, id);
	if (t && t->armed && target_has_ended(t))
		target_end(t);
}

#define ORDER_FDS 2

static void execute_order(struct worker *w, const struct supervisor_order *o, const int *fds, size_t n)
{
	struct reloaded unused;
	int fd = n == 1 ? fds[0] : -1;
	switch (o->kind) {
	case ORDER_SERVE:
		if (fd >= 0)
			worker_serve(w, fd, o->number);
		return;
	case ORDER_HANDOVER_SOCKET:
		fd_close(w->engine->host.handover);
		w->engine->host.handover = fd;
		return;
	case ORDER_EXPORTER:
		exporter_link_connect(w->engine, fd);
		return;
	case ORDER_SYMBOLIZER:
		symbolizer_link_update(w->engine, o->number, fds, n);
		return;
	case ORDER_OUTCOME:
		hook_stats_add(&w->engine->outcomes, &o->outcome);
		break;
	case ORDER_REFUSED:
		w->engine->refused++;
		break;
	case ORDER_CHECK_END:
		check_target_end(w, o->id);
		break;
	case ORDER_HAND_OVER:
		w->engine->host.leaving = true;
		break;
	case ORDER_FLUSH_AND_EXIT:
		w->parking = true;
		event_loop_stop(w->engine->loop);
		break;
	case ORDER_SETTINGS:
		settings_reload(&w->settings, &o->settings, w->engine, &unused);
		break;
	default:
		w->parking = false;
		event_loop_stop(w->engine->loop);
	}
	fd_close(fd);
}

static void on_heir(void *arg, uint32_t events);

static void on_orphaned(struct worker *w)
{
	struct engine *g = w->engine;
	bool waits = g->host.handover >= 0;
	log_line(LOG_WARNING, "outcome=supervisor_gone targets=%u note=\"%s\"", g->n_targets,
		waits ? "waiting for the next" : "writing the last windows");
	event_loop_del(g->loop, &w->source);
	g->host.channel = fd_close(g->host.channel);
	if (!waits || event_loop_add(g->loop, &w->source, g->host.handover, EPOLLIN, on_heir, w) < 0)
		event_loop_stop(g->loop);
	else
		w->orphan_until = deadline_in(HANDOVER_PATIENCE_MS * NSEC_PER_MSEC);
}

static void on_order(void *arg, uint32_t events)
{
	struct worker *w = arg;
	struct supervisor_order *o = &w->order;
	int fds[ORDER_FDS];
	size_t n = 0;
	ssize_t got = fd_recv(w->engine->host.channel, o, sizeof(*o), fds, ORDER_FDS, &n);
	if (got == -EAGAIN || (got == -EMFILE && ++w->deaf < DEAF_MAX)) /* the connection in this order is lost */
		return;
	w->deaf = 0;
	if (got < (ssize_t)offsetof(struct supervisor_order, id)) { /* the supervisor has gone */
		on_orphaned(w);
		return;
	}
	/* of another build: its layout number should have refused it */
	if (got != (ssize_t)order_size(o)) {
		fd_close_each(fds, n);
		return;
	}
	if (o->kind == ORDER_CHECK_END)
		o->id[sizeof(o->id) - 1] = 0;
	execute_order(w, o, fds, n);
}

/* --- the process --------------------------------------------------------------------------------------- */

static uint32_t index_of(const struct registered_target *k, int fd)
{
	uint32_t i = 0;
	while (i < k->n_events && k->event_fds[i] != fd)
		i++;
	return i;
}

/* Takes over a target as if it had just been registered. */
static void take_over(struct worker *w, struct registered_target *k)
{
	struct err e = {0};
	struct connection *c = add_connection(w, k->link.far, k->number);
	struct target *t = NULL;
	int fds[TARGET_FDS_ALL];
	registered_list(k, fds);
	w->engine->host.at->target = k->number;
	/* else the worker before us may not have come so far, or took the rings with it (supervisor.h) */
	w->engine->perf.resuming = k->armed && !w->engine->role.modest && !k->detached;
	int r = c ? target_new(w->engine, &k->desc, fds, &t, &e) : err_set(&e, -ENOMEM, "pilliond");
	if (r == 0)
		bind_target(c, t);
	if (r == 0) {
		t->detached = k->detached;
		t->sampling.quarantined = k->plain;
	}
	for (uint32_t i = 0; i < k->n_events; i++)
		if (r == 0 && k->event_fds[i] >= 0)
			r = target_add_event(t, &k->events[i], k->event_fds[i], &e);
		else
			fd_close(k->event_fds[i]);
	for (uint32_t i = 0; i < k->n_memories; i++)
		if (r == 0)
			inproc_restore_memory(t->apps, k->memories[i].fd);
		else
			fd_close(k->memories[i].fd);
	for (struct open_event *st = r == 0 ? t->events.list : NULL; st; st = st->next_of_target)
		st->index = index_of(k, st->fd);
	if (r == 0 && registered_is_complete(k))
		r = target_arm(t, t->events.n_announced, &e);
	if (r == 0 && k->owed)
		r = msg_send(c->sock, &w->msg, MSG_OK, NULL, 0);
	if (r == 0)
		c->stopping = k->stopping;
	if (r < 0) {
		msg_refuse(k->link.far, &e);
		if (c)
			hang_up(c);
		else
			fd_close(k->link.far);
	}
}

/* Makes a new connection for a target that goes on. Its far end, or -errno. */
static int connect_anew(void *arg, struct target *t)
{
	struct worker *w = arg;
	struct connection *c = t->owner.arg;
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return -errno;
	event_loop_del(w->engine->loop, &c->source);
	fd_close(c->sock);
	c->sock = pair[0];
	int r = event_loop_add(w->engine->loop, &c->source, c->sock, EPOLLIN, on_message, c);
	return r < 0 ? fd_close(pair[1]), r : pair[1];
}

static bool may_inherit(const struct engine *g, int sock)
{
	struct ucred who;
	socklen_t len = sizeof(who);
	return getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &who, &len) == 0 &&
	       (who.uid == 0 || who.uid == g->role.trusted);
}

static void on_heir(void *arg, uint32_t events)
{
	struct worker *w = arg;
	struct engine *g = w->engine;
	int channel[2];
	fd_auto sock = accept4(g->host.handover, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (sock < 0 && fd_is_short(errno))
		event_loop_pause(g->loop, &w->source, PAUSE_MS);
	if (sock < 0 || !may_inherit(g, sock) || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, channel) < 0)
		return;
	int r = handover_send(g, sock, channel[1], connect_anew, w);
	fd_close(channel[1]);
	if (r < 0) {
		log_line(LOG_WARNING, "outcome=not_adopted reason=\"%s\"", strerror(-r));
		fd_close(channel[0]);
		if (g->host.leaving) /* the next supervisor is of another layout */
			event_loop_stop(g->loop);
		return;
	}
	event_loop_del(g->loop, &w->source);
	g->host.handover = fd_close(g->host.handover); /* the next one has a socket of its own there */
	g->host.channel = channel[0];
	fcntl(g->host.channel, F_SETFL, O_NONBLOCK);
	if (event_loop_add(g->loop, &w->source, g->host.channel, EPOLLIN, on_order, w) < 0)
		event_loop_stop(g->loop);
	g->symbols.symbolizer_renewable =
		true; /* the new supervisor has a fork server of its own, or says that it has none */
	w->orphan_until = 0;
}

static int on_worker_round(void *arg)
{
	struct worker *w = arg;
	if (w->orphan_until && clock_now() > w->orphan_until)
		event_loop_stop(w->engine->loop);
	int wait = w->orphan_until ? deadline_left_ms(w->orphan_until) : -1;
	wait = event_loop_sooner(wait, engine_round(w->engine));
	wait = event_loop_sooner(wait, worker_round(w)); /* behind it: connections of targets that ended are over */
	return event_loop_sooner(wait, exporter_link_round(w->engine, clock_now()));
}

static int set_up(struct worker *w, int channel, struct err *e)
{
	struct engine *g = w->engine;
	prctl(PR_SET_NAME, "pilliond-worker");
	g->host.channel = channel;
	g->host.statm = fd_open(AT_FDCWD, "/proc/self/statm", O_RDONLY, 0);
	cpu_coverage_new(fd_open(AT_FDCWD, PERF_ONLINE, O_RDONLY, 0), &g->perf.coverage);
	int r = event_loop_new(&g->loop);
	if (r == 0)
		r = cpu_rings_map(g->perf.rings);
	if (r < 0)
		return err_set(e, r, "cannot read the rings");
	r = symbolizer_link_open(g);
	if (r < 0)
		return err_set(e, r, "cannot read files");
	r = engine_init(g, e);
	if (r == 0)
		r = exporter_link_open(g, e);
	if (r == 0 && g->host.journal[0] >= 0 && checkpoint_new(g->host.journal[0], g->host.journal[1], &g->commit) < 0)
		log_line(LOG_WARNING, "outcome=no_checkpoint reason=\"no journal\"");
	if (r == 0)
		r = event_loop_add(g->loop, &w->source, channel, EPOLLIN, on_order, w);
	if (r == 0)
		r = seccomp_enter(SECCOMP_WORKER, e);
	return r;
}

static void resume_all(struct worker *w, struct registered_target *known)
{
	struct engine *g = w->engine;
	for (struct registered_target *k = known; k; k = k->next)
		take_over(w, k);
	g->perf.resuming = false;
	g->host.at->target = 0;
	checkpoint_resume(g->commit, g, clock_now());
	for (struct target *t = g->targets; t; t = t->next)
		if (g->role.modest || t->detached)
			target_lost(t, 0, 0, clock_now(), false); /* an unknown number of records */
	for (struct connection *c = w->connections, *next; c; c = next) {
		next = c->next;
		if (c->stopping && c->target)
			target_end(c->target);
	}
}

int worker_main(struct engine *g, const struct settings *set, int channel, struct registered_target *known)
{
	struct err e = {0};
	struct worker *w;
	int r = worker_new(g, &w);
	if (r == 0)
		r = set_up(w, channel, &e);
	if (r < 0) {
		log_line(LOG_ERR, "outcome=no_worker reason=\"%s\"", e.code ? e.text : strerror(-r));
		return 1;
	}
	w->settings = *set;
	resume_all(w, known);
	r = event_loop_run(g->loop, on_worker_round, w);
	if (w->parking)
		engine_flush_for_handover(g);
	if (w->parking) /* still: everything is the next worker's */
		return 0;
	engine_end(g);
	worker_free(w);
	engine_done(g);
	return r < 0;
}
