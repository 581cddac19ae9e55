/* SPDX-License-Identifier: Apache-2.0 */
/*
 * calltree_env - PILLION_TREE=FILE[,time]: count from the program's start, and write FILE when it exits (not if it ends
 * by _exit, exec or a signal). %p in FILE is the pid; without it, a forked child writes FILE.PID, so that no process
 * overwrites another's file. A program that is not compiled for it writes nothing. If FILE cannot be written, it is
 * missing: the program is not told.
 */
#pragma once

#include <stdbool.h>

/*
 * Takes environ; false: no tree is wanted, or the process has another user's privileges (AT_SECURE; also without /proc)
 */
bool calltree_env_begin(char *const *environment);
void calltree_env_end(void);
/*
 * Makes the file name for a process. 0 or -ENAMETOOLONG. `forked`: the process is a child of the one that FILE was
 * meant for.
 */
int calltree_env_path(const char *file, int pid, bool forked, char *ret, unsigned size);
bool calltree_env_secure(void);
