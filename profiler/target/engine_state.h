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

/* Parts of an engine. -1: there is no such descriptor. */
struct engine_perf { /* what was opened, and what is read with it */
	struct cpu_rings *rings;
	struct cpu_rings_progress progress;
	struct event_loop_source ring_sources[CPU_RINGS_CPUS_MAX];
	char rings_note[160];
	struct err none;	       /* a session without rings: why perf events are refused */
	struct open_events *events;    /* of all targets */
	struct cpu_coverage *coverage; /* NULL: the online CPUs are unknown */
	uint64_t records, unknown;     /* handed over; of unknown events */
	bool resuming;		       /* a target of another worker comes: its events write into our rings already */
};

struct engine_symbols {
	struct modules *modules;
	struct unwind *unwind;
	struct jit_room jit_room;
	struct symbolizer *symbolizer;		      /* NULL: none, names are those of the symbol tables */
	struct symbolizer_sockets symbolizer_sockets; /* for symbolizer_link_open */
	bool symbolizer_renewable;		      /* there can be another one */
	struct target_files *files; /* of targets, and of the host beneath `root`, DEBUG_DIR (O_PATH, -1: none) */
	struct target_files_account host_files;
	int root;
	int kallsyms_fd;			      /* opened while privileged, read on first use */
	struct kallsyms *kallsyms, *kallsyms_partial; /* complete; read so far */
	struct err kallsyms_none;		      /* why kernel names are missing */
};

struct engine_spool {
	struct exporter_client *exporter; /* writes the spool; NULL: profiles are lost */
	int exporter_sock;		  /* for exporter_link_open; -1: none */
	struct spool_lock *lock;	  /* of a session, or NULL */
	char path[1024];
};

struct engine_round {
	int64_t look_again;   /* at all targets: ends, windows, names */
	int64_t due;	      /* the earliest work of a target, or of the journal */
	int interval_ms;      /* from one look to the next */
	int64_t woken, pause; /* the last round, and how long behind the one before; 0 in a service */
	int64_t flush_by;     /* engine_flush_for_handover's end */
	struct target *turn;  /* targets with records in the drain under way */
	bool restless;	      /* since the last look, records other than samples came */
};

struct engine_role {	/* what this process is */
	bool single;	/* a session: losses of a ring are this one target's */
	bool modest;	/* not a service of the node: smaller caps; see supervisor.h */
	uid_t trusted;	/* beside root: the user that started us */
	char node[254]; /* in labels; "" before engine_init: the host's name */
};

struct engine_host {		      /* inherited from the supervisor, or shared with it */
	struct crash_marker *at;      /* it outlives us */
	struct quarantine quarantine; /* as of our fork */
	int handover;		      /* worker_handover.h: the listening socket */
	bool leaving;		      /* the supervisor that takes over there has a worker of its own */
	int journal[2];		      /* memory files, for checkpoint_write.h */
	int channel, statm;	      /* worker.h; /proc/self/statm */
};

struct engine {
	struct event_loop *loop;
	void (*drain)(struct engine *g, bool all); /* engine_drain_rings, by engine_init */
	struct checkpoint *commit;		   /* for a successor; NULL: there will be none */
	struct engine_perf perf;
	struct engine_symbols symbols;
	struct engine_spool spool;
	struct engine_round round;
	struct engine_role role;
	struct engine_host host;
	struct target *targets;
	unsigned n_targets, n_events; /* held now */
	unsigned n_offcpu;	      /* targets with wait times */
	uint64_t last_serial;	      /* of a target */
	uint64_t refused;	      /* targets for which there was no room */
	struct engine_limits limits;
	struct memory_limit tables; /* of all targets */
	struct rate_control rates;
	struct hook_stats outcomes; /* of hooks */
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
