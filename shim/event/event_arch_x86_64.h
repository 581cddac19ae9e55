/* SPDX-License-Identifier: Apache-2.0 */
/* Bits of enum perf_event_x86_regs: arch/x86/include/uapi/asm/perf_regs.h. */
#pragma once

#define PERF_REGS_USER_MASK 0x00ff01ffULL /* AX to IP, R8 to R15 */
#define PERF_REGS_PLACE_MASK 0x1c0ULL	  /* BP, SP, IP */
