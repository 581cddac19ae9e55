/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_wait - `pillion run --wait`: the program is a child of ours. Signals that are sent to us go on to it; those of
 * the terminal it gets itself, as it is in our process group; we end as it has ended.
 */
#pragma once

#include <sys/types.h>

typedef int run_wait_fn(void *arg); /* in the child; what it returns is the exit status */

/* Returns the child's status, as waitpid(2) has it, or -errno: there is no child. */
int run_wait(run_wait_fn *program, void *arg, pid_t *ret_child);
/* The exit status for ours; of a program that was ended by a signal we end by the same, without a core file. */
int run_wait_end(int status);
