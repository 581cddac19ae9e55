/* SPDX-License-Identifier: Apache-2.0 */
/*
 * event_arch - the registers of a machine in perf_event_attr.sample_regs_user. A file for each machine has:
 *
 *	PERF_REGS_USER_MASK	all that unwinding takes: enum unwind_reg (profiler/unwind/unwind_arch.h)
 *	PERF_REGS_PLACE_MASK	frame pointer, stack pointer, instruction pointer
 */
#pragma once

#if defined(__x86_64__)
#include "shim/event/event_arch_x86_64.h"
#else
#error "pillion has no file for this machine: see ARCHITECTURE.md"
#endif
