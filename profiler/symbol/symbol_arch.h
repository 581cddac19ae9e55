/* SPDX-License-Identifier: Apache-2.0 */
/* symbol_arch - which slot a machine's stubs of .plt jump through; a file for each machine has it. */
#pragma once

#include "profiler/elf/elf_arch.h"

#include <stdbool.h>
#include <stdint.h>

/* The address of the slot that the stub at `vaddr` jumps through; false: the code is no stub. */
bool symbol_stub_slot(const uint8_t code[ELF_ARCH_STUB], uint64_t vaddr, uint64_t *ret);
