/* SPDX-License-Identifier: Apache-2.0 */
/*
 * target_file - files of targets, opened and read by a process that may hang or die.
 *
 * A tenant's file system may be FUSE or NFS: open, read and even close may never return, and nothing interrupts them.
 * So pilliond holds no descriptor of a target's file. A *reader* opens, reads and closes them: a process that the
 * symbolizer's server (profiler/symbol/symbolizer_client.h) forks, in a seccomp role of its own; it is asked through a
 * socket, one thing at a time, and the process that asks waits for TARGET_FILES_DEADLINE, as counted below. A reader
 * that is late is left alone, which makes the server kill it, and another one is asked for at the next need.
 *
 * On a busy machine a process waits longer for a CPU than a file system takes to answer. So time counts against a
 * target only from when the reader has taken the request from its socket, and while it sleeps: what it waits for then
 * is the file system (state S or D; runnable it is R). Between two looks of the process that waits it counts for
 * TARGET_FILES_TURN at most, however late that process gets the CPU itself. At TARGET_FILES_WAIT_MAX the wait is over
 * in any case; the target does not pay for it then, and no reader is asked for a while. Where the reader waits for a
 * file opener, time counts from when that has taken the question; it pays for TARGET_FILES_WAIT_MAX as well, as it may
 * never take it.
 *
 * A target has a credit (struct target_files_account): two answers that never came, or TARGET_FILES_CREDIT of waiting
 * and a part of the time that passes, and its files are not opened any more. What a reader says is untrusted: it is of
 * the kind asked for and no longer, or the reader is left alone.
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
#define TARGET_FILES_WAIT_MAX (600 * NSEC_PER_MSEC) /* all in all: the process that waits has other work */
#define TARGET_FILES_LATE_MAX 2			    /* answers that did not come */
#define TARGET_FILES_OPENER_QUEUE                                                                                      \
	(32 * 1024) /* bytes on their way to a file opener, by the kernel's count (SIOCOUTQ) */
#define TARGET_FILES_LATE_PAUSE (1 * NSEC_PER_SEC) /* after the first: it may have been a moment's trouble */
#define TARGET_FILES_CREDIT (2 * NSEC_PER_SEC)
#define TARGET_FILES_SHARE 20	/* of the time that passes, one part */
#define TARGET_FILES_BELIEVED 8 /* a reader says how long it took: no less than this part of the waiting counts */
#define TARGET_FILES_OPEN_MAX 8 /* of a reader, at once */
#define TARGET_FILES_AT_ONCE (128u << 10) /* bytes of an answer */
#define TARGET_FILES_BEGINNING_MAX                                                                                     \
	(32u << 10) /* come with what was opened: the headers, mostly all of a small file                              \
		     */

/* Which file it is, as it was when it was opened. */
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
	const char *fault;    /* what is said of it then; NULL: its file system does not answer */
};

/*
 * The file opener of a target (shim/attach/file_opener.h). It may be late by itself, being the target's user's: that is
 * not its file system's fault, so it has an account of its own. Without credit there it is not asked, and after
 * TARGET_FILES_LATE_MAX answers that did not come it is let go; what everybody may read is read all the same.
 */
struct target_files_opener {
	int sock; /* -1: there is none, or none any more */
	struct target_files_account account;
	bool ended; /* it did, before it was let go */
};
#define TARGET_FILES_OPENER(fd, target)                                                                                \
	((struct target_files_opener){.sock = (fd),                                                                    \
		.account = {.name = (target),                                                                          \
			.born = clock_now(),                                                                           \
			.fault = "the process that opens what only their owner may read does not answer"}})
/* A socket for one question; -EACCES: there is no file opener, or none to ask now. */
int target_files_opener_connect(struct target_files_opener *o);

/* A regular file, open. */
struct file {
	struct target_files *files; /* it is a reader's; NULL: it is `fd`, in this process */
	struct target_files_account *account;
	uint32_t handle, reader; /* the reader's number for it; which reader */
	int fd; /* `path` lies beneath it (borrowed); where that is "", the file itself; -1: not open */
	struct target_files_opener
		*opener; /* who opened it, and opens it again (borrowed); NULL: it is for anybody to open */
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

/* In this process. On success file_close closes it; a caller that borrowed it forgets the struct instead. -EINVAL: it
 * is no regular file. */
int file_on(int fd, struct file *ret);
static inline bool file_is_open(const struct file *f)
{
	return f->fd >= 0;
}
/* `size` bytes unless it ends before: bytes or -errno. -ETIMEDOUT: no answer; -ESTALE: its reader is gone; -EPIPE:
 * it ended just now, or had no CPU. */
ssize_t file_read(const struct file *f, void *buf, size_t size, uint64_t off);
void file_close(struct file *f);		     /* then it is FILE_NONE; so it may be before */
struct elf_source file_source(const struct file *f); /* borrows it */

/*
 * `sock`, taken: the server asks it for readers (symbolizer_sockets.readers), or -1: nobody can be asked. The first one
 * is asked for at once.
 */
int target_files_new(int sock, struct target_files **ret);
/* The server is another one: no file of a reader of the last one is open any more. */
void target_files_connect(struct target_files *s, int sock);
int target_files_socket(const struct target_files *s);
struct target_files *target_files_free(
	struct target_files *s); /* NULL is fine; no file of its readers is open any more */

struct target_files_place {
	int tree;   /* a directory; the descriptor was opened with O_PATH, so to close it calls no file system */
	int passed; /* a file that is taken where the same one beneath the tree may not be opened; -1: none */
	struct target_files_opener *opener; /* who is asked where a reader may not open it; NULL: nobody */
	bool no_links;			    /* the last part of the path is no symbolic link */
};
/*
 * Beneath the tree, which its path does not leave. -ETIMEDOUT: there was no answer, or there is no credit; -EPIPE:
 * there is no reader; -EACCES: nor does a file opener open it, if there is one; else as openat2(2), -EINVAL: no file
 * for a profiler (target_files_open_here).
 */
int target_files_open(struct target_files *s, const struct target_files_place *p, struct target_files_account *a,
	const char *path, struct file *ret);
/*
 * To close a descriptor that is a file of the target's calls its file system (FUSE: flush). A reader closes one first;
 * where that does not succeed ours stays open for good, and it is false.
 */
bool target_files_close_passed(struct target_files *s, struct target_files_account *a, int fd);
bool target_files_broken(const struct target_files *s); /* no reader could be had; until the server is another one */

/* --- the reader's side --- */

enum reader_request_kind { READER_OPEN, READER_READ, READER_CLOSE, READER_CLOSE_PASSED };

/*
 * With READER_OPEN: the tree, then what was passed, or else the socket where the file opener is asked; the path is
 * behind it, without a NUL. With _CLOSE_PASSED: it.
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
	uint32_t eof;	 /* READER_OPEN: and that is all of it */
	uint64_t took;	 /* ns, since it took the request */
	struct file_id id;
};

/* Says an answer (which is nobody's) when it is ready, then answers until the other end is closed. */
_Noreturn void target_files_reader(int sock);
/*
 * For who opens a file himself: beneath a tree, as a reader does. fd or -errno. Only what a profiler has business with,
 * whoever asks (he may have been taken over): file_open_for_profiler. That is all that keeps a container's secrets from
 * him: the tree has their mounts (oci/isolation/namespaces.h). A file that begins as a program does is no secret.
 */
int target_files_open_here(int tree, const char *path, bool no_links, struct file_id *ret);
/* The same by a file opener; sock: of file_opener_connect (borrowed). -EACCES: it has ended, or is late. */
int target_files_open_there(int sock, const char *path, bool no_links, int64_t deadline, struct file_id *ret);
