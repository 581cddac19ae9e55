/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/protocol/messages.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* Where `each` is set, entries follow; the first field behind the head is their number. */
static const struct shape {
	size_t size, each; /* bytes: without entries; of one */
	uint32_t least, most;
} shapes[MSG_TYPES] = {
	[MSG_HELLO] = {sizeof(struct msg_hello)},
	[MSG_WELCOME] = {sizeof(struct msg_welcome)},
	[MSG_REFUSE] = {sizeof(struct msg_refuse)},
	[MSG_TARGET] = {sizeof(struct msg_target)},
	[MSG_EVENTS] = {offsetof(struct msg_events, events), sizeof(struct event_desc), 1, PROTOCOL_BATCH_MAX},
	[MSG_OK] = {sizeof(struct msg_ok)},
	[MSG_STOP] = {sizeof(struct msg_stop)},
	[MSG_TASKS] = {offsetof(struct msg_tasks, tasks), sizeof(struct task_desc), 0, PROTOCOL_TASKS_MAX},
	[MSG_ENDED] = {sizeof(struct msg_ended)},
	[MSG_LIST] = {sizeof(struct msg_list)},
	[MSG_LISTING] = {offsetof(struct msg_listing, targets), sizeof(struct target_row), 0, PROTOCOL_LISTED_MAX},
	[MSG_OUTCOME] = {sizeof(struct msg_outcome)},
	[MSG_REMAP] = {sizeof(struct msg_remap)},
};

_Static_assert(offsetof(struct msg_events, n) == sizeof(struct msg_head), "wire format");
_Static_assert(offsetof(struct msg_tasks, n) == sizeof(struct msg_head), "wire format");
_Static_assert(offsetof(struct msg_listing, n) == sizeof(struct msg_head), "wire format");

static size_t size_with(const struct shape *s, uint32_t n)
{
	return s->size + n * s->each;
}

static uint32_t count_entries(const union msg *m, const struct shape *s)
{
	return s->each ? m->events.n : 0;
}

static int send_as(int sock, union msg *m, enum msg_type type, unsigned version, const int *fds, size_t n)
{
	m->head = (struct msg_head){
		.magic = PROTOCOL_MAGIC,
		.version = (uint16_t)version,
		.type = (uint16_t)type,
		.size = (uint32_t)size_with(&shapes[type], count_entries(m, &shapes[type])),
		.fds = (uint32_t)n,
	};
	return fd_send(sock, m, m->head.size, fds, n);
}

int msg_send(int sock, union msg *m, enum msg_type type, const int *fds, size_t n)
{
	const bool news = type == MSG_TARGET && m->target.desc.fds & TARGET_FILES;
	return send_as(sock, m, type, news ? PROTOCOL_FILES : PROTOCOL_OLDEST, fds, n);
}

int msg_welcome(int sock, const struct msg_hello *to, const struct msg_welcome *w)
{
	union msg m = {.welcome = *w};
	const unsigned said = to->flags >> 16, speaks = said > to->head.version ? said : to->head.version;
	return send_as(sock, &m, MSG_WELCOME, speaks < PROTOCOL_VERSION ? speaks : PROTOCOL_VERSION, NULL, 0);
}

static bool is_terminated(const char *s, size_t size)
{
	return memchr(s, 0, size) != NULL;
}
#define ENDED(field) is_terminated(field, sizeof(field))

static const char *bad_specs(const struct event_spec *specs, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (!event_kind(specs[i].kind) || event_kind(specs[i].kind)->measure == MEASURES_LIVE_HEAP ||
			!specs[i].period || !ENDED(specs[i].name) || specs[i].profiles > PROFILES_WALL ||
			specs[i].stacks > STACKS_NONE + 1 || specs[i].only > EVENT_ONLY_KERNEL ||
			specs[i].value_size > 8)
			return "an unknown event";
	return NULL;
}

static const char *bad_target(const struct target_desc *d, size_t n_fds)
{
	if (!ENDED(d->id) || !ENDED(d->name) || !ENDED(d->pod) || !ENDED(d->pod_namespace) || !ENDED(d->service) ||
		!ENDED(d->cgroup) || !ENDED(d->notes))
		return "a text without end";
	if (!d->id[0])
		return "no id";
	if (d->fds >= 1u << TARGET_FDS_ALL || (size_t)__builtin_popcount(d->fds) != n_fds || !(d->fds & TARGET_PIDFD))
		return "descriptors that do not match";
	if (d->strategy < STRATEGY_CGROUP || d->strategy > STRATEGY_TIMERS)
		return "an unknown strategy";
	if (d->strategy == STRATEGY_TIMERS && !(d->fds & TARGET_APP))
		return "timers in a program that nobody could hear";
	if (d->init_pid < 1 || d->host_pid < 1 || d->window_s < 1 || d->window_s > 3600)
		return "a pid or window out of range";
	if (d->detail > DETAIL_ALL)
		return "an unknown detail";
	if (d->n_labels > LABELS_MAX || d->n_events < 1 || d->n_events > EVENTS_MAX)
		return "too many labels or events";
	for (uint32_t i = 0; i < d->n_labels; i++)
		if (!ENDED(d->labels[i].key) || !ENDED(d->labels[i].value))
			return "a label without end";
	return bad_specs(d->events, d->n_events);
}

static const char *bad_events(const struct msg_events *m, size_t n_fds)
{
	if (n_fds != m->n)
		return "a count that does not match";
	for (uint32_t i = 0; i < m->n; i++) {
		const struct event_desc *d = &m->events[i];
		if (d->role < PERF_SAMPLES || d->role >= PERF_ROLES || d->role == PERF_OWNER || d->spec >= EVENTS_MAX ||
			d->cpu < 0 || d->layout.stack_user > PERF_STACK_USER_MAX || d->rung > PERF_RUNGS || d->idle > 1)
			return "an event out of range";
	}
	return NULL;
}

static const char *bad_tasks(const struct msg_tasks *m, size_t n_fds)
{
	size_t maps = 0;
	if (!ENDED(m->notes))
		return "a text without end";
	for (uint32_t i = 0; i < m->n; i++) {
		const struct task_desc *d = &m->tasks[i];
		if (d->pid < 1 || d->tid < 1 || d->has_maps > 1)
			return "a task out of range";
		if (!ENDED(d->name))
			return "a text without end";
		maps += d->has_maps;
	}
	return maps == n_fds ? NULL : "descriptors that do not match";
}

static const char *bad_listed(const struct target_row *t)
{
	if (!ENDED(t->id) || !ENDED(t->name) || !ENDED(t->pod) || !ENDED(t->pod_namespace) || !ENDED(t->profile))
		return "a text without end";
	if (t->state < LISTED_REGISTERED || t->state > LISTED_ENDING)
		return "an unknown state";
	if (t->strategy < STRATEGY_CGROUP || t->strategy > STRATEGY_TIMERS)
		return "an unknown strategy";
	if (t->n_events < 1 || t->n_events > EVENTS_MAX)
		return "too many events";
	return bad_specs(t->events, t->n_events);
}

static const char *bad_listing(const struct msg_listing *m, size_t n_fds)
{
	const char *bad = n_fds ? "descriptors" : !ENDED(m->spool) ? "a text without end" : NULL;
	if (!m->n && !m->last) /* a client would ask for the next one for ever */
		bad = "a count that does not match";
	for (uint32_t i = 0; !bad && i < m->n; i++)
		bad = bad_listed(&m->targets[i]);
	return bad;
}

static const char *bad_outcome(const struct msg_outcome *m, size_t n_fds)
{
	if (m->outcome < HOOK_ARMED || m->outcome >= HOOK_OUTCOMES)
		return "an unknown outcome";
	if (m->strategy > STRATEGY_TIMERS || (m->outcome == HOOK_ARMED) != (m->strategy > 0))
		return "an unknown strategy";
	return n_fds ? "descriptors" : NULL;
}

static const char *bad_body(const union msg *m, size_t size, size_t n_fds)
{
	const struct shape *s = &shapes[m->head.type];
	uint32_t n = count_entries(m, s);
	if (s->each && (n < s->least || n > s->most || size != size_with(s, n)))
		return "a count that does not match";
	switch (m->head.type) {
	case MSG_TARGET:
		return bad_target(&m->target.desc, n_fds);
	case MSG_EVENTS:
		return bad_events(&m->events, n_fds);
	case MSG_TASKS:
		return bad_tasks(&m->tasks, n_fds);
	case MSG_LISTING:
		return bad_listing(&m->listing, n_fds);
	case MSG_OUTCOME:
		return bad_outcome(&m->outcome, n_fds);
	case MSG_ENDED:
		return ENDED(m->ended.profile) ? n_fds ? "descriptors" : NULL : "a text without end";
	case MSG_STOP:
		return ENDED(m->stop.id) ? n_fds ? "descriptors" : NULL : "a text without end";
	case MSG_REFUSE:
		return ENDED(m->refuse.text) && m->refuse.code < 0 ? n_fds ? "descriptors" : NULL
								   : "a text without end";
	default:
		return n_fds ? "descriptors" : NULL;
	}
}

int msg_check(union msg *m, size_t size, size_t n_fds, struct err *e)
{
	const struct msg_head *h = &m->head;
	if (size < sizeof(*h) || h->magic != PROTOCOL_MAGIC)
		return err_say(e, -EPROTO, "the peer does not speak pillion's protocol");
	if (h->version < PROTOCOL_OLDEST || h->version > PROTOCOL_VERSION)
		return err_say(e, -EPROTO,
			"the peer speaks protocol version %u, we speak %u to %u: install one version of both",
			h->version, PROTOCOL_OLDEST, PROTOCOL_VERSION);
	if (h->type == 0 || h->type >= MSG_TYPES)
		return err_say(e, -EPROTO, "unknown message type %u", h->type);
	const struct shape *s = &shapes[h->type];
	if (h->size != size || h->fds != n_fds || size < size_with(s, s->least) || size > size_with(s, s->most))
		return err_say(e, -EPROTO, "message type %u has a wrong size (%zu bytes, %zu descriptors)", h->type,
			size, n_fds);
	const char *bad = bad_body(m, size, n_fds);
	return bad ? err_say(e, -EPROTO, "message type %u has %s", h->type, bad) : 0;
}

int msg_check_or_close(union msg *m, size_t size, int *fds, size_t *n, struct err *e)
{
	const int r = size ? msg_check(m, size, *n, e) : -EPIPE;
	if (r < 0) {
		fd_close_each(fds, *n);
		*n = 0;
	}
	return r;
}

int msg_take(int sock, union msg *m, int *fds, size_t *ret_n, struct err *e)
{
	const ssize_t got = fd_recv(sock, m, sizeof(*m), fds, PROTOCOL_BATCH_MAX, ret_n);
	if (got == -EMFILE)
		return err_say(e, -EMFILE, "pilliond is out of file descriptors: raise its LimitNOFILE");
	if (got < 0)
		return got == -EAGAIN ? -EAGAIN : -EPIPE;
	return msg_check_or_close(m, (size_t)got, fds, ret_n, e);
}

int msg_recv(int sock, int64_t deadline, union msg *m, int *fds, size_t max, size_t *ret_n, struct err *e)
{
	*ret_n = 0;
	int r = fd_wait(sock, POLLIN, deadline);
	if (r <= 0)
		return r < 0 ? err_set(e, r, "waiting for the peer")
			     : err_say(e, -ETIMEDOUT, "the peer did not answer in time");
	ssize_t got = fd_recv(sock, m, sizeof(*m), fds, max, ret_n);
	if (got == -EPROTO)
		return err_say(e, -EPROTO, "the peer sent descriptors that nobody asked for");
	if (got < 0)
		return err_set(e, (int)got, "receiving from the peer");
	r = msg_check_or_close(m, (size_t)got, fds, ret_n, e);
	return r == -EPIPE ? err_say(e, r, "the peer went away in the middle") : r;
}

int msg_tell(int sock, union msg *m, enum msg_type type, const int *fds, size_t n, struct err *e)
{
	int r = msg_send(sock, m, type, fds, n);
	if (r == -EPIPE || r == -ECONNRESET)
		return 0;
	return r < 0 ? err_set(e, r, "sending to the peer") : 0;
}

int msg_answer(int sock, int64_t deadline, union msg *m, enum msg_type answer, struct err *e)
{
	size_t none;
	int r = msg_recv(sock, deadline, m, NULL, 0, &none, e);
	if (r < 0)
		return r;
	if (m->head.type == MSG_REFUSE)
		return err_say(e, m->refuse.code, "refused: %s", m->refuse.text);
	if (m->head.type == MSG_ENDED && answer != MSG_ENDED)
		return err_say(e, -ESRCH, "it has ended meanwhile");
	return m->head.type == answer ? 0 : err_say(e, -EPROTO, "the peer answered with message type %u", m->head.type);
}

int msg_call(int sock, int64_t deadline, union msg *m, enum msg_type type, const int *fds, size_t n,
	enum msg_type answer, struct err *e)
{
	int r = msg_tell(sock, m, type, fds, n, e);
	return r < 0 ? r : msg_answer(sock, deadline, m, answer, e);
}

int msg_refuse(int sock, const struct err *e)
{
	union msg m;
	m.refuse = (struct msg_refuse){.code = e->code < 0 ? e->code : -EIO};
	snprintf(m.refuse.text, sizeof(m.refuse.text), "%s", e->text);
	return msg_send(sock, &m, MSG_REFUSE, NULL, 0);
}
