/* SPDX-License-Identifier: Apache-2.0 */
/*
 * abi_arch - a machine's registers and clock, as a process and its profiler share them. The machine's header has:
 *
 *	struct shm_regs		those that unwinding by tables takes: ip, sp, and all that a callee saves; 16 * n bytes
 *	struct shm_more_regs	the others; 16 * n + 8 bytes
 */
#pragma once

#include <stdint.h>

static inline uint64_t ticks_read(void); /* the CPU's own clock: it counts from some moment on, at some rate */

#if defined(__x86_64__)
#include "shim/libpillion/abi/abi_arch_x86_64.h"
#else
#error "pillion has no file for this machine: see ARCHITECTURE.md"
#endif
