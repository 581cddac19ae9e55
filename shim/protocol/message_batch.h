/* SPDX-License-Identifier: Apache-2.0 */
/*
 * message_batch - passes entries with descriptors (events, tasks) to a profiler, many in one message. The batch owns an
 * entry that was put in; a full batch goes out, and its descriptors are closed when the answer is there (lock-step).
 */
#pragma once

#include "shim/protocol/messages.h"

struct message_batch {
	int sock;
	int64_t deadline;
	uint32_t max; /* descriptors per message, >= 1 */
	uint32_t n, sent, n_fds;
	int fds[PROTOCOL_BATCH_MAX];
	union msg msg;
};

void message_batch_start(struct message_batch *b, int sock, uint32_t max, int64_t deadline);
int message_batch_put_event(struct message_batch *b, const struct event_desc *d, int fd, struct err *e);
/* maps: a file of mappings (taken), or -1. */
int message_batch_put_task(struct message_batch *b, const struct task_desc *d, int maps, struct err *e);
/* `last`: no batch follows; it must have an entry. */
int message_batch_flush_events(struct message_batch *b, bool last, struct err *e);
int message_batch_flush_tasks(struct message_batch *b, struct err *e);
int message_batch_end_tasks(struct message_batch *b, const char *notes, struct err *e); /* the last batch */
