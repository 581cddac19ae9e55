/* SPDX-License-Identifier: Apache-2.0 */
/*
 * connection - libpillion's state in this process, and its connection to the profiler.
 *
 * A process connects at its first sample, an exec'ed program before it begins. It keeps the socket and its area
 * (owned_fd.h). If the profiler is gone, libpillion looks for it again, a second later at the earliest.
 *
 * All state that a child must not share lies in memory that a fork(2) empties: a child begins anew. A child of vfork(2)
 * has its parent's memory and another pid: it does nothing.
 *
 * Once the application asks for a seccomp filter, libpillion makes no more system calls (connection_quiet): any of them
 * might end the process. The profiler then looks by itself.
 *
 * Dormant: on any failure here the process goes on without us.
 */
#pragma once

#include "shim/libpillion/abi/shm_layout.h"
#include "shim/libpillion/core/owned_fd.h"
#include "shim/libpillion/core/thread_state.h"

/* While no samples are wanted: bytes from one check to the next, as that may change (pillion_start). */
#define CONNECTION_MEAN_NONE (512ull << 10)
/* The same, while a profiler is awaited: a thread that ends before the next check leaves up to that many uncounted. */
#define CONNECTION_MEAN_AWAITED (16ull << 10)

enum connection_state { CONNECTION_NEW, CONNECTION_CONNECTING, CONNECTION_ON, CONNECTION_OFF };

struct connection {
	uint32_t state; /* enum connection_state */
	uint32_t pid;
	struct shm area;
	uint64_t mean; /* bytes from sample to sample of allocations; 0: none are wanted */
	struct owned_fd sock, memory;
	int64_t look_again, tried; /* time of the next check for a profiler; of the last attempt to connect */
	uint32_t reconnecting;	   /* by one thread at a time */
	uint32_t told;		   /* whether a welcome has been read, and the last one */
	struct shm_welcome welcome;
};

/* How long a program waits for a profiler's welcome, which may be stopped: 100. A test that plays one may be later. */
extern int connection_answer_ms;
/*
 * Returns the state of this process, connected if possible; NULL: there is nothing to do. The calling thread is busy
 * already (thread_state.h).
 */
struct connection *connection_get(void);
/* The same, without waiting for the first welcome: for a process that is about to end. */
struct connection *connection_get_at_once(void);
bool connection_has_begun(void); /* before, only the linker and the code that it starts allocate: no connection yet */
/* As connection_get(), if it is connected already: for frequent calls. */
struct connection *connection_now(void);
void connection_wake(struct connection *p);		 /* tells the profiler to read */
void connection_tend(struct connection *p, int64_t now); /* to be called now and then */
/*
 * For a program that asks for a profiler (start.h); the calling thread is busy.
 *
 *	connection_is_connected		whether it is connected to a profiler that is there
 *	connection_prepare		makes the area; -errno: it cannot be made
 *	connection_move			connects to the profiler at `to`; 0 or -errno
 *	connection_leave		disconnects: the profiler ends its target, and is waited for (-ETIMEDOUT)
 */
bool connection_is_connected(void); /* now, to one that is there */
int connection_prepare(void);
int connection_move(const char *to);
int connection_leave(int64_t until);
/* 1: setuid or the like (AT_SECURE): the environment is another user's; -errno: not known */
int connection_secure(void);
/* Ends all system calls, of any thread. off: ends all work, and the CPU's counter is not read either. */
void connection_quiet(bool off);
bool connection_is_quiet(void);
bool connection_is_asked(void);	     /* a socket to connect to is known */
bool connection_is_off(void);	     /* this process has nothing to do, for good */
bool connection_is_awaited(void);    /* a profiler listens, as far as is known, and has not said yet what it wants */
bool connection_is_borrowed(void);   /* this is a child of vfork(2), and all that we have is its parent's */
uint64_t connection_cpu(void);	     /* CPU time of this process, ns */
int64_t connection_clock(void);	     /* CLOCK_MONOTONIC, ns; 0: it might take a system call */
uint64_t connection_stack_end(void); /* of the initial thread; 0: not known */
