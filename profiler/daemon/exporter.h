/*
 * exporter - a process of pilliond's that writes the spool and serves metrics.
 *
 * The worker, which handles what targets say, hands over the bytes of a finished profile in a sealed memfd and goes on;
 * the answer says where it lies below the spool, or why it is lost. So a spool that is slow, full or hung holds up
 * nobody but the exporter. The exporter has no descriptor of a target, no capability, and a seccomp role of its own.
 *
 * They speak through a SOCK_SEQPACKET socket pair, in the structs below: both ends are this program. Whatever comes is
 * checked all the same. On the worker's side up to EXPORT_SENT_MAX profiles are under way and up to a limit are held;
 * beyond that the newest is refused. A profile is held until it is answered: when the exporter dies, all of them go to
 * its successor (exporter_client_connect). What the predecessor had written already is found by its bytes (spool.h), so
 * there is one file of it. When the worker dies, its successor makes what it heard no answer for once more, with other
 * bytes where it knows other names: of the last EXPORT_WRITTEN that it wrote, an exporter knows target, start, number
 * and event, and answers with the path of the first one.
 *
 * An exporter ends when its socket is closed, after it has written what it was handed: signals other than KILL do not
 * end it. Nothing ends one that a file system holds up; whoever started it must not wait for it for long.
 */
#pragma once

#include "oci/base/err.h"
#include "oci/base/event_loop.h"
#include "profiler/target/hook_stats.h"
#include "shim/protocol/messages.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define EXPORT_MAGIC 0x70786570	       /* "pexp" */
#define EXPORT_PROFILE_MAX (64u << 20) /* bytes of one */
#define EXPORT_SENT_MAX 16	       /* under way: each is a descriptor, of those that control_server.c reserves */
#define EXPORT_HELD_MAX 2048	       /* not answered: one event of 1,000 targets twice over */
#define EXPORT_HELD_BYTES (32ul << 20) /* of a service: an eighth of its memory */
#define EXPORT_HELD_BYTES_SESSION (8ul << 20)  /* the same */
#define EXPORT_WRITTEN 256		       /* that an exporter remembers: all that are under way, many times */
#define EXPORT_TRIES_MAX 5		       /* one that so many exporters died of is lost */
#define EXPORT_LISTING_NS (1000 * 1000 * 1000) /* the worker lists its targets no more often */

enum export_type {
	EXPORT_PROFILE = 1, /* to the exporter, with its memfd */
	EXPORT_LIMITS,	    /* to the exporter */
	EXPORT_STATE,	    /* to the exporter; then come MSG_LISTINGs (shim/protocol/messages.h) */
	EXPORT_DONE,	    /* of a profile */
	EXPORT_ASK,	    /* for a state and listings */
	EXPORT_CRASH,	    /* to the exporter: as a profile, but it is a report (crash_dir.h) */
};

struct export_head {
	uint32_t magic, type;
	uint64_t id; /* of the profile: never used twice, nor by another worker */
};

/* Of what and when; texts end with NUL. */
struct export_profile {
	struct export_head head;
	uint64_t bytes, samples;
	int64_t start_ns, duration_ns; /* since the epoch */
	uint32_t seq;		       /* of a report: the pid */
	uint32_t rest;		       /* profiles of the same window that come behind it */
	char event[EVENT_NAME_MAX], id[256], name[256], pod[256], pod_namespace[256];
};

struct export_limits {
	struct export_head head;
	uint64_t spool_bytes;
	uint32_t spool_age_s, reserved;
};

struct export_done {
	struct export_head head;
	int32_t code;	/* 0, or negative errno */
	char text[320]; /* then: why */
	char path[400]; /* below the spool */
};

/* What the worker knows of itself beside its targets. */
struct export_state {
	struct export_head head;
	uint64_t held, held_bytes; /* not answered */
	uint64_t dropped;	   /* refused: too many were held; never to be written */
	uint64_t exporters;	   /* started so far */
	uint32_t symbolizer;	   /* 1: there is one */
	uint32_t readers;	   /* 1: files of targets can be read */
	uint32_t renewable;	   /* 1: of both there is another one when they end */
	uint32_t reserved;
	struct hook_stats outcomes; /* of hooks */
};

struct export_ask {
	struct export_head head;
};

/* What was received is one of `type`, and whole. */
bool export_check(const void *message, size_t size, size_t n_fds, enum export_type type);

/* --- the process --- */

struct exporter_setup { /* descriptors are borrowed */
	int spool;	/* its directory, open */
	uid_t user;	/* not root: this one's profiles, in a directory of their own (user_spool.h) */
	uint64_t spool_bytes;
	uint32_t spool_age_s;
	int http;	/* where metrics are served: a listening socket, or -1 */
	uint16_t port;	/* of it, 0: a Unix socket. With a port, who asks must have the token, and no foreign Host: */
	char token[40]; /* "" = none */
};

struct exporter_process {
	pid_t pid; /* a child without exit signal: waitpid with __WALL */
	int sock;  /* the worker's side */
};

/*
 * Before the caller enters its own role: what cannot be loaded later. Without it nothing is served, and `e` says so; it
 * is needed only with setup.http.
 */
int exporter_load(struct err *e);
/* Forks it. The caller has one thread, and a seccomp role that lets through what SECCOMP_EXPORTER does, or none. */
int exporter_start(const struct exporter_setup *setup, struct exporter_process *ret, struct err *e);
/* The process itself; takes the descriptors. Ends when the socket does. */
_Noreturn void exporter_run(const struct exporter_setup *setup, int sock);

/* --- the worker's side --- */

struct exporter_client;
struct exporter_owner {
	void *arg;
	/* Answered, refused by all, or forgotten (`of` is NULL then). path NULL: it is lost, `e` says why. */
	void (*done)(void *arg, void *of, const struct export_profile *p, const char *path, const struct err *e);
	void (*lost)(void *arg);			    /* it has ended, or talks nonsense: another one */
	void (*state)(void *arg, struct export_state *ret); /* what only the owner knows */
	void (*listing)(void *arg, uint64_t before, struct msg_listing *ret); /* as target_list_fill */
};

/* held_bytes: of profiles, until they are answered. */
int exporter_client_new(
	struct event_loop *l, size_t held_bytes, const struct exporter_owner *owner, struct exporter_client **ret);
/* Sends what fits the socket, and closes it. What was not answered is nobody's business any more: no calls. */
struct exporter_client *exporter_client_free(struct exporter_client *c);
/* Takes the socket of a (new) exporter; what is not answered goes to it. -1: there is none for now. */
int exporter_client_connect(struct exporter_client *c, int sock);
bool exporter_client_connected(const struct exporter_client *c);
void exporter_client_limit(struct exporter_client *c, uint64_t spool_bytes, uint32_t spool_age_s);
/*
 * Takes `bytes` (malloc'ed), also on failure; of `p` the head is made here, but for its
 * type: 0 is EXPORT_PROFILE. `of` is given back with the answer, which
 * never comes before this returns. -ENOBUFS: too many are not answered.
 */
int exporter_write(struct exporter_client *c, struct export_profile *p, uint8_t *bytes, void *of, struct err *e);
/* `of` ends: what of it is not answered is written all the same, and told with NULL. */
void exporter_client_cancel_owner(struct exporter_client *c, const void *of);
/* Listings that are due; milliseconds until the next, or -1. */
int exporter_client_round(struct exporter_client *c, int64_t now);
