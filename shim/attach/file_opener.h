/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file_opener - opens files of a target for a profiler that may not: root's program below a directory of mode 0700, or
 * one that a user of a service has at home, where the profiler has a user of its own.
 *
 * `pillion run`, or the opener of `pillion attach`, starts the file opener: a process of its own with the caller's
 * right to read, and no other (CAP_DAC_READ_SEARCH where the caller is root). It has a socket whose other end goes to
 * the profiler (TARGET_FILES), and ends when all holders of that end have closed it. The first message there is the
 * target's tree. The file opener opens nothing but ELF files (no core dumps) and jitdumps, by their first bytes,
 * beneath that tree. It looks at a file before it opens it, and never opens devices or the kernel's own files (proc,
 * sysfs and their like).
 *
 * A client makes a pair of sockets (SOCK_SEQPACKET) and sends one end of it to the file opener; on the other end the
 * client, or a process that it gives that end to, asks for one file: struct file_opener_question, then the path without
 * a NUL. The answer is an int32_t: 0 and the descriptor, or -errno. Clients do not hear each other.
 */
#pragma once

#include "oci/base/err.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#define FILE_OPENER_CLIENTS_MAX 32 /* connected clients without a question yet; one more is turned away */

struct file_opener_question {
	uint32_t no_links; /* the last part of the path is no symbolic link */
};

/* --- its start */

struct target_desc;

/* A note of the target begins so where there is none. */
#define FILE_OPENER_NONE "files that the profiler may not open have no names: "

/*
 * The socket; or -errno with a sentence: then what only the caller may read has no names. The process becomes an
 * orphan: where the caller's orphans would be its own children, and so the program's, there is none. What it inherits
 * is as at a boot (child_process_reset), and its cgroup is /pillion/files-<id>@<start time> where one can be made; the
 * next start removes that. Of a caller with one thread.
 */
int file_opener_start(const char *id, uint64_t start_time, int64_t deadline, struct err *e);
/* The same, within a part of the time that is left to the deadline; -1: the target's notes say why there is none. */
int file_opener_for(struct target_desc *d, int64_t deadline);
/* Remove the cgroups of those that have ended; waits until the deadline for the target's. */
void file_opener_clean(const char *id, int64_t deadline);
/* Beneath which directory paths are: once, before the first question. 0 or -errno. */
int file_opener_set_tree(int opener, int tree);
/* The same: `opener`; -1 where it cannot be told, or either is -1: it is closed, and the target's notes say why. */
int file_opener_give_tree(int opener, int tree, struct target_desc *d);

/*
 * Opened read-only: ELF files but core dumps, jitdumps (by their first bytes), and perf maps (by their name, where that
 * is the file's only one), so that the process that asks learns no secrets of a tree. Beneath `tree`, which the path
 * does not leave; no FIFO is waited for. A descriptor or -errno; -EINVAL: another file.
 */
int file_open_for_profiler(int tree, const char *path, bool no_links);
/* Whether a descriptor that another process has opened is such a file. */
bool file_is_for_profiler(int fd, const char *path);

/* --- its clients */

/* A socket for one question; opener: of file_opener_start. Or -errno: the file opener has ended. It never waits. */
int file_opener_connect(int opener);
/*
 * One question there: a descriptor or -errno. -EPIPE: no answer will come; -ETIMEDOUT: none has come before the
 * deadline. With INT64_MAX for that it waits without poll(2), in a process that another one ends.
 */
int file_opener_ask(int sock, const char *path, bool no_links, int64_t deadline);
