/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/libpillion/selfprof/self_reader.h"

#include "shim/libpillion/selfprof/self_error.h"

#include <errno.h>
#include <string.h>

int self_take_listener(const struct pillion_listener *from, struct pillion_listener *ret)
{
	if (from->size < offsetof(struct pillion_listener, mmap) || from->size > sizeof(*ret))
		return self_fail(-EINVAL,
			"listener: its size is %ld: set it to sizeof(struct pillion_listener), of this library's "
			"header",
			(long)from->size);
	memset(ret, 0, sizeof(*ret));
	memcpy(ret, from, from->size);
	return 0;
}

typedef void callback(void *arg, const struct pillion_record *r);

static callback *who_wants(const struct pillion_listener *l, uint32_t type)
{
	switch (type) {
	case PERF_RECORD_SAMPLE:
		return l->sample;
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2:
		return l->mmap;
	case PERF_RECORD_COMM:
		return l->comm;
	case PERF_RECORD_FORK:
		return l->fork;
	case PERF_RECORD_EXIT:
		return l->exit;
	case PERF_RECORD_LOST:
	case PERF_RECORD_LOST_SAMPLES:
		return l->lost;
	case PERF_RECORD_THROTTLE:
	case PERF_RECORD_UNTHROTTLE:
		return l->throttle;
	case PERF_RECORD_SWITCH:
	case PERF_RECORD_SWITCH_CPU_WIDE:
		return l->context_switch;
	default:
		return l->unknown;
	}
}

void self_tell(const struct pillion_listener *l, const struct pillion_record *r)
{
	callback *fn = who_wants(l, r->type);
	if (fn)
		fn(l->arg, r);
}
