/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spool_lock - a session notes in the directory that it writes to whether more will come, so that a command that reads
 * there can wait for the last window of a program that has just ended.
 *
 * <spool>/.session-<pid of the session>, mode 0640, one line: "pid=N start=N namespace=N state=C". It is held by a
 * write lock of its open file description (F_OFD_SETLK, fcntl(2)), which the processes that the session forks inherit:
 * the kernel drops it with the last of them, however they end. A file that is not locked is left from a killed session;
 * the next session removes it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum spool_lock_state {
	SPOOL_LOCK_RUNS = 'r', /* as far as the session knows; a reader sees sooner that its first process is gone */
	SPOOL_LOCK_LIVES_ON = 'l', /* the first process is gone, others of the target are not */
	SPOOL_LOCK_ENDED = 'e',	   /* the last window is on its way */
};

struct spool_lock {
	int file, dir; /* its directory, for the process that removes it; -1 in others */
};

/* Makes the file and locks it. `spool`: the directory, open, borrowed. 0, or -errno. */
int spool_lock_take(int spool, struct spool_lock *ret);
/*
 * Notes the target's first process: its pid in our namespace, clock ticks since boot at which it began (proc(5), field
 * 22 of stat).
 */
void spool_lock_describe(const struct spool_lock *l, pid_t pid, uint64_t start_time);
/* By any process of the session. `l` may be NULL, here and above: nothing happens. */
void spool_lock_set_state(const struct spool_lock *l, enum spool_lock_state state);
/* For a child of the process that took the lock: keeps the lock, closes the directory. */
void spool_lock_close_directory(struct spool_lock *l);
/* Removes the file; called by the process that took the lock, as the last one of the session. */
void spool_lock_release(struct spool_lock *l);

/*
 * Returns whether a last window is still to come from a session that writes to `dir`. waited_ns: how long the caller
 * has waited already: at most SPOOL_LOCK_VERDICT_NS for a session to see that its target has ended, at most
 * SPOOL_LOCK_LAST_NS for its last window.
 */
#define SPOOL_LOCK_VERDICT_NS 1000000000LL
#define SPOOL_LOCK_LAST_NS 15000000000LL
bool spool_lock_pending(int dir, int64_t waited_ns);
