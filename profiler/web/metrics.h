/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metrics - writes the state of a service and of its targets as text for Prometheus (exposition format 0.0.4).
 *
 * Names begin with pillion_, units are seconds and bytes, counters end with _total. The HELP line of each one, in
 * metrics.c, is its documentation. Series of a target have the labels target (its id), name, pod and namespace and end
 * with it. Where the worker does not answer, its series are left out, and pillion_worker_up is 0.
 */
#pragma once

#include "profiler/push/push_status.h"
#include "profiler/spool/exporter_client.h"
#include "profiler/view/target_table.h"
#include "profiler/web/process_usage.h"

#include <stdio.h>

struct metrics {
	const struct target_table *listed; /* NULL: the worker did not answer */
	const struct export_state *state;  /* the same */
	uint64_t written, written_bytes, failed, scrapes, crashes;
	uint64_t spool_bytes, spool_files, spool_max, spool_removed;
	const struct process_use *processes;
	unsigned n_processes;
	const struct push_status *pushed; /* endpoints of `pillion push` */
	unsigned n_pushed;
};

int metrics_write(const struct metrics *m, FILE *out); /* 0, -ENOMEM, -EIO */
