#include "shim/libpillion/core/maps_send.h"

#include "shim/libpillion/core/syscall.h"
#include "shim/libpillion/cputime/cpu_timers.h"

#include <fcntl.h>
#include <string.h>

#define PART (40u << 10)
#define PARTS 64
#define HEAD ((uint32_t)(sizeof(struct area_record) + sizeof(struct area_more)))

/* From where a line begins; false: there is no more. */
static bool tell_part(struct process *p, struct code *c, long fd, uint64_t *at)
{
	struct area_place place;
	bool wake;
	if (!area_reserve(&p->area, HEAD + PART, &place, &wake))
		return false;
	struct area_record *to = (struct area_record *)place.at;
	struct area_more *more = (struct area_more *)(to + 1);
	char *text = (char *)(more + 1);
	size_t len = 0;
	long n;
	while (len < PART && (n = sys_call(pread64, fd, text + len, PART - len, *at + len)) > 0)
		len += (size_t)n;
	const bool full = len == PART;
	const size_t whole = code_lines(c, text, &len);
	*at += whole;
	*to = (struct area_record){.kind = AREA_MAPS,
		.tid = (uint32_t)sys_call(gettid),
		.time = (uint64_t)process_clock(),
		.stack = (uint32_t)len,
		.more = sizeof(*more)};
	timers_name(more);
	const size_t rest = -len & 7; /* the sum is of whole words */
	memset(text + len, 0, rest);
	place.size = (uint32_t)(sizeof(*to) + sizeof(*more) + len + rest);
	area_publish(&p->area, &place);
	return full && whole;
}

void maps_area_tell(struct process *p, struct code *c)
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
