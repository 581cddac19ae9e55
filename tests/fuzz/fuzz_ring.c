/* SPDX-License-Identifier: Apache-2.0 */
/* { u64 start; u64 head; data }: a memfd plays a kernel gone mad, and every record lies inside all the same. */
#include "profiler/perf/ring.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096

static volatile uint64_t sink;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct perf_event_mmap_page *page;
	static int fd;
	struct ring *r;
	if (!page) {
		fd = memfd_create("ring", MFD_CLOEXEC);
		if (ftruncate(fd, 2 * PAGE) < 0)
			abort();
		page = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	}
	uint64_t at[2], steps = 0;
	if (size < sizeof(at) || size > sizeof(at) + PAGE)
		return 0;
	memcpy(at, data, sizeof(at));
	memcpy((uint8_t *)page + PAGE, data + sizeof(at), size - sizeof(at));
	page->data_tail = at[0];
	page->data_head = at[1];
	if (ring_open(fd, 1, &r) < 0)
		abort();
	ring_look(r);
	for (const struct perf_event_header *h; (h = ring_peek(r)); ring_take(r), steps++)
		for (size_t i = 0; i < h->size; i++)
			sink += ((const uint8_t *)h)[i];
	if (steps > PAGE / sizeof(struct perf_event_header) || ring_bytes(r) != at[1] || page->data_tail != at[1])
		abort();
	ring_close(r);
	return 0;
}
