/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/libpillion/core/stack_copy.h"

#include "shim/libpillion/core/connection.h"
#include "shim/libpillion/core/syscall.h"

#include <string.h>
#include <sys/uio.h>

#define STACK_NEAR (64u << 10) /* from a frame of ours to the sampled one on the same stack */
#define STACK_FAR (64u << 20)  /* the end of a stack is not farther away; another stack is (mmap_base) */

uint32_t stack_copy_size(uint64_t sp, uint64_t tp)
{
	const uint64_t ends[] = {connection_stack_end(), tp};
	uint64_t most = STACK_COPY_MAX;
	for (unsigned i = 0; i < 2; i++)
		if (ends[i] > sp && ends[i] - sp < STACK_FAR && ends[i] - sp < most)
			most = ends[i] - sp;
	return (uint32_t)most & ~7u;
}

uint32_t stack_copy(uint32_t tid, uint64_t sp, uint8_t *to, uint32_t most)
{
	struct iovec into = {to, most}, from = {(void *)(uintptr_t)sp, most};
	long n = connection_is_quiet() ? -1 : sys_call(process_vm_readv, tid, &into, 1, &from, 1, 0);
	/* not allowed: if we run on the same stack, the page of sp is there */
	if (n <= 0 && sp - (uintptr_t)__builtin_frame_address(0) < STACK_NEAR) {
		n = (long)(4096 - sp % 4096);
		n = n > (long)most ? (long)most : n;
		memcpy(to, from.iov_base, (size_t)n);
	}
	return n > 0 ? (uint32_t)n & ~7u : 0;
}
