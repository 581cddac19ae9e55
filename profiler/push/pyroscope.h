/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pyroscope - makes request bodies for Grafana Pyroscope: push.v1 (its api/push/v1/push.proto, of which
 * PushRequest.series, RawProfileSeries.labels and .samples, RawSample.raw_profile and .ID are used) and the older
 * /ingest. Both hold a gzip'ed pprof.
 *
 * Written with protobuf.h and not by protobuf-c: there are only three messages, around bytes that exist already.
 *
 * The series has the labels that all samples share, and these:
 * - __name__: process_cpu, off_cpu, wall, memory, calls, ...: from the sample types, as Pyroscope itself names them
 * - __delta__: "false": values are of this window alone. Without it Pyroscope subtracts windows of alloc_* from each
 *   other.
 * - pyroscope_spy: pillion
 *
 * A sample's labels that are texts become labels of series there, too: with those of the series no more than 30. The
 * last ones by name are left out, with a comment. Labels that are numbers (pid, tid) stay at the sample.
 *
 * /ingest derives a name from the sample types: any type with "cpu" in it becomes process_cpu. So off_cpu is called
 * off_CPU there.
 */
#pragma once

#include "profiler/push/push_encoder.h"

#define PYROSCOPE_NAMES_MAX 30	 /* labels of a series: validation.max-label-names-per-series */
#define PYROSCOPE_VALUE_MAX 2048 /* bytes: validation.max-length-label-value */

push_encoder_body_fn pyroscope_push_body, pyroscope_ingest_body;
