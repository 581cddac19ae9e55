/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replay - a recording (tests/replay/recording.h) through all of the product that a run goes through: rings, records,
 * targets, unwinder, symbolizer, windows, pprof. Clock and files are the recording's.
 */
#pragma once

#include "profiler/pprof/profile.h"
#include "shim/event/event_spec.h"
#include "tests/replay/recording.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { REPLAY_PROFILES_MAX = 256 };

/* A part before it is fed: bytes may be changed, and their number lowered; 0: it is left out. */
typedef void replay_alter_fn(void *arg, uint32_t type, uint8_t *body, uint32_t *size);

struct replay_options {
	uint32_t window_s; /* 0: a minute */
	replay_alter_fn *alter;
	void *arg;
};

struct replay_profile { /* as the exporter gets it */
	char event[EVENT_NAME_MAX];
	uint8_t *bytes;
	size_t size;
	struct profile *profile; /* read back from it */
};

struct replay {
	struct recording_run run;
	struct event_spec specs[EVENTS_MAX];
	/* what the kernel sent and counted, of all CPUs, by event */
	uint64_t samples[EVENTS_MAX], lost[EVENTS_MAX], counted[EVENTS_MAX], lost_by_read[EVENTS_MAX];
	struct replay_profile profiles[REPLAY_PROFILES_MAX]; /* in the order of windows */
	size_t n_profiles;
	uint64_t malformed;  /* records that do not fit their event */
	int64_t named_ahead; /* ns from the program's beginning to the first question for names before its end; 0: none
			      */
};

/* name: of tests/replay/recordings. Fails the test where it cannot be replayed to its end. */
void replay_run(struct replay *r, const char *name, const struct replay_options *options);
void replay_done(struct replay *r);
