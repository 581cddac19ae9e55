/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/inproc/shm_reader.h"

#include "oci/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define UNITS (SHM_BYTES / SHM_UNIT)
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

static int read_at(const struct shm_reader *i, void *buf, size_t size, uint64_t at)
{
	const ssize_t n = fd_pread_all(i->memory, buf, size, (off_t)at);
	return n < 0 ? (int)n : (size_t)n == size ? 0 : -EPROTO;
}

static int write_at(const struct shm_reader *i, uint64_t value, size_t at)
{
	const ssize_t n = pwrite(i->memory, &value, sizeof(value), (off_t)at);
	return n < 0 ? -errno : n == sizeof(value) ? 0 : -EPROTO;
}

/* Asks to be woken when a quarter of the room is filled after our position. */
static int want_wake(const struct shm_reader *i)
{
	return write_at(i, SHM_AT_UNITS(i->read) + UNITS / 4, offsetof(struct shm_head, wake));
}

int shm_reader_said(struct shm_reader *i)
{
	int r = 0;
	if (i->memory < 0)
		return 0;
	if (i->cpu_said != i->cpu_seen)
		r = write_at(i, i->cpu_seen, offsetof(struct shm_head, cpu_read));
	i->cpu_said = i->cpu_seen;
	if (r == 0 && i->awaited_said != i->awaited_seen)
		r = write_at(i, i->awaited_seen, offsetof(struct shm_head, awaited_read));
	i->awaited_said = i->awaited_seen;
	if (r < 0 || i->said == i->read)
		return r;
	i->said = i->read;
	return write_at(i, i->read, offsetof(struct shm_head, read));
}

int shm_reader_want_maps(struct shm_reader *i)
{
	return i->memory < 0 ? 0 : write_at(i, ++i->maps, offsetof(struct shm_head, maps));
}

void shm_reader_resume(struct shm_reader *i, uint64_t read)
{
	const uint32_t items = SHM_AT_ITEMS(read) - SHM_AT_ITEMS(i->read);
	const uint32_t units = SHM_AT_UNITS(read) - SHM_AT_UNITS(i->read);
	if (items <= SHM_ITEMS && units <= UNITS)
		i->read = read;
}

void shm_reader_skip_cpu(struct shm_reader *i, uint64_t until)
{
	struct shm_head h;
	if (read_at(i, &h, 256, 0) == 0)
		i->cpu_seen = until < h.cpu ? until : h.cpu;
}

bool shm_reader_is_area(int memory)
{
	struct stat st;
	/* huge pages have large blocks */
	return fd_is_sealed(memory, SEALS) && fstat(memory, &st) == 0 && S_ISREG(st.st_mode) &&
	       st.st_size == (off_t)SHM_SIZE && st.st_blksize <= 4096;
}

int shm_reader_open(int memory, struct shm_reader *ret)
{
	struct shm_head h;
	*ret = (struct shm_reader){.memory = memory};
	int r = shm_reader_is_area(memory) ? read_at(ret, &h, sizeof(h), 0) : -EPROTO;
	if (r == 0 && (h.magic != SHM_MAGIC || h.version != SHM_VERSION || !h.pid))
		r = -EPROTO;
	if (r < 0) {
		shm_reader_close(ret);
		return r;
	}
	ret->pid = h.pid;
	ret->cookie = h.cookie;
	ret->read = ret->said = h.read;
	ret->lost_seen = h.lost;
	ret->cpu_seen = ret->cpu_said = h.cpu_read;
	ret->awaited_seen = ret->awaited_said = h.awaited_read;
	ret->maps = h.maps;
	return want_wake(ret);
}

void shm_reader_close(struct shm_reader *i)
{
	i->memory = fd_close(i->memory);
}

/* --- records ----------------------------------------------------------------------------------------------- */

struct drain {
	struct shm_reader *inbox;
	uint64_t tail;
	int64_t now, until;
	bool all;
	shm_reader_fn *fn;
	void *arg;
	int n;
};

static int read_item(const struct shm_reader *i, uint32_t number, struct shm_item *ret)
{
	return read_at(i, ret, sizeof(*ret), SHM_ITEMS_AT + (uint64_t)(number % SHM_ITEMS) * sizeof(*ret));
}

/* The item lies between our position and the end of the reserved room. */
static bool is_sane(const struct drain *d, const struct shm_item *item)
{
	const uint32_t from = item->start - SHM_AT_UNITS(d->inbox->read),
		       most = SHM_AT_UNITS(d->tail) - SHM_AT_UNITS(d->inbox->read);
	const uint32_t units = (item->size + SHM_UNIT - 1) / SHM_UNIT;
	return item->size >= sizeof(struct shm_record) && item->size <= SHM_RECORD_MAX && from <= most &&
	       units <= most - from && item->start % UNITS + units <= UNITS;
}

static bool is_more(const struct shm_record *r)
{
	return r->kind == SHM_CRASH ? r->more == sizeof(struct shm_crash)
				    : !r->more || r->more == sizeof(struct shm_more);
}

static void advance_position(struct shm_reader *i, uint32_t units)
{
	i->read = SHM_AT(SHM_AT_ITEMS(i->read) + 1, units);
	i->stuck = 0;
}

/* 1: taken, or skipped as garbled; 0: too young. */
static int process_item(struct drain *d, const struct shm_item *item)
{
	static union {
		struct shm_record record;
		uint8_t bytes[SHM_RECORD_MAX];
	} copy;
	struct shm_reader *i = d->inbox;
	const uint32_t end = item->start + (item->size + SHM_UNIT - 1) / SHM_UNIT;
	int r = read_at(i, &copy, item->size, SHM_BYTES_AT + (uint64_t)(item->start % UNITS) * SHM_UNIT);
	if (r < 0)
		return r;
	const struct shm_record *record = &copy.record;
	const bool good = shm_sum(&copy, item->size & ~7u, SHM_AT_ITEMS(i->read)) == item->sum &&
			  record->kind >= SHM_ALLOC && record->kind < SHM_KINDS && is_more(record) &&
			  (uint64_t)record->more + record->stack <= item->size - sizeof(*record);
	if (good && !d->all && (int64_t)record->time > d->until)
		return 0;
	i->missed += !good;
	advance_position(i, end);
	if (good) {
		d->n++;
		d->fn(d->arg, record);
	}
	return 1;
}

/* Skips to the next published record, or to the end: does not wait any longer for those before it. */
static int skip_unpublished(struct drain *d)
{
	struct shm_reader *i = d->inbox;
	struct shm_item item;
	uint32_t number = SHM_AT_ITEMS(i->read) + 1;
	for (; number != SHM_AT_ITEMS(d->tail); number++) {
		int r = read_item(i, number, &item);
		if (r < 0)
			return r;
		if (item.number == number + 1 && is_sane(d, &item)) {
			i->missed += number - SHM_AT_ITEMS(i->read);
			i->read = SHM_AT(number, item.start);
			i->stuck = 0;
			return 1;
		}
	}
	i->missed += number - SHM_AT_ITEMS(i->read);
	i->read = d->tail;
	i->stuck = 0;
	return 1;
}

static bool is_patient(struct drain *d)
{
	struct shm_reader *i = d->inbox;
	const uint32_t waiting = SHM_AT_UNITS(d->tail) - SHM_AT_UNITS(i->read);
	i->stuck = i->stuck ? i->stuck : d->now;
	return !d->all && d->now - i->stuck < (waiting > UNITS / 2 ? SHM_READER_CROWDED_PATIENCE : SHM_READER_PATIENCE);
}

static int take_next(struct drain *d)
{
	struct shm_reader *i = d->inbox;
	struct shm_item item;
	const uint32_t number = SHM_AT_ITEMS(i->read);
	int r = read_item(i, number, &item);
	if (r < 0)
		return r;
	if (item.number == number + 1 && is_sane(d, &item))
		return process_item(d, &item);
	return item.number != number + 1 && is_patient(d) ? 0 : skip_unpublished(d);
}

int shm_reader_drain(struct shm_reader *i, int64_t until, bool all, shm_reader_fn *fn, void *arg)
{
	struct shm_head h;
	struct drain d = {.inbox = i, .now = clock_now(), .until = until, .all = all, .fn = fn, .arg = arg};
	int r = read_at(i, &h, 256, 0);
	if (r < 0)
		return r;
	d.tail = h.tail;
	i->lost += h.lost - i->lost_seen;
	i->lost_seen = h.lost;
	i->cpu += h.cpu > i->cpu_seen ? h.cpu - i->cpu_seen : 0;
	i->cpu_seen = h.cpu > i->cpu_seen ? h.cpu : i->cpu_seen;
	i->awaited += h.awaited > i->awaited_seen ? h.awaited - i->awaited_seen : 0;
	i->awaited_seen = h.awaited > i->awaited_seen ? h.awaited : i->awaited_seen;
	if (SHM_AT_ITEMS(h.tail) - SHM_AT_ITEMS(i->read) > SHM_ITEMS ||
		SHM_AT_UNITS(h.tail) - SHM_AT_UNITS(i->read) > UNITS)
		return -EPROTO;
	const uint64_t before = i->read;
	while ((r = SHM_AT_ITEMS(i->read) == SHM_AT_ITEMS(d.tail) ? 0 : take_next(&d)) > 0)
		;
	i->left = SHM_AT_UNITS(d.tail) - SHM_AT_UNITS(i->read);
	if (r == 0 && i->read != before)
		r = want_wake(i);
	return r < 0 ? r : d.n;
}

bool shm_reader_is_crowded(const struct shm_reader *i)
{
	return i->left + SHM_AT_UNITS(i->read) - SHM_AT_UNITS(i->said) > UNITS / 2;
}

/* Half of the wake-up mark: more may have come since the tail was read. */
bool shm_reader_is_behind(const struct shm_reader *i)
{
	return i->left >= UNITS / 8;
}

/* --- slots --------------------------------------------------------------------------------------------------- */

int shm_reader_slots(struct shm_reader *i, shm_reader_slot_fn *fn, void *arg)
{
	static struct shm_slot some[1024];
	uint64_t n;
	int r = read_at(i, &n, sizeof(n), offsetof(struct shm_head, slots));
	n = n < SHM_SLOTS ? n : SHM_SLOTS;
	for (uint64_t at = 0; r == 0 && at < n; at += sizeof(some) / sizeof(some[0])) {
		const uint64_t left = n - at, now = left < 1024 ? left : 1024;
		r = read_at(i, some, now * sizeof(some[0]), SHM_SLOTS_AT + at * sizeof(some[0]));
		for (uint64_t k = 0; r == 0 && k < now; k++)
			if (some[k].at > SHM_SLOT_TAKEN && some[k].id)
				fn(arg, &some[k]);
	}
	return r;
}
