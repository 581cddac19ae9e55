/* SPDX-License-Identifier: Apache-2.0 */
/*
 * signal - the functions that ask for signals, some of which are ours. If CPU time is sampled by a signal
 * (cpu_timers.h), it is to the application as if that one were not in use.
 *
 * Its disposition is the last one that the application asked for, and is never set: a program that resets every handler
 * goes on being sampled. A set with all real-time signals in it is used without ours: no program means it, and a thread
 * that blocks all of them would be left with one that waits to come, for sigwait(3), ppoll(2) or sigsuspend(2) to find.
 * A program that names it apart from the others, or has a handler for it, gets it.
 *
 * A mask that is asked for shows ours as blocked if all the others are.
 *
 * If crashes are recorded (crash_handler.h), a program that asks for SIGSEGV and the like is shown the disposition that
 * it set.
 */
#include "shim/libpillion/core/dlsym_next.h"
#include "shim/libpillion/core/export.h"
#include "shim/libpillion/cputime/cpu_timers.h"
#include "shim/libpillion/crash/crash_handler.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>

static struct sigaction theirs; /* the application's disposition of our signal */

static int fail_with_enosys(void)
{
	errno = ENOSYS;
	return -1;
}

/* --- dispositions -------------------------------------------------------------------------------------------- */

static bool is_handler(void (*handler)(int))
{
	return handler != SIG_DFL && handler != SIG_IGN;
}

/* True: the call is done by that. */
static bool emulate_sigaction(int sig, const struct sigaction *to, struct sigaction *ret)
{
	if (sig != cpu_timers_signal() || !sig)
		return false;
	if (to && is_handler(to->sa_handler)) {
		cpu_timers_yield(sig);
		theirs = (struct sigaction){0};
		return false;
	}
	const struct sigaction had = theirs;
	if (to) {
		theirs = *to;
		cpu_timers_ignore(to->sa_handler == SIG_IGN);
	}
	if (ret)
		*ret = had;
	return true;
}

/* Converts the kernel's disposition as libc would. */
static void convert_action(const struct kernel_action *from, struct sigaction *to)
{
	memset(to, 0, sizeof(*to));
	to->sa_sigaction = from->handler;
	to->sa_flags = (int)from->flags;
	to->sa_restorer = from->restorer;
	memcpy(&to->sa_mask, &from->mask, sizeof(from->mask));
}

PILLION_API int sigaction(int sig, const struct sigaction *to, struct sigaction *ret)
{
	static void *kept;
	struct kernel_action had;
	if (emulate_sigaction(sig, to, ret))
		return 0;
	int (*fn)(int, const struct sigaction *, struct sigaction *) = dlsym_next_kept(&kept, "sigaction");
	if (!fn)
		return fail_with_enosys();
	const bool ours = crash_handler_shows(sig, &had), sets = to;
	const int r = fn(sig, to, ret);
	if (r == 0 && ours && ret)
		convert_action(&had, ret);
	if (r == 0 && sets)
		crash_handler_was_set(sig);
	return r;
}

typedef void (*handler_fn)(int);

static handler_fn signal_by(handler_fn (*fn)(int, handler_fn), int sig, handler_fn handler)
{
	struct sigaction to = {.sa_handler = handler}, was;
	struct kernel_action had;
	if (emulate_sigaction(sig, &to, &was))
		return was.sa_handler;
	if (!fn)
		return fail_with_enosys(), SIG_ERR;
	const bool ours = crash_handler_shows(sig, &had);
	const handler_fn r = fn(sig, handler);
	if (r != SIG_ERR)
		crash_handler_was_set(sig);
	return r != SIG_ERR && ours ? had.plain : r;
}

#define SIGNAL(name)                                                                                                   \
	handler_fn name(int sig, handler_fn handler);                                                                  \
	PILLION_API handler_fn name(int sig, handler_fn handler)                                                       \
	{                                                                                                              \
		static void *kept;                                                                                     \
		return signal_by(dlsym_next_kept(&kept, #name), sig, handler);                                         \
	}
SIGNAL(signal)
SIGNAL(bsd_signal)
SIGNAL(sysv_signal)
SIGNAL(__sysv_signal)

/* --- sets ---------------------------------------------------------------------------------------------------- */

/* The kernel's bits are the first ones of every libc's. */
static uint64_t bits_of(const sigset_t *set)
{
	uint64_t bits;
	memcpy(&bits, set, sizeof(bits));
	return bits;
}

/* All real-time signals but this one; 35 is the first that every libc leaves to programs. */
static uint64_t make_rt_mask(int sig)
{
	return ~0ull << 34 & ~(1ull << (sig - 1));
}

/* The set without our signal; or as it is, after the application got that signal. */
static const sigset_t *remove_own_signal(const sigset_t *set, sigset_t *room)
{
	const int sig = set ? cpu_timers_signal() : 0;
	const uint64_t bit = sig ? 1ull << (sig - 1) : 0;
	uint64_t bits = set ? bits_of(set) : 0;
	if (!(bits & bit))
		return set;
	if ((bits & make_rt_mask(sig)) != make_rt_mask(sig)) {
		cpu_timers_yield(sig);
		return set;
	}
	*room = *set;
	bits &= ~bit;
	memcpy(room, &bits, sizeof(bits));
	return room;
}

/* Adds our signal if all others are in the set. */
static void add_own_signal(sigset_t *set)
{
	const int sig = set ? cpu_timers_signal() : 0;
	uint64_t bits = sig ? bits_of(set) : 0;
	if (!sig || (bits & make_rt_mask(sig)) != make_rt_mask(sig))
		return;
	bits |= 1ull << (sig - 1);
	memcpy(set, &bits, sizeof(bits));
}

#define MASK(name, failed)                                                                                             \
	PILLION_API int name(int how, const sigset_t *set, sigset_t *ret)                                              \
	{                                                                                                              \
		static void *kept;                                                                                     \
		sigset_t room;                                                                                         \
		int (*fn)(int, const sigset_t *, sigset_t *) = dlsym_next_kept(&kept, #name);                          \
		if (!fn)                                                                                               \
			return failed;                                                                                 \
		const int r = fn(how, how == SIG_UNBLOCK ? set : remove_own_signal(set, &room), ret);                  \
		if (r == 0)                                                                                            \
			add_own_signal(ret);                                                                           \
		return r;                                                                                              \
	}
MASK(sigprocmask, fail_with_enosys())
MASK(pthread_sigmask, ENOSYS)

PILLION_API int sigwait(const sigset_t *set, int *ret)
{
	static void *kept;
	sigset_t room;
	int (*fn)(const sigset_t *, int *) = dlsym_next_kept(&kept, "sigwait");
	return fn ? fn(remove_own_signal(set, &room), ret) : ENOSYS;
}

PILLION_API int sigwaitinfo(const sigset_t *set, siginfo_t *ret)
{
	static void *kept;
	sigset_t room;
	int (*fn)(const sigset_t *, siginfo_t *) = dlsym_next_kept(&kept, "sigwaitinfo");
	return fn ? fn(remove_own_signal(set, &room), ret) : fail_with_enosys();
}

PILLION_API int sigtimedwait(const sigset_t *set, siginfo_t *ret, const struct timespec *most)
{
	static void *kept;
	sigset_t room;
	int (*fn)(const sigset_t *, siginfo_t *, const struct timespec *) = dlsym_next_kept(&kept, "sigtimedwait");
	return fn ? fn(remove_own_signal(set, &room), ret, most) : fail_with_enosys();
}

PILLION_API int signalfd(int fd, const sigset_t *set, int flags)
{
	static void *kept;
	sigset_t room;
	int (*fn)(int, const sigset_t *, int) = dlsym_next_kept(&kept, "signalfd");
	return fn ? fn(fd, remove_own_signal(set, &room), flags) : fail_with_enosys();
}
