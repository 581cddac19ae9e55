/* SPDX-License-Identifier: Apache-2.0 */
/*
 * crash_record - a record of a signal that ends a process (shim/libpillion/crash/crash_handler.h): unwinds and
 * symbolizes its stack, hands a report to the exporter (crash_dir.h), and logs it.
 *
 * The process may be gone by then: all facts come from the record, from the process's last known mappings, and from
 * files of the target. The first frame is the instruction itself. If that is in no code (a call of 0, or of another bad
 * address), the frames below it begin with the caller: its return address is the first word of the stack.
 *
 * The bytes of the stack may be secrets: they go nowhere.
 */
#pragma once

#include "oci/base/clock.h"
#include "profiler/inproc/crash_report.h"
#include "profiler/sample/aggregate.h"
#include "profiler/spool/exporter_client.h"
#include "shim/libpillion/abi/shm_layout.h"

#include <stdbool.h>
#include <stdint.h>

#define CRASH_RECORD_PENDING_MAX 16		 /* per target, waiting for names: one more is reported without */
#define CRASH_RECORD_BURST 64			 /* reports of a target at once, and one more a second: */
#define CRASH_RECORD_EVERY_NS (1 * NSEC_PER_SEC) /* beyond that, crashes are counted and logged only */
#define CRASH_RECORD_MAPPINGS_MAX 1024		 /* in a report */

struct target;
struct process;
struct record;

struct crash_record {
	struct crash_record *next;
	struct target *target;
	struct symbol_request *naming;
	struct aggregate *counts; /* owns the data that the frames refer to */
	struct crash_report report;
};

/* r: the record in the form of a kernel record. Counts it by event `event`, too. */
void crash_record_take(
	struct target *t, uint32_t event, struct process *task, const struct record *r, const struct shm_record *from);
int crash_record_round(struct target *t, int64_t now); /* returns milliseconds until the next round, or -1 */
/* exporter_owner.done of a report. */
void crash_record_written(struct target *t, const struct export_profile *p, const char *path, const struct err *e);
void crash_record_forget(struct target *t); /* drops all reports: the target goes */
