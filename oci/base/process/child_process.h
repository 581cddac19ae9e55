/* SPDX-License-Identifier: Apache-2.0 */
/*
 * child_process - reads the state of a process in /proc (proc(5)); children that are bounded in time.
 */
#pragma once

#include "oci/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Reads a field of /proc/PID/status, e.g. "NSpid": the text after the tab. -ESRCH: the process is gone. */
int proc_status_field(pid_t pid, const char *field, char *buf, size_t size);
int proc_status_nspid(pid_t pid, pid_t *ret); /* the last NSpid entry: its pid in its own pid namespace */
/*
 * Reads its pid at level `depth` (>= 1) of the pid namespaces, of which that of /proc is level 1: the depth-th entry of
 * NSpid. -ESRCH: it has no pid there.
 */
int proc_status_nspid_at(pid_t pid, unsigned depth, pid_t *ret);
int proc_status_nspid_depth(pid_t pid);		    /* how many entries NSpid has, or -errno */
int proc_stat_start_time(pid_t pid, uint64_t *ret); /* clock ticks since boot: with pid, an identity */
pid_t proc_status_parent(pid_t pid);		    /* or -errno */
int child_process_pidfd(pid_t pid);		    /* pidfd_open(2) or -errno */
int child_process_kill(int pidfd);		    /* SIGKILL (pidfd_send_signal(2)); 0 or -errno */
/* Writes a sentence why a function above failed for the init of a container; returns `error`. */
int child_process_explain(pid_t init, int error, struct err *e);
/* Reads the inode of /proc/PID/ns/NAME: equal numbers, same namespace. */
int proc_namespace(pid_t pid, const char *name, uint64_t *ret);

/* In a new child: has it killed when `parent` ends, also if that ended before this call (PR_SET_PDEATHSIG). */
void child_process_die_with(pid_t parent);
/*
 * Lets a child that was just forked run beside us, on another CPU that we may use: the kernel queues it behind us if no
 * CPU was idle at that moment, and does not move it before we sleep. If there is no other CPU, nothing changes.
 */
void child_process_run_beside(pid_t child);
/*
 * Asks for short time slices (sched_setattr(2), the least slice; Linux 6.12): a process that mostly waits, and must run
 * soon when it wakes, then goes before those that compute, with no larger share of the CPU. Children inherit it;
 * niceness stays. An older kernel changes nothing.
 */
void child_process_run_soon(void);
/*
 * Forks a child that sends its parent no signal when it ends, and that a plain wait(2) does not see: for processes in
 * which other code handles the signals. child_process_wait finds it. The caller must have one thread.
 */
pid_t child_process_fork_quiet(void);
/*
 * The same, for a child that answers on a pipe and is killed when we end. *ret: the end to write to in the child (0 is
 * returned), the end to read from in its parent. -errno: there is no child and no pipe.
 */
pid_t child_process_fork_answering(int *ret);
/* Does a grandchild become our child when its parent ends? */
bool child_process_inherits_orphans(void);
/* Is a new child in another pid namespace? After unshare(CLONE_NEWPID) the first child is PID 1: if it ends, so does
 * the namespace. */
bool child_process_children_are_elsewhere(void);
/*
 * For a child that shall be a process of its own: resets all that it has inherited, as at a boot: actions and mask of
 * signals, niceness, policy, CPUs, soft limits, umask, directory. The child leaves no core, cannot be dumped, and is
 * the first to be killed when memory is short. Without exec_follows, libc's own two signals (32 and 33) keep their
 * handler, by which libc tells threads to change their user (a sanitizer has a thread).
 */
void child_process_reset(bool exec_follows);
/*
 * Waits for a child until the deadline; then kills it and reaps it, so that no zombie stays (unless the kernel itself
 * holds it up: this call still ends 50 ms later).
 * Returns its wait status (>= 0), -ETIMEDOUT: it had to be killed, -ECHILD: it is no child of ours.
 */
int child_process_wait(pid_t child, int64_t deadline);
/* Describes a wait status: "exited with status 3", "was killed by signal 9" */
const char *child_process_fate(int status, char *buf, size_t size);

/*
 * For a child with one task: limits its memory (RLIMIT_DATA) to `bytes`, except under a sanitizer, and its life
 * (SIGALRM) to `seconds`, 0: no limit. 0 or -errno.
 */
int child_process_bound(size_t bytes, unsigned seconds);

/* Reads a system user's uid and gid in /etc/passwd, without NSS (this code also runs in static binaries). */
int passwd_user(const char *name, uid_t *ret_uid, gid_t *ret_gid);
int passwd_user_name(uid_t uid, char *buf, size_t size);
int passwd_group(const char *name, gid_t *ret_gid); /* the same of /etc/group */
