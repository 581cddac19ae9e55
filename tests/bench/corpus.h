/* SPDX-License-Identifier: Apache-2.0 */
/*
 * corpus - a file of samples as they came from the kernel: what was mapped, registers, stack. Written by
 * tests/bench/record.c and tests/bench/record_calls.c, read by tests/bench/unwinders.c. Native byte order; the files
 *that were mapped are looked up by their paths, so it is good on the machine that made it, for as long as these stay.
 *
 *	"PLNCORP1"
 *	{ u32 'M', id, count; count * { u64 start, end, pgoff; u32 len; char path[len]; } }	a set of mappings
 *	{ u32 'S', id; u64 regs[17]; u32 size; u8 stack[size]; }				a sample and its set
 *	{ u32 'C', count; u64 address[count]; }		the innermost callers of the sample before: return addresses
 */
#pragma once

#include <stdint.h>

#define CORPUS_MAGIC "PLNCORP1"
#define CORPUS_MAPS 'M'
#define CORPUS_SAMPLE 'S'
#define CORPUS_CALLERS 'C'
