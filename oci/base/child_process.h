/* SPDX-License-Identifier: Apache-2.0 */
/*
 * child_process - what /proc says of a process (proc(5)), and children that are bounded in time.
 */
#pragma once

#include "oci/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A field of /proc/PID/status, e.g. "NSpid"; text after the tab. -ESRCH when the process is gone. */
int proc_status_field(pid_t pid, const char *field, char *buf, size_t size);
int proc_status_nspid(pid_t pid, pid_t *ret); /* the last NSpid entry: its pid in its own pid namespace */
/*
 * Its pid in the pid namespace that lies `depth` (>= 1) levels below and including that of /proc: the depth-th entry of
 * NSpid. -ESRCH: it is not seen there.
 */
int proc_status_nspid_at(pid_t pid, unsigned depth, pid_t *ret);
int proc_status_nspid_depth(pid_t pid);		    /* how many entries NSpid has, or -errno */
int proc_stat_start_time(pid_t pid, uint64_t *ret); /* clock ticks since boot: with pid, an identity */
pid_t proc_status_parent(pid_t pid);		    /* or -errno */
int child_process_pidfd(pid_t pid);		    /* pidfd_open(2) or -errno */
int child_process_kill(int pidfd);		    /* SIGKILL (pidfd_send_signal(2)); 0 or -errno */
/* Why something above failed for the init of a container, as a sentence; returns `error`. */
int child_process_explain(pid_t init, int error, struct err *e);
/* The inode of /proc/PID/ns/NAME: equal numbers, same namespace. */
int proc_namespace(pid_t pid, const char *name, uint64_t *ret);

/* In a child, at once: be killed when `parent` ends, also when it ended before this call (PR_SET_PDEATHSIG). */
void child_process_die_with(pid_t parent);
/*
 * Let a child that was just forked run beside us, on another CPU that we may use: the kernel queues it behind us when
 * no CPU was idle at that moment, and moves it no sooner than we sleep. Where there is no other CPU, nothing changes.
 */
void child_process_run_beside(pid_t child);
/*
 * Ask for short turns (sched_setattr(2), the least slice; Linux 6.12): a process that waits most of the time and has to
 * run soon when it wakes goes before those that compute, with no larger share of the CPU. Children inherit it; niceness
 * stays. An older kernel changes nothing.
 */
void child_process_run_soon(void);
/*
 * fork(2) without a signal to the parent when the child ends, and invisible to a plain wait(2): for processes whose
 * signals belong to somebody else. child_process_wait finds it. The caller has one thread.
 */
pid_t child_process_fork_quiet(void);
/* Would a child of a child of ours, when its parent ends, become ours? */
bool child_process_inherits_orphans(void);
/* After unshare(CLONE_NEWPID) without a fork the first child is PID 1, and with it the namespace would end. */
bool child_process_children_are_elsewhere(void);
/*
 * In a child that shall be a process of its own: all that it has inherited is as at a boot: actions and mask of
 * signals, niceness, policy, CPUs, soft limits, umask, directory. It leaves no core, cannot be dumped, and is the first
 * to go when memory is short. exec_follows: else the two signals of libc's own (32 and 33) keep a handler, by which
 * libc tells threads to change their user (a sanitizer has a thread).
 */
void child_process_reset(bool exec_follows);
/*
 * Wait for a child until the deadline; then kill it and reap it, so that no zombie stays (unless the kernel itself
 * holds it up: this call ends, 50 ms later, all the same).
 * Returns its wait status (>= 0), or -ETIMEDOUT when it had to be killed, or -ECHILD when it is no child of ours.
 */
int child_process_wait(pid_t child, int64_t deadline);
/* "exited with status 3", "was killed by signal 9" */
const char *child_process_fate(int status, char *buf, size_t size);

/*
 * For a child that has one thing to do: its memory (RLIMIT_DATA) ends at `bytes`, but for a sanitizer's, and it itself
 * (SIGALRM) after so long; 0 seconds: not. 0 or -errno.
 */
int child_process_bound(size_t bytes, unsigned seconds);

/* uid and gid of a system user by name from /etc/passwd, without NSS (this code also runs in static binaries). */
int passwd_user(const char *name, uid_t *ret_uid, gid_t *ret_gid);
int passwd_user_name(uid_t uid, char *buf, size_t size);
int passwd_group(const char *name, gid_t *ret_gid); /* the same of /etc/group */
