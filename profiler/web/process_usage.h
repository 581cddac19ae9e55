/* SPDX-License-Identifier: Apache-2.0 */
/*
 * process_usage - the memory and CPU time of a pilliond's processes, by /proc (proc(5)): the topmost one and all below
 * it. Where the kernel does not list children (CONFIG_PROC_CHILDREN) it is the topmost and the caller.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#define PROCESS_USAGE_MAX 64

struct process_use {
	char name[16]; /* as /proc has it */
	unsigned n;    /* processes of that name */
	uint64_t resident, cpu_us;
};

/* Sums up by name; returns how many names are in `ret`. */
unsigned process_usage_look(pid_t top, struct process_use ret[PROCESS_USAGE_MAX]);
