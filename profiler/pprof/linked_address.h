/* SPDX-License-Identifier: Apache-2.0 */
/*
 * linked_address - from an address of a profile to the address as linked: the reverse of profiler/target/window.c (and,
 * for profiles of other tools, of the kernel's loader).
 *
 * A mapping says where a part of the file lay. The file's own program headers turn an offset in the file into an
 * address. A separate debug file has lost the offsets (objcopy --only-keep-debug), but not the addresses and the sizes:
 * a mapping as large as the code is all of it. An address that fits neither is not guessed.
 */
#pragma once

#include "profiler/elf/debuglink.h"
#include "profiler/pprof/profile.h"

#include <stdbool.h>
#include <stdint.h>

bool linked_address_find(const struct debug_facts *f, const struct profile_mapping *m, uint64_t address, uint64_t *ret);
