/* SPDX-License-Identifier: Apache-2.0 */
/*
 * push_queue - what of a spool an endpoint has not had yet. The spool is the queue: nothing is copied, and what its
 * caps remove before it was sent is lost, and counted.
 *
 * <spool>/.push/NAME.lock is locked by who serves the endpoint.
 *
 * NAME.sent has a line for each file that was sent ("web/20260101T000000Z-000000-cpu.pb.gz", its path below the spool),
 * appended
 * when the endpoint has it: who dies in between sends it once more. It is written anew (temporary file, rename) when
 * most of its lines are of files that are gone. An endpoint that has no such file yet begins with what is written from
 * then on.
 *
 * Order: within a target as its windows were written, one under way at a time; between targets the oldest first.
 * Directories are looked at when they have changed. Profiles of users' own processes (user_spool.h) are not the
 * administrator's to send, and not in it.
 */
#pragma once

#include "oci/base/err.h"
#include "profiler/push/push_encode.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PUSH_DIR ".push" /* in the spool */

struct push_queue;
struct push_file; /* one that waits or is under way */

/*
 * spool: borrowed. `wants`: of which event. `backlog`: with what is there already, where there is no file of it.
 * -EBUSY: another process has it.
 */
int queue_open(int spool, const char *name, bool (*wants)(const void *arg, const char *event), const void *arg,
	bool backlog, struct push_queue **ret, struct err *e);
struct push_queue *queue_close(struct push_queue *q); /* NULL is fine; returns NULL */
/*
 * What has come and gone; 0 or -errno. A target's directory that cannot be read is no failure, nor that what was sent
 * cannot be noted: `e` says so, the first time, and it is as it was.
 */
int queue_scan(struct push_queue *q, struct err *e);
/* The next to be sent, which is under way from now on; NULL: nothing waits, or its target has one under way. */
struct push_file *queue_next(struct push_queue *q);
const char *queue_target(const struct push_file *f);
const char *queue_name(const struct push_file *f);
struct push_progress queue_progress(const struct push_file *f); /* of it, before it was given back */
/* It is sent, or never to be: `f` is not used any more. 0, or -errno when that could not be written yet. */
int queue_done(struct push_queue *q, struct push_file *f);
void queue_back(struct push_queue *q, struct push_file *f, struct push_progress sent); /* it waits again */
void queue_gone(struct push_queue *q, struct push_file *f); /* it is not there any more: lost */
size_t queue_waiting(const struct push_queue *q);	    /* under way or not */
int64_t queue_oldest(const struct push_queue *q);	    /* the start of the one that waits longest, 0: none */
uint64_t queue_lost(const struct push_queue *q);	    /* removed before they were sent, since the start */
int queue_dir(const struct push_queue *q);		    /* .push, borrowed */
