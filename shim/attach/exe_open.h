/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exe_open - opens the executable of a target where the profiler may not read it.
 */
#pragma once

/*
 * Opens a program that the service user may not read (mode 0711), so that its functions have names. Opens only a
 * regular file of the root file system itself that may be executed and begins as ELF: we are root, /proc/kcore begins
 * as ELF, too, and a volume's file system may never answer. Returns a descriptor, or -1. `self_fds`: /proc/self/fd,
 * opened before any other mount namespace was joined: through it the file that was checked is opened, even if files are
 * moved meanwhile.
 */
int exe_self_fds(void);
int exe_open_unreadable(int tree, int self_fds, const char *path);
int exe_open(int tree, int self_fds, const char *path); /* also one that the service user may read */
