/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jit_symbols - names of code that one process made at run time: from its perf map (perf_map.h) and its jitdump
 * (jitdump.h), beneath the target's tree, by the pid that it has in the container.
 *
 * A process that is sampled in memory without a file gets one of these; the files are looked for, and read on from
 * where they were, when a window ends (jit_refresh). So a frame keeps its address until then. What all of them hold
 * together has a limit.
 */
#pragma once

#include "profiler/elf/target_file.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct jit;
struct jit_room {
	size_t left;	    /* bytes that may still be held */
	uint64_t truncated; /* files that were not read to their end for want of it */
	uint64_t serial;    /* of the last one */
};

/*
 * dump_path: of its jitdump beneath the target's tree (address_space_find_jitdump); NULL or "": none. parent: the
 * process whose code it inherited by fork, or NULL. -ENOMEM
 */
int jit_new(uint32_t pid, const char *dump_path, struct jit *parent, struct jit_room *room, struct jit **ret);
uint64_t jit_serial(const struct jit *j); /* from 1, never used twice; 0: NULL */
struct jit *jit_parent(const struct jit *j);
const char *jit_dump_path(const struct jit *j);
uint32_t jit_pid(const struct jit *j);
struct jit *jit_ref(struct jit *j);
struct jit *jit_unref(struct jit *j); /* NULL is fine; returns NULL */
/* Once for each `now`, however often it is called. */
void jit_refresh(struct jit *j, int64_t now, target_file_open_fn *open, void *arg);
/* The file is "" and the line 0 where they are not known. Valid until the next jit_refresh. */
bool jit_find(const struct jit *j, uint64_t address, const char **ret_name, const char **ret_file, uint32_t *ret_line);
