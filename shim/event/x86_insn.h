/* SPDX-License-Identifier: Apache-2.0 */
/*
 * x86_insn - the length of an x86-64 instruction (Intel SDM volume 2, chapter 2 and appendix A; AMD64 APM volume 3 for
 * XOP).
 *
 * No more than that: where the next one begins. Bytes that are no instruction, or one of an extension that is not in
 * the tables (APX), are -EINVAL. The bytes are hostile; none beyond `size` is looked at.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define X86_INSN_MAX 15

/* Returns the length of the first instruction, in bytes. -ENODATA: it does not end within `size`. */
int x86_insn_length(const uint8_t *bytes, size_t size);
