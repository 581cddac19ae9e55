/* SPDX-License-Identifier: Apache-2.0 */
/* build_id - the build-id of a mapped module, from its own memory: works also if the file has been replaced. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct build_identity {
	size_t size; /* 0: there is none, or the memory cannot be read */
	uint8_t bytes[20];
};
/*
 * start: where the beginning of the file is mapped. It reads /proc/self/mem (proc_pid_mem(5)): a missing page is no
 * fault.
 */
void build_id_read(uint64_t start, struct build_identity *ret);
