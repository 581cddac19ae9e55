/* SPDX-License-Identifier: Apache-2.0 */
/* The journal of a worker that was taken over, for a target of that name: what comes of it can be looked at. */
#include "profiler/target/checkpoint/checkpoint_read.h"
#include "tests/unit/support/fed.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct engine g;
	struct journal_reader all = {.at = data, .end = data + size};
	fed_engine(&g);
	struct target *t = fed_target(&g, 1);
	t->events.dump_sizes[0] = (struct stack_dump_size){.size = {0, 8192, 32768, 65528}, .at = 1, .top = 3};
	if (checkpoint_read(&g, all, 1000, 2000) > 1)
		abort();
	free(fed_dump(&g));
	fed_engine_done(&g);
	return 0;
}
