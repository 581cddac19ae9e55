/* SPDX-License-Identifier: Apache-2.0 */
/*
 * calltree_env - PILLION_TREE=FILE[,time]: count from the program's start, and write FILE when it exits (not where it
 * ends by _exit, exec or a signal). %p in FILE is the pid; where there is none, a forked child's is FILE.PID, so that
 * nobody overwrites the other's. A program that is not compiled for it writes nothing. What is wrong with FILE shows by
 * its not being there: the program is not told.
 */
#pragma once

#include <stdbool.h>

/* environ; false: nothing is wanted, or the process has another's privileges (AT_SECURE; also when /proc is not there)
 */
bool calltree_env_begin(char *const *environment);
void calltree_env_end(void);
/* FILE for a process: 0 or -ENAMETOOLONG. `forked`: it is another one than FILE was meant for. */
int calltree_env_path(const char *file, int pid, bool forked, char *ret, unsigned size);
bool calltree_env_secure(void);
