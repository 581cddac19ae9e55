/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/inproc/inproc_process.h"

#include "oci/base/clock.h"

#include <stdlib.h>
#include <sys/stat.h>

struct inproc_process *inproc_process_find_cookie(
	const struct inproc *a, uint64_t cookie, const struct inproc_process *but)
{
	struct inproc_process *p = a->first;
	while (p && (p == but || p->hello_by || p->inbox.cookie != cookie))
		p = p->next;
	return p;
}

static bool is_saved(const struct inproc *a)
{
	return apps_heap(a) || a->timers || a->calls < a->sampling->desc->n_events;
}

void inproc_save(struct inproc *a, struct journal *j, uint32_t type, uint64_t serial)
{
	for (struct inproc_process *p = a && is_saved(a) ? a->first : NULL; p; p = p->next) {
		if (p->hello_by || (!live_heap_unsaved(&p->inuse) && !calltree_reader_unsaved(&p->called) &&
					   p->inbox.read == p->read_saved))
			continue;
		journal_begin(j, type);
		journal_number(j, serial);
		journal_number(j, p->inbox.cookie);
		journal_number(j, p->inbox.pid);
		journal_number(j, a->seen);
		journal_number(j, p->inbox.read);
		live_heap_save(&p->inuse, j);
		calltree_reader_save(&p->called, j);
		journal_end(j);
		p->read_saved = p->inbox.read;
	}
}

void inproc_saved(struct inproc *a)
{
	for (struct inproc_process *p = a ? a->first : NULL; p; p = p->next)
		if (p->inbox.read == p->read_saved || !is_saved(a))
			shm_reader_said(&p->inbox);
}

void inproc_save_anew(struct inproc *a)
{
	for (struct inproc_process *p = a ? a->first : NULL; p; p = p->next)
		p->inuse.anew = p->called.anew = true;
}

static struct inproc_process *add_orphan(struct inproc *a, uint64_t cookie, uint32_t pid)
{
	struct inproc_process *p = a->n < INPROC_MAX ? calloc(1, sizeof(*p)) : NULL;
	if (!p)
		return NULL;
	*p = (struct inproc_process){.apps = a,
		.next = a->first,
		.sock = -1,
		.process = -1,
		.orphan = true,
		.heard = clock_now(),
		.called = CALLTREE_READER_NONE};
	p->source.fd = p->inbox.memory = -1;
	p->called.account = &a->called_nodes;
	p->inbox.cookie = cookie;
	p->inbox.pid = pid;
	a->first = p;
	a->n++;
	return p;
}

/* Returns the process if its other memory has come from a predecessor already, or a new one. */
static struct inproc_process *get_orphan(struct inproc *a, uint64_t cookie, uint32_t pid)
{
	struct inproc_process *p = a ? inproc_process_find_cookie(a, cookie, NULL) : NULL;
	if (a && !p && (p = add_orphan(a, cookie, pid)))
		a->seen++;
	return p;
}

static void remember_area(struct inproc *a, int memory)
{
	struct stat st;
	struct shm_reader i;
	struct inproc_process *p = shm_reader_open(memory, &i) == 0 ? get_orphan(a, i.cookie, i.pid) : NULL;
	if (!p || p->inbox.memory >= 0) {
		shm_reader_close(&i);
		return;
	}
	p->inbox = i;
	p->ino = fstat(memory, &st) == 0 ? st.st_ino : 0;
	p->remembered = true;
}

static void remember_tree(struct inproc *a, int memory)
{
	struct calltree_reader c = CALLTREE_READER_NONE;
	struct inproc_process *p = calltree_reader_open(&c, memory) == 0 ? get_orphan(a, c.cookie, c.pid) : NULL;
	if (!p || p->called.memory >= 0) {
		calltree_reader_close(&c);
		return;
	}
	p->called = c;
	p->called.account = &a->called_nodes;
}

void inproc_restore_memory(struct inproc *a, int memory)
{
	if (shm_reader_is_area(memory))
		remember_area(a, memory);
	else
		remember_tree(a, memory);
}

void inproc_reset_counts(struct inproc *a)
{
	if (a)
		a->blank = clock_now();
}

void inproc_load(struct inproc *a, struct journal_reader *s)
{
	const uint64_t cookie = saved_number(s), pid = saved_below(s, 1ull << 32), seen = saved_below(s, 1ull << 32);
	const uint64_t read = saved_number(s);
	if (s->bad || !a || !is_saved(a))
		return;
	struct inproc_process *p = inproc_process_find_cookie(a, cookie, NULL);
	p = p ? p : add_orphan(a, cookie, (uint32_t)pid);
	if (!p)
		return;
	a->seen = seen > a->seen ? (unsigned)seen : a->seen;
	p->inbox.read = read;
	live_heap_load(&p->inuse, s, apps_heap(a));
	calltree_reader_load(&p->called, s);
}

void inproc_drop_live_heap(struct inproc *a)
{
	for (struct inproc_process *p = a ? a->first : NULL; p; p = p->next)
		live_heap_forget(&p->inuse);
}
