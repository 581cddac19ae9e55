/* SPDX-License-Identifier: Apache-2.0 */
/* One byte: descriptors that came along; the rest is the datagram. What passes the check has texts that end. */
#include "shim/protocol/messages.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t listed(const struct msg_listing *m)
{
	char text[EVENT_TEXT_MAX];
	size_t n = strlen(m->spool);
	for (uint32_t i = 0; i < m->n; i++) {
		const struct target_row *t = &m->targets[i];
		n += strlen(t->id) + strlen(t->name) + strlen(t->pod) + strlen(t->pod_namespace) + strlen(t->profile);
		for (uint32_t k = 0; k < t->n_events; k++)
			n += strlen(event_text(&t->events[k], text)) / EVENT_TEXT_MAX;
	}
	return n;
}

static size_t texts(const union msg *m)
{
	const struct target_desc *d = &m->target.desc;
	if (m->head.type == MSG_OUTCOME &&
		(m->outcome.outcome >= HOOK_OUTCOMES || m->outcome.strategy > STRATEGY_TIMERS))
		abort();
	if (m->head.type == MSG_LISTING)
		return listed(&m->listing);
	if (m->head.type == MSG_REFUSE || m->head.type == MSG_STOP)
		return m->head.type == MSG_STOP ? strlen(m->stop.id) : strlen(m->refuse.text);
	size_t names = m->head.type == MSG_TASKS ? strlen(m->tasks.notes) : 0;
	for (uint32_t i = 0; m->head.type == MSG_TASKS && i < m->tasks.n; i++)
		names += strlen(m->tasks.tasks[i].name);
	if (m->head.type != MSG_TARGET)
		return m->head.type == MSG_ENDED ? strlen(m->ended.profile) : names;
	size_t n = strlen(d->id) + strlen(d->name) + strlen(d->pod) + strlen(d->pod_namespace) + strlen(d->service);
	for (uint32_t i = 0; i < d->n_labels; i++)
		n += strlen(d->labels[i].key) + strlen(d->labels[i].value);
	for (uint32_t i = 0; i < d->n_events; i++)
		n += strlen(event_kind(d->events[i].kind)->name);
	return n + strlen(d->cgroup) + strlen(d->notes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1 || size > 1 + sizeof(union msg))
		return 0;
	union msg *m = malloc(size > 1 ? size - 1 : 1); /* ends where the datagram does */
	memcpy(m, data + 1, size - 1);
	if (msg_check(m, size - 1, data[0], NULL) == 0 && texts(m) > sizeof(*m))
		abort();
	free(m);
	return 0;
}
