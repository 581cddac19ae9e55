/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/libpillion/selfprof/self_error.h"

#include "shim/libpillion/core/export.h"
#include "shim/libpillion/core/syscall.h"
#include "shim/libpillion/core/text_writer.h"
#include "shim/libpillion/selfprof/self_procfs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/resource.h>

#define SENTENCE_MAX 240

static __thread char sentence[SENTENCE_MAX];

PILLION_API const char *pillion_error(void)
{
	return sentence;
}

static size_t append_text(size_t at, const char *text, size_t n)
{
	const size_t room = sizeof(sentence) - 1 - at;
	n = n < room ? n : room;
	memcpy(sentence + at, text, n);
	return at + n;
}

static size_t put_number(size_t at, long n)
{
	char digits[TEXT_DECIMAL_MAX + 1] = "-";
	const size_t end = text_decimal(digits, n < 0, n < 0 ? -(uint64_t)n : (uint64_t)n);
	return append_text(at, digits, end);
}

int self_fail(int error, const char *format, ...)
{
	va_list args;
	size_t at = 0;
	va_start(args, format);
	for (const char *f = format; *f; f++) {
		if (f[0] != '%') {
			at = append_text(at, f, 1);
		} else if (*++f == 's') {
			const char *text = va_arg(args, const char *);
			at = append_text(at, text, strlen(text));
		} else {
			f += *f == 'l';
			at = put_number(at, va_arg(args, long));
		}
	}
	va_end(args);
	sentence[at] = 0;
	return error;
}

int self_fail_descriptors(int error, const char *what)
{
	struct rlimit most = {0};
	if (error == -ENFILE)
		return self_fail(error, "%s: the machine is out of file descriptors (fs.file-max)", what);
	sys_call(prlimit64, 0, RLIMIT_NOFILE, 0, &most);
	return self_fail(error,
		"%s: this process is out of file descriptors (RLIMIT_NOFILE is %ld): raise it, or allow timed reading",
		what, (long)most.rlim_cur);
}

/* The kernel's own gate says EACCES; EPERM comes from a filter, or a security module, before it. */
static int explain_refusal(int error, const char *what)
{
	long paranoid;
	if (self_read_number(SELF_PARANOID, &paranoid) < 0)
		return self_fail(error, "%s: refused, and there is no %s to say why", what, SELF_PARANOID);
	if (error == -EPERM)
		return self_fail(error, "%s: a seccomp filter or security module forbids perf_event_open", what);
	if (paranoid > 2)
		return self_fail(error,
			"%s: kernel.perf_event_paranoid is %ld, which forbids it to all but the administrator: set it "
			"to 2",
			what, paranoid);
	return self_fail(error,
		"%s: kernel.perf_event_paranoid is %ld: of kernel code nothing is told, "
		"set it to 1 or less, or use PILLION_USER_ONLY",
		what, paranoid);
}

int self_fail_open(int error, const char *what)
{
	long paranoid, rate = 0;
	what = what ? what : "event";
	switch (-error) {
	case EACCES:
	case EPERM:
		return explain_refusal(error, what);
	case ENOSYS:
		if (self_read_number(SELF_PARANOID, &paranoid) == -ENOENT)
			return self_fail(
				-ENOSYS, "%s: this kernel has no perf events (there is no %s)", what, SELF_PARANOID);
		return self_fail(-EPERM, "%s: a seccomp filter hides perf_event_open", what);
	case EMFILE:
	case ENFILE:
		return self_fail_descriptors(error, what);
	case ENOENT:
	case EOPNOTSUPP:
		return self_fail(
			error, "%s: this machine has no such counter (a virtual one gets none of hardware)", what);
	case ENODEV:
		return self_fail(error, "%s: its CPU is offline, or its counter has no driver", what);
	case ESRCH:
		return self_fail(error, "%s: there is no such thread", what);
	case EINVAL:
		self_read_number("/proc/sys/kernel/perf_event_max_sample_rate", &rate);
		return self_fail(error,
			"%s: the kernel does not take it: a frequency above %ld, a CPU that is none, or "
			"something newer than the kernel",
			what, rate);
	case E2BIG:
		return self_fail(error, "%s: something newer than this kernel is asked for", what);
	case ENOMEM:
		return self_fail(error, "%s: no memory", what);
	case EBUSY:
		return self_fail(error, "%s: another has the counter for itself", what);
	default:
		return self_fail(error, "%s: perf_event_open failed with errno %ld", what, -(long)error);
	}
}
