/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quarantine - ELF files of which workers died, so that the next ones do not read them; and whose fault a death was.
 *
 * A worker notes, in memory that it shares with the supervisor (struct crash_marker), at which target it is, and of
 * which module while it looks at bytes that somebody else wrote: headers, symbols, unwind tables, debug information.
 * When it dies by its own fault (not by SIGKILL) there, that counts for the file, not for the target. The third death
 * puts the file in quarantine: the supervisor's next workers, who inherit the list when they are forked, keep its
 * frames as module and offset (module.h), which profile and log say. A target that is to blame itself is kept as
 * addresses only. Nobody lets a file out again; the list ends with the supervisor, and is short: the oldest goes first.
 *
 * A file is known as modules are: by its build-id, whoever's it is; without one by path, device and inode, of one
 * target. Targets are known by the numbers that the supervisor gave them: all else is another in the next worker.
 *
 * A worker may have been taken over: what it noted is copied once and made valid. Nor can it, or a target with one bad
 * file after the other, kill workers for ever: of so many deaths of one target as QUARANTINE_EXCUSED says the rest is
 * the target's own again.
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
unsigned deaths_count(struct crash_count *d, int64_t now); /* one more: how many */

struct quarantine_file {
	uint64_t ino;
	uint32_t maj, min;
	uint32_t target; /* whose it is; 0: anybody's, as it has a build-id */
	uint8_t build_id[ELF_BUILD_ID_MAX];
	uint8_t build_id_len;
	char path[QUARANTINE_PATH_MAX];
};

/* What a worker is at. */
struct crash_marker {
	uint32_t target;  /* whose records or windows, by number; 0: nobody's */
	uint32_t reading; /* the file's bytes are looked at */
	struct quarantine_file file;
};

/* --- the supervisor's side --- */

struct quarantine {
	struct quarantined {
		struct quarantine_file file;
		struct crash_count deaths; /* n 0: a place that is free */
		bool shut;		   /* it is not read any more */
	} list[QUARANTINE_MAX];
};

struct crash_blame {		    /* of one target */
	struct crash_count own;	    /* its own fault */
	struct crash_count excused; /* that of files */
};

enum crash_verdict {
	VERDICT_TARGET,	    /* its own fault: one more in blame.own */
	VERDICT_FILE,	    /* that of a file it was at */
	VERDICT_QUARANTINE, /* ... and once too often: *ret_file is not read any more */
};
/* Of a death by its own fault at a target that there is. *ret_file: a valid one, unless the verdict is the target. */
enum crash_verdict quarantine_judge(struct quarantine *q, const struct crash_marker *at, struct crash_blame *of,
	int64_t now, struct quarantine_file *ret_file);

/* --- the worker's side --- */

bool quarantine_has(const struct quarantine *q, const struct module_key *key, uint32_t target);
void quarantine_note(struct crash_marker *at, const struct module_key *key); /* not yet that it is read */
