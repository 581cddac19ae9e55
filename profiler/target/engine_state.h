/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine_state - the state that all targets of a pilliond share, and how they ask for the attention of the engine that
 * drives them (engine.h).
 */
#pragma once

#include "oci/base/event_loop.h"
#include "profiler/elf/target_file.h"
#include "profiler/perf/cpu_rings.h"
#include "profiler/perf/open_events.h"
#include "profiler/process/module.h"
#include "profiler/process/quarantine.h"
#include "profiler/sample/aggregate.h"
#include "profiler/sample/sample_rate.h"
#include "profiler/spool/exporter_client.h"
#include "profiler/symbol/jit_symbols.h"
#include "profiler/symbol/kallsyms.h"
#include "profiler/symbol/symbolizer_client.h"
#include "profiler/unwind/unwind.h"
#include "shim/protocol/hook_stats.h"

#include <stdbool.h>
#include <sys/types.h>

struct target;
struct checkpoint;
struct cpu_coverage;

#define ENGINE_ROUND_MS 200 /* from one look at all targets to the next, while programs begin and end */

struct engine_limits { /* profiler/target/limits.h; 0: none */
	uint32_t targets, fds;
	size_t modules, jit; /* bytes */
};

struct engine {
	struct event_loop *loop;
	void (*drain)(struct engine *g, bool all); /* engine_drain; NULL: there is nothing to drain */
	struct checkpoint *commit;		   /* for a successor; NULL: there will be none */
	struct cpu_rings *rings;
	struct cpu_coverage *coverage; /* NULL: the online CPUs are unknown */
	struct open_events *streams;
	struct modules *modules;
	struct unwind *unwind;
	struct jit_room jit_room;
	struct exporter_client *exporter;	      /* writes the spool; NULL: profiles are lost */
	int exporter_sock;			      /* for exporter_link_open; -1: none */
	struct symbolizer *symbolizer;		      /* NULL: none, names are those of the symbol tables */
	struct symbolizer_sockets symbolizer_sockets; /* for symbolizer_link_open */
	bool symbolizer_renewable;		      /* there can be another one */
	struct target_files *files; /* of targets, and of the host beneath `root`, DEBUG_DIR (O_PATH, -1: none) */
	struct target_files_account host_files;
	int root;
	int kallsyms_fd;			      /* opened while privileged, read on first use */
	struct kallsyms *kallsyms, *kallsyms_partial; /* complete; read so far */
	struct err kallsyms_none;		      /* why kernel names are missing */
	bool single;				      /* a session: losses of a ring are this one target's */
	bool modest;				      /* not a service of the node: smaller caps; see supervisor.h */
	struct target *targets;
	struct target *drained;	       /* targets with records in the drain under way */
	unsigned n_targets, n_streams; /* held now */
	unsigned n_offcpu;	       /* targets with wait times */
	int64_t look_again;	       /* at all targets: ends, windows, names */
	int64_t due;		       /* the earliest work of a target, or of the journal */
	int round_ms;		       /* from one look to the next */
	int64_t woken, pause;	       /* the last round, and how long behind the one before; 0 in a service */
	bool restless;		       /* since the last look, records other than samples came */
	uint64_t last_serial;	       /* of a target */
	struct engine_limits limits;
	struct memory_limit tables; /* of all targets */
	struct rate_control rates;
	uint64_t refused; /* targets for which there was no room */
	int64_t park_by;  /* engine_flush_for_handover's end */
	struct cpu_rings_progress progress;
	struct spool_lock *spool_lock; /* of a session, or NULL */
	char spool_path[1024];
	uint64_t records, unknown;    /* handed over; of unknown events */
	struct crash_marker *at;      /* shared with the supervisor: it outlives us */
	struct quarantine quarantine; /* the supervisor's, as of our fork */
	int estate;		      /* worker_handover.h: the listening socket; or -1 */
	bool leaving;		      /* the supervisor that takes over there has a worker of its own */
	uid_t trusted;		      /* beside root: the user that started us */
	int journal[2];		      /* memory files, for profiler/target/checkpoint/checkpoint_write.h; or -1 */
	int channel, statm;	      /* worker.h; /proc/self/statm; or -1 */
	bool resuming;		      /* a target of another worker comes: its events write into our rings already */
	struct hook_stats outcomes;   /* of hooks */
	char rings_note[160];
	struct err no_perf; /* a session without rings: why perf events are refused */
	char node[254];	    /* in labels; "" before engine_init: the host's name */
	struct event_loop_source ring_sources[CPU_RINGS_CPUS_MAX];
};

/* Drains records older than a moment ago, or up to now if `all` (the writers of interest have ended). */
void engine_drain(struct engine *g, bool all);
/* Returns how many descriptors we hold. Computes it: to look up thousands takes long, and a start may be waiting. */
uint64_t engine_fds(const struct engine *g);
/* Reads kernel names: a slice, true if there are more; all that are left, once, when they are needed. */
bool engine_read_some_kallsyms(struct engine *g);
void engine_read_kallsyms(struct engine *g);
/*
 * Returns the level of a log line that a peer can cause as often as it likes. The peers of a service for one user
 * (user_services.h) are that user, and the log is the administrator's.
 */
int engine_peer_level(const struct engine *g);
/* Drains and looks at that target after `nsec`. */
void engine_schedule_target(struct engine *g, struct target *t, int64_t nsec);
/*
 * Something begins: the next look at all targets is soon. Not now, as it reads a file of each: a caller that registers
 * a target would wait for a thousand others.
 */
void engine_schedule_all(struct engine *g);
