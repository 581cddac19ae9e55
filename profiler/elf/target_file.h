/* SPDX-License-Identifier: Apache-2.0 */
/*
 * target_file - files of targets, opened and read by a process that may hang or die.
 *
 * A tenant's file system may be FUSE or NFS: open, read and even close may never return, and nothing interrupts them.
 * So pilliond holds no descriptor of a target's file. A *reader* opens, reads and closes them: a process that the
 * symbolizer's server (profiler/symbol/symbolizer_client.h) forks, in a seccomp role of its own; the client asks it
 * through a socket, one thing at a time, and waits for TARGET_FILES_DEADLINE, as counted below. The client abandons a
 * late reader, which makes the server kill it, and asks for another one at the next need.
 *
 * On a busy machine a process waits longer for a CPU than a file system takes to answer. So time counts against a
 * target only from when the reader has taken the request from its socket, and while the reader sleeps: then it waits
 * for the file system (state S or D; a runnable process is in R). Between two looks of the client TARGET_FILES_TURN
 * counts at most, however late the client gets the CPU itself. At TARGET_FILES_WAIT_MAX the wait is over in any case;
 * the target does not pay for it then, and no reader is asked for a while. If the reader waits for a file opener, time
 * counts from when the opener has taken the question. The opener pays for TARGET_FILES_WAIT_MAX as well, as it may
 * never take the question.
 *
 * A target has a credit (struct target_files_account): after two answers that never came, or after waiting for
 * TARGET_FILES_CREDIT and a part of the time that passes, its files are not opened any more. A reader is untrusted: the
 * client abandons it when an answer is not of the kind asked for, or longer.
 */
#pragma once

#include "oci/base/clock.h"
#include "oci/base/err.h"
#include "profiler/elf/elf.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define TARGET_FILES_DEADLINE (200 * NSEC_PER_MSEC) /* of an answer */
#define TARGET_FILES_TURN (20 * NSEC_PER_MSEC)	    /* of waiting, between two looks */
#define TARGET_FILES_WAIT_MAX (600 * NSEC_PER_MSEC) /* all in all: the client has other work */
#define TARGET_FILES_LATE_MAX 2			    /* answers that did not come */
#define TARGET_FILES_OPENER_QUEUE                                                                                      \
	(32 * 1024) /* bytes on their way to a file opener, by the kernel's count (SIOCOUTQ) */
#define TARGET_FILES_LATE_PAUSE (1 * NSEC_PER_SEC) /* after the first: it may have been a moment's trouble */
#define TARGET_FILES_CREDIT (2 * NSEC_PER_SEC)
#define TARGET_FILES_SHARE 20	/* of the time that passes, one part */
#define TARGET_FILES_BELIEVED 8 /* at least 1 in so many parts of the waiting counts, whatever the reader says */
#define TARGET_FILES_OPEN_MAX 8 /* of a reader, at once */
#define TARGET_FILES_AT_ONCE (128u << 10) /* bytes of an answer */
#define TARGET_FILES_BEGINNING_MAX                                                                                     \
	(32u << 10) /* sent with the answer to an open: the headers, mostly all of a small file */

/* The identity of a file, as it was when it was opened. */
struct file_id {
	uint64_t dev, ino, size;
	int64_t seconds, nanoseconds; /* of the last change */
};
bool file_id_equal(const struct file_id *a, const struct file_id *b);

struct target_files;
struct target_files_account { /* of a target, or of the host */
	const char *name;     /* for the log */
	int64_t born, spent;  /* clock_now() when it came; ns waited for answers, as TARGET_FILES_TURN counts them */
	int64_t again;	      /* not before */
	unsigned late;	      /* answers that did not come */
	bool told, silent;    /* it was logged; files were not opened or read to their end for it */
	const char *fault;    /* the reason in the log; NULL: its file system does not answer */
};

/*
 * The file opener of a target (shim/attach/file_opener.h). It is a process of the target's user, so it may be late by
 * itself. That is not the file system's fault, so the opener has an account of its own. Without credit there it is not
 * asked, and after TARGET_FILES_LATE_MAX answers that did not come we close its socket. Files that everybody may read
 * are read all the same.
 */
struct target_files_opener {
	int sock; /* -1: there is none, or none any more */
	struct target_files_account account;
	bool ended; /* the opener ended before we closed its socket */
};
#define TARGET_FILES_OPENER(fd, target)                                                                                \
	((struct target_files_opener){.sock = (fd),                                                                    \
		.account = {.name = (target),                                                                          \
			.born = clock_now(),                                                                           \
			.fault = "the process that opens what only their owner may read does not answer"}})
/* Returns a socket for one question; -EACCES: there is no file opener, or none to ask now. */
int target_files_opener_connect(struct target_files_opener *o);

/* A regular file, open. */
struct file {
	struct target_files *files; /* a reader has it open; NULL: it is `fd`, in this process */
	struct target_files_account *account;
	uint32_t handle, reader; /* the reader's number for it; the number of the reader */
	int fd; /* `path` lies beneath it (borrowed); where that is "", the file itself; -1: not open */
	struct target_files_opener *opener; /* opened it, and opens it again (borrowed); NULL: anybody may */
	char path[PATH_MAX];
	struct file_id id;
};
#define FILE_NONE                                                                                                      \
	{                                                                                                              \
		.fd = -1                                                                                               \
	}

/* Open `path` beneath a tree: 0 and a file that the caller closes, or -errno. -EINVAL: not a regular one; -ETIMEDOUT:
 * its file system does not answer. */
typedef int target_file_open_fn(void *arg, const char *path, struct file *ret);

/*
 * Makes a struct file of a descriptor of this process. On success file_close closes it; a caller that borrowed it
 * forgets the struct instead. -EINVAL: it is no regular file.
 */
int file_on(int fd, struct file *ret);
static inline bool file_is_open(const struct file *f)
{
	return f->fd >= 0;
}
/*
 * Reads `size` bytes unless the file ends before: bytes or -errno. -ETIMEDOUT: no answer; -ESTALE: its reader is gone;
 * -EPIPE: the reader ended just now, or had no CPU.
 */
ssize_t file_read(const struct file *f, void *buf, size_t size, uint64_t off);
void file_close(struct file *f);		     /* then *f is FILE_NONE, as it may be before */
struct elf_source file_source(const struct file *f); /* borrows it */

/*
 * `sock` (taken): where the server is asked for readers (symbolizer_sockets.readers), or -1: there is no server. Asks
 * for the first reader at once.
 */
int target_files_new(int sock, struct target_files **ret);
/* Switches to another server: no file of a reader of the last one is open any more. */
void target_files_connect(struct target_files *s, int sock);
int target_files_socket(const struct target_files *s);
struct target_files *target_files_free(
	struct target_files *s); /* NULL is fine; no file of its readers is open any more */

struct target_files_place {
	int tree;   /* a directory; the descriptor was opened with O_PATH, so to close it calls no file system */
	int passed; /* a file to take if the same one beneath the tree may not be opened; -1: none */
	struct target_files_opener *opener; /* asked where a reader may not open the file; NULL: none */
	bool no_links;			    /* the last part of the path is no symbolic link */
};
/*
 * Opens a file beneath the tree, which its path does not leave. -ETIMEDOUT: there was no answer, or there is no credit;
 * -EPIPE: there is no reader; -EACCES: neither a reader nor the file opener, if there is one, may open it; else as
 * openat2(2), -EINVAL: no file for a profiler (target_files_open_here).
 */
int target_files_open(struct target_files *s, const struct target_files_place *p, struct target_files_account *a,
	const char *path, struct file *ret);
/*
 * Closes a descriptor of a target's file. To close it calls the target's file system (FUSE: flush), so a reader closes
 * a copy first. False: the reader did not succeed, and ours stays open for good.
 */
bool target_files_close_passed(struct target_files *s, struct target_files_account *a, int fd);
bool target_files_broken(const struct target_files *s); /* no reader could be had; until target_files_connect */

/* --- the reader's side --- */

enum reader_request_kind { READER_OPEN, READER_READ, READER_CLOSE, READER_CLOSE_PASSED };

/*
 * Descriptors of READER_OPEN: the tree, then the passed file or the socket to ask the file opener; the path is behind
 * the struct, without a NUL. Of READER_CLOSE_PASSED: the file.
 */
struct reader_request {
	uint32_t kind, handle;
	uint64_t offset;
	uint32_t size;
	uint32_t no_links;
	uint32_t asks; /* READER_OPEN: the second descriptor is that socket */
	uint32_t reserved;
};

struct reader_answer {
	int32_t result;	 /* -errno; READER_OPEN: the handle; READER_READ: bytes that follow */
	uint32_t passed; /* READER_OPEN: it is the file that was passed */
	uint32_t bytes;	 /* that follow */
	uint32_t eof;	 /* READER_OPEN: these are the whole file */
	uint64_t took;	 /* ns, since it took the request */
	struct file_id id;
};

/* Runs a reader: sends an answer to no question when it is ready, then answers until the other end is closed. */
_Noreturn void target_files_reader(int sock);
/*
 * Opens a file beneath a tree, in this process, as a reader does. fd or -errno. Opens only files that a profiler has
 * business with (file_open_for_profiler), as the client may have been taken over. Nothing else keeps a container's
 * secrets from the client: the tree has their mounts (oci/isolation/namespaces.h). A file that begins as a program does
 * is no secret.
 */
int target_files_open_here(int tree, const char *path, bool no_links, struct file_id *ret);
/* The same by a file opener; sock: of file_opener_connect (borrowed). -EACCES: it has ended, or is late. */
int target_files_open_there(int sock, const char *path, bool no_links, int64_t deadline, struct file_id *ret);
