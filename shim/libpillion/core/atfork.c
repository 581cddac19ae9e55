/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/libpillion/core/atfork.h"

#include "shim/libpillion/core/altstack.h"
#include "shim/libpillion/core/feature.h"

#include <stddef.h>
#include <stdint.h>

extern int __register_atfork(void (*)(void), void (*)(void), void (*)(void), void *)
	__attribute__((weak));									 /* glibc's */
extern int pthread_atfork(void (*)(void), void (*)(void), void (*)(void)) __attribute__((weak)); /* musl's */

static void in_child(void)
{
	altstack_in_child();
	feature_tell_in_child();
}

void atfork_follow(void)
{
	static uint32_t followed;
	if (__atomic_exchange_n(&followed, 1, __ATOMIC_RELAXED))
		return;
	if (__register_atfork)
		__register_atfork(NULL, NULL, in_child, NULL);
	else if (pthread_atfork)
		pthread_atfork(NULL, NULL, in_child);
}
