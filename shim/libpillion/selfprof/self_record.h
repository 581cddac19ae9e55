/* SPDX-License-Identifier: Apache-2.0 */
/*
 * self_record - a perf record into struct pillion_record (linux/perf_event.h, enum perf_event_type). Every length is
 * checked against the record's size; pointers lead into the record.
 */
#pragma once

#include "shim/libpillion/selfprof/self_event.h"

/* PERF_SAMPLE_IDENTIFIER: of a sample in front, of others at the end; 0: the record is too short. */
uint64_t self_record_id(const struct perf_event_header *h);
/*
 * All but .spec, .size included. 0; -EBADMSG: it is not of this layout (of samples: to the last byte). Of what is no
 * sample the layout says nothing.
 */
int self_record_parse(const struct perf_event_header *h, const struct self_layout *l, struct pillion_record *ret);
