/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/protocol/message_batch.h"

#include "oci/base/fd.h"

#include <stdio.h>

void message_batch_start(struct message_batch *b, int sock, uint32_t max, int64_t deadline)
{
	/* set field by field: pages that stay zero are never touched */
	b->sock = sock;
	b->max = max < 1 ? 1 : max < PROTOCOL_BATCH_MAX ? max : PROTOCOL_BATCH_MAX;
	b->deadline = deadline;
	b->n = b->sent = b->n_fds = 0;
}

static int flush_batch(struct message_batch *b, enum msg_type type, struct err *e)
{
	int r = msg_call(b->sock, b->deadline, &b->msg, type, b->fds, b->n_fds, MSG_OK, e);
	while (b->n_fds)
		fd_close(b->fds[--b->n_fds]);
	b->n = 0;
	return r;
}

int message_batch_flush_events(struct message_batch *b, bool last, struct err *e)
{
	b->sent += b->n;
	b->msg.events.n = b->n;
	b->msg.events.total = last ? b->sent : 0;
	return flush_batch(b, MSG_EVENTS, e);
}

static int flush_tasks(struct message_batch *b, bool last, const char *notes, struct err *e)
{
	struct msg_tasks *m = &b->msg.tasks;
	m->n = b->n;
	m->last = last;
	snprintf(m->notes, sizeof(m->notes), "%s", notes);
	return flush_batch(b, MSG_TASKS, e);
}

int message_batch_flush_tasks(struct message_batch *b, struct err *e)
{
	return flush_tasks(b, false, "", e);
}

int message_batch_end_tasks(struct message_batch *b, const char *notes, struct err *e)
{
	return flush_tasks(b, true, notes, e);
}

int message_batch_put_event(struct message_batch *b, const struct event_desc *d, int fd, struct err *e)
{
	int r = b->n == b->max ? message_batch_flush_events(b, false, e) : 0;
	if (r < 0)
		return fd_close(fd), r;
	b->msg.events.events[b->n++] = *d;
	b->fds[b->n_fds++] = fd;
	return 0;
}

int message_batch_put_task(struct message_batch *b, const struct task_desc *d, int maps, struct err *e)
{
	int r = b->n == PROTOCOL_TASKS_MAX || b->n_fds == b->max ? message_batch_flush_tasks(b, e) : 0;
	if (r < 0)
		return fd_close(maps), r;
	b->msg.tasks.tasks[b->n] = *d;
	b->msg.tasks.tasks[b->n++].has_maps = maps >= 0;
	if (maps >= 0)
		b->fds[b->n_fds++] = maps;
	return 0;
}
