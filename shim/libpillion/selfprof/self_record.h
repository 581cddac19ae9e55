/* SPDX-License-Identifier: Apache-2.0 */
/*
 * self_record - converts a perf record to struct pillion_record (linux/perf_event.h, enum perf_event_type). Every
 * length is checked against the record's size; pointers lead into the record.
 */
#pragma once

#include "shim/libpillion/selfprof/self_event.h"

/* Returns PERF_SAMPLE_IDENTIFIER: in front of a sample, at the end of other records; 0: the record is too short. */
uint64_t self_record_id(const struct perf_event_header *h);
/*
 * Fills all members but .spec, .size included. 0; -EBADMSG: a sample is not of this layout to the last byte, or another
 * record is malformed. The layout says nothing of records that are no samples.
 */
int self_record_parse(const struct perf_event_header *h, const struct self_layout *l, struct pillion_record *ret);
