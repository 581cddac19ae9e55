/* SPDX-License-Identifier: Apache-2.0 */
/* insn_length: bytes in memory of exactly their size; what it says lies inside them. */
#include "shim/event/insn_length.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1);
	if (size)
		memcpy(copy, data, size);
	const int n = insn_length(copy, size);
	if (n == 0 || n > INSN_LENGTH_MAX || (n > 0 && (size_t)n > size))
		abort();
	free(copy);
	return 0;
}
