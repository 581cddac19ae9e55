/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inproc_arch - a machine's registers in the records of libpillion (shim/libpillion/abi/abi_arch.h), and in reports of
 * crashes. A file for each machine has all of it.
 */
#pragma once

#include "profiler/unwind/unwind.h"
#include "shim/libpillion/abi/shm_layout.h"

/* `more` may be NULL: then those registers stay as they are. */
void inproc_regs_take(const struct shm_regs *from, const struct shm_more_regs *more, struct unwind_regs *ret);

/* The names that a report of a crash has for them, in its order, and for shm_crash.flags. */
struct inproc_reg {
	const char *name;
	enum unwind_reg reg;
};
extern const struct inproc_reg inproc_regs[UNWIND_REGS];
extern const char inproc_flags[];

/* The access that faulted, by shm_crash.trap and error: "code at ", "write to ", "read of "; "": it is none. */
const char *inproc_access(const struct shm_crash *s);
