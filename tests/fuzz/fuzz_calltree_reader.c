/* SPDX-License-Identifier: Apache-2.0 */
/* A region of trees whose header and first chunks are whatever comes: paths end, and sums are no larger than they may
 * be. */
#include "profiler/inproc/calltree_reader.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SIZE (8 * TREE_CHUNK)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile uint64_t sink;

static void on_grown(void *arg, const struct calltree_reader_fn *path, size_t n, uint64_t calls, uint64_t ns)
{
	if (n > 64 || calls > CALLTREE_READER_MOST || ns > CALLTREE_READER_MOST)
		__builtin_trap();
	for (size_t i = 0; i < n; i++)
		sink += path[i].fn + (path[i].gone ? strlen(path[i].gone) : 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct tree_header h = {.version = TREE_VERSION,
		.header_size = sizeof(h),
		.node_size = sizeof(struct tree_node),
		.chunk_size = TREE_CHUNK,
		.size = SIZE,
		.chunks = 8};
	struct calltree_reader c = CALLTREE_READER_NONE;
	int fd = memfd_create("tree", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	memcpy(h.magic, TREE_MAGIC, sizeof(h.magic));
	if (size > SIZE - TREE_CHUNK || ftruncate(fd, SIZE) < 0 || pwrite(fd, &h, sizeof(h), 0) < 0 ||
		pwrite(fd, data, size, TREE_CHUNK) < 0)
		return close(fd);
	fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
	if (calltree_reader_open(&c, fd) < 0)
		return 0;
	calltree_reader_look(&c, 64, on_grown, NULL);
	calltree_reader_look(&c, 64, on_grown, NULL);
	calltree_reader_done(&c);
	return 0;
}
