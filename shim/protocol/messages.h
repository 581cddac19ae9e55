/* SPDX-License-Identifier: Apache-2.0 */
/*
 * messages - the control socket's messages: SOCK_SEQPACKET, fixed layout, native byte order, descriptors by SCM_RIGHTS.
 *
 *	hook				pilliond
 *	HELLO				->
 *					<- WELCOME | REFUSE
 *	TARGET  + tree, cgroup, pidfd	->
 *	EVENTS  + n perf events	->		 (as many batches as it takes; the last one says how many in all)
 *					<- OK | REFUSE
 *	STOP				->		(poststop, a connection of its own)
 *
 * A target of strategy `timers` has no events: it is armed by its TARGET, and that is answered.
 *
 * The OK to the last batch means "armed": the container may start. Records do not tell which processes and mappings a
 * running target has already (`pillion attach`), so those come behind the last batch. The target is then profiled as
 * long as its connection lasts:
 *
 *	TASKS   + n files of mappings	->		 (as many batches as it takes; the last one says so)
 *					<- OK | REFUSE	 (to the last: the window begins)
 *	STOP | EOF			->		 (detach)
 *					<- ENDED	 (also when the target ends by itself)
 *
 * A client that asks for the list of targets (`pillion ps`) does so on a connection of its own:
 *
 *	LIST				->
 *					<- LISTING | REFUSE (as many as it takes; the last one has the sums)
 *
 * The hook reports a start without a profile on a connection of its own, and one that was armed behind the last OK:
 *
 *	OUTCOME				->		 (a notice)
 *
 * Root tells a restarted service the mappings that it has missed:
 *
 *	HELLO				->
 *					<- WELCOME | REFUSE
 *	REMAP				->
 *					<- TARGET + pidfd (one of those) | OK (there is none, or no other)
 *	TASKS   + n files of mappings	->		 (as above)
 *					<- OK | REFUSE	 (and REMAP again)
 *
 * Lock-step: the next batch goes out when the one before is answered, so at most one batch of
 * descriptors is in flight (and a target's own few). Every message starts with struct msg_head; a receiver takes
 * version N and N-1, and answers anything else with REFUSE. EOF at any point means the peer is dead: a target that is
 * not armed is forgotten. All waits share one deadline.
 *
 * A message has the lowest version that knows its contents, so that a peer of the version before takes all but the new
 * ones. New ones go only to a peer that knows them: the client says its version in its HELLO (HELLO_SPEAKS; a client of
 * version 2 says nothing there, and a service of version 2 does not look), and the version of the WELCOME is the lesser
 * of that and the service's own.
 */
#pragma once

#include "oci/base/err.h"
#include "oci/config/options.h"
#include "shim/event/perf_event.h"
#include "shim/event/target_desc.h"

#include <stddef.h>
#include <stdint.h>

#define PROTOCOL_MAGIC 0x6e6c6c70 /* "plln" */
#define PROTOCOL_VERSION 3
#define PROTOCOL_OLDEST 2      /* version 1 had events without fields, stacks and modes of their own */
#define PROTOCOL_FILES 3       /* since then a target may have TARGET_FILES */
#define PROTOCOL_BATCH_MAX 253 /* SCM_MAX_FD */

#define PROTOCOL_TASKS_MAX 1024
#define PROTOCOL_LISTED_MAX 18

enum msg_type {
	MSG_HELLO = 1,
	MSG_WELCOME,
	MSG_REFUSE,
	MSG_TARGET,
	MSG_EVENTS,
	MSG_OK,
	MSG_STOP,
	MSG_TASKS,
	MSG_ENDED,
	MSG_LIST,
	MSG_LISTING,
	MSG_OUTCOME,
	MSG_REMAP,
	MSG_TYPES
};

struct msg_head {
	uint32_t magic;
	uint16_t version;
	uint16_t type; /* enum msg_type */
	uint32_t size; /* of the whole message */
	uint32_t fds;  /* descriptors that go with it */
};

struct msg_hello {
	struct msg_head head;
	uint32_t budget_ms;
	uint32_t flags;
};
#define HELLO_NO_PERF 1 /* do not refuse, even if pilliond may not use perf events either */
#define HELLO_SPEAKS(version) ((uint32_t)(version) << 16)

struct msg_welcome {
	struct msg_head head; /* its version: the one that both speak from here on */
	uint32_t batch_max;   /* descriptors per message that the receiver can take now */
	uint32_t events_max;  /* events that one target may have; 0: pilliond may not use perf events */
};

struct msg_refuse {
	struct msg_head head;
	int32_t code; /* negative errno */
	char text[320];
};

struct msg_target {
	struct msg_head head;
	struct target_desc desc;
};

struct event_desc {
	uint32_t role; /* enum perf_role */
	uint32_t spec; /* PERF_SAMPLES: index into target_desc.events */
	int32_t cpu;
	uint16_t rung; /* 1 to PERF_RUNGS: others of the same spec and CPU have other snapshots; 0: it is alone */
	uint16_t idle; /* not yet enabled: another rung of these counts so far, or it is not its turn */
	struct perf_layout layout;
};

struct msg_events {
	struct msg_head head;
	uint32_t n;
	uint32_t total; /* 0, or in the last batch: how many events there were in all */
	struct event_desc events[PROTOCOL_BATCH_MAX];
};

struct task_desc {
	int32_t pid, tid;  /* numbered as records do */
	uint32_t has_maps; /* a file of its process' mappings (shim/attach/proc_maps_copy.h) comes along, in the order
			      of these */
	char name[16];
};

struct msg_tasks {
	struct msg_head head;
	uint32_t n; /* may be none in the last */
	uint32_t last;
	char notes[256]; /* in the last: notes made since TARGET */
	struct task_desc tasks[PROTOCOL_TASKS_MAX];
};

struct msg_ended {
	struct msg_head head;
	uint64_t samples;
	char profile[1536]; /* the path of its last profile, "" = none was written */
};

struct msg_list {
	struct msg_head head;
};

enum listed_state { LISTED_REGISTERED = 1, LISTED_ARMED, LISTED_STARTED, LISTED_ENDING }; /* profiler/target/target.h */
#define LISTED_UNKNOWN UINT64_MAX

struct target_row {
	char id[256], name[256], pod[256], pod_namespace[256];
	char profile[400]; /* the last one that was written, below the spool; "" = none yet */
	uint32_t state;	   /* enum listed_state */
	uint32_t strategy; /* enum strategy */
	uint32_t kernel;   /* kernel frames and time are included */
	int32_t host_pid;
	uint32_t window_s;
	uint32_t n_events;
	struct event_spec events[EVENTS_MAX];
	uint64_t serial;	    /* never used twice; targets are listed from high to low */
	uint64_t age_ms, window_ms; /* since it registered; since the window under way began, 0: none has */
	uint64_t samples, window_samples;
	uint64_t lost;	      /* samples, by the kernel's own count; of windows that are over */
	uint64_t lost_shared; /* records of the window under way, on rings that all targets share: of any target */
	uint64_t throttled;
	uint64_t cpu_us;    /* CPU time of the target since it was armed, by its cgroup's account, or LISTED_UNKNOWN */
	uint64_t cost_us;   /* CPU time of the worker for it: profiler/target/target.h */
	uint64_t naming_us; /* time of the symbolizer for it, from question to answer */
	uint64_t memory;    /* bytes of its counted stacks, and of its events */
	uint64_t records, bytes;  /* that its events wrote, samples or not */
	uint64_t capped, lowered; /* hundredths by which its own rate, and that of all, is lowered: 100 = not at all */
};

/* Of the whole service. */
struct target_totals {
	uint64_t targets;
	uint64_t fds, fds_max; /* held; RLIMIT_NOFILE */
	uint64_t rings, ring_bytes;
	uint64_t records, unknown; /* handed over; of events that are not known (any more) */
	uint64_t memory;	   /* resident bytes of the worker; of each process: the metrics */
	uint64_t cpu_us;	   /* of the worker, since it started */
	uint64_t minute_us;	   /* of profiling in the last minute, samples included (an estimate) */
	uint64_t allowed_us;	   /* a minute, 0 = no bound */
	uint64_t refused;	   /* targets for which there was no room */
	uint64_t table_bytes;	   /* counted stacks of all targets */
};

struct msg_listing {
	struct msg_head head;
	uint32_t n; /* may be none in the last */
	uint32_t last;
	struct target_totals sums; /* in the last */
	char spool[1016];	   /* where profiles are; a longer path is cut */
	/* of minute_us, the part that falls when all are sampled less often; version 2 had the end of spool here */
	uint64_t sampling_us;
	struct target_row targets[PROTOCOL_LISTED_MAX];
};

struct msg_ok {
	struct msg_head head;
};

struct msg_remap {
	struct msg_head head;
};

struct msg_stop {
	struct msg_head head;
	char id[256];
};

/* The outcome of a container's start, as the hook's log has it. Strict: REFUSED instead of UNPROFILED. */
enum hook_outcome { HOOK_ARMED = 1, HOOK_UNSAMPLED, HOOK_UNPROFILED, HOOK_REFUSED, HOOK_OUTCOMES };

struct msg_outcome {
	struct msg_head head;
	uint32_t outcome;  /* enum hook_outcome */
	uint32_t strategy; /* enum strategy; 0 unless it was armed */
	uint32_t us;	   /* the hook delayed the container's start for so long */
	uint32_t reserved;
};

union msg {
	struct msg_head head;
	struct msg_hello hello;
	struct msg_welcome welcome;
	struct msg_refuse refuse;
	struct msg_target target;
	struct msg_events events;
	struct msg_ok ok;
	struct msg_stop stop;
	struct msg_tasks tasks;
	struct msg_ended ended;
	struct msg_list list;
	struct msg_listing listing;
	struct msg_outcome outcome;
	struct msg_remap remap;
};

_Static_assert(sizeof(struct msg_head) == 16, "wire format");
_Static_assert(sizeof(struct event_desc) == 40, "wire format");
_Static_assert(sizeof(struct task_desc) == 28, "wire format");
_Static_assert(sizeof(struct target_row) == 3496, "wire format");
_Static_assert(sizeof(struct target_desc) == 7872, "wire format");
_Static_assert(offsetof(struct msg_listing, targets) == 1152, "wire format");
_Static_assert(sizeof(union msg) <= 65536, "one message fits in 64 KiB");

/* Fills in the head and sends. A message with n entries has no more bytes than they need. 0 or -errno. */
int msg_send(int sock, union msg *m, enum msg_type type, const int *fds, size_t n);
/* Answers a HELLO, with the version that both speak. */
int msg_welcome(int sock, const struct msg_hello *to, const struct msg_welcome *w);
/*
 * Checks a received message: magic, version, type, size for its type, descriptor count, strings terminated, enums and
 * counts in range. 0, or -EPROTO with a sentence (also for another version).
 */
int msg_check(union msg *m, size_t size, size_t n_fds, struct err *e);
/*
 * The same; -EPIPE, without a sentence: the size is 0, at EOF and of an empty datagram. Closes the descriptors on
 * error: *n is 0 then.
 */
int msg_check_or_close(union msg *m, size_t size, int *fds, size_t *n, struct err *e);
/*
 * Receives and checks one message before the deadline: 0, -ETIMEDOUT, -EPIPE (EOF), -EPROTO, -errno. The descriptors
 * belong to the caller; there are none on error.
 */
int msg_recv(int sock, int64_t deadline, union msg *m, int *fds, size_t max, size_t *ret_n, struct err *e);
/*
 * pilliond's: takes and checks the next message, with at most PROTOCOL_BATCH_MAX descriptors; there are none on error.
 * 0; -EAGAIN: there is no message; with a sentence for the peer -EMFILE and -EPROTO; without one -EPIPE: any other
 * error.
 */
int msg_take(int sock, union msg *m, int *fds, size_t *ret_n, struct err *e);
/* Sends. A peer that has hung up is no error yet: it may have said why, and msg_answer reads that. */
int msg_tell(int sock, union msg *m, enum msg_type type, const int *fds, size_t n, struct err *e);
/* Waits for `answer`. A REFUSE becomes an error with its code and text. */
int msg_answer(int sock, int64_t deadline, union msg *m, enum msg_type answer, struct err *e);
/* msg_tell, then msg_answer. */
int msg_call(int sock, int64_t deadline, union msg *m, enum msg_type type, const int *fds, size_t n,
	enum msg_type answer, struct err *e);
/* Answers with a refusal made from `e`. */
int msg_refuse(int sock, const struct err *e);
