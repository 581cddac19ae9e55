/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exe_open - the executable of a target, where the profiler may not read it.
 */
#pragma once

/*
 * A program that the service user may not read (mode 0711) is passed open, so that it has names: a regular file of
 * the root file system itself that may be executed and begins as ELF, and nothing else. We are root: /proc/kcore begins
 * as ELF, too, and a volume's file system may never answer. A descriptor, or -1. `self_fds`: /proc/self/fd, opened
 * before any other mount namespace was joined: what was looked at is what is opened, whoever moves files meanwhile.
 */
int exe_self_fds(void);
int exe_open_unreadable(int tree, int self_fds, const char *path);
int exe_open(int tree, int self_fds, const char *path); /* also one that he may read */
