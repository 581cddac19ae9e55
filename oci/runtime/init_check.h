/* SPDX-License-Identifier: Apache-2.0 */
/*
 * init_check - is this process the init of that container, made by an OCI runtime and not started yet?
 *
 * For a caller that gets the pid from a process that it cannot trust: the part of pillion-nri that speaks with the
 * runtime has no privilege, and input from tenants may have taken it over. It must not get any other process of the
 * machine profiled. So the process must, by /proc:
 * - still run a low-level runtime's program: runc, crun or youki (no process runs it any more once its own program has
 *   begun);
 * - be in a cgroup that has the container's id in its path;
 * - have another mount namespace than ours.
 * With Kata, gVisor and others the pid is that of a virtual machine's monitor or a supervisor: init_check_program
 * refuses it with a sentence.
 */
#pragma once

#include "oci/base/err.h"

#include <sys/types.h>

int init_check_parked(pid_t pid, const char *id, struct err *e); /* 0, -ESRCH: it has ended, -EPERM: it fails a check */

/*
 * Will the init that a state names exec a program? A runtime's init is parked and then execs; a monitor of a virtual
 * machine, a restored process or gVisor's kernel does not, and the hook would wait for the container's end. Judged by
 * its name alone, which no program of the container has chosen yet. 0, or -ENOTSUP with a sentence that names it and
 * the way out.
 */
int init_check_program(pid_t init, struct err *e);
