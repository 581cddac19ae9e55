/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proc_maps - a file of mappings (shim/attach/proc_maps_copy.h), lines as in proc_pid_maps(5): the mappings that a
 * process had before its events were there. Names in it are the target's own choice.
 */
#pragma once

#include "profiler/process/address_space.h"
#include "shim/attach/proc_maps_copy.h"

#include <stddef.h>

#define PROC_MAPS_OF_TARGET (32u << 20) /* bytes, of all its processes */

/*
 * Parses one line, without its end, and changes it. -EINVAL: not of that form; 1: executable, results filled in; 0: not
 * executable.
 */
int proc_maps_line(char *line, uint64_t *ret_start, uint64_t *ret_len, uint64_t *ret_pgoff, struct module_key *ret);
/*
 * Puts every executable mapping of an open file into the space; the path of the lowest that is a file goes to `ret_exe`
 * (NUL-terminated, "" = none). Takes its size from `left`. Returns how many; -EFBIG beyond `left` or
 * PROC_MAPS_COPY_MAX, -EINVAL when it is no regular file (which could make us wait), -errno.
 */
int proc_maps_read(int fd, struct address_space *s, size_t *left, char *ret_exe, size_t size);
int proc_maps_text(
	char *text, struct address_space *s, char *ret_exe, size_t size); /* the same from a text, which it changes */
