/* SPDX-License-Identifier: Apache-2.0 */
/*
 * init_check - is this process the init of that container, made by an OCI runtime and not started yet?
 *
 * For who is told a pid by somebody whom he need not believe (pillion-nri: the part that speaks with the runtime has no
 * privilege, and may have been taken over by what tenants write). It must not be able to have any other process of the
 * machine profiled. So of the process, by /proc:
 * - it runs a low-level runtime's program still: runc, crun or youki (both know their init by it, and no process runs
 * it any more once its own program has begun);
 * - it is in a cgroup that has the container's id in its name;
 * - its mount namespace is not ours.
 * Of kata, gVisor and others the pid is a virtual machine's or a supervisor's: there is a sentence for them.
 */
#pragma once

#include "oci/base/err.h"

#include <sys/types.h>

int init_check_parked(pid_t pid, const char *id, struct err *e); /* 0, -ESRCH: it has ended, -EPERM: it is not */

/*
 * Is the process that a state names one that will begin a program? A runtime's init is parked and then execs; a
 * monitor of a virtual machine, a restored process or gVisor's kernel does not, and the hook would wait for the
 * container's end. By its name alone, which nobody in the container chose yet. 0, or -ENOTSUP with a sentence that
 * names it and the way out.
 */
int init_check_program(pid_t init, struct err *e);
