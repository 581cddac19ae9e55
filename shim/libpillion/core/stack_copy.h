/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stack_copy - copies a thread's stack into a record, from the stack pointer towards its end. Async-signal-safe.
 */
#pragma once

#include <stdint.h>

#define STACK_COPY_MAX (32u << 10)

/*
 * Bytes of stack from sp on, of a thread with libc's data at tp: for the initial thread up to the program's
 * environment, for others up to libc's own data, which is at the top of their stacks. If neither is plausible,
 * STACK_COPY_MAX.
 */
uint32_t stack_copy_size(uint64_t sp, uint64_t tp);
/* Copies the part that can be read. Returns its bytes. */
uint32_t stack_copy(uint32_t tid, uint64_t sp, uint8_t *to, uint32_t most);
