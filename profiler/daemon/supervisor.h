/* SPDX-License-Identifier: Apache-2.0 */
/*
 * supervisor - holds what must outlive a worker: connections, targets as they were registered (target_registry.h),
 * every descriptor, the rings' memory (when the last mapping of a ring goes, the kernel lets go of every event that
 * writes into it). Not so where the engine is `modest`: the kernel charges every further mapping of a ring to the
 * user's locked memory and never gives that back (kernel/events/core.c, perf_mmap; seen on 6.18), so there the worker's
 * mapping is the only one, and a successor begins with empty rings. It forks the worker, passes on what is said, and
 * forks another one when that dies. It reads no ring and no file of a target.
 *
 * A target that workers were at when they died by their own fault (not by SIGKILL, nor by a file's: quarantine.h),
 * QUARANTINE_DEATHS times in ten minutes, is quarantined: the next worker begins anew with it, and keeps addresses and
 * nothing else (struct target, plain). Once more as often and it is let go, with a line in the log; so is one that is
 * not armed yet.
 */
#pragma once

#include "oci/base/oom_score.h"
#include "profiler/daemon/exporter_manager.h"
#include "profiler/daemon/fd_store.h"
#include "profiler/daemon/kill_switch.h"
#include "profiler/daemon/symbolizer_manager.h"
#include "profiler/daemon/target_registry.h"
#include "profiler/daemon/worker.h"
#include "profiler/target/engine.h"

#define SUPERVISOR_QUIT_MS 10000 /* for the last windows */

struct supervisor {
	struct event_loop *loop;
	struct engine *engine; /* what a worker begins with */
	struct exporter_manager exporter;
	struct symbolizer_manager symbolizer;
	const struct settings *settings;
	struct oom_score *oom;
	const struct sd_notify *manager; /* who keeps targets for the next one; NULL: nobody */
	bool journal_kept, worker_kept;
	struct fd_store_drop *drops;
	size_t n_drops;
	void (*in_worker)(void *arg); /* in a child: let go of what is not a worker's */
	void *arg;
	struct registered_target *targets;
	unsigned n_targets;
	uint64_t n_fds;
	uint32_t last_number;
	pid_t worker;  /* -1: there is none */
	int pidfd;     /* of it */
	bool adopted;  /* it is no child of ours */
	bool replaces; /* and is to make room for one */
	int channel;
	struct event_loop_source source;
	int64_t born, again; /* when it was forked; when the next one may be, 0 = it is there */
	unsigned failures;   /* in a row */
	uint64_t restarts;
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
/* worker_handover.h: a worker that had another supervisor, and its targets (descriptors taken). supervisor_disown: not,
 * after all */
struct registered_target *supervisor_adopt(
	struct supervisor *s, const struct target_desc *d, uint32_t number, int relay, const int *fds);
int supervisor_inherit(struct supervisor *s, pid_t worker, int pidfd, int channel); /* takes them */
void supervisor_disown(struct supervisor *s);
struct registered_target *supervisor_find(struct supervisor *s, uint32_t number); /* or NULL */
/* A target that somebody kept (taken), for the worker that is yet to be started. */
void supervisor_restore(struct supervisor *s, struct registered_target *r, uint32_t number);
uint32_t supervisor_room(const struct supervisor *s); /* descriptors that targets may still bring */
/* A new target (descriptors taken, also on failure); what comes of it is told to r->answer. NULL: `e` says why. */
struct registered_target *supervisor_register(
	struct supervisor *s, const struct target_desc *d, const int *fds, struct err *e);
/* One more message of who registered it (descriptors taken): EVENTS, TASKS. 0 or -errno. */
int supervisor_pass(
	struct supervisor *s, struct registered_target *r, union msg *m, const int *fds, size_t n, struct err *e);
/* One whose processes are to be told anew; NULL: none, or, *ret_later, the worker is at it. */
struct registered_target *supervisor_unmapped(struct supervisor *s, bool *ret_later);
/* It is to end; who is to hear what came of it has set r->answer, or not. Gone when the worker has said so, or at once.
 */
void supervisor_stop(struct supervisor *s, struct registered_target *r);
void supervisor_look(struct supervisor *s, const char *id); /* has that one ended? */
/* Its peer asks for a list: the worker's from here on; taken, but not on failure. */
int supervisor_list(struct supervisor *s, int sock, struct err *e);
void supervisor_outcome(struct supervisor *s, const struct msg_outcome *m);
void supervisor_settings(struct supervisor *s, const struct settings *fresh);
/*
 * For the next supervisor, which is about to be started: the worker stays, with all that does not live by a connection
 * to us (that ends now, with its last window). Ends the loop; whoever ran it must exit and do nothing else.
 */
void supervisor_leave(struct supervisor *s);
void supervisor_quit(struct supervisor *s); /* ends the loop when the worker has written what there is */
/* Milliseconds until something is due, or -1. */
int supervisor_round(struct supervisor *s);
void supervisor_done(struct supervisor *s);
