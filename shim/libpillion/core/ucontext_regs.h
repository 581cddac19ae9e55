/*
 * ucontext_regs - the registers of what a signal interrupted, as records of the area have them. Safe in a handler.
 */
#pragma once

#include "shim/libpillion/abi/shm_layout.h"

#include <ucontext.h>

#define CONTEXT_REG(c, name) ((uint64_t)(c)->uc_mcontext.gregs[REG_##name])

void context_fill(struct area_record *to, const ucontext_t *c);	   /* those that each record has */
void context_fill_more(struct area_more *to, const ucontext_t *c); /* the others; the name is left as it is */
