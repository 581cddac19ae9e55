/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pillion.h - libpillion, the part of the profiler that runs in your own process.
 *
 * Link it (-lpillion) or preload it. It needs libc and nothing else, starts no thread, writes nothing to your stdio and
 * installs nothing that you have not asked for. Functions that can fail return a negative errno.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* "0.2.0" */
const char *pillion_version(void);

/*
 * Starts a profile of this process, its threads and all processes that it starts from now on. If a profiler is there
 * already (PILLION_SOCKET: from `pillion run`, or a parent that called this function), uses that one and ignores
 * `options`. Else starts pilliond, in a session of its own: wait(2) sees no child, and there is no SIGCHLD. Returns 0
 * or -errno. `error` (may be NULL) gets a sentence: the reason of a failure, the part of the request that could not be
 * met, or "". Waits no longer than PILLION_BUDGET (500ms) and a little, sets PILLION_SOCKET in the environment, and may
 * be called by any thread, also by several at once. PILLION_EVENTS in the environment of a program with this library
 * does the same, before its main.
 */
struct pillion_start_options { /* all zero, or NULL: as the environment and pillion.conf say */
	const char *events;    /* as --events of `pillion run`: "cpu,alloc"; NULL: PILLION_EVENTS, else "cpu" */
	const char *output;    /* directory; NULL: PILLION_OUTPUT, else the service's or ./pillion-<pid> */
	unsigned window_s;     /* of one profile; 0: PILLION_WINDOW, else 60 */
	unsigned reserved;
};
int pillion_start(const struct pillion_start_options *options, char *error, unsigned long size);
/*
 * Ends the profile that pillion_start() began, in this process and all that it started. Returns when the last profile
 * is written, after 10 s at most (-ETIMEDOUT). -ENOTCONN: neither this process nor one that it was forked from has
 * begun a profile.
 */
int pillion_stop(void);

/*
 * Sets a label of the calling thread. Its samples and waits carry the label until it gets another value or is removed
 * (value NULL). A thread has at most 8 labels. A key is [A-Za-z_][A-Za-z0-9_.-]*, at most 63 bytes, and is shown as
 * "user.KEY"; a value is UTF-8 without control characters, at most 127 bytes. Use few values (a kind of request, not
 * its number): a process has 1024 different sets of labels, and keeps them. Makes no system call, but at a thread's
 * first label and, now and then, to the profiler; works without a profiler. A signal handler may call it. -EINVAL: the
 * key or the value is not valid; -E2BIG: the thread has 8 labels already; -ENOSPC: there are 1024 sets already. On
 * error the labels stay as they were.
 */
int pillion_label_set(const char *key, const char *value);

/*
 * Counts the calls of code that is compiled with -finstrument-functions in a calling-context tree, by function, call
 * site and path; with PILLION_TREE_TIME takes the time as well. Any thread may start and stop it at any time; counts
 * continue from where they were. A forked child counts from 0, on its own; a thread's counts stay when it ends. On
 * musl, link the program with the library: musl has no hooks that a preloaded library could interpose. -ENOMEM;
 * -ENOSYS: the kernel is older than Linux 4.14.
 */
#define PILLION_TREE_TIME 1u
int pillion_tree_start(unsigned flags);
void pillion_tree_stop(void);
/*
 * Writes all trees as they are now into a file, for `pillion tree`; replaces the file as a whole. -ENODATA: nothing was
 * counted, and no file is written. PILLION_TREE=FILE[,time] in the environment does the same at the program's start and
 * exit; %p in FILE is the pid.
 */
int pillion_tree_dump(const char *path);

/*
 * A program that profiles itself: perf events (perf_event_open(2)) on its own threads, records by callbacks.
 *
 *	spec		the thing to count, and the fields of a sample
 *	event		a spec on one thread and one CPU: the system call and its ioctls, without their traps
 *	reader		reads the rings of events, and calls a listener for each record
 *	session		all of that for a whole process: attach, run, stop, detach
 *
 * Structures begin with their size: set it to sizeof, and all unused members to 0. A function that fails returns a
 * negative errno, and pillion_error() returns the sentence. -ENOSYS: this kernel has no perf events at all. -EACCES,
 * -EPERM: they are refused. -EMFILE: this process is out of descriptors; -ENFILE: the machine is. -ECHILD: the object
 * belongs to the parent process.
 *
 * An event, reader or session is used by one thread at a time; any thread may call pillion_reader_stop() and
 * pillion_session_stop() at any time, also in signal handlers. No thread is started, nothing is allocated by malloc(3).
 * man 3 pillion
 */
const char *pillion_error(void); /* of this thread's last call that failed; "": none has failed */

#define PILLION_USER_ONLY 1u /* no kernel code, even if it may be seen */
#define PILLION_KERNEL_ONLY 2u
#define PILLION_SWITCHES 4u	 /* a record whenever a thread goes on a CPU or off it */
#define PILLION_DATA_MAPPINGS 8u /* mmap records also of mappings that are not executable */
#define PILLION_NO_MAPPINGS 16u	 /* no mmap records */
/* Fields of a sample beside time, thread, CPU and instruction pointer. */
#define PILLION_ADDR 1u	     /* of a page fault */
#define PILLION_CALLCHAIN 2u /* by frame pointers */
#define PILLION_REGS 4u	     /* those of .regs, or those that unwinding needs; as before a system call */
#define PILLION_STACK 8u     /* .stack bytes from the stack pointer up */

struct pillion_event_spec {
	uint32_t size;
	uint32_t type;	    /* PERF_TYPE_SOFTWARE, ... (<linux/perf_event.h>) */
	uint64_t config;    /* PERF_COUNT_SW_PAGE_FAULTS, ... */
	uint64_t period;    /* a sample each time that so many were counted; of clocks: ns */
	uint64_t frequency; /* instead of a period: about so many samples a second. Neither: it counts, and has no
			       samples */
	uint32_t flags, fields;
	uint32_t stack; /* a multiple of 8 */
	uint32_t reserved;
	uint64_t regs; /* bits of enum perf_event_x86_regs; 0: AX to R15 */
};

/* --- an event ---------------------------------------------------------------------------------------------- */

#define PILLION_INHERIT 1u    /* with all threads and processes that the thread makes from now on; needs a CPU */
#define PILLION_DISABLED 2u   /* it does not count until it is enabled */
#define PILLION_PERF_CLOCK 4u /* times by the kernel's own clock, as if CLOCK_MONOTONIC could not be asked for */

struct pillion_event;
/*
 * tid 0: the calling thread. cpu -1: any. An offline CPU is no error: its events count from the time when it comes
 * online.
 */
int pillion_event_open(
	const struct pillion_event_spec *spec, pid_t tid, int cpu, unsigned flags, struct pillion_event **ret);
struct pillion_count {
	uint64_t value, enabled, running; /* ns that it was enabled, and that it counted: fewer if counters are short */
	uint64_t id;
};
/*
 * An event with a ring and without a descriptor has the count from when its thread was last scheduled on a CPU.
 * -EAGAIN: the kernel wrote to the ring's page at each try.
 */
int pillion_event_read(struct pillion_event *e, struct pillion_count *ret);
int pillion_event_enable(struct pillion_event *e);
int pillion_event_disable(struct pillion_event *e);
/* bytes: a power of two, at least a page. -EPERM: more memory than this user may lock (RLIMIT_MEMLOCK). */
int pillion_event_map(struct pillion_event *e, size_t bytes);
/* Writes the records of `e` into the ring of `to`. `to` is mapped, on the same CPU, and has its descriptor. */
int pillion_event_redirect(struct pillion_event *e, struct pillion_event *to);
/*
 * Closes the descriptor of a mapped event: the event goes on, also in threads that inherited it, and is read by time.
 * -EBUSY: other events are redirected to it, or it is redirected itself.
 */
int pillion_event_close_fd(struct pillion_event *e);
int pillion_event_fd(const struct pillion_event *e); /* -1: closed */
uint64_t pillion_event_id(const struct pillion_event *e);
struct pillion_event *pillion_event_close(struct pillion_event *e); /* NULL is fine; returns NULL */

/* --- records ----------------------------------------------------------------------------------------------- */

#define PILLION_REGS_MAX 64
struct pillion_record {
	uint32_t size;
	uint32_t type, misc;	/* PERF_RECORD_*; perf_event_header.misc */
	uint32_t spec;		/* index of the session's spec, or of the reader's event; UINT32_MAX: unknown */
	uint64_t time;		/* ns of CLOCK_MONOTONIC */
	uint32_t pid, tid, cpu; /* the source of the record */
	uint32_t fields;	/* of a sample: which of the following members it has */
	uint64_t ip, addr;
	const uint64_t *chain; /* the innermost first, with PERF_CONTEXT_* in between */
	uint64_t n_chain;
	uint64_t regs_abi, regs_mask;
	const uint64_t *regs; /* in the order of the mask's bits */
	const uint8_t *stack;
	uint64_t n_stack; /* bytes that are valid */
	/*
	 * mmap: the mapping. comm, fork, exit: the process and thread of the record (fork and exit: parent_... is their
	 * parent)
	 */
	uint64_t start, length, offset, inode;
	uint32_t maj, min, prot, flags;
	uint32_t of_pid, of_tid, parent_pid, parent_tid;
	const char *name; /* the mapped file or the thread's name; "": cut off */
	uint64_t lost;	  /* lost: number of records. throttle and unthrottle have the event's id in .id */
	uint64_t id;
	uint32_t out;	/* switch: 1: off the CPU, 0: on it */
	uint32_t bytes; /* size of the kernel's record, which is .raw */
	const void *raw;
};
/*
 * Any callback may be NULL. They are called in the thread of run(), and by detach(). A record is valid until the
 * callback returns.
 */
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
	void (*stopped)(void *arg); /* called before run() returns */
};

/* --- a reader ---------------------------------------------------------------------------------------------- */

struct pillion_reader;
/*
 * interval_ms: a record is read at most this long after it was written; 0: 100. timed: reads at the interval alone,
 * never uses poll(2).
 */
int pillion_reader_open(const struct pillion_listener *l, unsigned interval_ms, int timed, struct pillion_reader **ret);
/*
 * Adds an event that is mapped, or redirected to a mapped one. The caller keeps the event, which must outlive the
 * reader.
 */
int pillion_reader_add(struct pillion_reader *r, struct pillion_event *e);
int pillion_reader_run(struct pillion_reader *r);  /* until stop; reads all records up to then. 0 */
int pillion_reader_stop(struct pillion_reader *r); /* stops this run or, without a run, the next */
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
#define PILLION_ALLOW_TIMED 2u	       /* without enough descriptors: a ring for each event, read by time */
#define PILLION_TIMED 4u	       /* that from the beginning */
#define PILLION_ALLOW_FEWER 8u	       /* if neither suffices: as many threads as there are descriptors for */
#define PILLION_SESSION_PERF_CLOCK 16u /* as PILLION_PERF_CLOCK, with measured offsets */

#define PILLION_EVENTS_MAX 16
struct pillion_session_spec {
	uint32_t size;
	uint32_t strategy;
	const struct pillion_event_spec *events;
	uint32_t n_events;
	uint32_t flags;
	uint32_t fd_percent;  /* of RLIMIT_NOFILE, files open already included; 0: 50 */
	uint32_t passes;      /* over the list of threads, at most; 0: 10 */
	uint32_t budget_ms;   /* for all of them; 0: 2000 */
	uint32_t ring_bytes;  /* of a CPU; 0: 512 KiB, or less where memory may not be locked. Of timed ones: a page */
	uint32_t interval_ms; /* as of a reader; 0: 100, timed 10 */
	uint32_t reserved;
};
struct pillion_session_status {
	uint32_t size;
	uint32_t threads;   /* attached to */
	uint32_t inherited; /* had inherited their events when they were looked at */
	uint32_t late;	    /* came during the attachment and were not reached within passes and budget */
	uint32_t left_out;  /* without events: out of descriptors */
	uint32_t refused;   /* by the kernel */
	uint32_t passes, stable;
	uint32_t events, rings;
	uint32_t fds;	     /* in use */
	uint32_t ring_bytes; /* of each */
	uint32_t user_only;  /* kernel code may not be seen */
	uint32_t timed, raised;
	uint32_t cpus_offline;
	uint32_t superfluous; /* events that were closed again: their threads had inherited others */
	uint32_t clock_measured;
	uint64_t clock_error; /* ns, the worst CPU's; 0: times are CLOCK_MONOTONIC */
	uint64_t records, samples, lost;
	uint64_t twice; /* records by superfluous events, left out */
};

struct pillion_session;
/* Copies both arguments. */
int pillion_session_open(
	const struct pillion_session_spec *spec, const struct pillion_listener *l, struct pillion_session **ret);
/* From now on there are records. Returns 0 even if it got less than was asked for: see pillion_session_status(). */
int pillion_session_attach(struct pillion_session *s);
int pillion_session_run(struct pillion_session *s); /* until stop; may be called again. 0 */
/* Stops this run or, without a run, the next: that one reads the records that are there. */
int pillion_session_stop(struct pillion_session *s);
int pillion_session_detach(struct pillion_session *s); /* -EBUSY: it runs. May be attached again */
int pillion_session_status(struct pillion_session *s, struct pillion_session_status *ret);
struct pillion_session *pillion_session_close(struct pillion_session *s); /* NULL is fine; returns NULL */

#ifdef __cplusplus
}
#endif
