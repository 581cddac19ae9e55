/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/libpillion/selfprof/self_mmap_alloc.h"

#include "shim/libpillion/core/syscall.h"

#include <errno.h>
#include <sys/mman.h>

#define CHUNK (64u << 10)
#define FIRST_ROOM 4096

struct self_chunk {
	struct self_chunk *next;
	char bytes[CHUNK - sizeof(void *)];
};

void *self_map(size_t bytes)
{
	const long at = sys_call(mmap, 0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return at < 0 && at > -4096 ? NULL : (void *)at;
}

void self_unmap(void *at, size_t bytes)
{
	if (at)
		sys_call(munmap, at, bytes);
}

int self_grow(void **array, size_t *room, size_t bytes)
{
	if (*room >= bytes)
		return 0;
	size_t wanted = *room ? *room : FIRST_ROOM;
	while (wanted < bytes)
		wanted *= 2;
	if (!*array) {
		*array = self_map(wanted);
		*room = *array ? wanted : 0;
		return *array ? 0 : -ENOMEM;
	}
	const long at = sys_call(mremap, *array, *room, wanted, MREMAP_MAYMOVE);
	if (at < 0 && at > -4096)
		return -ENOMEM;
	*array = (void *)at;
	*room = wanted;
	return 0;
}

void *self_take(struct self_pool *p, size_t bytes)
{
	bytes = (bytes + 15) & ~(size_t)15;
	if (bytes > CHUNK / 2)
		return NULL;
	if (!p->first || p->used + bytes > sizeof(p->first->bytes) - 8) {
		struct self_chunk *c = self_map(sizeof(*c));
		if (!c)
			return NULL;
		c->next = p->first;
		p->first = c;
		p->used = 8; /* then all are aligned to 16 */
	}
	void *at = p->first->bytes + p->used;
	p->used += bytes;
	return at;
}

void self_pool_done(struct self_pool *p)
{
	for (struct self_chunk *c = p->first, *next; c; c = next) {
		next = c->next;
		self_unmap(c, sizeof(*c));
	}
	p->first = NULL;
	p->used = 0;
}
