/* SPDX-License-Identifier: Apache-2.0 */
/*
 * supervisor - holds all that must outlive a worker: connections, targets as they were registered (target_registry.h),
 * every descriptor, and the memory of the rings (when the last mapping of a ring goes, the kernel lets go of every
 * event that writes into it). A `modest` engine is an exception: the kernel charges every further mapping of a ring to
 * the user's locked memory and never gives that back (kernel/events/core.c, perf_mmap; seen on 6.18). There the worker
 * has the only mapping, and its successor begins with empty rings. The supervisor forks the worker, passes messages on,
 * and forks another worker when that dies. It reads no ring and no file of a target.
 *
 * A target is quarantined when QUARANTINE_DEATHS workers in ten minutes died at its data, by their own fault (not by
 * SIGKILL, nor by a file's: quarantine.h). The next worker begins anew with the target and keeps addresses and nothing
 * else (struct target, plain). After as many deaths again the target is let go, with a line in the log. A target that
 * is not armed yet is let go instead of quarantined.
 */
#pragma once

#include "oci/base/process/oom_score.h"
#include "oci/base/process/restart.h"
#include "profiler/daemon/exporter_manager.h"
#include "profiler/daemon/fd_store.h"
#include "profiler/daemon/kill_switch.h"
#include "profiler/daemon/symbolizer_manager.h"
#include "profiler/daemon/target_registry.h"
#include "profiler/daemon/worker.h"
#include "profiler/target/engine_state.h"

#define SUPERVISOR_QUIT_MS 10000 /* for the last windows */

struct worker_process {
	pid_t pid;     /* -1: there is none */
	int pidfd;     /* of it */
	bool adopted;  /* it is no child of ours */
	bool replaces; /* and is to be replaced by one */
	int channel;
	struct event_loop_source source;
	struct restart restart;
	uint64_t restarts;
};

struct supervisor {
	struct event_loop *loop;
	struct engine *engine; /* each worker is forked with it */
	struct exporter_manager exporter;
	struct symbolizer_manager symbolizer;
	const struct settings *settings;
	struct oom_score *oom;
	const struct sd_notify *manager; /* keeps targets for the next supervisor; NULL: none */
	bool journal_kept, worker_kept;
	struct fd_store_drop *drops;
	size_t n_drops;
	void (*in_worker)(void *arg); /* in a child: close all that is not a worker's */
	void *arg;
	struct registered_target *targets;
	unsigned n_targets;
	uint64_t n_fds;
	uint32_t last_number;
	struct worker_process current;
	bool quitting, leaving;
	int64_t quit_by;	       /* or leave_by, or replaced by */
	struct kill_switch killswitch; /* off: targets are let go, and none is taken */
	union msg msg;
};

/*
 * Given: engine, settings, manager, in_worker, arg, the setup of the exporter, the fork server of the symbolizer. The
 * rest is made here.
 */
int supervisor_new(struct supervisor *s, struct err *e);
int supervisor_start(struct supervisor *s, struct err *e); /* a worker, if there is none yet */
/*
 * worker_handover.h: take over a worker that had another supervisor, and its targets (descriptors taken).
 * supervisor_disown: drop these targets again, when the handover fails.
 */
struct registered_target *supervisor_adopt(
	struct supervisor *s, const struct target_desc *d, uint32_t number, int relay, const int *fds);
int supervisor_inherit(struct supervisor *s, pid_t worker, int pidfd, int channel); /* takes them */
void supervisor_disown(struct supervisor *s);
struct registered_target *supervisor_find(struct supervisor *s, uint32_t number); /* or NULL */
/* A target that the service manager kept (taken), for the worker that is yet to be started. */
void supervisor_restore(struct supervisor *s, struct registered_target *r, uint32_t number);
uint32_t supervisor_room(const struct supervisor *s); /* descriptors that targets may still bring */
/* Registers a target (descriptors taken, also on failure); the worker's answers go to r->answer. NULL: `e` says why. */
struct registered_target *supervisor_register(
	struct supervisor *s, const struct target_desc *d, const int *fds, struct err *e);
/* Passes on one more message of the peer that registered it (descriptors taken): EVENTS, TASKS. 0 or -errno. */
int supervisor_pass(
	struct supervisor *s, struct registered_target *r, union msg *m, const int *fds, size_t n, struct err *e);
/*
 * Returns a target of which all mappings are to be told anew. NULL: none; with *ret_later, the worker is busy with it.
 */
struct registered_target *supervisor_unmapped(struct supervisor *s, bool *ret_later);
/*
 * Ends a target. The end is told to r->answer, unless that is NULL. It is gone when the worker has confirmed, or at
 * once.
 */
void supervisor_stop(struct supervisor *s, struct registered_target *r);
void supervisor_look(struct supervisor *s, const char *id); /* have the worker check whether that one has ended */
/* Hands a connection that asks for a list over to the worker; taken, but not on failure. */
int supervisor_list(struct supervisor *s, int sock, struct err *e);
void supervisor_outcome(struct supervisor *s, const struct msg_outcome *m);
void supervisor_settings(struct supervisor *s, const struct settings *fresh);
/*
 * Leaves everything to the next supervisor, which is about to be started: the worker stays, with all targets but those
 * that live by a connection to us (they end now, with their last window). Ends the loop; the caller must then exit and
 * do nothing else.
 */
void supervisor_leave(struct supervisor *s);
void supervisor_quit(struct supervisor *s); /* ends the loop when the worker has written all windows */
/* Milliseconds until something is due, or -1. */
int supervisor_round(struct supervisor *s);
void supervisor_done(struct supervisor *s);
