/* SPDX-License-Identifier: Apache-2.0 */
/*
 * symbolizer_client - function names, files, lines and inlined callers of addresses, found by a process that may die.
 *
 * Debug information belongs to a tenant, is large, and is read by libraries that map it and trust it (elfutils,
 * libiberty). So a separate server (forkserver.h: another memory layout, nothing of ours in it) holds sockets and forks
 * a job for every question. A job gets the addresses of one module. It opens the files; from then on its memory is
 * bounded and its seccomp role allows it to map, read and write and nothing else. The server kills a job when its time
 * is over or the client has closed the pipe. A job sends each answer at once, so its death loses only the answers not
 * sent yet.
 *
 * The server also forks the readers of files (profiler/elf/target_file.h), which may hang or die as well. It never
 * waits for a child that it killed: such a child may stay until a file system answers. These children are counted, and
 * at SYMBOLIZER_LINGERING_MAX the server forks no more. It holds no descriptor of a target's file: these travel in a
 * socket from which only the job receives.
 *
 * A question is a memfd: struct question_head, then for each address a struct question_item and its name. Answers come
 * through a pipe: struct answer_head, then for each line a struct answer_line and its texts (name, linkage, file, each
 * with its NUL). The first answer has the index ANSWER_BEGUN, the last ANSWER_END. If facts were asked for, the second
 * is ANSWER_FACTS with a struct debug_facts. Both ends run this program: host byte order.
 */
#pragma once

#include "oci/base/err.h"
#include "oci/base/event_loop.h"
#include "profiler/elf/debuglink.h"
#include "profiler/elf/elf.h"
#include "profiler/elf/target_file.h"
#include "profiler/symbol/name_cache.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SYMBOLIZER_NAME_MAX 4095	   /* longer names are cut */
#define SYMBOLIZER_JOBS_MAX 2		   /* at once */
#define SYMBOLIZER_SECONDS 3		   /* of a job */
#define SYMBOLIZER_LINGERING_MAX 16	   /* killed, not dead yet; a service's cgroup has room for 32 processes */
#define SYMBOLIZER_ASKED_MAX 8		   /* questions that may be open; further ones are refused */
#define SYMBOLIZER_QUESTION_MAX (2u << 20) /* bytes */
#define SYMBOLIZER_ANSWER_MAX (1u << 20)   /* bytes of one answer */
#define SYMBOLIZER_ANSWERS_MAX (64u << 20) /* bytes of all answers of a question */

/*
 * The descriptors of a question, in this order. QUESTION_FILES is a socket that carries the descriptors of debug and
 * alt, as far as these exist: file.fd, or a socket (question_file.asks).
 */
enum { QUESTION_ITSELF, QUESTION_ANSWERS, QUESTION_FILES, QUESTION_FDS };

/* A file for the job to open. A file that is missing, or is another one by now, counts as none. */
struct question_file {
	uint32_t wanted;
	uint32_t asks; /* the descriptor is a socket to ask a file opener for it (shim/attach/file_opener.h) */
	struct file_id id;
	char path[PATH_MAX]; /* beneath the descriptor; "": the descriptor is the file */
};

struct question_head {
	uint32_t n;
	uint32_t separate; /* debug is a separate file: its symbols are news, too */
	uint32_t facts;	   /* the debug_facts of debug are wanted */
	uint32_t reserved;
	struct question_file debug, alt;
};

struct question_item {
	uint64_t vaddr, label_floor; /* as in symtab_find */
	uint32_t name_size; /* bytes that follow, with the NUL; 0: the name of the item before; 1: no name is known */
	uint32_t index;	    /* returned in the answer */
};

#define ANSWER_FACTS (UINT32_MAX - 2)
#define ANSWER_BEGUN (UINT32_MAX - 1)
#define ANSWER_END UINT32_MAX

struct answer_head {
	uint32_t size; /* bytes that follow */
	uint32_t index;
	uint32_t n; /* lines, innermost first */
};

struct answer_line {
	uint32_t line, start;
	uint32_t name, linkage, file; /* bytes of each, with the NUL */
};

/* --- the asking side ----------------------------------------------------------------------------------- */

struct symbolizer;
struct symbolizer_limits {
	unsigned jobs;	  /* at once, at most SYMBOLIZER_JOBS_MAX */
	size_t memory;	  /* bytes of a job, beside the files it maps */
	unsigned seconds; /* of a job; 0: SYMBOLIZER_SECONDS */
};
/*
 * The two sockets of a server: for questions, and for requests for readers of files. Such a request has two
 * descriptors: the reader's socket, and a pipe; the client closes the other end of the pipe when it no longer needs the
 * reader. The server ends when the other end of `questions` is closed.
 */
struct symbolizer_sockets {
	int questions, readers; /* -1: there is no server */
};
void symbolizer_close(struct symbolizer_sockets *s);
/*
 * Receives the pidfd that the server sends first; the caller owns it. -EAGAIN: not sent yet, or received before;
 * -EPIPE: the server has ended.
 */
int symbolizer_process(int questions);
void symbolizer_kill(int questions); /* if that pidfd was not received yet; also kills a stopped server */

/* Takes `questions`. */
int symbolizer_new(int questions, struct symbolizer **ret);
int symbolizer_socket(const struct symbolizer *s);
bool symbolizer_has_ended(const struct symbolizer *s);	  /* the server */
struct symbolizer *symbolizer_free(struct symbolizer *s); /* NULL is fine; open questions stay unanswered */

struct symbolizer_request {
	size_t n;
	const uint64_t *vaddrs;
	const uint64_t *label_floors;	/* as in symtab_find; NULL: symtab_label_floor of each */
	const char *const *names;	/* of the symbol table, or NULL */
	const struct file *debug, *alt; /* NULL: none. Without debug, names are only demangled */
	bool separate;
	/*
	 * Receives the facts of debug, for a caller that may not read the file. Not written if debug is no ELF file.
	 * Must be valid until done. NULL: not wanted
	 */
	struct debug_facts *facts;
};

enum symbolizer_outcome {
	SYMBOLIZER_COMPLETE, /* everything was answered */
	SYMBOLIZER_BROKEN,   /* the job had begun and did not come to its end */
	SYMBOLIZER_UNHEARD,  /* the job never began: no process, no memory */
	SYMBOLIZER_GONE,     /* the server has ended, and all jobs with it */
};

struct symbolizer_callbacks {
	void (*answer)(void *arg, uint64_t vaddr, const struct symbol_line *lines, size_t n);
	/* Once, last: nothing more will come. */
	void (*done)(void *arg, enum symbolizer_outcome outcome);
	void *arg;
};

/* SYMBOLIZER_ASKED_MAX questions are open: the next one would be refused. */
bool symbolizer_busy(const struct symbolizer *s);

struct job;
/*
 * Sends a question. *ret, for symbolizer_cancel, is valid until a->done is called. *ret_taken: how many of the
 * addresses fit into the question. -errno: no question is open, done is not called. -EPIPE: the server has ended.
 * -EBUSY: too many questions are open.
 */
int symbolizer_ask(struct symbolizer *s, struct event_loop *l, const struct symbolizer_request *q,
	const struct symbolizer_callbacks *a, size_t *ret_taken, struct job **ret);
/* Calls no callback of the job any more, not even done; the job is killed. */
void symbolizer_cancel(struct job *j);

/*
 * Parses the bytes that a job sent, which may be anything; public for tests only. Calls `take` for each whole answer.
 * Returns the number of bytes taken, or -EBADMSG.
 */
struct symbolizer_response_parser {
	size_t n;	   /* addresses of the question */
	uint8_t *answered; /* n of them */
	size_t n_answered;
	bool begun, ended;
	struct debug_facts *facts; /* NULL: not asked for */
	void (*take)(void *arg, uint32_t index, const struct symbol_line *lines, size_t n);
	void *arg;
};
ssize_t answers_take(struct symbolizer_response_parser *a, const uint8_t *bytes, size_t size);

/* --- the answering side -------------------------------------------------------------------------------- */

/* Runs the server in a process that was just forked and is in its role. own: the server's ends of the sockets. */
_Noreturn void symbolizer_serve(const struct symbolizer_limits *limits, const struct symbolizer_sockets *own);

/* Tells the client that the job has begun. If the job dies from here on, the files may be the cause. */
int symbolizer_begin(int answers);
int symbolizer_head(int question, struct question_head *ret);
/* Reads the question and writes the answers; 0 or -errno. Borrows the descriptors. */
int symbolizer_answer(
	int question, int answers, const struct elf_memory *debug, const struct elf_memory *alt, size_t memory);
