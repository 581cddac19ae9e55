/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proc_maps_copy - copies the list of a process' executable mappings. Reading /proc/PID/maps waits for the process' own
 * memory lock, which it may hold for as long as its file system likes: so an opener reads it, which has a deadline and
 * can be killed, and the profiler gets a file that never makes it wait.
 */
#pragma once

#include <sys/types.h>

#define PROC_MAPS_COPY_MAX (4u << 20) /* bytes, of one process */

/*
 * Returns the executable lines of /proc/PID/task/TID/maps (proc_pid_maps(5)) as an anonymous file, at its beginning.
 * -ENOENT: there are none, as for a thread that has ended before the others; -errno.
 */
int proc_maps_copy(pid_t pid, pid_t tid);
