/* SPDX-License-Identifier: Apache-2.0 */
/*
 * target - one profiled container, from its registration to its last window.
 *
 * new: TARGET message; descriptor taken, tree and pidfd held.
 * armed: all events are there and enabled.
 * started: the init has exec'ed the program; from here on samples count. Earlier records are the runtime's: they only
 * build address spaces. A target that ran already starts when everything before the first record is known
 * (target_tasks), one without events when libpillion in it has connected (inproc.h).
 * ended: cgroup empty, or (other strategies) every event hung up, or no process is connected; last window, everything
 * closed.
 *
 * The cost of a target to us, `cost`: CPU time of windows and of requests for names is measured, as they are few.
 * Records are many: the CPU time of each drain of the rings is shared out by the number of records of each target, so a
 * record costs an addition. Common work (connections, looks at targets, kernel names) is in no target's cost.
 */
#pragma once

#include "oci/base/pair_table.h"
#include "profiler/offcpu/offcpu.h"
#include "profiler/perf/record.h"
#include "profiler/process/process_table.h"
#include "profiler/sample/aggregate.h"
#include "profiler/sample/event_dedup.h"
#include "profiler/sample/sampling.h"
#include "profiler/sample/stack_dump_size.h"
#include "profiler/target/engine_state.h"
#include "profiler/target/target_rate.h"
#include "shim/protocol/messages.h"

#include <stdbool.h>
#include <stdint.h>

/* Parts of a target, each for the file that is named. -1: there is no such descriptor. */
struct target_owner {						/* the connection that registered it */
	void (*on_ended)(void *arg, const struct msg_ended *m); /* or NULL; the target is still there */
	void *arg;
};

struct target_fs { /* target_open.c */
	int tree, exe;
	struct target_files_opener opener; /* used where a reader may not open a file */
	struct target_files_account account;
	size_t maps_left;     /* bytes of mappings that it may still send */
	bool has_own_modules; /* of files without a build-id: freed with it */
};

struct target_usage { /* target_usage.c */
	int cgroup;   /* a directory, to pass on */
	int events, cpu_stat;
	uint64_t cpu_first;  /* cpu.stat usage_usec as it was armed */
	uint64_t cpu_last;   /* cpu.stat usage_usec as last read: the runtime may remove the cgroup at any time, */
	uint64_t cpu_weight; /* and ns of this window's samples of CPU time by then */
};

struct target_watch { /* target.c: for its end */
	int pidfd;
	struct event_loop_source pid_source, cgroup_source;
	int64_t next_look;
};

struct target_events { /* target.c */
	struct open_event *list;
	uint32_t n_announced, n_uncovered; /* events received; those of CPUs that came up after us */
	bool bare;			   /* a CPU was up without an event of it (profiler/sample/cpu_coverage.h) */
	struct event_dedup *dedup;	   /* STRATEGY_THREADS */
	struct stack_dump_size dump_sizes[EVENTS_MAX];
};

struct target_turn {	  /* engine.c */
	uint64_t records; /* of the drain under way */
	struct target *next;
	int64_t due; /* no look before, except at all targets */
};

struct target_spool {		/* window.c */
	bool handed;		/* a profile was handed to the exporter */
	unsigned unwritten;	/* profiles handed over, not answered yet */
	int64_t written_by;	/* at its end: until when it waits for them, 0: it does not wait */
	char last_profile[400]; /* below the spool, "" = none was written */
};

struct target_names {		      /* symbol_requests.c */
	struct pair_table not_named;  /* of modules, by number */
	int64_t spent;		      /* ns: time of jobs for its names */
	struct symbol_request *ahead; /* names asked for while the window is under way */
	int64_t ahead_due, ahead_step;
};

struct target_crashes {		      /* crash_record.c */
	struct crash_record *records; /* that wait for names */
	int64_t credit;		      /* as of when it may have another report; ns, CLOCK_MONOTONIC */
};

struct target_kernel { /* of an event's kind, up to the last change of its rate: numbers of 64 bits alone, as the tally
			*/
	uint64_t lost_known, lost, lost_weight, counted;
	uint64_t weight_then, taken_then, counted_then; /* of the tally */
	uint64_t enabled, running;			/* ns, where events take turns */
};

struct target_window { /* window.c, target_counts.c: the window under way */
	struct target_kernel kernel[EVENTS_MAX];
	uint64_t ran_then; /* ns, of all its threads until this window began */
	unsigned seq;
	int64_t real; /* ns */
	struct {
		uint64_t lost, throttled;
	} past;		     /* of windows that are over */
	struct window *over; /* that wait for names */
};

struct target_saved {  /* checkpoint_write.c: of the journal's copy */
	bool known;    /* it is in the journal */
	bool lossy;    /* and no record has come since */
	bool left_out; /* it takes too much room */
	bool streams;  /* to be written whole */
};

struct target {
	struct engine *engine;
	struct target *next;
	uint64_t serial; /* never used twice */
	uint32_t number; /* given by the supervisor */
	int64_t born;	 /* ns: when it came */
	struct target_desc desc;
	struct target_owner owner;
	struct target_fs fs;
	struct target_usage usage;
	struct target_watch watch;
	struct target_events events;
	struct sampling sampling;
	struct target_turn turn;
	struct target_window window;
	struct target_names names;
	struct target_spool spool;
	struct target_crashes crash;
	struct target_saved saved;
	struct offcpu *offcpu; /* NULL: no event measures waits */
	int app;	       /* socket to which processes with libpillion connect */
	struct inproc *apps;   /* NULL: none do */
	bool armed, ending;
	bool detached; /* its events wrote into no ring for a while (fd_store.h) */
	bool early;    /* the window under way ends for want of room (profiler/target/limits.h) */
};

/* Takes the descriptors (in the order of enum target_fd) also on failure. -EALREADY: it is a target already. */
int target_new(struct engine *g, const struct target_desc *d, const int *fds, struct target **ret, struct err *e);
/* Takes the descriptor. */
int target_add_event(struct target *t, const struct event_desc *d, int fd, struct err *e);
int target_arm(struct target *t, uint32_t n_events, struct err *e);
/* Adds threads and maps (taken) of a target that ran before it was armed. The last message starts it. */
void target_tasks(struct target *t, const struct msg_tasks *m, const int *maps);
void target_begin(struct target *t); /* starts a target without events, which has no record of its start */
/* Handles a record of one of its events. */
void target_record(struct target *t, struct open_event *st, const struct perf_event_header *h);
void target_lost(struct target *t, uint64_t count, uint32_t cpu, int64_t time, bool shared);
void target_damaged(struct target *t, uint64_t times, int64_t time); /* rings skipped unknown records */

/* For a successor (profiler/target/checkpoint/checkpoint_read.h). */
int target_tasks_new(struct target *t);					 /* replaces the process table */
void target_replay(struct target *t, const struct perf_event_header *h); /* a side-band record of a journal */
/* Everything is as it was `gap` ns ago; blank: its state is unknown, it counts from now on. */
void target_resume(struct target *t, int64_t gap);
void target_resume_blank(struct target *t);
void target_set_window_start(struct target *t, int64_t mono); /* wall-clock time: by the clock as it is set now */
void target_reset_clock(struct target *t);		      /* of a window that begins now, by the kernel's counts */

/* Does its work that is due; may free it. Returns milliseconds until the next time, -1: nothing to do. */
int target_round(struct target *t, int64_t now);
/* Closes its events and its last window. Once that is written, everything else is closed and it is freed. */
void target_end(struct target *t);
void target_free_if_done(struct target *t); /* frees it, if it has ended and no data waits any more */
/* Before it was armed: frees it. */
void target_forget(struct target *t);
struct target *target_find(struct engine *g, const char *id);
