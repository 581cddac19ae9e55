/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jit_symbols - names of code that one process made at run time: from its perf map (perf_map.h) and its jitdump
 * (jitdump.h), beneath the target's tree, by the pid that it has in the container.
 *
 * A process gets one of these when it is sampled in memory without a file. At the end of a window jit_refresh looks for
 * the files and reads on in them; until then a frame keeps its address. All of them together hold a limited number of
 * bytes (struct jit_room).
 */
#pragma once

#include "profiler/elf/target_file.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct jit;
struct jit_room {
	size_t left;	    /* bytes that may still be held */
	uint64_t truncated; /* files that were not read to their end for want of room */
	uint64_t serial;    /* of the last one */
};

/*
 * dump_path: path of its jitdump beneath the target's tree (address_space_find_jitdump); NULL or "": none. parent: the
 * process from which it inherited code by fork, or NULL. -ENOMEM
 */
int jit_new(uint32_t pid, const char *dump_path, struct jit *parent, struct jit_room *room, struct jit **ret);
uint64_t jit_serial(const struct jit *j); /* from 1, never used twice; 0: NULL */
struct jit *jit_parent(const struct jit *j);
const char *jit_dump_path(const struct jit *j);
uint32_t jit_pid(const struct jit *j);
struct jit *jit_ref(struct jit *j);
struct jit *jit_unref(struct jit *j); /* NULL is fine; returns NULL */
/* Reads on in the files, once for each `now`, however often it is called. */
void jit_refresh(struct jit *j, int64_t now, target_file_open_fn *open, void *arg);
/*
 * The path of a file beneath the target's tree that the last jit_refresh might not open (EACCES): the process's own, or
 * one of those it was forked from. Into `ret`, or NULL. Where a directory is in the way the file may not exist.
 */
const char *jit_denied(const struct jit *j, char ret[static PATH_MAX]);
/*
 * Finds the name of the code at an address. The file is "" and the line 0 where they are not known. Valid until the
 * next jit_refresh.
 */
bool jit_find(const struct jit *j, uint64_t address, const char **ret_name, const char **ret_file, uint32_t *ret_line);
