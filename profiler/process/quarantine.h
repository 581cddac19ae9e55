/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quarantine - ELF files that killed workers, so that the next ones do not read them; and the blame for a death.
 *
 * A worker notes, in memory that it shares with the supervisor (struct crash_marker), the target that it works on, and
 * the module while it reads bytes that others wrote: headers, symbols, unwind tables, debug information. When it dies
 * there by its own fault (not by SIGKILL), that counts for the file, not for the target. The third death puts the file
 * in quarantine: the supervisor's next workers, which inherit the list when they are forked, keep its frames as module
 * and offset (module.h); profile and log say so. A target that is to blame itself is kept as addresses only. A file
 * never gets out again; the list ends with the supervisor, and is short: the oldest goes first.
 *
 * A file is known as modules are: by its build-id, for all targets; without one by path, device and inode, for one
 * target. Targets are known by the numbers that the supervisor gave them: all else is different in the next worker.
 *
 * A worker may have been taken over: its notes are copied once and made valid. Nor can it, or a target with one bad
 * file after the other, kill workers for ever: after QUARANTINE_EXCUSED deaths of one target further ones count as the
 * target's own again.
 */
#pragma once

#include "profiler/elf/elf.h"

#include <stdbool.h>
#include <stdint.h>

#define QUARANTINE_MAX 16	 /* files that are remembered */
#define QUARANTINE_DEATHS 3	 /* of a file, or of a target by its own fault */
#define QUARANTINE_EXCUSED 12	 /* of a target: four files */
#define QUARANTINE_PATH_MAX 1024 /* a longer one is cut */

struct module_key;

/* Workers that died, in ten minutes from the first on. */
struct crash_count {
	unsigned n;
	int64_t first; /* CLOCK_MONOTONIC */
};
unsigned deaths_count(struct crash_count *d, int64_t now); /* counts one more; returns how many */

struct quarantine_file {
	uint64_t ino;
	uint32_t maj, min;
	uint32_t target; /* its target; 0: any, as it has a build-id */
	uint8_t build_id[ELF_BUILD_ID_MAX];
	uint8_t build_id_len;
	char path[QUARANTINE_PATH_MAX];
};

/* The present work of a worker. */
struct crash_marker {
	uint32_t target;  /* the target of its records or windows, by number; 0: none */
	uint32_t reading; /* the file's bytes are being read */
	struct quarantine_file file;
};

/* --- the supervisor's side --- */

struct quarantine {
	struct quarantined {
		struct quarantine_file file;
		struct crash_count deaths; /* n 0: a free place */
		bool shut;		   /* it is not read any more */
	} list[QUARANTINE_MAX];
};

struct crash_blame {		    /* of one target */
	struct crash_count own;	    /* its own fault */
	struct crash_count excused; /* the fault of files */
};

enum crash_verdict {
	VERDICT_TARGET,	    /* the target's own fault: one more in blame.own */
	VERDICT_FILE,	    /* the fault of the file that was being read */
	VERDICT_QUARANTINE, /* ... and once too often: *ret_file is not read any more */
};
/*
 * Returns the verdict on a worker that died by its own fault at a target that exists. *ret_file: valid, unless the
 * verdict is the target.
 */
enum crash_verdict quarantine_judge(struct quarantine *q, const struct crash_marker *at, struct crash_blame *of,
	int64_t now, struct quarantine_file *ret_file);

/* --- the worker's side --- */

bool quarantine_has(const struct quarantine *q, const struct module_key *key, uint32_t target);
void quarantine_note(struct crash_marker *at, const struct module_key *key); /* not yet as being read */
