/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_wait - `pillion run --wait`: the program is a child of ours. We pass on the signals that are sent to us; the
 * terminal's signals reach the program itself, as it is in our process group. We end as it has ended.
 */
#pragma once

#include <sys/types.h>

typedef int run_wait_fn(void *arg); /* in the child; its result is the exit status */

/* Returns the child's status, as waitpid(2) has it, or -errno: there is no child. */
int run_wait(run_wait_fn *program, void *arg, pid_t *ret_child);
/* Returns our exit status; if a signal ended the program, ends us by the same one, without a core file. */
int run_wait_end(int status);
