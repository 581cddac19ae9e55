/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/daemon/fd_store.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "oci/base/journal.h"
#include "oci/base/log.h"
#include "oci/base/process/child_process.h"
#include "profiler/daemon/supervisor.h"

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

#define TARGET_NAME SD_NOTIFY_KEPT "target.%u.%u"
#define JOURNAL_NAME SD_NOTIFY_KEPT "journal.%u"
#define WORKER_NAME SD_NOTIFY_KEPT "worker"
#define AGAIN_MS 100
#define DROPS_MAX 65536
#define OUTLAST_NS (3 * NSEC_PER_SEC)

/* --- packing ------------------------------------------------------------------------------------------- */

static int pack_target(int sock, const struct registered_target *r, union msg *m)
{
	int fds[TARGET_FDS_ALL];
	size_t n = registered_list(r, fds);
	m->target.desc = r->desc;
	return msg_send(sock, m, MSG_TARGET, fds, n);
}

/* Only events that are not closed by now (REQUEST_CLOSE_EVENT). */
static int pack_events(int sock, const struct registered_target *r, union msg *m)
{
	int fds[PROTOCOL_BATCH_MAX], error = 0;
	uint32_t total = 0, left;
	for (uint32_t i = 0; i < r->n_events; i++)
		total += r->event_fds[i] >= 0;
	left = total;
	m->events.n = 0;
	for (uint32_t i = 0; i < r->n_events && error == 0; i++) {
		if (r->event_fds[i] < 0)
			continue;
		fds[m->events.n] = r->event_fds[i];
		m->events.events[m->events.n++] = r->events[i];
		left--;
		if (left && m->events.n < PROTOCOL_BATCH_MAX)
			continue;
		m->events.total = left ? 0 : total;
		error = msg_send(sock, m, MSG_EVENTS, fds, m->events.n);
		m->events.n = 0;
	}
	return error;
}

int fd_store_save_target(const struct registered_target *r)
{
	static union msg m;
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return -errno;
	int error = pack_target(pair[0], r, &m);
	if (error == 0)
		error = pack_events(pair[0], r, &m);
	fd_close(pair[0]);
	return error < 0 ? fd_close(pair[1]), error : pair[1];
}

/* --- unpacking ----------------------------------------------------------------------------------------- */

static int next_message(int sock, union msg *m, int *fds, size_t *ret_n)
{
	struct err e;
	*ret_n = 0;
	ssize_t got = fd_peek(sock, m, sizeof(*m), fds, PROTOCOL_BATCH_MAX, ret_n);
	return got < 0 ? (int)got : msg_check_or_close(m, (size_t)got, fds, ret_n, &e);
}

static int add_events(struct registered_target *r, const union msg *m, const int *fds, size_t n)
{
	if (m->head.type == MSG_EVENTS)
		return registered_add(r, &m->events, fds);
	fd_close_each(fds, n);
	return -EPROTO;
}

int fd_store_load_target(int sock, struct registered_target **ret)
{
	static union msg m;
	int fds[PROTOCOL_BATCH_MAX];
	size_t n;
	fcntl(sock, F_SETFL, O_NONBLOCK);
	int error = next_message(sock, &m, fds, &n);
	if (error == 0 && m.head.type != MSG_TARGET) {
		fd_close_each(fds, n);
		error = -EPROTO;
	}
	if (error < 0)
		return error;
	struct registered_target *r = registered_new(&m.target.desc, fds);
	error = r ? 0 : -ENOMEM;
	while (error == 0 && !registered_is_complete(r)) {
		error = next_message(sock, &m, fds, &n);
		if (error == 0)
			error = add_events(r, &m, fds, n);
	}
	if (error < 0) {
		registered_free(r);
		return error == -EPIPE ? -EPROTO : error;
	}
	*ret = r;
	return 0;
}

/* --- keeping ------------------------------------------------------------------------------------------- */

static void name_of(const struct registered_target *r, char name[static SD_NOTIFY_NAME_MAX])
{
	snprintf(name, SD_NOTIFY_NAME_MAX, TARGET_NAME, r->number, r->store.turn);
}

/* False: the manager cannot be told now, and is told later: one that does not read must not hold us up. */
static bool tell_drop(struct supervisor *s, uint32_t number, uint32_t turn)
{
	char name[SD_NOTIFY_NAME_MAX];
	snprintf(name, sizeof(name), TARGET_NAME, number, turn);
	return sd_notify_drop(s->manager, name) != -EAGAIN;
}

static void remove_stored_fd(struct supervisor *s, uint32_t number, uint32_t turn)
{
	struct fd_store_drop *more = NULL;
	if (!s->n_drops && tell_drop(s, number, turn))
		return;
	if (s->n_drops < DROPS_MAX)
		more = realloc(s->drops, (s->n_drops + 1) * sizeof(*more));
	if (!more)
		return; /* it is dropped with the unit, or when it is handed over */
	s->drops = more;
	s->drops[s->n_drops++] = (struct fd_store_drop){number, turn};
}

static bool drop_all(struct supervisor *s)
{
	while (s->n_drops && tell_drop(s, s->drops[s->n_drops - 1].number, s->drops[s->n_drops - 1].turn))
		s->n_drops--;
	return !s->n_drops;
}

/* False: the manager's queue is full. Any other error is final. */
static bool store_target(struct supervisor *s, struct registered_target *r)
{
	char name[SD_NOTIFY_NAME_MAX];
	fd_auto packed = fd_store_save_target(r);
	name_of(r, name);
	int error = packed < 0 ? packed : sd_notify_keep(s->manager, name, packed);
	if (packed >= 0 && error == -EAGAIN)
		return false;
	r->store.kept = error < 0 ? KEPT_NOT : KEPT;
	if (error < 0)
		log_line(LOG_WARNING, "target=%s outcome=not_in_fd_store reason=\"%s\"", r->desc.id, strerror(-error));
	return true;
}

/* Replaces the descriptor of that name, if there is one. False: the manager's queue is full. */
static bool keep_instead(struct supervisor *s, const char *name, int fd)
{
	int r = sd_notify_drop(s->manager, name);
	if (r == 0)
		r = sd_notify_keep(s->manager, name, fd);
	if (r < 0 && r != -EAGAIN)
		log_line(LOG_WARNING, "kept=%s outcome=not_in_fd_store reason=\"%s\"", name, strerror(-r));
	return r != -EAGAIN;
}

static bool keep_journal(struct supervisor *s)
{
	char name[SD_NOTIFY_NAME_MAX];
	bool done = true;
	for (unsigned i = 0; i < 2 && s->engine->host.journal[i] >= 0 && done; i++) {
		snprintf(name, sizeof(name), JOURNAL_NAME, i);
		done = keep_instead(s, name, s->engine->host.journal[i]);
	}
	return s->journal_kept = done;
}

/* Keeps a pidfd of the worker: it tells the next supervisor whether that process may still write to the journal. */
static bool keep_worker(struct supervisor *s)
{
	return s->worker_kept = s->current.pidfd < 0 || keep_instead(s, WORKER_NAME, s->current.pidfd);
}

int fd_store_round(struct supervisor *s)
{
	if (!s->manager || s->manager->sock < 0 || s->quitting)
		return -1;
	bool done = drop_all(s) && (s->journal_kept || keep_journal(s)) && (s->worker_kept || keep_worker(s));
	for (struct registered_target *r = s->targets; r && done; r = r->next)
		if (r->armed && !r->desc.running && r->store.kept == KEPT_YET)
			done = store_target(s, r);
	return done ? -1 : AGAIN_MS;
}

void fd_store_forget(struct supervisor *s, struct registered_target *r)
{
	if (s->manager && r->store.kept == KEPT)
		remove_stored_fd(s, r->number, r->store.turn);
	r->store.kept = KEPT_YET;
}

/* --- restoring ----------------------------------------------------------------------------------------- */

/* Returns the same target, if it came already with the estate or under another name, or NULL. */
static struct registered_target *find_same(struct supervisor *s, const struct target_desc *d)
{
	struct registered_target *r = s->targets;
	while (r &&
		!(r->desc.host_pid == d->host_pid && r->desc.start_time == d->start_time && !strcmp(r->desc.id, d->id)))
		r = r->next;
	return r;
}

static int restore_target(struct supervisor *s, const struct stored_fd *k, uint32_t number)
{
	struct registered_target *r;
	int error = fd_store_load_target(k->fd, &r);
	if (error < 0) {
		log_line(LOG_WARNING, "kept=%s outcome=not_restored reason=\"%s\"", k->name,
			error == -EPIPE ? "it was taken before" : strerror(-error));
		return error;
	}
	if (find_same(s, &r->desc)) {
		registered_free(r);
		return -EEXIST;
	}
	r->detached = r->unmapped = true;
	supervisor_restore(s, r, number);
	return 0;
}

/* Its entry in the store stays. With a worker taken over: a target that the worker lacked has ended. */
static int take_target(struct supervisor *s, const struct stored_fd *k, uint32_t number, uint32_t turn)
{
	int error = supervisor_find(s, number)		       ? -EALREADY
		    : s->current.pid >= 0 || s->killswitch.off ? -ESRCH
							       : restore_target(s, k, number);
	struct registered_target *r = supervisor_find(s, number);
	if (!r) {
		remove_stored_fd(s, number, turn);
		return error;
	}
	r->store.turn = turn;
	r->store.kept = KEPT;
	return error;
}

/* Returns the target of each kept descriptor, number 0: none. NULL: no memory, or no descriptors. */
static struct fd_store_drop *parse_names(const struct inherited_fds *h)
{
	struct fd_store_drop *all = h->n_kept ? calloc(h->n_kept, sizeof(*all)) : NULL;
	for (size_t i = 0; all && i < h->n_kept; i++)
		if (sscanf(h->kept[i].name, TARGET_NAME, &all[i].number, &all[i].turn) != 2)
			all[i].number = 0;
	return all;
}

/*
 * True for an outdated entry of a supervisor of 0.1.0, which packed a target anew after reading it, and died before it
 * had dropped the old entry.
 */
static bool has_later(const struct fd_store_drop *all, size_t n, const struct fd_store_drop *it)
{
	for (size_t i = 0; i < n; i++)
		if (all[i].number == it->number && all[i].turn > it->turn)
			return true;
	return false;
}

/*
 * Waits for the end of a worker that is alive but handed nothing over: it writes its last windows, or waits for us at
 * another socket. The journal has room for one worker. Kills it when time is up. False: even so it does not end.
 */
static bool await_worker_exit(int pidfd)
{
	if (fd_wait(pidfd, POLLIN, deadline_in(OUTLAST_NS)) == 1)
		return true;
	log_line(LOG_ERR, "outcome=worker_killed reason=\"it was another service's, and does not end\"");
	child_process_kill(pidfd);
	return fd_wait(pidfd, POLLIN, deadline_in(OUTLAST_NS)) == 1;
}

static bool journal_is_free(const struct supervisor *s, const struct inherited_fds *h)
{
	for (size_t i = 0; i < h->n_kept && !s->current.adopted; i++)
		if (!strcmp(h->kept[i].name, WORKER_NAME) && !await_worker_exit(h->kept[i].fd))
			return false;
	return true;
}

static bool is_same_file(int a, int b)
{
	struct stat x, y;
	return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Where an estate was taken over, the worker uses its journal, which most likely is this one. */
static void take_journal(struct supervisor *s, struct stored_fd *k, unsigned i)
{
	int *ours = &s->engine->host.journal[i];
	if (!s->current.adopted) {
		fd_close(*ours);
		*ours = k->fd;
		k->fd = -1;
	} else if (!is_same_file(*ours, k->fd)) {
		s->journal_kept = false;
	}
}

/* Finds its two files. False: they are not both there. */
static bool find_journal(const struct inherited_fds *h, int fds[static 2])
{
	char name[SD_NOTIFY_NAME_MAX];
	bool both = true;
	for (unsigned k = 0; k < 2; k++) {
		snprintf(name, sizeof(name), JOURNAL_NAME, k);
		size_t i = 0;
		while (i < h->n_kept && strcmp(h->kept[i].name, name) != 0)
			i++;
		fds[k] = i < h->n_kept ? h->kept[i].fd : -1;
		both &= i < h->n_kept;
	}
	return both;
}

bool fd_store_has_journal(const struct inherited_fds *h)
{
	int fds[2];
	return find_journal(h, fds) && (journal_is_readable(fds[0]) || journal_is_readable(fds[1]));
}

unsigned fd_store_restore(struct supervisor *s, struct inherited_fds *h, bool journal)
{
	struct fd_store_drop *all = parse_names(h);
	int fds[2];
	const bool both = all && journal && find_journal(h, fds) && journal_is_free(s, h);
	unsigned taken = 0, number;
	s->journal_kept = both; /* and stays so: the manager's copy is never dropped */
	for (size_t i = 0; all && i < h->n_kept; i++) {
		struct stored_fd *k = &h->kept[i];
		if (all[i].number && has_later(all, h->n_kept, &all[i]))
			remove_stored_fd(s, all[i].number, all[i].turn);
		else if (all[i].number)
			taken += take_target(s, k, all[i].number, all[i].turn) == 0;
		else if (both && sscanf(k->name, JOURNAL_NAME, &number) == 1 && number < 2)
			take_journal(s, k, number);
	}
	free(all);
	sd_notify_handed_done(h);
	return taken;
}
