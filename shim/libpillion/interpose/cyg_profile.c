/* SPDX-License-Identifier: Apache-2.0 */
/* The compiler's hooks, in place of libc's, which do nothing. While counting is off: a load and a branch. */
#include "shim/libpillion/calltree/calltree_env.h"
#include "shim/libpillion/calltree/calltree_inline.h"
#include "shim/libpillion/core/export.h"

#include <unistd.h>

PILLION_API void __cyg_profile_func_enter(void *fn, void *site);
PILLION_API void __cyg_profile_func_exit(void *fn, void *site);

void __cyg_profile_func_enter(void *fn, void *site)
{
	uint64_t sp = (uint64_t)__builtin_dwarf_cfa(), ra = (uint64_t)__builtin_return_address(0);
	uint32_t on = calltree_switch.on;
	if (__builtin_expect(!on, 1))
		return;
	if (on == 1 + TREE_CLOCK_NONE)
		tree_enter_hot((uint64_t)fn, (uint64_t)site, sp, ra);
	else
		calltree_enter_timed((uint64_t)fn, (uint64_t)site, sp, ra);
}

void __cyg_profile_func_exit(void *fn, void *site)
{
	uint64_t sp = (uint64_t)__builtin_dwarf_cfa(), ra = (uint64_t)__builtin_return_address(0);
	uint32_t on = calltree_switch.on;
	if (__builtin_expect(!on, 1))
		return;
	if (on == 1 + TREE_CLOCK_NONE)
		tree_leave_hot((uint64_t)fn, (uint64_t)site, sp, ra);
	else
		calltree_leave_timed((uint64_t)fn, (uint64_t)site, sp, ra);
}

/* Before the program's own constructors, and behind its destructors */
static __attribute__((constructor(101))) void start_calltree(void)
{
	calltree_env_begin(environ);
}

static __attribute__((destructor(101))) void dump_calltree(void)
{
	calltree_env_end();
}
