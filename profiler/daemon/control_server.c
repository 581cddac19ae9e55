/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/daemon/control_server.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "oci/base/log.h"
#include "shim/protocol/messages.h"
#include "shim/protocol/service_client.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

struct connection {
	struct control_server *control;
	struct connection *next;
	struct event_loop_source source;
	int sock;
	int64_t deadline;
	bool greeted;
	struct registered_target *target; /* registered here and not armed yet; or a running one, which lives as long as
					     this connection */
	bool remaps, waits;		  /* remaps: the peer only tells mappings anew (REMAP); waits: for a target */
};

struct control_server {
	struct supervisor *supervisor;
	int listener, memory, spare, tree;
	uid_t trusted;
	enum control_server_peers peers;
	struct event_loop_source source;
	struct connection *connections;
	unsigned n;
	union msg msg; /* one message at a time */
};

static struct event_loop *loop_of(const struct control_server *ctl)
{
	return ctl->supervisor->loop;
}

static void hang_up(struct connection *c)
{
	struct control_server *ctl = c->control;
	if (c->target)
		c->target->link.answer = NULL;
	if (c->target && !c->remaps)
		supervisor_stop(ctl->supervisor, c->target);
	for (struct connection **at = &ctl->connections; *at; at = &(*at)->next)
		if (*at == c) {
			*at = c->next;
			ctl->n--;
			break;
		}
	event_loop_del(loop_of(ctl), &c->source);
	fd_close(c->sock);
	free(c);
}

/* --- one handler per message --------------------------------------------------------------------------- */

/* Passes the worker's answer to the peer as it is; a peer that has gone gets nothing. */
static void on_answer(void *arg, const union msg *m)
{
	struct connection *c = arg;
	struct registered_target *t = c->target;
	fd_send(c->sock, m, m->head.size, NULL, 0);
	if (m->head.type != MSG_OK) {
		c->target = NULL;
		c->deadline = 0;					       /* closed in the next round */
	} else if (t->armed && !t->desc.running && (t->whole || !c->remaps)) { /* lives by itself now */
		t->unmapped = false;
		t->link.answer = NULL;
		c->target = NULL;
	} else if (t->armed && t->whole) {
		c->deadline = INT64_MAX;
	}
}

static int on_hello(struct connection *c, union msg *m, const int *fds, size_t n, struct err *e)
{
	const struct engine *g = c->control->supervisor->engine;
	uint32_t room = supervisor_room(c->control->supervisor);
	service_client_memory_reset(c->control->memory);
	if (room < 8)
		return err_say(e, -EMFILE,
			"pilliond is out of file descriptors (%u left): raise its LimitNOFILE, or its setting fds",
			room);
	if (g->perf.none.code && !(m->hello.flags & HELLO_NO_PERF))
		return err_say(e, g->perf.none.code, "%s", g->perf.none.text);
	c->greeted = true;
	const struct msg_welcome w = {.batch_max = room < PROTOCOL_BATCH_MAX ? room : PROTOCOL_BATCH_MAX,
		.events_max = g->perf.none.code ? 0 : room / 2};
	return msg_welcome(c->sock, &m->hello, &w);
}

/*
 * The descriptors that are kept. A user's cgroup directory and program are left out: opens there may hang, or lead
 * elsewhere.
 */
static const uint32_t target_fds[] = {[CONTROL_SERVER_ROOT] = TARGET_OUTSIDE,
	[CONTROL_SERVER_USER] = TARGET_PIDFD | TARGET_TREE | TARGET_APP | TARGET_FILES};

static void leave_out(struct target_desc *d, uint32_t wanted, const int *fds, int *ret)
{
	size_t taken = 0, kept = 0;
	for (uint32_t bit = 1; bit < 1u << TARGET_FDS_ALL; bit <<= 1)
		if (d->fds & wanted & bit)
			ret[kept++] = fds[taken++];
		else if (d->fds & bit)
			close_possibly_blocking(fds[taken++]);
	d->fds &= wanted;
}

/* Adds a copy of `tree`, in its place by the order of enum target_fd. */
static void lend_tree(struct target_desc *d, int tree, int *fds)
{
	const int n = __builtin_popcount(d->fds), at = __builtin_popcount(d->fds & (TARGET_TREE - 1));
	const int copy = tree < 0 || d->fds & TARGET_TREE ? -1 : fcntl(tree, F_DUPFD_CLOEXEC, 3);
	if (copy < 0)
		return;
	memmove(fds + at + 1, fds + at, (size_t)(n - at) * sizeof(*fds));
	fds[at] = copy;
	d->fds |= TARGET_TREE;
}

/* The worker's messages there must neither be taken for anything else nor arrive in pieces. */
static bool is_packet_socket(int fd)
{
	int domain = 0, type = 0;
	socklen_t size = sizeof(int);
	return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX &&
	       getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_SEQPACKET;
}

static const char *bad_descriptors(const struct target_desc *d, const int *fds)
{
	if (d->fds & ~(uint32_t)TARGET_OUTSIDE)
		return "descriptors that are not for others to send";
	if (d->fds & TARGET_FILES && !is_packet_socket(fds[__builtin_popcount(d->fds & (TARGET_FILES - 1))]))
		return "what is to open files is no Unix socket of packets";
	return NULL;
}

static int on_target(struct connection *c, union msg *m, const int *fds, size_t n, struct err *e)
{
	int kept[TARGET_FDS_MAX];
	const char *bad = bad_descriptors(&m->target.desc, fds);
	if (bad) {
		while (n)
			close_possibly_blocking(fds[--n]);
		return err_say(e, -EPROTO, "%s", bad);
	}
	leave_out(&m->target.desc, target_fds[c->control->peers], fds, kept);
	lend_tree(&m->target.desc, c->control->tree, kept);
	c->target = supervisor_register(c->control->supervisor, &m->target.desc, kept, e);
	if (!c->target)
		return e->code;
	c->target->link.answer = on_answer;
	c->target->link.arg = c;
	c->target->whole |= m->target.desc.strategy == STRATEGY_TIMERS; /* its processes connect by themselves */
	return 0;
}

static int on_more(struct connection *c, union msg *m, const int *fds, size_t n, struct err *e)
{
	if (m->head.type == MSG_TASKS && !c->target->armed) {
		fd_close_each(fds, n);
		return err_say(e, -EPROTO, "tasks out of turn");
	}
	c->target->whole |= m->head.type == MSG_TASKS && m->tasks.last;
	return supervisor_pass(c->control->supervisor, c->target, m, fds, n, e);
}

/* Ends the peer's own target, and the peer gets ENDED; or has the target with the given id looked at. */
static int on_stop(struct connection *c, union msg *m, const int *fds, size_t n, struct err *e)
{
	struct supervisor *s = c->control->supervisor;
	if (c->greeted && c->target && c->target->armed && !c->remaps) {
		supervisor_stop(s, c->target);
		return 0;
	}
	if (!c->greeted)
		supervisor_look(s, m->stop.id);
	return -ESHUTDOWN; /* a notice: the peer waits for no answer */
}

/* Offers the next target with mappings to be told, or says that there is none; later, if the worker is busy. */
static int send_next_target(struct connection *c)
{
	union msg *m = &c->control->msg;
	bool later;
	struct registered_target *r = supervisor_unmapped(c->control->supervisor, &later);
	if (!r && later)
		return 0;
	c->waits = false;
	c->deadline = deadline_in(CONTROL_SERVER_PATIENCE_MS * NSEC_PER_MSEC);
	if (!r)
		return msg_send(c->sock, m, MSG_OK, NULL, 0);
	r->offered++;
	r->whole = false;
	r->link.answer = on_answer;
	r->link.arg = c;
	c->target = r;
	m->target.desc = r->desc;
	m->target.desc.fds = TARGET_PIDFD;
	return msg_send(c->sock, m, MSG_TARGET, &r->fds[0], 1);
}

static int on_remap(struct connection *c, union msg *m, const int *fds, size_t n, struct err *e)
{
	c->remaps = c->waits = true;
	return send_next_target(c);
}

static int on_outcome(struct connection *c, union msg *m, const int *fds, size_t n, struct err *e)
{
	supervisor_outcome(c->control->supervisor, &m->outcome);
	return -ESHUTDOWN; /* a notice, and a hook's last message */
}

static const struct handler {
	int (*fn)(struct connection *c, union msg *m, const int *fds, size_t n, struct err *e);
	bool greeted, has_target; /* messages that must have come before */
	bool whenever;
} handlers[MSG_TYPES] = {
	[MSG_HELLO] = {on_hello, false, false},
	[MSG_TARGET] = {on_target, true, false},
	[MSG_EVENTS] = {on_more, true, true},
	[MSG_TASKS] = {on_more, true, true},
	[MSG_STOP] = {on_stop, .whenever = true},
	[MSG_OUTCOME] = {on_outcome, .whenever = true},
	[MSG_REMAP] = {on_remap, true, false},
};

static int dispatch_message(struct connection *c, union msg *m, const int *fds, size_t n, struct err *e)
{
	const struct handler *h = &handlers[m->head.type];
	if (!h->fn || (!h->whenever && (c->greeted != h->greeted || !!c->target != h->has_target))) {
		fd_close_each(fds, n);
		return err_say(e, -EPROTO, "message type %u was not expected here", m->head.type);
	}
	return h->fn(c, m, fds, n, e);
}

/* Peeks at the message and leaves it to the worker, which answers on this connection. True: it is over for us. */
static bool hand_over_list(struct connection *c)
{
	struct msg_head h;
	struct err e = {0};
	if (c->greeted || recv(c->sock, &h, sizeof(h), MSG_PEEK | MSG_DONTWAIT) != sizeof(h) || h.type != MSG_LIST)
		return false;
	service_client_memory_reset(c->control->memory);
	event_loop_del(loop_of(c->control), &c->source);
	if (supervisor_list(c->control->supervisor, c->sock, &e) == 0)
		c->sock = -1;
	else
		msg_refuse(c->sock, &e);
	hang_up(c);
	return true;
}

/* A session's only peer reports the refusal itself; a user may cause as many refusals as he likes. */
static int level_of_refusal(const struct control_server *ctl)
{
	return ctl->peers == CONTROL_SERVER_ROOT && !ctl->supervisor->engine->role.single ? LOG_WARNING : LOG_INFO;
}

static void on_message(void *arg, uint32_t events)
{
	struct connection *c = arg;
	union msg *m = &c->control->msg;
	int fds[PROTOCOL_BATCH_MAX];
	size_t n;
	struct err e = {0};
	if (hand_over_list(c))
		return;
	int r = msg_take(c->sock, m, fds, &n, &e);
	if (r == -EAGAIN)
		return;
	if (r == 0)
		r = dispatch_message(c, m, fds, n, &e);
	if (r < 0) {
		if (e.code) {
			log_line(level_of_refusal(c->control), "peer=hook outcome=refused reason=\"%s\"", e.text);
			msg_refuse(c->sock, &e);
		}
		hang_up(c);
	}
}

/* --- connections --------------------------------------------------------------------------------------- */

/*
 * Only root and the user that started us may register any target and list others: we trust root's openers with the
 * layout of records. The user that we became may not: on many machines that is nobody, and so are other programs.
 */
static int may_speak(const struct control_server *ctl, int sock, struct err *e)
{
	struct ucred who;
	socklen_t len = sizeof(who);
	if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &who, &len) < 0)
		return err_set(e, -errno, "cannot tell who is calling");
	if (who.uid == 0 || who.uid == ctl->trusted)
		return 0;
	return err_say(
		e, -EACCES, "user %u may neither register targets nor list them: only root may", (unsigned)who.uid);
}

int control_server_serve(struct control_server *ctl, int sock)
{
	struct err e = {0};
	struct connection *c = NULL;
	int r = may_speak(ctl, sock, &e);
	if (r == 0 && ctl->n >= CONTROL_SERVER_CONNECTIONS_MAX)
		r = err_say(&e, -EBUSY, "pilliond has %u connections open already", ctl->n);
	if (r == 0 && !(c = calloc(1, sizeof(*c))))
		r = err_set(&e, -ENOMEM, "pilliond");
	if (r < 0) {
		msg_refuse(sock, &e);
		fd_close(sock);
		return r;
	}
	fcntl(sock, F_SETFL, O_NONBLOCK);
	c->control = ctl;
	c->sock = sock;
	c->deadline = deadline_in(CONTROL_SERVER_PATIENCE_MS * NSEC_PER_MSEC);
	r = event_loop_add(loop_of(ctl), &c->source, sock, EPOLLIN, on_message, c);
	if (r < 0) {
		fd_close(sock);
		free(c);
		return r;
	}
	c->next = ctl->connections;
	ctl->connections = c;
	ctl->n++;
	return 0;
}

static int accept_one(const struct control_server *ctl)
{
	int fd = accept4(ctl->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

static void on_connect(void *arg, uint32_t events)
{
	struct control_server *ctl = arg;
	struct err e;
	int sock = accept_one(ctl);
	if (sock == -EMFILE || sock == -ENFILE) {
		/* the spare descriptor buys one connection, long enough to refuse it with the reason */
		ctl->spare = fd_close(ctl->spare);
		sock = accept_one(ctl);
		if (sock >= 0) {
			err_say(&e, -EMFILE, "pilliond is out of file descriptors: raise its LimitNOFILE");
			msg_refuse(sock, &e);
			fd_close(sock);
		}
		ctl->spare = fcntl(ctl->listener, F_DUPFD_CLOEXEC, 3);
		return;
	}
	if (sock >= 0)
		control_server_serve(ctl, sock);
}

int control_server_new(struct supervisor *s, int listener, int memory, uid_t trusted, enum control_server_peers peers,
	struct control_server **ret, struct err *e)
{
	struct control_server *ctl = calloc(1, sizeof(*ctl));
	if (!ctl)
		return err_set(e, -ENOMEM, "control socket");
	ctl->supervisor = s;
	ctl->listener = listener;
	ctl->memory = memory;
	ctl->trusted = trusted;
	ctl->peers = peers;
	ctl->spare = ctl->tree = -1;
	ctl->source.fd = -1;
	if (listener >= 0) {
		ctl->spare = fcntl(listener, F_DUPFD_CLOEXEC, 3);
		int r = event_loop_add(s->loop, &ctl->source, listener, EPOLLIN, on_connect, ctl);
		if (r < 0) {
			free(ctl);
			return err_set(e, r, "control socket");
		}
	}
	*ret = ctl;
	return 0;
}

void control_server_tree(struct control_server *ctl, int tree)
{
	ctl->tree = tree;
}

void control_server_refuse(struct control_server *ctl)
{
	event_loop_del(loop_of(ctl), &ctl->source);
}

struct control_server *control_server_free(struct control_server *ctl)
{
	if (!ctl)
		return NULL;
	while (ctl->connections)
		hang_up(ctl->connections);
	event_loop_del(loop_of(ctl), &ctl->source);
	fd_close(ctl->listener);
	fd_close(ctl->memory);
	fd_close(ctl->spare);
	fd_close(ctl->tree);
	free(ctl);
	return NULL;
}

void control_server_abandon(struct control_server *ctl)
{
	for (struct connection *c = ctl->connections; c; c = c->next)
		fd_close(c->sock);
	fd_close(ctl->listener);
	fd_close(ctl->memory);
	fd_close(ctl->spare);
	fd_close(ctl->tree);
}

int control_server_round(struct control_server *ctl)
{
	int64_t now = clock_now(), first = INT64_MAX;
	for (struct connection *c = ctl->connections, *next; c; c = next) {
		next = c->next;
		if (c->deadline <= now || (c->waits && send_next_target(c) < 0))
			hang_up(c);
		else if (c->deadline < first)
			first = c->deadline;
	}
	return first == INT64_MAX ? -1 : deadline_left_ms(first);
}

unsigned control_server_connections(const struct control_server *ctl)
{
	return ctl->n;
}

bool control_server_registering(const struct control_server *ctl)
{
	for (const struct connection *c = ctl->connections; c; c = c->next)
		if (!c->remaps && (!c->target || !c->target->armed))
			return true;
	return false;
}
