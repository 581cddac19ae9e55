/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pillion.h - libpillion, the profiler's half in your own process.
 *
 * Link it (-lpillion) or preload it. It needs libc and nothing else, starts no thread, writes nothing
 * to your stdio and installs nothing that you have not asked for. Functions that can fail return a negative errno.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* "0.1.0" */
const char *pillion_version(void);

/*
 * A profile of this very process, its threads and what it starts from here on. Where a profiler is there already
 * (PILLION_SOCKET: `pillion run`, or a parent that called this) it is used, and `options` are not looked at; else
 * pilliond is started, in a session of its own: no child that wait(2) would see, no SIGCHLD. 0, or -errno; and a
 * sentence in `error` (NULL: none is wanted): why not, or what is less than was asked for, or "". It waits for no
 * longer than PILLION_BUDGET (500ms) and a little, sets PILLION_SOCKET in the environment, and may be called by any
 * thread, also by several at once. PILLION_EVENTS in the environment of a program with this library is the same, before
 * its main.
 */
struct pillion_start_options { /* all zero, or NULL: as the environment and pillion.conf have it */
	const char *events;    /* as --events of `pillion run`: "cpu,alloc"; NULL: PILLION_EVENTS, else "cpu" */
	const char *output;    /* directory; NULL: PILLION_OUTPUT, else the service's or ./pillion-<pid> */
	unsigned window_s;     /* of one profile; 0: PILLION_WINDOW, else 60 */
	unsigned reserved;
};
int pillion_start(const struct pillion_start_options *options, char *error, unsigned long size);
/*
 * Ends what pillion_start() began, in this process and all that it started; back when the last profile is written, 10 s
 * later at most (-ETIMEDOUT). -ENOTCONN: there is nothing that this process, or one that it was forked from, has begun.
 */
int pillion_stop(void);

/*
 * A label of the calling thread: its samples and waits have it, until it has another value, or none (NULL). At most 8
 * of a thread; a key is [A-Za-z_][A-Za-z0-9_.-]*, at most 63 bytes, and comes out as "user.KEY"; a value is UTF-8
 * without control characters, at most 127 bytes. For few values (a kind of request, not its number): a process has 1024
 * different sets of labels, and keeps them. No system call is made, but for a thread's first and, now and
 * then, to the profiler; the thread needs none. A handler may call it. -EINVAL; -E2BIG: one too many of a thread;
 * -ENOSPC: one set too many. Then the thread has what it had.
 */
int pillion_label_set(const char *key, const char *value);

/*
 * Calling-context tree of what is compiled with -finstrument-functions: each call is counted by function, call site and
 * path; with PILLION_TREE_TIME the time is taken as well. Start and stop may be called at any time and by any thread;
 * counts go on where they were. A forked child counts from 0, on its own; a thread's counts stay when it ends. A
 * program of musl is linked with the library: musl has no hooks that a preloaded one could stand in front of. -ENOMEM,
 * -ENOSYS: the kernel is older than Linux 4.14.
 */
#define PILLION_TREE_TIME 1u
int pillion_tree_start(unsigned flags);
void pillion_tree_stop(void);
/*
 * All trees as they are now into a file, for `pillion tree`; it is replaced as a whole. -ENODATA: nothing was counted,
 * and no file is written. The same at the program's start and exit: PILLION_TREE=FILE[,time] in its environment, where
 * %p in FILE is the pid.
 */
int pillion_tree_dump(const char *path);

/*
 * A program that profiles itself: perf events (perf_event_open(2)) on its own threads, records by callbacks.
 *
 *	spec		what is counted, and what a sample shall hold
 *	event		one of them on a thread and a CPU: the system call and its ioctls, without the traps
 *	reader		reads events' rings, and calls a listener for each record
 *	session		all of that for a whole process: attach, run, stop, detach
 *
 * Structures begin with their size: set it to sizeof, and all that you do not use to 0. What fails returns a negative
 * errno, and pillion_error() has the sentence. -ENOSYS: this kernel has no perf events at all. -EACCES, -EPERM: they
 * are refused. -EMFILE: this process is out of descriptors; -ENFILE: the machine is. -ECHILD: it is the parent's.
 *
 * An event, reader or session is used by one thread at a time; pillion_reader_stop() and pillion_session_stop() by any,
 * at any time, from signal handlers too. No thread is started, nothing is allocated by malloc(3). man 3 pillion
 */
const char *pillion_error(void); /* of the last call of this thread that failed; "": none has */

#define PILLION_USER_ONLY 1u /* not what happens in kernel code, also where that may be seen */
#define PILLION_KERNEL_ONLY 2u
#define PILLION_SWITCHES 4u	 /* a record whenever a thread goes on a CPU or off it */
#define PILLION_DATA_MAPPINGS 8u /* mmap records also of what is not executable */
#define PILLION_NO_MAPPINGS 16u	 /* no mmap records */
/* What a sample holds beside time, thread, CPU and address of the code. */
#define PILLION_ADDR 1u	     /* of a page fault */
#define PILLION_CALLCHAIN 2u /* by frame pointers */
#define PILLION_REGS 4u	     /* those of .regs, or what unwinding takes; before a system call */
#define PILLION_STACK 8u     /* .stack bytes from the stack pointer up */

struct pillion_event_spec {
	uint32_t size;
	uint32_t type;	    /* PERF_TYPE_SOFTWARE, ... (<linux/perf_event.h>) */
	uint64_t config;    /* PERF_COUNT_SW_PAGE_FAULTS, ... */
	uint64_t period;    /* a sample each time that so many were counted; of clocks: ns */
	uint64_t frequency; /* instead: about so many samples a second. Neither: it counts, and has no samples */
	uint32_t flags, fields;
	uint32_t stack; /* a multiple of 8 */
	uint32_t reserved;
	uint64_t regs; /* bits of enum perf_event_x86_regs; 0: AX to R15 */
};

/* --- an event ---------------------------------------------------------------------------------------------- */

#define PILLION_INHERIT 1u    /* with all threads and processes that the thread makes from now on; needs a CPU */
#define PILLION_DISABLED 2u   /* until it is enabled */
#define PILLION_PERF_CLOCK 4u /* times by the kernel's own clock, as where CLOCK_MONOTONIC cannot be asked for */

struct pillion_event;
/* tid 0: the calling thread. cpu -1: any. A CPU that is offline is no error: what happens there counts from when it
 * comes. */
int pillion_event_open(
	const struct pillion_event_spec *spec, pid_t tid, int cpu, unsigned flags, struct pillion_event **ret);
struct pillion_count {
	uint64_t value, enabled,
		running; /* ns that it was wanted, and that it counted: fewer where counters are short */
	uint64_t id;
};
/* With a ring and without a descriptor: as of when the thread came to a CPU last. -EAGAIN: it would not hold still. */
int pillion_event_read(struct pillion_event *e, struct pillion_count *ret);
int pillion_event_enable(struct pillion_event *e);
int pillion_event_disable(struct pillion_event *e);
/* bytes: a power of two from a page on. -EPERM: more memory than this user may lock (RLIMIT_MEMLOCK). */
int pillion_event_map(struct pillion_event *e, size_t bytes);
/* Its records into the ring of another one, which is mapped, of the same CPU, and has its descriptor. */
int pillion_event_redirect(struct pillion_event *e, struct pillion_event *to);
/* Gives back the descriptor of an event that is mapped: it goes on, inherited too, and is read by time. -EBUSY: others
 * are redirected to it, or it is itself. */
int pillion_event_close_fd(struct pillion_event *e);
int pillion_event_fd(const struct pillion_event *e); /* -1: closed */
uint64_t pillion_event_id(const struct pillion_event *e);
struct pillion_event *pillion_event_close(struct pillion_event *e); /* NULL is fine; returns NULL */

/* --- records ----------------------------------------------------------------------------------------------- */

#define PILLION_REGS_MAX 64
struct pillion_record {
	uint32_t size;
	uint32_t type, misc;	/* PERF_RECORD_*; perf_event_header.misc */
	uint32_t spec;		/* which of the session's specs, or of the reader's events; UINT32_MAX: not told */
	uint64_t time;		/* ns of CLOCK_MONOTONIC */
	uint32_t pid, tid, cpu; /* who it comes from */
	uint32_t fields;	/* of a sample: what of the following it has */
	uint64_t ip, addr;
	const uint64_t *chain; /* the innermost first, with PERF_CONTEXT_* in between */
	uint64_t n_chain;
	uint64_t regs_abi, regs_mask;
	const uint64_t *regs; /* in the order of the mask's bits */
	const uint8_t *stack;
	uint64_t n_stack; /* bytes that are really there */
	/* mmap: what is mapped. comm, fork, exit: whom it is about (for fork and exit, parent_...: by whom) */
	uint64_t start, length, offset, inode;
	uint32_t maj, min, prot, flags;
	uint32_t of_pid, of_tid, parent_pid, parent_tid;
	const char *name; /* of a mapping's file; of a thread: "" if cut off */
	uint64_t lost;	  /* lost: records; of throttle and unthrottle: the event's id is .id */
	uint64_t id;
	uint32_t out;	/* switch: 1: off the CPU, 0: on it */
	uint32_t bytes; /* of the whole record as the kernel wrote it, which is .raw */
	const void *raw;
};
/* Any may be NULL. A record is valid until the callback returns. From run()'s thread, and from detach(). */
struct pillion_listener {
	uint32_t size, reserved;
	void *arg;
	void (*sample)(void *arg, const struct pillion_record *r);
	void (*mmap)(void *arg, const struct pillion_record *r); /* PERF_RECORD_MMAP, MMAP2 */
	void (*comm)(void *arg, const struct pillion_record *r);
	void (*fork)(void *arg, const struct pillion_record *r);
	void (*exit)(void *arg, const struct pillion_record *r);
	void (*lost)(void *arg, const struct pillion_record *r);     /* LOST, LOST_SAMPLES */
	void (*throttle)(void *arg, const struct pillion_record *r); /* THROTTLE, UNTHROTTLE */
	void (*context_switch)(void *arg, const struct pillion_record *r);
	void (*unknown)(void *arg, const struct pillion_record *r);
	void (*stopped)(void *arg); /* run() returns next */
};

/* --- a reader ---------------------------------------------------------------------------------------------- */

struct pillion_reader;
/* interval_ms: at the latest so long after it was written a record is read; 0: 100. timed: by that alone, never by
 * poll(2). */
int pillion_reader_open(const struct pillion_listener *l, unsigned interval_ms, int timed, struct pillion_reader **ret);
/* One that is mapped, or redirected to one that is; it stays yours, and outlives the reader. */
int pillion_reader_add(struct pillion_reader *r, struct pillion_event *e);
int pillion_reader_run(struct pillion_reader *r);  /* until stop; what is there by then is read. 0 */
int pillion_reader_stop(struct pillion_reader *r); /* this run, or, when there is none, the next */
struct pillion_reader *pillion_reader_close(struct pillion_reader *r);

/* --- a session --------------------------------------------------------------------------------------------- */

enum pillion_strategy {
	PILLION_PER_CORE, /* all threads, and all that they will make; event x thread x CPU */
	PILLION_PROCESS,  /* the calling thread, and all that it will make; event x CPU */
	PILLION_THREADS,  /* the threads that there are, and no others; event x thread */
	PILLION_THREAD,	  /* the calling thread alone */
};
const char *pillion_strategy_name(unsigned strategy); /* NULL: beyond the last one */

#define PILLION_RAISE_NOFILE 1u	       /* RLIMIT_NOFILE may be raised to its hard limit */
#define PILLION_ALLOW_TIMED 2u	       /* where descriptors do not suffice: rings of each event, read by time */
#define PILLION_TIMED 4u	       /* that from the beginning */
#define PILLION_ALLOW_FEWER 8u	       /* where neither suffices: as many threads as there are descriptors for */
#define PILLION_SESSION_PERF_CLOCK 16u /* as PILLION_PERF_CLOCK, with offsets that are measured */

#define PILLION_EVENTS_MAX 16
struct pillion_session_spec {
	uint32_t size;
	uint32_t strategy;
	const struct pillion_event_spec *events;
	uint32_t n_events;
	uint32_t flags;
	uint32_t fd_percent;  /* of RLIMIT_NOFILE, with what is open already; 0: 50 */
	uint32_t passes;      /* over the list of threads, at most; 0: 10 */
	uint32_t budget_ms;   /* for all of them; 0: 2000 */
	uint32_t ring_bytes;  /* of a CPU; 0: 512 KiB, or less where memory may not be locked. Of timed ones: a page */
	uint32_t interval_ms; /* as of a reader; 0: 100, timed 10 */
	uint32_t reserved;
};
struct pillion_session_status {
	uint32_t size;
	uint32_t threads;   /* that were attached to */
	uint32_t inherited; /* that had their events already when they were looked at */
	uint32_t late;	    /* came while it was attached and were not reached within passes and budget */
	uint32_t left_out;  /* for want of descriptors */
	uint32_t refused;   /* by the kernel */
	uint32_t passes, stable;
	uint32_t events, rings;
	uint32_t fds;	     /* in use */
	uint32_t ring_bytes; /* of each */
	uint32_t user_only;  /* kernel code may not be seen */
	uint32_t timed, raised;
	uint32_t cpus_offline;
	uint32_t superfluous; /* events that were closed again: their threads have inherited others */
	uint32_t clock_measured;
	uint64_t clock_error; /* ns, the worst CPU's; 0: times are CLOCK_MONOTONIC */
	uint64_t records, samples, lost;
	uint64_t twice; /* records that came by a superfluous event and were left out */
};

struct pillion_session;
/* Both are copied. */
int pillion_session_open(
	const struct pillion_session_spec *spec, const struct pillion_listener *l, struct pillion_session **ret);
/* From here on there are records. 0 also where it is less than asked for: pillion_session_status() says what. */
int pillion_session_attach(struct pillion_session *s);
int pillion_session_run(struct pillion_session *s); /* until stop; again if you like. 0 */
int pillion_session_stop(
	struct pillion_session *s); /* this run, or, when there is none, the next: that reads what is there */
int pillion_session_detach(struct pillion_session *s); /* -EBUSY: it runs. It can be attached again */
int pillion_session_status(struct pillion_session *s, struct pillion_session_status *ret);
struct pillion_session *pillion_session_close(struct pillion_session *s); /* NULL is fine; returns NULL */

#ifdef __cplusplus
}
#endif
