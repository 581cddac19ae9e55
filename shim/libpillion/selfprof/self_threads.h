/* SPDX-License-Identifier: Apache-2.0 */
/*
 * self_threads - the threads of this process that have the session's events, as far as records and looks at /proc tell.
 *
 * Events are opened on a thread one after the other, and a thread may be made meanwhile: it has inherited those that
 * were there. A FORK record comes when the new thread begins, some time after it has inherited. So a record says for
 * sure that a new thread has all events if its maker has inherited all of them itself, or was seen outside of clone(2)
 * since it was given them: in user code, or when it had made another thread, both before the new one began. Any other
 * thread is given events of its own; if it had them already, self_heard finds that out.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum self_having {
	SELF_NOT_KNOWN,
	SELF_UNSURE,	/* it may have inherited them, or some */
	SELF_INHERITED, /* all of them, for sure */
	SELF_OWN,	/* they were opened on it */
	SELF_REFUSED,	/* tried: it has none */
};
#define SELF_ENDED_NS 1000000000u
struct self_thread {
	uint32_t tid; /* 0: free */
	uint8_t having, was_out, ended;
	uint32_t parent;
	uint32_t first; /* of its own events */
	uint32_t look;	/* the look that saw it last */
	uint64_t since; /* ns: its birth, or when its own events were complete */
	uint64_t end;	/* when it ended: it is kept for a while, for the threads that it made */
	uint64_t out;	/* outside of clone(2) at that time: threads that it makes later have all */
};
struct self_threads {
	struct self_thread *table; /* open addressing by tid; NULL: empty */
	size_t bytes, places, used;
	uint32_t look;
};

struct self_thread *self_threads_find(const struct self_threads *t, uint32_t tid); /* NULL: not known */
/* The thread has its own events from `now` on, the caller's from `first` on, or cannot have any. -ENOMEM */
int self_threads_own(struct self_threads *t, uint32_t tid, enum self_having having, uint64_t now, uint32_t first);
/* Records, in any order. A FORK returns what the new thread has. */
enum self_having self_threads_fork(struct self_threads *t, uint32_t tid, uint32_t parent, uint64_t time);
void self_threads_exit(struct self_threads *t, uint32_t tid, uint64_t time);
/* Records of other CPUs have been read meanwhile: unsure threads may be sure now. Returns how many are still unsure. */
size_t self_threads_settle(struct self_threads *t);
void self_threads_heir(struct self_threads *t, uint32_t tid); /* a record of it came by a thread's last event */
void self_threads_out(struct self_threads *t, uint32_t tid, uint64_t time); /* it was not in clone(2) */
/* A look at all threads: begin, each of them, end. A thread that was not seen and is older than the look is gone. */
void self_threads_look(struct self_threads *t);
enum self_having self_threads_seen(struct self_threads *t, uint32_t tid, uint64_t now);
void self_threads_looked(struct self_threads *t, uint64_t began);
size_t self_threads_count(const struct self_threads *t, enum self_having having);
void self_threads_done(struct self_threads *t);
