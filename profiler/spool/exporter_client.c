/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/spool/exporter_client.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "oci/base/log.h"
#include "oci/base/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

/* Not answered yet. Its bytes are in memory until they are sent, then in a memfd. */
struct owned_fd {
	struct owned_fd *next;
	struct export_profile profile;
	uint8_t *bytes;
	int memfd;
	bool sent; /* to the exporter that is there now */
	unsigned tries;
	void *of;
};

struct exporter_client {
	struct event_loop *loop;
	struct exporter_owner owner;
	struct event_loop_source source;
	int sock; /* -1: none for now */
	bool waits_for_room;
	struct owned_fd *held; /* oldest first */
	uint64_t n_held, held_bytes, held_max, dropped, last_id, exporters;
	unsigned n_sent;
	struct export_limits limits;
	bool limits_due;
	bool asked; /* for a listing, not answered to its end */
	bool state_sent;
	int64_t listing_due; /* not before */
	uint64_t listed;     /* the serial of the last one that was sent */
	union {
		struct export_head head;
		struct export_done done;
		struct export_ask ask;
	} in;
	union msg page;
};

bool export_check(const void *message, size_t size, size_t n_fds, enum export_type type)
{
	static const size_t sizes[] = {[EXPORT_PROFILE] = sizeof(struct export_profile),
		[EXPORT_LIMITS] = sizeof(struct export_limits),
		[EXPORT_STATE] = sizeof(struct export_state),
		[EXPORT_DONE] = sizeof(struct export_done),
		[EXPORT_ASK] = sizeof(struct export_ask),
		[EXPORT_CRASH] = sizeof(struct export_profile)};
	const bool brings = type == EXPORT_PROFILE || type == EXPORT_CRASH;
	const struct export_head *h = message;
	if (size < sizeof(*h) || h->magic != EXPORT_MAGIC || h->type != type || size != sizes[type] || n_fds != brings)
		return false;
	const struct export_profile *p = message;
	const struct export_done *d = message;
#define ENDED(field) memchr(field, 0, sizeof(field))
	if (brings)
		return ENDED(p->event) && ENDED(p->id) && ENDED(p->name) && ENDED(p->pod) && ENDED(p->pod_namespace) &&
		       p->bytes > 0 && p->bytes <= EXPORT_PROFILE_MAX;
	if (type == EXPORT_DONE)
		return ENDED(d->text) && ENDED(d->path) && d->code <= 0 && (d->code < 0) != (d->path[0] != 0);
#undef ENDED
	return true;
}

/* --- held profiles -------------------------------------------------------------------------------------- */

static void remove_owned_fd(struct exporter_client *c, struct owned_fd *h)
{
	struct owned_fd **at = &c->held;
	while (*at != h)
		at = &(*at)->next;
	*at = h->next;
	c->n_held--;
	c->held_bytes -= h->profile.bytes;
	c->n_sent -= h->sent;
	fd_close(h->memfd);
	free(h->bytes);
	free(h);
}

static void finish_export(struct exporter_client *c, struct owned_fd *h, const char *path, const struct err *e)
{
	struct export_profile p = h->profile;
	void *of = h->of;
	remove_owned_fd(c, h);
	c->owner.done(c->owner.arg, of, &p, path, e);
}

/* Sealed: no process can alter it any more, nor cut it short while it is mapped. */
static int put_in_memfd(struct owned_fd *h)
{
	const int fd = fd_make_sealed("profile", h->bytes, h->profile.bytes);
	if (fd < 0)
		return fd;
	h->memfd = fd;
	free(h->bytes);
	h->bytes = NULL;
	return 0;
}

static int send_profile(struct exporter_client *c, struct owned_fd *h)
{
	int r = h->memfd < 0 ? put_in_memfd(h) : 0;
	if (r == 0)
		r = fd_send(c->sock, &h->profile, sizeof(h->profile), &h->memfd, 1);
	if (r == 0) {
		h->sent = true;
		c->n_sent++;
	}
	return r;
}

static int send_profiles(struct exporter_client *c)
{
	int r = 0;
	for (struct owned_fd *h = c->held; r == 0 && h && c->n_sent < EXPORT_SENT_MAX; h = h->next)
		if (!h->sent)
			r = send_profile(c, h);
	return r;
}

/* --- requests of the exporter --------------------------------------------------------------------------- */

static int send_state(struct exporter_client *c)
{
	struct export_state s = {
		.held = c->n_held, .held_bytes = c->held_bytes, .dropped = c->dropped, .exporters = c->exporters};
	c->owner.state(c->owner.arg, &s);
	s.head = (struct export_head){.magic = EXPORT_MAGIC, .type = EXPORT_STATE};
	return fd_send(c->sock, &s, sizeof(s), NULL, 0);
}

/* Sends a page each time that there is room for one. */
static int send_listing(struct exporter_client *c)
{
	int r = 0;
	if (!c->state_sent) {
		r = send_state(c);
		c->state_sent = r == 0;
		c->listed = UINT64_MAX;
	}
	while (r == 0 && c->asked) {
		struct msg_listing *m = &c->page.listing;
		c->owner.listing(c->owner.arg, c->listed, m);
		r = msg_send(c->sock, &c->page, MSG_LISTING, NULL, 0);
		if (r < 0)
			break;
		if (m->n)
			c->listed = m->targets[m->n - 1].serial;
		if (m->last) {
			c->asked = c->state_sent = false;
			c->listing_due = clock_now() + EXPORT_LISTING_NS;
		}
	}
	return r;
}

/* --- the socket ----------------------------------------------------------------------------------------- */

static void on_socket(void *arg, uint32_t events);

static void close_connection(struct exporter_client *c)
{
	event_loop_del(c->loop, &c->source);
	c->sock = fd_close(c->sock);
	c->n_sent = 0;
	c->asked = c->state_sent = false;
	for (struct owned_fd *h = c->held; h; h = h->next)
		h->sent = false;
	c->owner.lost(c->owner.arg);
}

static int watch_socket(struct exporter_client *c, bool room)
{
	if (c->source.fd >= 0 && room == c->waits_for_room)
		return 0;
	event_loop_del(c->loop, &c->source);
	c->waits_for_room = room;
	return event_loop_add(c->loop, &c->source, c->sock, EPOLLIN | (room ? EPOLLOUT : 0), on_socket, c);
}

/* Sends as much as the socket takes now. Profiles first: they must not be lost. */
static void send_pending(struct exporter_client *c)
{
	if (c->sock < 0)
		return;
	int r = c->limits_due ? fd_send(c->sock, &c->limits, sizeof(c->limits), NULL, 0) : 0;
	c->limits_due &= r < 0;
	if (r == 0)
		r = send_profiles(c);
	if (r == 0 && c->asked && clock_now() >= c->listing_due)
		r = send_listing(c);
	/* out of memory or descriptors: profiles are held, and tried again with the next event */
	bool gone = r == -EPIPE || r == -ECONNRESET || r == -ENOTCONN;
	if (r < 0 && r != -EAGAIN && !gone)
		log_line(LOG_WARNING, "outcome=exporter_unreachable reason=\"cannot reach the exporter: %s\"",
			strerror(-r));
	if (!gone)
		watch_socket(c, r == -EAGAIN);
	/* gone: its last answers may be there still, and its end comes behind them */
}

static bool is_path(const char *path)
{
	for (const unsigned char *s = (const unsigned char *)path; *s; s++)
		if (*s < 0x21 || *s > 0x7e)
			return false;
	return path[0] != '/' && !strstr(path, "..");
}

static bool take_done(struct exporter_client *c, struct export_done *d)
{
	struct owned_fd *h = c->held;
	struct err e = {.code = d->code};
	while (h && h->profile.head.id != d->head.id)
		h = h->next;
	if (!h) /* of an earlier worker that had this socket */
		return true;
	if (!h->sent || !is_path(d->path))
		return false;
	utf8_clean(d->text);
	memcpy(e.text, d->text, sizeof(e.text));
	finish_export(c, h, d->code < 0 ? NULL : d->path, &e);
	return true;
}

/* False: the peer is no exporter of ours. */
static bool handle_message(struct exporter_client *c, size_t size)
{
	if (export_check(&c->in, size, 0, EXPORT_DONE))
		return take_done(c, &c->in.done);
	if (!export_check(&c->in, size, 0, EXPORT_ASK))
		return false;
	c->asked = true; /* once, however often it asks */
	return true;
}

static void on_socket(void *arg, uint32_t events)
{
	struct exporter_client *c = arg;
	size_t n;
	ssize_t got = events & ~(uint32_t)EPOLLOUT ? fd_recv(c->sock, &c->in, sizeof(c->in), NULL, 0, &n) : -EAGAIN;
	/* it ended with something unread: its earlier messages come next, then its end */
	if (got == -EAGAIN) {
		send_pending(c);
		return;
	}
	if (got > 0 && handle_message(c, (size_t)got)) {
		send_pending(c);
		return;
	}
	if (got > 0 || got == -EMSGSIZE || got == -EPROTO)
		log_line(LOG_ERR, "outcome=exporter_restarted reason=\"it said what no exporter says\"");
	close_connection(c);
}

/* Blames the oldest profile: the exporter that ended worked at it. */
static void count_export_try(struct exporter_client *c)
{
	struct err e;
	struct owned_fd *h = c->held;
	if (!h || h->memfd < 0 || ++h->tries < EXPORT_TRIES_MAX)
		return;
	err_say(&e, -EIO, "a profile of %s is lost: %u exporters ended while they wrote it",
		h->profile.name[0] ? h->profile.name : h->profile.id, h->tries);
	c->dropped++;
	finish_export(c, h, NULL, &e);
}

int exporter_client_connect(struct exporter_client *c, int sock)
{
	if (c->sock >= 0) {
		event_loop_del(c->loop, &c->source);
		c->sock = fd_close(c->sock);
	}
	for (struct owned_fd *h = c->held; h; h = h->next)
		h->sent = false;
	c->n_sent = 0;
	c->asked = c->state_sent = false;
	c->limits_due = c->limits.head.magic != 0;
	if (sock < 0)
		return 0;
	if (c->exporters++)
		count_export_try(c);
	c->sock = sock;
	fcntl(sock, F_SETFL, O_NONBLOCK);
	int r = watch_socket(c, false);
	if (r < 0)
		c->sock = fd_close(sock);
	else
		send_pending(c);
	return r;
}

bool exporter_client_connected(const struct exporter_client *c)
{
	return c->sock >= 0;
}

int exporter_client_new(
	struct event_loop *l, size_t held_bytes, const struct exporter_owner *owner, struct exporter_client **ret)
{
	struct exporter_client *c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	c->loop = l;
	c->owner = *owner;
	c->held_max = held_bytes;
	c->sock = c->source.fd = -1;
	c->last_id = (uint64_t)clock_now(); /* no worker before us had these */
	*ret = c;
	return 0;
}

struct exporter_client *exporter_client_free(struct exporter_client *c)
{
	if (!c)
		return NULL;
	c->n_sent = 0; /* no answers are awaited any more: as many as the socket takes */
	for (struct owned_fd *h = c->held; c->sock >= 0 && h; h = h->next)
		if (!h->sent && send_profile(c, h) < 0)
			break;
	event_loop_del(c->loop, &c->source);
	c->sock = fd_close(c->sock);
	while (c->held) {
		c->held->sent = false;
		remove_owned_fd(c, c->held);
	}
	free(c);
	return NULL;
}

/* --- calls of the worker -------------------------------------------------------------------------------- */

static bool is_full(const struct exporter_client *c, uint64_t bytes)
{
	return c->n_held >= EXPORT_HELD_MAX || (c->n_held && c->held_bytes + bytes > c->held_max);
}

int exporter_write(struct exporter_client *c, struct export_profile *p, uint8_t *bytes, void *of, struct err *e)
{
	struct owned_fd *h = p->bytes > EXPORT_PROFILE_MAX || is_full(c, p->bytes) ? NULL : calloc(1, sizeof(*h));
	if (!h) {
		free(bytes);
		c->dropped++;
		if (p->bytes > EXPORT_PROFILE_MAX)
			return err_say(e, -EFBIG, "a profile of %llu bytes", (unsigned long long)p->bytes);
		if (!is_full(c, p->bytes))
			return err_set(e, -ENOMEM, "cannot hold a profile");
		return err_say(e, -ENOBUFS, "the spool is slow: %llu profiles with %llu bytes wait to be written",
			(unsigned long long)c->n_held, (unsigned long long)c->held_bytes);
	}
	p->head = (struct export_head){EXPORT_MAGIC, p->head.type ? p->head.type : EXPORT_PROFILE, ++c->last_id};
	*h = (struct owned_fd){.profile = *p, .bytes = bytes, .memfd = -1, .of = of};
	struct owned_fd **at = &c->held;
	while (*at)
		at = &(*at)->next;
	*at = h;
	c->n_held++;
	c->held_bytes += p->bytes;
	send_pending(c);
	return 0;
}

void exporter_client_cancel_owner(struct exporter_client *c, const void *of)
{
	for (struct owned_fd *h = c->held; h; h = h->next)
		if (h->of == of)
			h->of = NULL;
}

void exporter_client_limit(struct exporter_client *c, uint64_t spool_bytes, uint32_t spool_age_s)
{
	c->limits = (struct export_limits){
		.head = {EXPORT_MAGIC, EXPORT_LIMITS, 0}, .spool_bytes = spool_bytes, .spool_age_s = spool_age_s};
	c->limits_due = true;
	send_pending(c);
}

int exporter_client_round(struct exporter_client *c, int64_t now)
{
	if (c->sock < 0)
		return -1;
	if (c->held && !c->waits_for_room && c->n_sent < EXPORT_SENT_MAX) /* there was no memory or no descriptor */
		send_pending(c);
	if (!c->asked)
		return -1;
	if (now < c->listing_due)
		return (int)((c->listing_due - now) / NSEC_PER_MSEC) + 1;
	if (!c->waits_for_room)
		send_pending(c);
	return -1;
}
