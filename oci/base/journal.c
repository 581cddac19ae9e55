/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/base/journal.h"

#include "oci/base/fd.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC 0x6c616e72756f6a70ull /* "pjournal" */
#define GENERATION_MAX (1ull << 62)
#define NUMBER_MAX 10 /* bytes */

/* At the beginning of each file; the entries follow. */
struct head {
	uint64_t magic, version;
	uint64_t generation; /* the file with the larger one is valid; 0: not this file */
	uint64_t committed;  /* bytes of entries */
	int64_t seen;	     /* CLOCK_MONOTONIC */
	uint64_t reserved[3];
};

struct entry_head {
	uint32_t size, type; /* of the body that follows */
};

struct journal {
	struct {
		int fd;
		uint8_t *at;
	} sides[2];
	unsigned valid;	  /* side */
	unsigned writing; /* side; not the valid one while a snapshot is made */
	uint64_t generation;
	size_t used, begun; /* bytes after the head; where the current entry begins */
	size_t limit, part; /* of `used`; where the current part begins */
	bool part_full;	    /* `full` before the part began */
	bool made;	    /* we have made a valid snapshot */
	bool full;
};

#define ROOM (JOURNAL_MAX - sizeof(struct head))

static struct head *get_head(const struct journal *j, unsigned side)
{
	return (struct head *)j->sides[side].at;
}

static uint8_t *get_body(const struct journal *j)
{
	return j->sides[j->writing].at + sizeof(struct head);
}

/* Returns the generation; 0: nothing in the file is valid. */
static uint64_t read_head(int fd, struct head *ret)
{
	struct stat st;
	if (fstat(fd, &st) < 0 || fd_pread_all(fd, ret, sizeof(*ret), 0) != (ssize_t)sizeof(*ret))
		return 0;
	bool fits = st.st_size <= (off_t)JOURNAL_MAX && ret->committed <= (uint64_t)st.st_size - sizeof(*ret);
	bool known = ret->version == JOURNAL_VERSION || ret->version == JOURNAL_VERSION_0_1_0;
	return ret->magic == MAGIC && known && fits && ret->generation < GENERATION_MAX ? ret->generation : 0;
}

bool journal_is_readable(int fd)
{
	struct head h;
	return read_head(fd, &h);
}

int journal_open_take(int a, int b, struct journal **ret)
{
	struct journal *j = calloc(1, sizeof(*j));
	if (!j) {
		fd_close(a);
		fd_close(b);
		return -ENOMEM;
	}
	j->sides[0].fd = a;
	j->sides[1].fd = b;
	for (unsigned i = 0; i < 2; i++) {
		/* we never touch the mapping beyond the file's end */
		void *at = mmap(NULL, JOURNAL_MAX, PROT_READ | PROT_WRITE, MAP_SHARED, j->sides[i].fd, 0);
		if (at == MAP_FAILED) {
			int r = -errno;
			journal_close(j);
			return r;
		}
		j->sides[i].at = at;
	}
	struct head heads[2];
	uint64_t first = read_head(j->sides[0].fd, &heads[0]), second = read_head(j->sides[1].fd, &heads[1]);
	j->valid = second > first;
	j->generation = j->valid ? second : first;
	j->writing = j->valid;
	j->limit = ROOM;
	j->full = true; /* no snapshot yet */
	*ret = j;
	return 0;
}

struct journal *journal_close(struct journal *j)
{
	for (unsigned i = 0; j && i < 2; i++) {
		if (j->sides[i].at)
			munmap(j->sides[i].at, JOURNAL_MAX);
		fd_close(j->sides[i].fd);
	}
	free(j);
	return NULL;
}

/* --- writing */

void journal_snapshot(struct journal *j)
{
	int fd = j->sides[!j->valid].fd;
	j->writing = !j->valid;
	j->used = 0;
	j->limit = ROOM;
	j->full = ftruncate(fd, 0) < 0 || ftruncate(fd, (off_t)JOURNAL_MAX) < 0;
}

bool journal_snapshot_done(struct journal *j, int64_t now)
{
	if (j->full)
		return false;
	struct head *h = get_head(j, j->writing);
	h->magic = MAGIC;
	h->version = JOURNAL_VERSION;
	h->committed = j->used;
	h->seen = now;
	__atomic_store_n(&h->generation, ++j->generation, __ATOMIC_RELEASE);
	/* the old file has no head any more, so its generation does not count */
	bool gone = ftruncate(j->sides[j->valid].fd, 0) == 0;
	j->valid = j->writing;
	j->made = true;
	return gone;
}

void journal_part(struct journal *j, size_t max)
{
	j->part = j->used;
	j->part_full = j->full;
	j->limit = max < ROOM - j->used ? j->used + max : ROOM;
}

bool journal_part_done(struct journal *j)
{
	bool fits = !j->full;
	if (!fits)
		j->used = j->part;
	j->full = j->part_full;
	j->limit = ROOM;
	return fits;
}

static uint8_t *reserve_bytes(struct journal *j, size_t n)
{
	if (j->full || n > j->limit - j->used) {
		j->full = true;
		return NULL;
	}
	uint8_t *at = get_body(j) + j->used;
	j->used += n;
	return at;
}

void journal_begin(struct journal *j, uint32_t type)
{
	const struct entry_head h = {0, type};
	uint8_t *at = reserve_bytes(j, sizeof(h));
	if (at)
		memcpy(at, &h, sizeof(h));
	j->begun = j->used;
}

void journal_end(struct journal *j)
{
	uint32_t size = (uint32_t)(j->used - j->begun);
	if (!j->full)
		memcpy(get_body(j) + j->begun - sizeof(struct entry_head), &size, sizeof(size));
}

void journal_number(struct journal *j, uint64_t value)
{
	uint8_t bytes[NUMBER_MAX];
	size_t n = 0;
	for (; value >= 0x80; value >>= 7)
		bytes[n++] = (uint8_t)(value | 0x80);
	bytes[n++] = (uint8_t)value;
	uint8_t *at = reserve_bytes(j, n);
	if (at)
		memcpy(at, bytes, n);
}

void journal_numbers(struct journal *j, const uint64_t *values, size_t n)
{
	journal_number(j, n);
	for (size_t i = 0; i < n; i++)
		journal_number(j, values[i]);
}

void journal_bytes(struct journal *j, const void *data, size_t n)
{
	journal_number(j, n);
	uint8_t *at = reserve_bytes(j, n);
	if (at && n)
		memcpy(at, data, n);
}

/* With its NUL, so that a reader can point to the text. */
void journal_text(struct journal *j, const char *text)
{
	journal_bytes(j, text, strlen(text) + 1);
}

bool journal_commit(struct journal *j)
{
	if (j->full)
		return false;
	__atomic_store_n(&get_head(j, j->writing)->committed, j->used, __ATOMIC_RELEASE);
	return true;
}

void journal_seen(struct journal *j, int64_t now)
{
	if (!j->full)
		__atomic_store_n(&get_head(j, j->writing)->seen, now, __ATOMIC_RELAXED);
}

void journal_invalidate(struct journal *j)
{
	if (j->made)
		__atomic_store_n(&get_head(j, j->valid)->generation, 0, __ATOMIC_RELEASE);
	j->made = false;
	j->full = true;
	for (unsigned i = 0; i < 2; i++)
		if (ftruncate(j->sides[i].fd, 0) < 0) /* then its memory is not given back */
			continue;
}

size_t journal_used(const struct journal *j)
{
	return j->used;
}

/* --- reading */

int journal_read(const struct journal *j, uint8_t **ret, size_t *ret_size, int64_t *ret_seen)
{
	struct head h;
	if (!read_head(j->sides[j->valid].fd, &h))
		return -ENOENT;
	uint8_t *bytes = malloc(h.committed ? h.committed : 1);
	if (!bytes)
		return -ENOMEM;
	ssize_t n = fd_pread_all(j->sides[j->valid].fd, bytes, h.committed, sizeof(h));
	if (n != (ssize_t)h.committed) {
		free(bytes);
		return n < 0 ? (int)n : -ENOENT;
	}
	*ret = bytes;
	*ret_size = h.committed;
	*ret_seen = h.seen;
	return 0;
}

static size_t count_bytes_left(const struct journal_reader *s)
{
	return s->bad ? 0 : (size_t)(s->end - s->at);
}

bool saved_next(struct journal_reader *all, uint32_t *ret_type, struct journal_reader *ret)
{
	struct entry_head h;
	if (count_bytes_left(all) < sizeof(h))
		return false;
	memcpy(&h, all->at, sizeof(h));
	if (h.size > count_bytes_left(all) - sizeof(h)) {
		all->bad = true;
		return false;
	}
	*ret_type = h.type;
	*ret = (struct journal_reader){.at = all->at + sizeof(h), .end = all->at + sizeof(h) + h.size};
	all->at = ret->end;
	return true;
}

uint64_t saved_number(struct journal_reader *s)
{
	uint64_t value = 0;
	for (unsigned shift = 0; shift < 64 && count_bytes_left(s); shift += 7) {
		uint8_t byte = *s->at++;
		value |= (uint64_t)(byte & 0x7f) << shift;
		if (byte < 0x80)
			return value;
	}
	s->bad = true;
	return 0;
}

uint64_t saved_below(struct journal_reader *s, uint64_t limit)
{
	uint64_t value = saved_number(s);
	s->bad |= value >= limit;
	return s->bad ? 0 : value;
}

size_t saved_count(struct journal_reader *s, size_t size)
{
	uint64_t n = saved_number(s);
	s->bad |= n > count_bytes_left(s) / size;
	return s->bad ? 0 : n;
}

void saved_numbers(struct journal_reader *s, uint64_t *ret, size_t n)
{
	size_t there = saved_count(s, 1);
	memset(ret, 0, n * sizeof(*ret));
	for (size_t i = 0; i < there; i++) {
		uint64_t value = saved_number(s);
		if (i < n)
			ret[i] = value;
	}
}

const uint8_t *saved_bytes(struct journal_reader *s, size_t *ret_n)
{
	static const uint8_t none;
	size_t n = saved_count(s, 1);
	const uint8_t *at = s->at;
	*ret_n = n;
	if (s->bad)
		return &none;
	s->at += n;
	return at;
}

const char *saved_text(struct journal_reader *s, size_t max)
{
	size_t n;
	const uint8_t *at = saved_bytes(s, &n);
	s->bad |= n == 0 || n > max + 1 || memchr(at, 0, n) != at + n - 1;
	return s->bad ? "" : (const char *)at;
}
