/* SPDX-License-Identifier: Apache-2.0 */
/*
 * insn_length - the length of a machine's instruction: no more than where the next one begins.
 *
 * Bytes that are no instruction, or one of an extension that is not in the tables, are -EINVAL. The bytes are hostile;
 * none beyond `size` is looked at. A file for each machine (ARCHITECTURE.md, "Another machine").
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define INSN_LENGTH_MAX 15 /* of x86-64: no other machine that Linux runs on has a longer one */

/* Returns the length of the first instruction, in bytes. -ENODATA: it does not end within `size`. */
int insn_length(const uint8_t *bytes, size_t size);
