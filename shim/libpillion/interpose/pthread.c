/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pthread - the creation of threads, and sigaltstack(2): if crashes are recorded, every thread has a stack for handlers
 * (altstack.h), and to the application it is as if it had none.
 */
#include "shim/libpillion/core/altstack.h"
#include "shim/libpillion/core/dlsym_next.h"
#include "shim/libpillion/core/export.h"
#include "shim/libpillion/crash/crash_handler.h"

#include <errno.h>
#include <pthread.h>

/* Lies on the alternate stack of the new thread: it is there until the thread uses that stack. */
struct beginning {
	struct altstack *stack;
	void *(*fn)(void *);
	void *arg;
};

static void *run_thread(void *at)
{
	const struct beginning b = *(struct beginning *)at;
	altstack_use(b.stack);
	void *ret = b.fn(b.arg);
	altstack_release(b.stack);
	return ret;
}

PILLION_API int pthread_create(pthread_t *ret, const pthread_attr_t *attributes, void *(*fn)(void *), void *arg)
{
	static void *kept;
	int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) =
		dlsym_next_kept(&kept, "pthread_create");
	if (!create)
		return ENOSYS;
	struct altstack *stack = crash_handler_is_on() ? altstack_take() : NULL;
	if (!stack)
		return create(ret, attributes, fn, arg);
	struct beginning *b = altstack_room(stack);
	*b = (struct beginning){stack, fn, arg};
	const int r = create(ret, attributes, run_thread, b);
	if (r)
		altstack_release(stack);
	return r;
}

PILLION_API int sigaltstack(const stack_t *to, stack_t *ret)
{
	static void *kept;
	stack_t now;
	int (*fn)(const stack_t *, stack_t *) = dlsym_next_kept(&kept, "sigaltstack");
	if (!fn) {
		errno = ENOSYS;
		return -1;
	}
	const bool ours = crash_handler_is_on() && fn(NULL, &now) == 0 && altstack_is_ours(&now);
	const bool none = to && to->ss_flags & SS_DISABLE;
	const int r = ours && (!to || none) ? 0 : fn(to, ret);
	if (r == 0 && ours && ret)
		*ret = (stack_t){.ss_flags = SS_DISABLE};
	if (r == 0 && none && crash_handler_is_on())
		altstack_give();
	return r;
}
