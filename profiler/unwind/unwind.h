/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unwind - the user stack of a sample, from its registers and a copy of the top of its stack (perf_event_open(2):
 * PERF_SAMPLE_REGS_USER, PERF_SAMPLE_STACK_USER).
 *
 * Each frame is unwound by the compiled rule of its address where there is one (unwind_table.h), else by the rule that
 * the code itself says (epilogue.h), if what is found then is a return address. Where that says nothing, it is unwound
 * by the frame pointer: the saved one and the return address inside the snapshot, aligned, above the last frame,
 * returning into executable code. Registers other than these three stay as they were over such a step. An entry of
 * .eh_frame that could not be compiled is given to libunwind, with accessors that see the snapshot and the module's
 * unwind sections and nothing else; each use counts.
 *
 * Everything here is hostile: registers, stack, tables. The stack pointer must grow from frame to frame (except out of
 * a signal handler, which may have a stack of its own), frames and reads are counted, a frame description is vetted by
 * eh_frame_hdr.h before libunwind sees it, and no byte outside of the snapshot is read.
 *
 * An unwinder keeps one libunwind address space per set of mappings (its cache is keyed by absolute address), the
 * UNWIND_CACHES most recently used; a change of mappings drops it (struct unwind_cache). One thread. Free the unwinder
 * before or after the spaces, as you like.
 */
#pragma once

#include "profiler/unwind/unwind_arch.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UNWIND_FRAMES_MAX 512
#define UNWIND_CACHES 256

struct unwind_regs { /* of PERF_SAMPLE_REGS_ABI_64 only */
	uint64_t r[UNWIND_REGS];
};

/* Why a stack ends where it does. */
enum unwind_stop {
	UNWIND_END, /* it is complete */
	UNWIND_STACK,
	UNWIND_NO_INFO,
	UNWIND_BAD_MEMORY,
	UNWIND_UNKNOWN_MAPPING,
	UNWIND_DEPTH,
	UNWIND_LOST_MAPPING,
	UNWIND_SWITCH, /* the caller, or interrupted code, is on another stack: a goroutine's, or below a signal's */
	UNWIND_STOPS,
};
/* The frame that stands at the root of such a stack, "[truncated: stack]"; NULL for UNWIND_END. */
const char *unwind_stop_name(enum unwind_stop stop);

struct elf;
struct module;
struct unwind_table;

/* A mapping of code. */
struct unwind_code {
	uint64_t start, end; /* [start, end) */
	uint64_t bias;	     /* address - vaddr */
	struct module *module;
	const struct unwind_table *rows; /* NULL: it has none */
	const struct elf *elf;		 /* of the same file; NULL: none of ours */
};

/*
 * Data derived from the mappings. drop() is called when a mapping changes that the data may be of, or when the mappings
 * are freed; the slot is empty then. An owner that is freed first empties the slot itself.
 */
struct unwind_cache {
	void (*drop)(struct unwind_cache *c);
};

/*
 * The mappings of a process: profiler/process/address_space.h has them. `space` is that of struct unwind_map.
 */
struct unwind_map_ops {
	/* False: nothing is mapped there, and *ret is as it was. */
	bool (*find)(const void *space, uint64_t addr, struct unwind_code *ret);
	bool (*lossy)(const void *space); /* records of mappings were lost */
	struct unwind_cache **(*cache)(const void *space);
	/* Enclose all code that reads bytes of the file. */
	void (*enter)(const struct module *m);
	void (*leave)(const struct module *m);
	const char *(*symbol)(const struct module *m, uint64_t vaddr); /* the function's name, or NULL */
	bool (*is_libc)(const struct module *m); /* the C library, which starts the program and its threads */
	bool (*begins)(
		const struct module *m, uint64_t vaddr); /* a function does, as far as is known; between these two */
};
struct unwind_map {
	const void *space;
	const struct unwind_map_ops *ops;
};

struct unwind_frame {
	struct module *module; /* borrowed, until the space changes; NULL: unknown */
	uint64_t vaddr;	       /* as linked; of the call for return addresses, so that it names the calling line */
	uint64_t ip;	       /* as it was in the register or on the stack */
};

struct unwind;
/*
 * Before privileges and system calls are given up: libunwind opens a pipe (two descriptors, close-on-exec, kept for the
 * life of the process) and calls mincore(2) once. Later it needs rt_sigprocmask(2), and mmap(2) for memory.
 */
int unwind_new(struct unwind **ret);
struct unwind *unwind_free(struct unwind *u); /* NULL is fine; returns NULL */

/*
 * Unwinds a stack, leaf first. Returns the number of frames, at most `max` and UNWIND_FRAMES_MAX. `stack` holds the
 * `size` bytes from the sample's SP upward. *ret_stop is always set. A stop is no error: the frames before it are good.
 */
size_t unwind_user(struct unwind *u, struct unwind_map map, const struct unwind_regs *regs, const void *stack,
	size_t size, struct unwind_frame *frames, size_t max, enum unwind_stop *ret_stop);
/*
 * The same for events that come a hundred thousand times a second. It uses only rules of few instructions, whatever the
 * tables of a tenant's file say, and ends where there is another one.
 */
size_t unwind_brief(struct unwind *u, struct unwind_map map, const struct unwind_regs *regs, const void *stack,
	size_t size, struct unwind_frame *frames, size_t max);
/* Bytes from the SP upward that the frames of the last stack take, without the outermost's own. */
size_t unwind_reach(const struct unwind *u);
uint64_t unwind_code_stacks(const struct unwind *u);  /* stacks of unwind_user with steps by rules that code said */
uint64_t unwind_last_resorts(const struct unwind *u); /* steps that libunwind did */
void unwind_no_last_resort(struct unwind *u);	      /* from now on such a step is UNWIND_NO_INFO; for comparisons */
