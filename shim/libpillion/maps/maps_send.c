/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/libpillion/maps/maps_send.h"

#include "shim/libpillion/core/syscall.h"
#include "shim/libpillion/core/thread_name.h"

#include <fcntl.h>
#include <string.h>

#define PART (40u << 10)
#define PARTS 64
#define HEAD ((uint32_t)(sizeof(struct shm_record) + sizeof(struct shm_more)))

/* Sends one record of lines from *at on; false: there are no more, or there is no room. */
static bool tell_part(struct connection *p, struct code *c, long fd, uint64_t *at)
{
	struct shm_place place;
	bool wake;
	if (!shm_reserve(&p->area, HEAD + PART, &place, &wake))
		return false;
	struct shm_record *to = (struct shm_record *)place.at;
	struct shm_more *more = (struct shm_more *)(to + 1);
	char *text = (char *)(more + 1);
	size_t len = 0;
	long n;
	while (len < PART && (n = sys_call(pread64, fd, text + len, PART - len, *at + len)) > 0)
		len += (size_t)n;
	const bool full = len == PART;
	const size_t whole = code_lines(c, text, &len);
	*at += whole;
	*to = (struct shm_record){.kind = SHM_MAPS,
		.tid = (uint32_t)sys_call(gettid),
		.time = (uint64_t)connection_clock(),
		.stack = (uint32_t)len,
		.more = sizeof(*more)};
	thread_name_read(more);
	const size_t rest = -len & 7; /* the sum is of whole words */
	memset(text + len, 0, rest);
	place.size = (uint32_t)(sizeof(*to) + sizeof(*more) + len + rest);
	shm_publish(&p->area, &place);
	return full && whole;
}

void maps_send_tell(struct connection *p, struct code *c)
{
	uint64_t at = 0;
	const long fd = sys_call(open, "/proc/self/maps", O_RDONLY | O_CLOEXEC);
	__atomic_store_n(&c->n, 0, __ATOMIC_RELEASE);
	c->full = false;
	for (unsigned i = 0; fd >= 0 && i < PARTS && tell_part(p, c, fd, &at); i++)
		;
	if (fd >= 0)
		sys_call(close, fd);
}
