/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/libpillion/selfprof/self_event.h"

#include "shim/libpillion/core/export.h"
#include "shim/libpillion/core/syscall.h"
#include "shim/libpillion/selfprof/self_error.h"
#include "shim/libpillion/selfprof/self_mmap_alloc.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>

#define PAGE 4096u
#define READ_TRIES 1000

/* inherit_thread, which older headers have not (include/uapi/linux/perf_event.h) */
#define ATTR_INHERIT_THREAD (1ull << 35)
#define ATTR_FLAGS_AT 40

/* --- attributes ------------------------------------------------------------------------------------------------ */

static bool is_zero(const uint8_t *at, size_t n)
{
	while (n && !*at)
		at++, n--;
	return !n;
}

int self_take_spec(const struct pillion_event_spec *from, struct pillion_event_spec *ret)
{
	const uint32_t size = from->size;
	if (size < offsetof(struct pillion_event_spec, flags))
		return self_fail(-EINVAL, "event spec: its size is %ld: set it to sizeof(struct pillion_event_spec)",
			(long)size);
	if (size > sizeof(*ret) && !is_zero((const uint8_t *)from + sizeof(*ret), size - sizeof(*ret)))
		return self_fail(-E2BIG, "event spec: it asks for something newer than this library");
	memset(ret, 0, sizeof(*ret));
	memcpy(ret, from, size < sizeof(*ret) ? size : sizeof(*ret));
	if (ret->period && ret->frequency)
		return self_fail(-EINVAL, "event spec: a period and a frequency: give one of them");
	if (ret->fields & PILLION_STACK && (!ret->stack || ret->stack % 8 || ret->stack >= 65536))
		return self_fail(-EINVAL, "event spec: a stack of %ld bytes: it takes a multiple of 8 below 65536",
			(long)ret->stack);
	if (ret->flags & PILLION_USER_ONLY && ret->flags & PILLION_KERNEL_ONLY)
		return self_fail(-EINVAL, "event spec: user code only and kernel code only: there is no other");
	return 0;
}

static bool is_software(const struct pillion_event_spec *s)
{
	return s->type == PERF_TYPE_SOFTWARE;
}

bool self_is_in_kernel(const struct pillion_event_spec *s)
{
	return is_software(s) &&
	       (s->config == PERF_COUNT_SW_CONTEXT_SWITCHES || s->config == PERF_COUNT_SW_CPU_MIGRATIONS);
}

/* Clocks have a timer each, and a dummy event counts nothing. */
bool self_is_shared(const struct pillion_event_spec *s)
{
	return is_software(s) && s->config != PERF_COUNT_SW_CPU_CLOCK && s->config != PERF_COUNT_SW_TASK_CLOCK &&
	       s->config != PERF_COUNT_SW_DUMMY;
}

static const uint64_t tail_bits[SELF_TAILS - 1] = {PERF_SAMPLE_WEIGHT, PERF_SAMPLE_DATA_SRC, PERF_SAMPLE_TRANSACTION};

static void ask_for_fields(const struct pillion_event_spec *s, struct perf_event_attr *a, struct self_layout *l)
{
	a->sample_type |= PERF_SAMPLE_IP;
	if (l->fields & PILLION_ADDR)
		a->sample_type |= PERF_SAMPLE_ADDR;
	if (l->fields & PILLION_CALLCHAIN)
		a->sample_type |= PERF_SAMPLE_CALLCHAIN;
	if (l->fields & PILLION_REGS) {
		a->sample_type |= PERF_SAMPLE_REGS_USER;
		a->sample_regs_user = l->regs = s->regs ? s->regs : SELF_REGS;
	}
	if (l->fields & PILLION_STACK) {
		a->sample_type |= PERF_SAMPLE_STACK_USER;
		a->sample_stack_user = l->stack = s->stack;
	}
	for (uint32_t i = 0; i < l->tail; i++)
		a->sample_type |= tail_bits[i];
}

/* Never PERF_SAMPLE_PERIOD: with it each event of a software counter with a period becomes a sample. */
static void attr_of(
	const struct pillion_event_spec *s, uint32_t flags, struct perf_event_attr *a, struct self_layout *l)
{
	memset(a, 0, sizeof(*a));
	*l = (struct self_layout){.fields = s->fields, .tail = flags >> 24, .shared = self_is_shared(s)};
	a->size = sizeof(*a);
	a->type = s->type;
	a->config = s->config;
	a->sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU;
	if (!(flags & SELF_LEADER))
		ask_for_fields(s, a, l);
	a->sample_id_all = 1;
	a->sample_period = s->frequency ? s->frequency : s->period;
	a->freq = s->frequency != 0;
	a->read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
	if (!(flags & PILLION_PERF_CLOCK)) {
		a->use_clockid = 1;
		a->clockid = CLOCK_MONOTONIC;
	}
	/* no watermark: a ring wakes its reader when it is half full (rb_alloc in kernel/events/ring_buffer.c) */
	a->exclude_hv = 1;
	a->exclude_user = (s->flags & PILLION_KERNEL_ONLY) != 0;
	a->exclude_kernel = (s->flags & PILLION_USER_ONLY) || flags & SELF_USER_ONLY;
	a->exclude_callchain_kernel = a->exclude_kernel;
	a->disabled = (flags & PILLION_DISABLED) != 0;
	a->inherit = (flags & PILLION_INHERIT) != 0;
	if (flags & SELF_SIDEBAND) {
		a->comm = a->comm_exec = a->task = 1;
		a->mmap = a->mmap2 = !(s->flags & PILLION_NO_MAPPINGS);
		a->mmap_data = (s->flags & PILLION_DATA_MAPPINGS) != 0;
		a->context_switch = (s->flags & PILLION_SWITCHES) != 0;
	}
	if (flags & SELF_INHERIT_THREADS && a->inherit)
		*(uint64_t *)((char *)a + ATTR_FLAGS_AT) |= ATTR_INHERIT_THREAD;
}
_Static_assert(
	offsetof(struct perf_event_attr, read_format) + 8 == ATTR_FLAGS_AT, "where the flags of perf_event_attr are");

/* --- the event ---------------------------------------------------------------------------------------------- */

static bool is_foreign(const struct pillion_event *e)
{
	return e->pid != (uint32_t)sys_call(getpid);
}

int self_event_open(
	struct pillion_event *e, const struct pillion_event_spec *spec, uint32_t tid, int cpu, uint32_t flags)
{
	struct perf_event_attr attr;
	memset(e, 0, sizeof(*e));
	attr_of(spec, flags, &attr, &e->layout);
	e->fd = (int)sys_call(perf_event_open, &attr, tid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	if (e->fd < 0)
		return e->fd;
	e->cpu = cpu;
	e->tid = tid ? tid : (uint32_t)sys_call(gettid);
	e->pid = (uint32_t)sys_call(getpid);
	sys_call(ioctl, e->fd, PERF_EVENT_IOC_ID, &e->id);
	return 0;
}

static void unmap_ring(struct pillion_event *e)
{
	if (e->ring.page && !is_foreign(e))
		sys_call(munmap, e->ring.page, e->ring.size + PAGE);
	e->ring = (struct self_ring){0};
}

void self_event_close(struct pillion_event *e)
{
	unmap_ring(e);
	if (e->to)
		e->to->from--;
	e->to = NULL;
	if (e->fd >= 0)
		sys_call(close, e->fd);
	e->fd = -1;
}

int self_event_map(struct pillion_event *e, size_t bytes)
{
	const long at = sys_call(mmap, 0, bytes + PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, e->fd, 0);
	if (at < 0 && at > -4096)
		return (int)at;
	e->ring = (struct self_ring){(struct perf_event_mmap_page *)at, (const uint8_t *)at + PAGE, bytes};
	return 0;
}

int self_event_redirect(struct pillion_event *e, struct pillion_event *to)
{
	const int r = (int)sys_call(ioctl, e->fd, PERF_EVENT_IOC_SET_OUTPUT, to->fd);
	if (r < 0)
		return r;
	if (e->to)
		e->to->from--;
	e->to = to;
	to->from++;
	return 0;
}

/* --- for programs ------------------------------------------------------------------------------------------- */

static int refuse_unseen(const struct pillion_event_spec *s, int error)
{
	if ((error == -EACCES || error == -EPERM) && self_is_in_kernel(s))
		return self_fail(error,
			"context switches and migrations happen in kernel code, of which nothing is told here "
			"(kernel.perf_event_paranoid): no sample would ever come");
	return self_fail_open(error, NULL);
}

PILLION_API int pillion_event_open(
	const struct pillion_event_spec *spec, pid_t tid, int cpu, unsigned flags, struct pillion_event **ret)
{
	struct pillion_event_spec s;
	int r = self_take_spec(spec, &s);
	if (r < 0)
		return r;
	if (flags & ~(PILLION_INHERIT | PILLION_DISABLED | PILLION_PERF_CLOCK))
		return self_fail(-EINVAL, "event: flags that this library does not know");
	struct pillion_event *e = self_map(sizeof(*e));
	if (!e)
		return self_fail(-ENOMEM, "event: no memory");
	r = self_event_open(e, &s, (uint32_t)tid, cpu, flags | SELF_SIDEBAND);
	if (r == -EACCES && !(s.flags & (PILLION_USER_ONLY | PILLION_KERNEL_ONLY)) && !self_is_in_kernel(&s))
		r = self_event_open(e, &s, (uint32_t)tid, cpu, flags | SELF_SIDEBAND | SELF_USER_ONLY);
	if (r < 0) {
		self_unmap(e, sizeof(*e));
		return refuse_unseen(&s, r);
	}
	*ret = e;
	return 0;
}

/* The kernel makes `lock` odd while it writes (perf_event_update_userpage). */
static bool read_page(const struct perf_event_mmap_page *p, struct pillion_count *ret)
{
	const uint32_t before = __atomic_load_n(&p->lock, __ATOMIC_ACQUIRE);
	ret->value = (uint64_t)__atomic_load_n(&p->offset, __ATOMIC_ACQUIRE);
	ret->enabled = __atomic_load_n(&p->time_enabled, __ATOMIC_ACQUIRE);
	ret->running = __atomic_load_n(&p->time_running, __ATOMIC_ACQUIRE);
	return !(before & 1) && before == __atomic_load_n(&p->lock, __ATOMIC_RELAXED);
}

PILLION_API int pillion_event_read(struct pillion_event *e, struct pillion_count *ret)
{
	struct pillion_count c = {.id = e->id};
	uint64_t got[3];
	if (is_foreign(e))
		return self_fail(-ECHILD, "event: it is the parent's");
	if (e->fd >= 0) {
		const long n = sys_call(read, e->fd, got, sizeof(got));
		if (n != sizeof(got))
			return self_fail(n < 0 ? (int)n : -EIO, "event: it cannot be read (errno %ld)", n < 0 ? -n : 0);
		*ret = (struct pillion_count){got[0], got[1], got[2], e->id};
		return 0;
	}
	if (!e->ring.page)
		return self_fail(-EBADF, "event: it has neither a descriptor nor a ring");
	for (int i = 0; i < READ_TRIES; i++)
		if (read_page(e->ring.page, &c)) {
			*ret = c;
			return 0;
		}
	return self_fail(-EAGAIN, "event: the kernel wrote to its page each time that it was read");
}

static int control_event(struct pillion_event *e, unsigned long what, const char *name)
{
	if (is_foreign(e))
		return self_fail(-ECHILD, "event: it is the parent's");
	if (e->fd < 0)
		return self_fail(-EBADF, "event: without its descriptor it cannot be %s", name);
	const int r = (int)sys_call(ioctl, e->fd, what, 0);
	return r < 0 ? self_fail(r, "event: it cannot be %s (errno %ld)", name, -(long)r) : 0;
}

PILLION_API int pillion_event_enable(struct pillion_event *e)
{
	return control_event(e, PERF_EVENT_IOC_ENABLE, "enabled");
}

PILLION_API int pillion_event_disable(struct pillion_event *e)
{
	return control_event(e, PERF_EVENT_IOC_DISABLE, "disabled");
}

PILLION_API int pillion_event_map(struct pillion_event *e, size_t bytes)
{
	if (bytes < PAGE || bytes & (bytes - 1))
		return self_fail(
			-EINVAL, "event: a ring of %ld bytes: it takes a power of two, from 4096 on", (long)bytes);
	if (e->fd < 0 || e->ring.page || e->to)
		return self_fail(-EBUSY, "event: it has a ring already, or no descriptor");
	const int r = self_event_map(e, bytes);
	if (r == -EPERM)
		return self_fail(r, "event: more than this user may lock (RLIMIT_MEMLOCK, kernel.perf_event_mlock_kb): "
				    "a smaller ring");
	if (r == -EINVAL)
		return self_fail(r, "event: one that is inherited and on any CPU cannot have a ring: give it a CPU");
	return r < 0 ? self_fail(r, "event: it cannot be mapped (errno %ld)", -(long)r) : 0;
}

PILLION_API int pillion_event_redirect(struct pillion_event *e, struct pillion_event *to)
{
	if (e->fd < 0 || to->fd < 0)
		return self_fail(-EBADF, "redirect: one of them is closed: read it by time, in a ring of its own");
	if (!to->ring.page)
		return self_fail(-EINVAL, "redirect: the other one is not mapped");
	if (e->ring.page || e->from)
		return self_fail(-EBUSY, "redirect: it has a ring itself");
	if (e->cpu != to->cpu)
		return self_fail(-EINVAL, "redirect: one is on CPU %ld, the other on %ld", (long)e->cpu, (long)to->cpu);
	if (e->cpu < 0 && e->tid != to->tid)
		return self_fail(-EINVAL, "redirect: on any CPU it takes the same thread");
	const int r = self_event_redirect(e, to);
	return r < 0 ? self_fail(r, "redirect: the kernel refuses (errno %ld): other clocks?", -(long)r) : 0;
}

PILLION_API int pillion_event_close_fd(struct pillion_event *e)
{
	if (!e->ring.page)
		return self_fail(-EINVAL, "close_fd: it has no ring that would keep it");
	if (e->from || e->to)
		return self_fail(
			-EBUSY, "close_fd: its ring is that of several: those would end with their descriptors");
	if (e->fd >= 0)
		sys_call(close, e->fd);
	e->fd = -1;
	return 0;
}

PILLION_API int pillion_event_fd(const struct pillion_event *e)
{
	return e->fd;
}

PILLION_API uint64_t pillion_event_id(const struct pillion_event *e)
{
	return e->id;
}

static void free_closed_event(struct pillion_event *e)
{
	if (e->closed && !e->from)
		self_unmap(e, sizeof(*e));
}

PILLION_API struct pillion_event *pillion_event_close(struct pillion_event *e)
{
	if (!e)
		return NULL;
	struct pillion_event *to = e->to;
	self_event_close(e);
	e->closed = true;
	if (to)
		free_closed_event(to);
	free_closed_event(e);
	return NULL;
}
