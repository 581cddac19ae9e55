/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record - one perf record, decoded and checked (perf_event_open(2), linux/perf_event.h "enum perf_event_type").
 *
 * The bytes are hostile: the process that opened the event chose their layout. Every length is checked against the
 * record's size; a record that does not fit its layout is -EBADMSG. Pointers lead into the record's own bytes.
 */
#pragma once

#include "profiler/unwind/unwind.h"
#include "shim/event/perf_event.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A MMAP2 record, decoded. */
struct record_mmap {
	uint64_t start, len, pgoff, ino, generation;
	uint32_t maj, min;
	bool exec;
	uint8_t build_id[20];
	uint8_t build_id_len;
	const char *path;
};

struct record_sample {
	uint64_t ip;
	const uint64_t *chain; /* with PERF_CONTEXT_* markers */
	uint64_t n_chain;
	uint64_t value, running; /* of the event, where its records tell (PERF_OFFCPU_SMALL) */
	const uint8_t *raw;	 /* of a tracepoint, where they tell */
	uint32_t raw_size;
	bool has_regs;		 /* 64-bit user registers */
	struct unwind_regs regs; /* of PERF_REGS_PLACE_MASK no more than bp, sp and ip */
	const uint8_t *stack;
	uint64_t stack_size; /* bytes that are really there */
};

struct record {
	uint32_t type, misc;
	uint64_t id, time; /* PERF_SAMPLE_IDENTIFIER; CLOCK_MONOTONIC ns */
	uint32_t pid, tid, cpu;
	uint32_t by; /* the thread that caused it; for COMM, FORK and the like not always the one that it is about */
	union {
		struct record_sample sample;
		struct record_mmap mmap;
		struct {
			const char *name;
			bool exec;
		} comm;
		struct {
			uint32_t ppid, ptid;
		} task; /* FORK, EXIT */
		struct {
			uint64_t id, count;
		} lost;
	};
};

/* Identifier and time, which lie at fixed places in every record of ours. */
int record_peek(const struct perf_event_header *h, uint64_t *ret_id, uint64_t *ret_time);
int record_parse(const struct perf_event_header *h, const struct perf_layout *layout, struct record *ret);
