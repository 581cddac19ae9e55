/* SPDX-License-Identifier: Apache-2.0 */
/*
 * crash_record - a record of a signal that ends a process (shim/libpillion/crash/crash_handler.h): its stack, unwound
 * and named, and the report of it, which goes to the exporter (crash_dir.h) and says so in the log.
 *
 * The process may be gone by then: all that is known comes from the record, from what it had mapped, and from files of
 * the target. The first frame is the instruction itself. Where that is in no code (a call of 0, or of an address that
 * is none), the frames below it begin with who called, whose return address is the first thing on the stack.
 *
 * The stack itself, of which bytes may be secrets, goes nowhere.
 */
#pragma once

#include "oci/base/clock.h"
#include "profiler/sample/aggregate.h"
#include "profiler/spool/exporter_client.h"
#include "profiler/unwind/unwind.h"
#include "shim/libpillion/abi/shm_layout.h"

#include <stdbool.h>
#include <stdint.h>

#define CRASH_RECORD_PENDING_MAX 16		 /* of a target that wait for names: one more goes without */
#define CRASH_RECORD_BURST 64			 /* reports of a target at once, and one more a second: */
#define CRASH_RECORD_EVERY_NS (1 * NSEC_PER_SEC) /* what comes faster is counted alone, and the log says so */
#define CRASH_RECORD_MAPPINGS_MAX 1024		 /* in a report */

struct target;
struct process;
struct record;

struct crash_record_mapping {
	uint64_t start, end, pgoff;
	char *path, *build_id;
};

struct crash_record {
	struct crash_record *next;
	struct target *target;
	struct symbol_request *naming;
	int64_t real; /* ns since the epoch */
	uint32_t pid, tid;
	char process[16], exe[64], thread[16];
	struct shm_crash says;
	struct unwind_regs regs;
	struct aggregate *counts; /* owns what frames refer to */
	struct stack_frame frames[AGGREGATE_STACK_MAX], calls[SHM_CALLS_MAX];
	size_t n, n_calls;
	enum unwind_stop stop;
	bool nowhere;	    /* the first frame is in no code */
	bool stack_is_over; /* what was accessed lies where the stack would go on */
	struct crash_record_mapping *mappings;
	size_t n_mappings;
};

/* r: the record as one of the kernel's. It is counted by the event of that number, too. */
void crash_record_take(
	struct target *t, uint32_t event, struct process *task, const struct record *r, const struct shm_record *from);
int crash_record_round(struct target *t, int64_t now); /* milliseconds until there is something to do, or -1 */
/* What became of a report: exporter_owner.done. */
void crash_record_written(struct target *t, const struct export_profile *p, const char *path, const struct err *e);
void crash_record_forget(struct target *t); /* the target goes */
