/* SPDX-License-Identifier: Apache-2.0 */
/*
 * seccomp - a program that asks for a filter of system calls, for itself: from then on libpillion makes none.
 *
 * It does so by prctl(2), or by seccomp(2) through syscall(2), as libseccomp and all others do. (A program that does it
 * by an instruction of its own is not seen. A filter that a runtime has set before the program began is the runtime's
 * list, which has ours: getpid, gettid, sendto, recvfrom, process_vm_readv; a refusal of these does no harm.)
 */
#include "shim/libpillion/core/connection.h"
#include "shim/libpillion/core/dlsym_next.h"
#include "shim/libpillion/core/export.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * In strict mode the counter of the CPU is forbidden as well (kernel/seccomp.c, disable_TSC). A call that cannot
 * succeed is a question: libseccomp asks so which features the kernel knows.
 */
static void look_at_seccomp(long operation, long flags, long program)
{
	if (operation == SECCOMP_SET_MODE_STRICT && !flags && !program)
		connection_quiet(true);
	else if (operation == SECCOMP_SET_MODE_FILTER && program)
		connection_quiet(false);
}

static void look_at_prctl(long option, long mode, long program)
{
	if (option == PR_SET_SECCOMP && mode == SECCOMP_MODE_STRICT)
		connection_quiet(true);
	else if (option == PR_SET_SECCOMP && mode == SECCOMP_MODE_FILTER && program)
		connection_quiet(false);
	else if (option == PR_SET_TSC && mode == PR_TSC_SIGSEGV)
		connection_quiet(true);
}

PILLION_API int prctl(int option, ...)
{
	static void *kept;
	unsigned long a[4];
	va_list ap;
	va_start(ap, option);
	for (int i = 0; i < 4; i++)
		a[i] = va_arg(ap, unsigned long);
	va_end(ap);
	look_at_prctl(option, (long)a[0], (long)a[1]);
	int (*fn)(int, unsigned long, unsigned long, unsigned long, unsigned long) = dlsym_next_kept(&kept, "prctl");
	if (fn)
		return fn(option, a[0], a[1], a[2], a[3]);
	errno = ENOSYS;
	return -1;
}

PILLION_API long syscall(long number, ...)
{
	static void *kept;
	long a[6];
	va_list ap;
	va_start(ap, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	if (number == SYS_seccomp)
		look_at_seccomp(a[0], a[1], a[2]);
	else if (number == SYS_prctl)
		look_at_prctl((int)a[0], a[1], a[2]);
	long (*fn)(long, long, long, long, long, long, long) = dlsym_next_kept(&kept, "syscall");
	if (fn)
		return fn(number, a[0], a[1], a[2], a[3], a[4], a[5]);
	errno = ENOSYS;
	return -1;
}
