/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fault - one thing that goes wrong while a hook runs, drawn at random: what tests/tools/herd does to its starts.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

enum fault {
	FAULT_NONE,
	FAULT_SYSCALL,	  /* the K-th system call of the hook and its children fails */
	FAULT_DEATH,	  /* ... kills the child that makes it */
	FAULT_CHILD_KILL, /* one of its children is killed at some moment */
	FAULT_CHILD_STOP, /* ... is stopped */
	FAULT_INIT,	  /* the container's init is killed */
	FAULT_FILES,	  /* few descriptors */
	FAULT_MEMORY,	  /* little address space */
	FAULT_STATE_CUT,  /* the state ends in the middle */
	FAULT_STATE_BYTE, /* another byte in the state */
	FAULTS
};

void fault_seed(unsigned seed);
enum fault fault_draw(void);
const char *fault_name(enum fault f);
const char *fault_tell(enum fault f); /* what it did the last time */
/* Change the state, where that is the fault. */
void fault_text(enum fault f, char *text, size_t *len);
/*
 * Run the hook to its end with this fault, stdin from `in`, nothing else of ours; `init` is its container's. Returns
 * its wait status.
 */
int fault_run(enum fault f, char **hook, int in, pid_t init);
/* How long the hook, or we, were ready to run then and had no CPU, in ms (Documentation/scheduler/sched-stats.rst). */
double fault_starved(void);
