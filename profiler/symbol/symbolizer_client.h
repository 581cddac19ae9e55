/* SPDX-License-Identifier: Apache-2.0 */
/*
 * symbolizer_client - function names, files, lines and inlined callers of addresses, by a process that may die.
 *
 * Debug information is a tenant's, large, and read by libraries that map it and trust it (elfutils, libiberty). So a
 * server of its own (forkserver.h: another layout of memory, nothing of ours in it) holds sockets and forks a job for
 * every question. A job has the addresses of one module; it opens the files, then it has bounded memory and a seccomp
 * role that can map, read and write and nothing else, and the server kills it when its time is over or whoever asked
 * has lost interest. Each answer is sent at once: a job that dies costs what it had not answered yet.
 *
 * The server forks what else may hang or die as well: readers of files (profiler/elf/target_file.h). It never waits for
 * one that it killed, which may stay until a file system answers; those count, and beyond SYMBOLIZER_LINGERING_MAX of
 * them nothing is forked. Nor does it hold a descriptor of a target's file: what is passed on travels in a socket that
 * the job alone looks into.
 *
 * A question is a memfd: struct question_head, then for each address a struct question_item and its name.
 * Answers come through a pipe: struct answer_head, then for each line a struct answer_line and its texts (name,
 * linkage, file, each with its NUL). The first has the index ANSWER_BEGUN, the last ANSWER_END; where it was asked for,
 * the second is ANSWER_FACTS and a struct debug_facts. Both ends are this program: host byte order.
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

/* The descriptors of a question, in this order. From QUESTION_FILES the file.fd of debug and alt come, those there are.
 */
enum { QUESTION_ITSELF, QUESTION_ANSWERS, QUESTION_FILES, QUESTION_FDS };

/* A file to open: it is not there, or another one by now: as if there were none. */
struct question_file {
	uint32_t wanted;
	uint32_t asks; /* the descriptor is a socket where a file opener is asked for it (shim/attach/file_opener.h) */
	struct file_id id;
	char path[PATH_MAX]; /* beneath the descriptor; "" is the file itself */
};

struct question_head {
	uint32_t n;
	uint32_t separate; /* debug is not the file itself: its symbols are news, too */
	uint32_t facts;	   /* what debug says of itself is wanted */
	uint32_t reserved;
	struct question_file debug, alt;
};

struct question_item {
	uint64_t vaddr;
	uint32_t name_size; /* bytes that follow, with the NUL; 0: the name of the item before; 1: no name is known */
	uint32_t index;	    /* told back */
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
 * A server's: where it is asked, and where it is asked for readers of files: there a message has two descriptors, the
 * reader's socket, and a pipe of which the other end is closed when nobody wants it any more. When the first ends, so
 * does the server.
 */
struct symbolizer_sockets {
	int questions, readers; /* -1: there is no server */
};
void symbolizer_close(struct symbolizer_sockets *s);
/* What it says first: a pidfd of it (the caller's). -EAGAIN: not yet, or it did already; -EPIPE: it has ended. */
int symbolizer_process(int questions);
void symbolizer_kill(int questions); /* where nobody has heard that before: also one that is stopped */

/* `questions` is taken. */
int symbolizer_new(int questions, struct symbolizer **ret);
int symbolizer_socket(const struct symbolizer *s);
bool symbolizer_has_ended(const struct symbolizer *s);	  /* the server */
struct symbolizer *symbolizer_free(struct symbolizer *s); /* NULL is fine; what was asked stays unanswered */

struct symbolizer_request {
	size_t n;
	const uint64_t *vaddrs;
	const char *const *names;	/* of the symbol table, or NULL */
	const struct file *debug, *alt; /* NULL: none. Without debug, names are demangled and that is all */
	bool separate;
	/* What debug says of itself, for who may not look himself: it stays all zero where that is no ELF file. To be
	 * there until done. NULL: not wanted */
	struct debug_facts *facts;
};

enum symbolizer_outcome {
	SYMBOLIZER_COMPLETE, /* everything was answered */
	SYMBOLIZER_BROKEN,   /* the job had begun and did not come to its end */
	SYMBOLIZER_UNHEARD,  /* it never began: no process, no memory */
	SYMBOLIZER_GONE,     /* the server has ended, and all jobs with it */
};

struct symbolizer_callbacks {
	void (*answer)(void *arg, uint64_t vaddr, const struct symbol_line *lines, size_t n);
	/* Once, last: nothing more will come. */
	void (*done)(void *arg, enum symbolizer_outcome outcome);
	void *arg;
};

/* As many are asked as may be: the next one would be refused. */
bool symbolizer_busy(const struct symbolizer *s);

struct job;
/*
 * *ret until asking.done was called: for symbolizer_cancel. As many addresses are taken as fit a question, *ret_taken.
 * -errno: nothing was asked, done is not called. -EPIPE: there is no server any more. -EBUSY: too many at once.
 */
int symbolizer_ask(struct symbolizer *s, struct event_loop *l, const struct symbolizer_request *q,
	const struct symbolizer_callbacks *a, size_t *ret_taken, struct job **ret);
/* No further calls for it, not even done; the job is killed. */
void symbolizer_cancel(struct job *j);

/*
 * What a job sent, for tests and the one caller: bytes that may be anything. `take` is called for each whole answer.
 * The number of bytes taken; -EBADMSG.
 */
struct symbolizer_response_parser {
	size_t n;	   /* addresses of the question */
	uint8_t *answered; /* n of them */
	size_t n_answered;
	bool begun, ended;
	struct debug_facts *facts; /* NULL: were not asked for */
	void (*take)(void *arg, uint32_t index, const struct symbol_line *lines, size_t n);
	void *arg;
};
ssize_t answers_take(struct symbolizer_response_parser *a, const uint8_t *bytes, size_t size);

/* --- the answering side -------------------------------------------------------------------------------- */

/* The server, in a process that was just forked and that is in its role; the ends that it is asked at. */
_Noreturn void symbolizer_serve(const struct symbolizer_limits *limits, const struct symbolizer_sockets *own);

/* Say that the job has begun; from here on the files may be what ends it. */
int symbolizer_begin(int answers);
int symbolizer_head(int question, struct question_head *ret);
/* Read the question, write the answers; 0 or -errno. Descriptors are borrowed. */
int symbolizer_answer(
	int question, int answers, const struct elf_memory *debug, const struct elf_memory *alt, size_t memory);
