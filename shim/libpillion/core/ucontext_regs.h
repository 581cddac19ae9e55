/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ucontext_regs - copies the registers of interrupted code from a signal's context into records of the area.
 * Async-signal-safe.
 */
#pragma once

#include "shim/libpillion/abi/shm_layout.h"

#include <ucontext.h>

#define UCONTEXT_REG(c, name) ((uint64_t)(c)->uc_mcontext.gregs[REG_##name])

void ucontext_fill(struct shm_record *to, const ucontext_t *c);	   /* those that each record has */
void ucontext_fill_more(struct shm_more *to, const ucontext_t *c); /* the others; the name is left as it is */
