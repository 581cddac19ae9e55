#include "profiler/inproc/inproc_process.h"

#include "oci/base/clock.h"
#include "profiler/target/checkpoint_read.h"

#include <stdlib.h>
#include <sys/stat.h>

struct app *app_find_cookie(const struct apps *a, uint64_t cookie, const struct app *but)
{
	struct app *p = a->first;
	while (p && (p == but || p->hello_by || p->inbox.cookie != cookie))
		p = p->next;
	return p;
}

static bool is_saved(const struct apps *a)
{
	return apps_heap(a) || a->timers || a->calls < a->target->desc.n_events;
}

void apps_save(struct apps *a, struct journal *j, uint64_t serial)
{
	for (struct app *p = a && is_saved(a) ? a->first : NULL; p; p = p->next) {
		if (p->hello_by ||
			(!inuse_unsaved(&p->inuse) && !called_unsaved(&p->called) && p->inbox.read == p->read_saved))
			continue;
		journal_begin(j, ENTRY_HELD);
		journal_number(j, serial);
		journal_number(j, p->inbox.cookie);
		journal_number(j, p->inbox.pid);
		journal_number(j, a->seen);
		journal_number(j, p->inbox.read);
		inuse_save(&p->inuse, j);
		called_save(&p->called, j);
		journal_end(j);
		p->read_saved = p->inbox.read;
	}
}

void apps_saved(struct apps *a)
{
	for (struct app *p = a ? a->first : NULL; p; p = p->next)
		if (p->inbox.read == p->read_saved || !is_saved(a))
			inbox_said(&p->inbox);
}

void apps_save_anew(struct apps *a)
{
	for (struct app *p = a ? a->first : NULL; p; p = p->next)
		p->inuse.anew = p->called.anew = true;
}

static struct app *add_orphan(struct apps *a, uint64_t cookie, uint32_t pid)
{
	struct app *p = a->n < APPS_MAX ? calloc(1, sizeof(*p)) : NULL;
	if (!p)
		return NULL;
	*p = (struct app){.apps = a,
		.next = a->first,
		.sock = -1,
		.process = -1,
		.orphan = true,
		.heard = clock_now(),
		.called = CALLED_NONE};
	p->source.fd = p->inbox.memory = -1;
	p->called.account = &a->called_nodes;
	p->inbox.cookie = cookie;
	p->inbox.pid = pid;
	a->first = p;
	a->n++;
	return p;
}

/* One that has come from a predecessor already, by the other of its memories, or a new one. */
static struct app *get_orphan(struct apps *a, uint64_t cookie, uint32_t pid)
{
	struct app *p = a ? app_find_cookie(a, cookie, NULL) : NULL;
	if (a && !p && (p = add_orphan(a, cookie, pid)))
		a->seen++;
	return p;
}

static void remember_area(struct apps *a, int memory)
{
	struct stat st;
	struct inbox i;
	struct app *p = inbox_open(memory, &i) == 0 ? get_orphan(a, i.cookie, i.pid) : NULL;
	if (!p || p->inbox.memory >= 0) {
		inbox_close(&i);
		return;
	}
	p->inbox = i;
	p->ino = fstat(memory, &st) == 0 ? st.st_ino : 0;
	p->remembered = true;
}

static void remember_tree(struct apps *a, int memory)
{
	struct called c = CALLED_NONE;
	struct app *p = called_open(&c, memory) == 0 ? get_orphan(a, c.cookie, c.pid) : NULL;
	if (!p || p->called.memory >= 0) {
		called_close(&c);
		return;
	}
	p->called = c;
	p->called.account = &a->called_nodes;
}

void apps_remember(struct apps *a, int memory)
{
	if (inbox_is_area(memory))
		remember_area(a, memory);
	else
		remember_tree(a, memory);
}

void apps_blank(struct apps *a)
{
	if (a)
		a->blank = clock_now();
}

void apps_load(struct apps *a, struct saved *s)
{
	const uint64_t cookie = saved_number(s), pid = saved_below(s, 1ull << 32), seen = saved_below(s, 1ull << 32);
	const uint64_t read = saved_number(s);
	if (s->bad || !a || !is_saved(a))
		return;
	struct app *p = app_find_cookie(a, cookie, NULL);
	p = p ? p : add_orphan(a, cookie, (uint32_t)pid);
	if (!p)
		return;
	a->seen = seen > a->seen ? (unsigned)seen : a->seen;
	p->inbox.read = read;
	inuse_load(&p->inuse, s, apps_heap(a));
	called_load(&p->called, s);
}

void apps_forget_held(struct apps *a)
{
	for (struct app *p = a ? a->first : NULL; p; p = p->next)
		inuse_forget(&p->inuse);
}
