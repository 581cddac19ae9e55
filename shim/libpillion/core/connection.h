/* SPDX-License-Identifier: Apache-2.0 */
/*
 * connection - libpillion's state in this process, and its connection to the profiler.
 *
 * A process connects with its first sample, an exec'ed program before it begins. It keeps the socket and its area
 * (owned_fd.h). Where the profiler is gone it is looked for again, a second later at the earliest.
 *
 * Everything that a child must not share lies in memory that a fork(2) empties: a child begins anew. A child of
 * vfork(2) has its parent's memory and another pid: it does nothing.
 *
 * Once the application asks for a seccomp filter there are no more system calls of ours (connection_quiet): any of them
 * may be its last one. The profiler then looks by itself.
 *
 * Dormant: whatever goes wrong here, the process goes on without us.
 */
#pragma once

#include "shim/libpillion/abi/shm_layout.h"
#include "shim/libpillion/core/owned_fd.h"
#include "shim/libpillion/core/thread_state.h"

/* While nobody wants samples: bytes from one look to the next, as that may change (pillion_start). */
#define CONNECTION_MEAN_NONE (512ull << 10)

enum connection_state { CONNECTION_NEW, CONNECTION_CONNECTING, CONNECTION_ON, CONNECTION_OFF };

struct connection {
	uint32_t state; /* enum connection_state */
	uint32_t pid;
	struct shm area;
	uint64_t mean; /* bytes from sample to sample of allocations; 0: none are wanted */
	struct owned_fd sock, memory;
	int64_t look_again, tried; /* when it is seen whether there is a profiler; when it was connected to last */
	uint32_t reconnecting;	   /* by one thread at a time */
	uint32_t told;		   /* what the profiler wants */
};

/*
 * The state of this very process, connected if that can be; NULL: there is nothing to do. Of a thread that is busy
 * already (thread_state.h).
 */
struct connection *connection_get(void);
/* The same, and what the profiler wants is not waited for where it has not been told: of one that is about to end. */
struct connection *connection_get_at_once(void);
bool connection_has_begun(void); /* before, who allocates is the linker and what it starts: nobody is asked yet */
/* The same, if it is connected: for what happens all the time. */
struct connection *connection_now(void);
void connection_wake(struct connection *p);		 /* there is something to read */
void connection_tend(struct connection *p, int64_t now); /* now and then */
/*
 * Of a program that asks for a profiler (start.h), by a thread that is busy. The area is there, or -errno says why it
 * cannot be; to another profiler, at `path`: 0 or -errno; to none any more: the one that there is ends its target, and
 * is waited for (-ETIMEDOUT).
 */
bool connection_is_connected(void); /* now, to one that is there */
int connection_prepare(void);
int connection_move(const char *to);
int connection_leave(int64_t until);
int connection_secure(
	void); /* 1: setuid and the like, so the environment is somebody else's (AT_SECURE); -errno: who knows */
/* No more system calls, from any thread. off: nothing at all, and the counter of the CPU is not read either. */
void connection_quiet(bool off);
bool connection_is_quiet(void);
bool connection_is_asked(void);	     /* somebody has told us where to connect */
bool connection_is_off(void);	     /* this very process has nothing to do, for good */
bool connection_is_borrowed(void);   /* this is a child of vfork(2), and all that we have is its parent's */
uint64_t connection_cpu(void);	     /* CPU time of this process, ns */
int64_t connection_clock(void);	     /* CLOCK_MONOTONIC, ns; 0: that may take a system call */
uint64_t connection_stack_end(void); /* of the thread that the program began with; 0: not known */
