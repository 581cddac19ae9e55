/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/daemon/worker_handover.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "oci/base/process/child_process.h"
#include "oci/base/unix_socket.h"
#include "profiler/target/target_usage.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEAD_FDS_LEAST 4 /* channel, pidfd, both of the journal */
#define HEAD_FDS (HEAD_FDS_LEAST + HANDOVER_HAS)

/* --- the socket ---------------------------------------------------------------------------------------- */

/* Makes a socket and its path. A descriptor or -errno. */
static int open_socket(const char *control, char path[static UNIX_SOCKET_PATH_MAX])
{
	const int n = snprintf(path, UNIX_SOCKET_PATH_MAX, "%s.estate", control);
	return n < (int)UNIX_SOCKET_PATH_MAX ? unix_socket_new(SOCK_SEQPACKET) : -ENAMETOOLONG;
}

int handover_listen(const char *control)
{
	char path[UNIX_SOCKET_PATH_MAX];
	const int fd = open_socket(control, path);
	if (fd < 0)
		return fd;
	unlink(path);
	return unix_socket_listen(fd, path, 0600, (gid_t)-1, 4);
}

int handover_connect(const char *control)
{
	char path[UNIX_SOCKET_PATH_MAX];
	const int fd = open_socket(control, path);
	return unix_socket_connect(fd, path);
}

/* --- items --------------------------------------------------------------------------------------------- */

static size_t item_size(const struct handover_item *it)
{
	size_t begin = offsetof(struct handover_item, head);
	switch (it->kind) {
	case HANDOVER_HEAD:
		return begin + sizeof(it->head);
	case HANDOVER_RINGS:
		return begin + it->n * sizeof(it->cpus[0]);
	case HANDOVER_TARGET:
		return begin + sizeof(it->target);
	case HANDOVER_EVENTS:
		return begin + it->n * sizeof(it->events[0]);
	default:
		return begin;
	}
}

static int send_handover_item(int sock, int64_t deadline, const struct handover_item *it, const int *fds, size_t n)
{
	int r = -EAGAIN;
	while (r == -EAGAIN) {
		r = fd_send(sock, it, item_size(it), fds, n);
		if (r == -EAGAIN && fd_wait(sock, POLLOUT, deadline) != 1)
			return -ETIMEDOUT;
	}
	return r;
}

/* Receives an item and its descriptors. 0: its size fits its kind. */
static int receive_handover_item(int sock, int64_t deadline, struct handover_item *it, int *fds, size_t *ret_n)
{
	ssize_t got = -EAGAIN;
	*ret_n = 0;
	while (got == -EAGAIN) {
		if (fd_wait(sock, POLLIN, deadline) != 1)
			return -ETIMEDOUT;
		got = fd_recv(sock, it, sizeof(*it), fds, FD_PASS_MAX, ret_n);
	}
	bool fits = got >= (ssize_t)offsetof(struct handover_item, head) && it->kind >= HANDOVER_HEAD &&
		    it->kind <= HANDOVER_END && it->n <= PROTOCOL_BATCH_MAX && item_size(it) == (size_t)got;
	if (fits)
		return 0;
	while (*ret_n)
		fd_close(fds[--*ret_n]);
	return got < 0 ? (int)got : got == 0 ? -EPIPE : -EPROTO;
}

/* --- giving -------------------------------------------------------------------------------------------- */

static int give_head(struct engine *g, int sock, int64_t deadline, int channel, struct handover_item *it)
{
	int fds[HEAD_FDS], n = 0;
	fd_auto self = child_process_pidfd(getpid());
	if (self < 0)
		return self;
	memset(it, 0, sizeof(*it));
	it->kind = HANDOVER_HEAD;
	it->head.layout = HANDOVER_LAYOUT;
	it->head.pid = getpid();
	it->head.rings = cpu_rings_count(g->perf.rings);
	it->head.ring_size = cpu_rings_size(g->perf.rings);
	fds[n++] = channel;
	fds[n++] = self;
	fds[n++] = g->host.journal[0];
	fds[n++] = g->host.journal[1];
	if (g->symbols.symbolizer) {
		it->head.has = HANDOVER_SYMBOLIZER | HANDOVER_READERS;
		fds[n++] = symbolizer_socket(g->symbols.symbolizer);
		fds[n++] = target_files_socket(g->symbols.files);
	}
	it->head.has |= g->host.leaving ? HANDOVER_LEAVING : 0;
	return send_handover_item(sock, deadline, it, fds, (size_t)n);
}

static int give_rings(struct engine *g, int sock, int64_t deadline, struct handover_item *it)
{
	int fds[HANDOVER_RINGS_AT_ONCE], r = 0;
	unsigned n = cpu_rings_count(g->perf.rings);
	for (unsigned i = 0; i < n && r == 0; i += it->n) {
		it->kind = HANDOVER_RINGS;
		it->n = n - i < HANDOVER_RINGS_AT_ONCE ? n - i : HANDOVER_RINGS_AT_ONCE;
		for (unsigned k = 0; k < it->n; k++) {
			it->cpus[k] = cpu_rings_cpu(g->perf.rings, i + k);
			fds[k] = cpu_rings_fd(g->perf.rings, i + k);
		}
		r = send_handover_item(sock, deadline, it, fds, it->n);
	}
	it->n = 0;
	return r;
}

static struct event_desc describe_event(const struct target *t, const struct open_event *st)
{
	return (struct event_desc){.role = st->role,
		.spec = st->spec,
		.cpu = st->cpu,
		.rung = (uint16_t)st->rung,
		.idle = st->rung && t->events.dump_sizes[st->spec].at != st->rung,
		.layout = st->layout};
}

static int give_events(struct target *t, int sock, int64_t deadline, struct handover_item *it)
{
	int fds[PROTOCOL_BATCH_MAX], r = 0;
	uint32_t index = 0;
	it->kind = HANDOVER_EVENTS;
	it->n = 0;
	for (struct open_event *st = t->events.list; st && r == 0; st = st->next_of_target) {
		fds[it->n] = st->fd;
		st->index = index++;
		it->events[it->n++] = describe_event(t, st);
		if (it->n == PROTOCOL_BATCH_MAX || !st->next_of_target) {
			r = send_handover_item(sock, deadline, it, fds, it->n);
			it->n = 0;
		}
	}
	return r;
}

static int give_target(struct target *t, int sock, int64_t deadline, int relay, struct handover_item *it)
{
	int fds[TARGET_FDS_ALL + 1] = {relay};
	size_t n = 1;
	it->kind = HANDOVER_TARGET;
	it->n = 0;
	it->target.number = t->number;
	it->target.desc = t->desc;
	it->target.desc.n_events = target_n_asked(t);
	it->target.desc.fds = 0;
	const int own[] = {t->watch.pidfd, t->fs.tree, t->usage.cgroup, t->fs.exe, t->usage.events, t->usage.cpu_stat,
		t->app, t->fs.opener.sock}; /* enum target_fd */
	for (unsigned i = 0; i < TARGET_FDS_ALL; i++)
		if (own[i] >= 0) {
			it->target.desc.fds |= 1u << i;
			fds[n++] = own[i];
		}
	int r = send_handover_item(sock, deadline, it, fds, n);
	return r < 0 ? r : give_events(t, sock, deadline, it);
}

int handover_send(
	struct engine *g, int sock, int channel, int (*connect_target)(void *arg, struct target *t), void *arg)
{
	int64_t deadline = deadline_in(HANDOVER_DEADLINE_MS * NSEC_PER_MSEC);
	struct handover_item *it = malloc(sizeof(*it));
	int r = it ? give_head(g, sock, deadline, channel, it) : -ENOMEM;
	if (r == 0)
		r = give_rings(g, sock, deadline, it);
	for (struct target *t = g->targets; t && r == 0; t = t->next) {
		if (!t->armed || t->ending || t->desc.running)
			continue;
		fd_auto relay = connect_target(arg, t);
		r = relay < 0 ? relay : give_target(t, sock, deadline, relay, it);
	}
	if (r == 0) {
		it->kind = HANDOVER_END;
		it->n = 0;
		r = send_handover_item(sock, deadline, it, NULL, 0);
	}
	free(it);
	return r;
}

/* --- taking -------------------------------------------------------------------------------------------- */

struct taking {
	struct supervisor *s;
	bool kept;
	struct handover_item it;
	int fds[FD_PASS_MAX];
	size_t n;
	/* of the head */
	bool headed, leaving;
	int channel, pidfd, journal[2];
	struct symbolizer_sockets symbolizer;
	pid_t pid;
	size_t ring_size;
	unsigned n_rings, rings_wanted;
	int *ring_fds, *ring_cpus;
	struct registered_target *last;
};

static int take_fd(struct taking *k, size_t i)
{
	int fd = k->fds[i];
	k->fds[i] = -1;
	return fd;
}

/* Before it sees that it is refused, and ends its window. */
static int kill_worker(int pidfd)
{
	int r = child_process_kill(pidfd);
	if (r < 0 && r != -ESRCH)
		return -EPROTONOSUPPORT;
	return fd_wait(pidfd, POLLIN, deadline_in(HANDOVER_DEADLINE_MS * NSEC_PER_MSEC)) == 1 ? -EOWNERDEAD
											      : -ETIMEDOUT;
}

static int take_head(struct taking *k)
{
	const struct handover_item *it = &k->it;
	bool helpers = (it->head.has & ~(uint32_t)HANDOVER_LEAVING) == (HANDOVER_SYMBOLIZER | HANDOVER_READERS);
	if (k->headed || k->n != HEAD_FDS_LEAST + (helpers ? 2u : 0u) || it->head.rings < 1 ||
		it->head.rings > CPU_RINGS_CPUS_MAX)
		return -EPROTO;
	if (it->head.layout != HANDOVER_LAYOUT)
		return k->kept ? kill_worker(k->fds[1]) : -EPROTONOSUPPORT;
	k->headed = true;
	k->pid = it->head.pid;
	k->leaving = it->head.has & HANDOVER_LEAVING;
	k->rings_wanted = it->head.rings;
	k->ring_size = it->head.ring_size;
	k->ring_fds = calloc(k->rings_wanted, sizeof(int));
	k->ring_cpus = calloc(k->rings_wanted, sizeof(int));
	k->channel = take_fd(k, 0);
	k->pidfd = take_fd(k, 1);
	k->journal[0] = take_fd(k, 2);
	k->journal[1] = take_fd(k, 3);
	if (helpers) {
		k->symbolizer = (struct symbolizer_sockets){take_fd(k, 4), take_fd(k, 5)};
	}
	return k->ring_fds && k->ring_cpus ? 0 : -ENOMEM;
}

static int take_rings(struct taking *k)
{
	if (!k->headed || k->n != k->it.n || k->it.n > HANDOVER_RINGS_AT_ONCE || k->n_rings + k->it.n > k->rings_wanted)
		return -EPROTO;
	for (uint32_t i = 0; i < k->it.n; i++) {
		k->ring_cpus[k->n_rings] = k->it.cpus[i];
		k->ring_fds[k->n_rings++] = take_fd(k, i);
	}
	return 0;
}

/* Checks it as a TARGET message of any peer. */
static int take_target(struct taking *k)
{
	static union msg m;
	struct err e;
	m.target.desc = k->it.target.desc;
	m.head = (struct msg_head){PROTOCOL_MAGIC, PROTOCOL_VERSION, MSG_TARGET, sizeof(m.target), (uint32_t)k->n - 1};
	if (!k->headed || k->n < 2 || !k->it.target.number || msg_check(&m, sizeof(m.target), k->n - 1, &e) < 0)
		return -EPROTO;
	struct registered_target *r =
		supervisor_adopt(k->s, &k->it.target.desc, k->it.target.number, k->fds[0], &k->fds[1]);
	k->n = 0; /* taken, one way or the other */
	k->last = r;
	return r ? 0 : -ENOMEM;
}

static int take_events(struct taking *k)
{
	static union msg m;
	struct err e;
	size_t size = offsetof(struct msg_events, events) + k->it.n * sizeof(k->it.events[0]);
	m.events.n = k->it.n;
	m.events.total = 0;
	memcpy(m.events.events, k->it.events, k->it.n * sizeof(k->it.events[0]));
	m.head = (struct msg_head){PROTOCOL_MAGIC, PROTOCOL_VERSION, MSG_EVENTS, (uint32_t)size, (uint32_t)k->n};
	if (!k->last || msg_check(&m, size, k->n, &e) < 0)
		return -EPROTO;
	int r = registered_add(k->last, &m.events, k->fds);
	k->n = 0;
	return r;
}

static int take_one(struct taking *k)
{
	static int (*const fns[])(struct taking * k) = {
		[HANDOVER_HEAD] = take_head,
		[HANDOVER_RINGS] = take_rings,
		[HANDOVER_TARGET] = take_target,
		[HANDOVER_EVENTS] = take_events,
	};
	int r = k->it.kind == HANDOVER_END ? 0 : fns[k->it.kind](k);
	for (size_t i = 0; i < k->n; i++)
		fd_close(k->fds[i]);
	return r;
}

static int take_all(struct taking *k, int sock)
{
	int64_t deadline = deadline_in(HANDOVER_DEADLINE_MS * NSEC_PER_MSEC);
	int r;
	do {
		r = receive_handover_item(sock, deadline, &k->it, k->fds, &k->n);
		if (r == 0)
			r = take_one(k);
	} while (r == 0 && k->it.kind != HANDOVER_END);
	return r < 0 ? r : k->headed && k->n_rings == k->rings_wanted ? 0 : -EPROTO;
}

/* Takes over. The rings are mapped here before any other process unmaps them. */
static int apply_handover(struct taking *k)
{
	struct engine *g = k->s->engine;
	struct cpu_rings *rings;
	int r = cpu_rings_adopt(&rings, k->ring_cpus, k->ring_fds, k->n_rings, k->ring_size);
	if (r < 0)
		return r;
	k->n_rings = 0;
	cpu_rings_close(g->perf.rings);
	g->perf.rings = rings;
	symbolizer_manager_adopt(&k->s->symbolizer, &k->symbolizer);
	k->symbolizer = (struct symbolizer_sockets){-1, -1};
	for (unsigned i = 0; i < 2; i++) {
		fd_close(g->host.journal[i]);
		g->host.journal[i] = k->journal[i];
		k->journal[i] = -1;
	}
	r = supervisor_inherit(k->s, k->pid, k->pidfd, k->channel);
	k->s->current.replaces = k->leaving;
	k->pidfd = k->channel = -1;
	return r;
}

int handover_receive(struct supervisor *s, int sock, bool kept, struct err *e)
{
	struct taking *k = calloc(1, sizeof(*k));
	if (!k)
		return err_set(e, -ENOMEM, "estate");
	k->s = s;
	k->kept = kept;
	k->channel = k->pidfd = k->journal[0] = k->journal[1] = -1;
	k->symbolizer = (struct symbolizer_sockets){-1, -1};
	int r = take_all(k, sock);
	if (r == 0)
		r = apply_handover(k);
	if (r < 0)
		supervisor_disown(s);
	while (k->n_rings)
		fd_close(k->ring_fds[--k->n_rings]);
	fd_close(k->channel);
	fd_close(k->pidfd);
	symbolizer_close(&k->symbolizer);
	fd_close(k->journal[0]);
	fd_close(k->journal[1]);
	free(k->ring_fds);
	free(k->ring_cpus);
	free(k);
	if (r == -EOWNERDEAD)
		return err_say(
			e, r, "the service before was of another version: what it counted is read from its journal");
	if (r == -EPROTONOSUPPORT)
		return err_say(e, r, "the service before is of another version: it writes its last windows");
	return r < 0 ? err_set(e, r, "what the service before left cannot be taken over") : 0;
}
