/* SPDX-License-Identifier: Apache-2.0 */
/*
 * epilogue - the rule of an address whose code no table describes, read from the code itself.
 *
 * From the address every way is followed to where the function returns. What is pushed, popped and added to the stack
 * pointer on a way says how far above it the return address is, and what is popped last into a register that a callee
 * saves is the caller's (psABI, "The Stack Frame"). Hand-written assembly needs this, and C libraries that are built
 * without tables (musl).
 *
 * All ways that come to a return must agree; one that cannot be followed says nothing. The code is hostile: the
 * instructions looked at are bounded, and no byte outside of such code is read. A file for each machine.
 */
#pragma once

#include "profiler/elf/elf.h"
#include "profiler/unwind/cfi_rule.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EPILOGUE_INSNS_MAX 2048 /* of all ways together */
#define EPILOGUE_INSNS_BRIEF 128

/* What is known of a file. */
struct epilogue_known {
	/* Its code around an address, as far as no table describes it; NULL: none. Other code is not looked at. */
	const struct elf_section *(*code)(const void *arg, uint64_t vaddr);
	/* True: a function begins there, so to jump there is to call it for the same caller. */
	bool (*begins)(const void *arg, uint64_t vaddr);
	const void *arg;
};

struct epilogue;
int epilogue_new(struct epilogue **ret);	    /* 120 KiB; -ENOMEM */
struct epilogue *epilogue_free(struct epilogue *s); /* NULL is fine; returns NULL */
enum epilogue_outcome {
	EPILOGUE_UNKNOWN, /* ways that do not agree, or cannot be followed */
	EPILOGUE_FOUND,	  /* the rule is of kind CFI_RULE_FRAME; else of kind CFI_RULE_NONE */
	EPILOGUE_NEVER,	  /* no way returns */
};
/*
 * The rule of the instruction at `vaddr`; called: it is the one behind a call that is under way. *insns: so many
 * instructions are looked at, at most EPILOGUE_INSNS_MAX; it is less by those that were.
 */
enum epilogue_outcome epilogue_find(struct epilogue *s, const struct epilogue_known *known, uint64_t vaddr, bool called,
	unsigned *insns, struct cfi_rule *ret);
/* True: the instruction before `vaddr` may be a call, or it is where signal handlers return to. */
bool epilogue_is_behind_call(const struct elf_section *code, uint64_t vaddr);
/*
 * True: the code sets up a frame pointer in many places, as code does that was compiled to have one in each function.
 * Else a frame pointer is that of a function further out, and frames would be left out.
 */
bool epilogue_keeps_fp(const struct elf_section *code);
