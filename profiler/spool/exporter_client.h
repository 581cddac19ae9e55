/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exporter_client - the worker's side of the exporter (profiler/daemon/exporter.h), and the messages of both sides: a
 * SOCK_SEQPACKET socket pair with the structs below, as both ends are this program. All messages are checked all the
 * same.
 *
 * Up to EXPORT_SENT_MAX profiles are under way and up to a limit are held; beyond that the newest is refused. A profile
 * is held until it is answered: when the exporter dies, all of them go to its successor (exporter_client_connect).
 * Profiles that the predecessor had written already are found by their bytes (spool.h), so there is one file of each.
 * When the worker dies, its successor makes a profile that had no answer yet once more, with other bytes where it knows
 * other names: an exporter remembers target, start, number and event of the last EXPORT_WRITTEN that it wrote, and
 * answers with the path of the first one.
 */
#pragma once

#include "oci/base/err.h"
#include "oci/base/event_loop.h"
#include "shim/protocol/hook_stats.h"
#include "shim/protocol/messages.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXPORT_MAGIC 0x70786570	       /* "pexp" */
#define EXPORT_PROFILE_MAX (64u << 20) /* bytes of one */
#define EXPORT_SENT_MAX 16	       /* under way: each is a descriptor, of those that control_server.c reserves */
#define EXPORT_HELD_MAX 2048	       /* not answered: one event of 1,000 targets twice over */
#define EXPORT_HELD_BYTES (32ul << 20) /* of a service: an eighth of its memory */
#define EXPORT_HELD_BYTES_SESSION (8ul << 20)  /* the same */
#define EXPORT_WRITTEN 256		       /* that an exporter remembers: all that are under way, many times */
#define EXPORT_TRIES_MAX 5		       /* a profile that ended so many exporters is lost */
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

/* The profile's target and time; texts end with NUL. */
struct export_profile {
	struct export_head head;
	uint64_t bytes, samples;
	int64_t start_ns, duration_ns; /* since the epoch */
	uint32_t seq;		       /* of a report: the pid */
	uint32_t rest;		       /* profiles of the same window that follow it */
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
	char text[320]; /* the reason of an error */
	char path[400]; /* below the spool */
};

/* The worker's own state, beside its targets. */
struct export_state {
	struct export_head head;
	uint64_t held, held_bytes; /* not answered */
	uint64_t dropped;	   /* refused: too many were held; never to be written */
	uint64_t exporters;	   /* started so far */
	uint32_t symbolizer;	   /* 1: there is one */
	uint32_t readers;	   /* 1: files of targets can be read */
	uint32_t renewable;	   /* 1: both are replaced when they end */
	uint32_t reserved;
	struct hook_stats outcomes; /* of hooks */
};

struct export_ask {
	struct export_head head;
};

/* Returns whether a received message is of `type`, and whole. */
bool export_check(const void *message, size_t size, size_t n_fds, enum export_type type);

struct exporter_client;
struct exporter_owner {
	void *arg;
	/*
	 * The profile is answered, refused by all exporters, or forgotten (`of` is NULL then). path NULL: it is lost,
	 * `e` has the reason.
	 */
	void (*done)(void *arg, void *of, const struct export_profile *p, const char *path, const struct err *e);
	void (*lost)(void *arg); /* the exporter has ended, or talks nonsense: start another */
	void (*state)(void *arg, struct export_state *ret);		      /* fills in the owner's part */
	void (*listing)(void *arg, uint64_t before, struct msg_listing *ret); /* as target_list_fill */
};

/* held_bytes: limit for profiles that are not answered. */
int exporter_client_new(
	struct event_loop *l, size_t held_bytes, const struct exporter_owner *owner, struct exporter_client **ret);
/* Sends as many profiles as the socket takes, and closes it. No calls follow for those without an answer. */
struct exporter_client *exporter_client_free(struct exporter_client *c);
/* Takes the socket of a (new) exporter; profiles without an answer go to it. -1: there is none for now. */
int exporter_client_connect(struct exporter_client *c, int sock);
bool exporter_client_connected(const struct exporter_client *c);
void exporter_client_limit(struct exporter_client *c, uint64_t spool_bytes, uint32_t spool_age_s);
/*
 * Takes `bytes` (malloc'ed), also on failure. The head of `p` is made here, except its type: 0 is EXPORT_PROFILE. `of`
 * is given back with the answer, which never comes before this returns. -ENOBUFS: too many are not answered.
 */
int exporter_write(struct exporter_client *c, struct export_profile *p, uint8_t *bytes, void *of, struct err *e);
/* `of` ends: its profiles without an answer are written all the same, and reported with NULL. */
void exporter_client_cancel_owner(struct exporter_client *c, const void *of);
/* Sends listings that are due; returns milliseconds until the next, or -1. */
int exporter_client_round(struct exporter_client *c, int64_t now);
