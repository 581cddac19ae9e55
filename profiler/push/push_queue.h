/* SPDX-License-Identifier: Apache-2.0 */
/*
 * push_queue - the files of a spool that an endpoint has not had yet. The spool is the queue: nothing is copied. Files
 * that the spool's caps remove before they are sent are lost, and counted.
 *
 * <spool>/.push/NAME.lock is locked by the process that serves the endpoint.
 *
 * NAME.sent has a line for each file that was sent ("web/20260101T000000Z-000000-cpu.pb.gz", its path below the spool),
 * appended when the endpoint has it: a process that dies in between sends the file once more. NAME.sent is written anew
 * (temporary file, rename) when most of its lines are of files that are gone. An endpoint without a NAME.sent begins
 * with files that are written from then on.
 *
 * Order: within a target as its windows were written, one under way at a time; between targets the oldest first. A
 * directory is listed again when it has changed. Profiles of users' own processes (user_spool.h) are not the
 * administrator's to send, and not in the queue.
 */
#pragma once

#include "oci/base/err.h"
#include "profiler/push/push_encode.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PUSH_DIR ".push" /* in the spool */

struct push_queue;
struct push_file; /* a file that waits or is under way */

/*
 * Opens an endpoint's queue. spool: borrowed. `wants`: is an event to be sent? `backlog`: without a NAME.sent, also
 * take files that are there already. -EBUSY: another process has the queue.
 */
int queue_open(int spool, const char *name, bool (*wants)(const void *arg, const char *event), const void *arg,
	bool backlog, struct push_queue **ret, struct err *e);
struct push_queue *queue_close(struct push_queue *q); /* NULL is fine; returns NULL */
/*
 * Looks for files that have come and gone; 0 or -errno. An unreadable directory of a target is no failure, nor is a
 * NAME.sent that cannot be written: `e` reports it, the first time, and the state stays as it was.
 */
int queue_scan(struct push_queue *q, struct err *e);
/* Returns the next file to send, which is under way from now on; NULL: nothing waits, or its target has one under
 * way. */
struct push_file *queue_next(struct push_queue *q);
const char *queue_target(const struct push_file *f);
const char *queue_name(const struct push_file *f);
struct push_progress queue_progress(const struct push_file *f); /* of it, as given to queue_back() */
/* Marks a file as sent, or never to be sent: do not use `f` any more. 0, or -errno when that could not be written
 * yet. */
int queue_done(struct push_queue *q, struct push_file *f);
void queue_back(struct push_queue *q, struct push_file *f, struct push_progress sent); /* it waits again */
void queue_gone(struct push_queue *q, struct push_file *f);			       /* it was removed: lost */
size_t queue_waiting(const struct push_queue *q);				       /* files, under way or not */
int64_t queue_oldest(const struct push_queue *q); /* the start of the one that waits longest, 0: none */
uint64_t queue_lost(const struct push_queue *q);  /* files removed before they were sent, since the start */
int queue_dir(const struct push_queue *q);	  /* .push, borrowed */
