/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file_opener - opens files of a target for a profiler that may not: a program of root's below a directory of mode
 * 0700, or a program in a user's home, where the profiler runs as the service's user.
 *
 * `pillion run`, or the opener of `pillion attach`, starts the file opener: a process of its own with the caller's
 * right to read, and no other (CAP_DAC_READ_SEARCH where the caller is root). It has one end of a socket pair; the
 * other end goes to the profiler (TARGET_FILES). It ends when all holders of that end have closed it. The first message
 * there is the target's tree. The file opener opens nothing but ELF files (no core dumps) and jitdumps, by their first
 * bytes, beneath that tree. It looks at a file before it opens it, and never opens devices or the kernel's own files
 * (proc, sysfs and their like).
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
	uint32_t no_links; /* do not follow a symbolic link as the last part of the path */
};

/* --- its start */

struct target_desc;

/* Begins the note of a target that has no file opener. */
#define FILE_OPENER_NONE "files that the profiler may not open have no names: "

/*
 * Starts a file opener. Returns the socket; or -errno with a sentence: then files that only the caller may read have no
 * names. The process becomes an orphan. A caller that inherits orphans starts none: it would become the program's
 * child. Inherited attributes are reset as at boot (child_process_reset). Its cgroup is /pillion/files-<id>@<start
 * time> where one can be made; the next start removes that. The caller has one thread.
 */
int file_opener_start(const char *id, uint64_t start_time, int64_t deadline, struct err *e);
/* The same, within a part of the time that is left until the deadline. -1: the target's notes say why there is none. */
int file_opener_for(struct target_desc *d, int64_t deadline);
/* Removes the cgroups of file openers that have ended; waits until the deadline for that of the target. */
void file_opener_clean(const char *id, int64_t deadline);
/* Sends the directory beneath which paths are: once, before the first question. 0 or -errno. */
int file_opener_set_tree(int opener, int tree);
/*
 * The same. Returns `opener`; or -1, and closes it, if either is -1, or if it cannot be sent (then the target's notes
 * say why).
 */
int file_opener_give_tree(int opener, int tree, struct target_desc *d);

/*
 * Opens read-only: ELF files but core dumps, jitdumps (by their first bytes), and perf maps (by their name, if that is
 * the file's only one), so that the process that asks learns no secrets of a tree. The path does not leave `tree`; a
 * FIFO does not block. Returns a descriptor or -errno; -EINVAL: another file.
 */
int file_open_for_profiler(int tree, const char *path, bool no_links);
/* Is a descriptor that another process has opened such a file? */
bool file_is_for_profiler(int fd, const char *path);

/* --- its clients */

/*
 * Returns a socket for one question, or -errno: the file opener has ended. Never waits. opener: from file_opener_start.
 */
int file_opener_connect(int opener);
/*
 * Asks one question there: a descriptor or -errno. -EPIPE: no answer will come; -ETIMEDOUT: none has come before the
 * deadline. With INT64_MAX as deadline it waits without poll(2), in a process that another one ends.
 */
int file_opener_ask(int sock, const char *path, bool no_links, int64_t deadline);
