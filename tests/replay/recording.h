/*
 * recording - a run as the kernel told of it, in one file: written by tests/replay/record.c, read by
 * tests/unit/support/replay.h. Compressed by xz; below that, in native byte order, the magic and parts of a head and a
 * body each:
 *
 *	RECORDING_RUN		struct recording_run		how it was recorded: the first part
 *	RECORDING_EVENT		struct recording_event		one event of the kernel's
 *	RECORDING_RING		u32 cpu; records		what a ring had since the step before
 *	RECORDING_COUNT		struct recording_count		what read(2) of an event yields then
 *	RECORDING_USAGE		u64				cpu.stat's usage_usec then, of the cgroup
 *	RECORDING_STEP		struct recording_step		then: what is above was there to be drained
 *	RECORDING_TRUTH		struct recording_truth		of an event: all that its records say
 *	RECORDING_FILE		struct recording_file; path; n * { u64 offset, length; bytes }	the parts that are read
 *	RECORDING_KALLSYMS	text				lines of /proc/kallsyms, as far as samples need them
 *	RECORDING_VDSO		an ELF file
 */
#pragma once

#include <stdint.h>

#define RECORDING_MAGIC "PLNREC1\n"

enum recording_type {
	RECORDING_RUN = 1,
	RECORDING_EVENT,
	RECORDING_RING,
	RECORDING_COUNT,
	RECORDING_USAGE,
	RECORDING_STEP,
	RECORDING_TRUTH,
	RECORDING_FILE,
	RECORDING_KALLSYMS,
	RECORDING_VDSO,
};

struct recording_head {
	uint32_t type, size; /* enum recording_type; bytes of the body */
};

struct recording_run {
	char events[128]; /* as an annotation asks for them */
	uint32_t strategy, kernel, init_pid, n_cpus;
	uint64_t ring_size;
};

struct recording_event {
	uint64_t id, sample_type, regs_user;
	uint32_t role, spec, cpu, stack_user, layout_flags, reserved;
};

struct recording_count {
	uint64_t id, n, values[4]; /* n of them */
};

struct recording_step {
	int64_t now, real; /* CLOCK_MONOTONIC, CLOCK_REALTIME; ns */
	uint32_t last, reserved;
};

struct recording_truth {
	uint64_t id, samples, lost; /* lost: by PERF_RECORD_LOST of its id */
};

struct recording_file {
	uint64_t size;
	uint32_t path_size, n; /* with its NUL; extents */
};
