/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/offcpu/wait_times.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS 1024
#define AT_ONCE_NS 1000	    /* from one thread to the next */
#define GAPS 64		    /* that are kept */
#define SWITCH_MOST_NS 5000 /* between the records of two threads there is 1 to 2 us */
#define LATE_OF 16	    /* the average is of about so many */
#define LATE_MOST_NS 20000  /* no kernel takes longer */
#define TOO_MUCH 10
#define LONGER_MOST_NS 10000 /* no record takes longer */
#define LONGER_LEAST 100     /* waits, for an average */
#define CPUS_MAX 4096
#define DEAD UINT32_MAX	   /* the kernel's number for a thread that has none any more */
#define GONE 64		   /* threads that ended last */
#define OWED_MOST 10000000 /* ns */

struct amount {
	double count;
	uint64_t ns, entries; /* those that ended on a CPU that was idle or ran other programs */
	double more, more_ns; /* of these, unrecorded ones for which others stand */
};

struct wait_place {
	struct wait_place *next; /* most recently used first */
	struct wait_at at;
	struct amount untold;
	int64_t stack; /* in `stacks`, -1: none */
	uint32_t generation;
};

struct waiter {
	struct waiter *next;
	uint32_t pid, tid;
	uint64_t off;		  /* since when it is on no CPU, 0: it is on one, or nothing is known */
	uint64_t on;		  /* by switch records: since when it was certainly on a CPU, */
	uint64_t n_gaps;	  /* the number of gaps when it went off or came back, */
	bool placed;		  /* and the record of its place has come, not yet that of its switch */
	uint64_t wait;		  /* ns of that wait that are reported already */
	struct wait_place *place; /* where it went off, NULL: nowhere */
	struct wait_place *here;  /* where it was seen on a CPU last */
	struct wait_place *places;
	unsigned n_places;
	uint64_t seen; /* on seen_cpu, since it went off; 0: it was not */
	uint32_t seen_cpu;
	bool ran;				/* in this window */
	struct amount nowhere, too_short, lost; /* not reported yet */
	bool entered;				/* in wait_times_out: the CPU ran none of ours before, */
	double scale;				/* and how many switches it stands for */
	uint64_t owed;				/* ns that it ran by a clock, but not by the time */
	bool unknown;				/* the caller does not know it any more */
	bool labelled;				/* one of its places is, or was */
};

struct clock { /* as it was when a thread last went off; its event begins with zeros */
	uint64_t time, count, ran;
	uint32_t tid;	       /* by switch records: that thread */
	struct waiter *ending; /* in no list any more: it goes off here for the last time */
	uint64_t ended;
};

struct window_end {
	uint64_t time;
	const struct wait_clock *clocks;
	size_t n;
};

struct wait_times {
	struct waiter *threads[BUCKETS];
	size_t n_threads, n_places, memory;
	uint32_t gone[GONE]; /* a ring buffer: they may go off once more, under their own number */
	unsigned n_gone;
	double scale;	      /* of the last one that went off */
	struct clock *clocks; /* by CPU */
	uint32_t n_clocks;
	struct {
		bool known;
		double taken;	   /* ns off waits, of the time that the clocks missed */
		double each;	   /* of each end that is not reported yet */
		unsigned too_much; /* times in a row that this was impossibly long */
		uint64_t ends;
	} account;
	double longer;		     /* wait_times_set_overhead */
	uint64_t gaps[GAPS], n_gaps; /* their middles, a ring buffer */
	double late;		     /* delay of a record of coming back, on average, ns */
	bool midway;		     /* a clock that is not known did not begin with zeros */
	uint64_t min;
	wait_times_fn *fn;
	void *arg;
	struct aggregate *stacks; /* all that were sampled */
	struct memory_limit *room;
	uint32_t generation;		   /* of stacks: those of an older one are gone */
	const struct window_end *ending;   /* during wait_times_end() */
	uint64_t lost, lost_from, lost_to; /* records; in this window, all of them between these times */
};

int wait_times_new(uint64_t min_ns, struct memory_limit *room, wait_times_fn *fn, void *arg, struct wait_times **ret)
{
	struct wait_times *w = calloc(1, sizeof(*w));
	int r = w ? aggregate_new(&w->stacks) : -ENOMEM;
	if (r < 0) {
		free(w);
		return r;
	}
	aggregate_share(w->stacks, room);
	w->room = room;
	w->min = min_ns;
	w->scale = 1;
	w->fn = fn;
	w->arg = arg;
	*ret = w;
	return 0;
}

/* Allocates from the memory limit that it shares. NULL: no room. */
static void *allocate_memory(struct wait_times *w, size_t size)
{
	struct memory_limit *room = w->room;
	void *p = room && room->max && room->used + size > room->max ? NULL : calloc(1, size);
	if (p && room)
		room->used += size;
	w->memory += p ? size : 0;
	return p;
}

static void give_back(struct wait_times *w, void *p, size_t size)
{
	if (w->room)
		w->room->used -= size;
	w->memory -= size;
	free(p);
}

static void free_places(struct wait_times *w, struct waiter *t)
{
	for (struct wait_place *p = t->places, *next; p; p = next) {
		next = p->next;
		give_back(w, p, sizeof(*p));
	}
	w->n_places -= t->n_places;
	t->places = t->place = t->here = NULL;
	t->n_places = 0;
}

static void free_waiter(struct wait_times *w, struct waiter *t)
{
	free_places(w, t);
	free(t);
	w->n_threads--;
}

void wait_times_forget(struct wait_times *w)
{
	for (size_t i = 0; i < BUCKETS; i++)
		while (w->threads[i]) {
			struct waiter *t = w->threads[i];
			w->threads[i] = t->next;
			free_waiter(w, t);
		}
	for (uint32_t i = 0; i < w->n_clocks; i++) {
		if (w->clocks[i].ending)
			free_waiter(w, w->clocks[i].ending);
		w->clocks[i].ending = NULL;
	}
	w->lost_from = w->lost_to = 0;
	w->account.ends = 0;
}

void wait_times_reset_clocks(struct wait_times *w)
{
	free(w->clocks);
	w->clocks = NULL;
	w->n_clocks = 0;
	w->midway = true;
}

struct wait_times *wait_times_free(struct wait_times *w)
{
	if (w) {
		wait_times_forget(w);
		aggregate_free(w->stacks);
		free(w->clocks);
	}
	free(w);
	return NULL;
}

size_t wait_times_threads(const struct wait_times *w)
{
	return w->n_threads;
}

size_t wait_times_memory(const struct wait_times *w)
{
	return w->memory + aggregate_memory(w->stacks);
}

uint64_t wait_times_lost(const struct wait_times *w)
{
	return w->lost;
}

/* --- threads and places --------------------------------------------------------------------------------- */

static struct waiter **find_waiter(struct wait_times *w, uint32_t tid)
{
	struct waiter **at = &w->threads[tid % BUCKETS];
	while (*at && (*at)->tid != tid)
		at = &(*at)->next;
	return at;
}

/* Finds a thread among those that ended last, NULL: it is not there. */
static uint32_t *find_ended_tid(struct wait_times *w, uint32_t tid)
{
	for (unsigned i = 0; i < GONE; i++)
		if (w->gone[i] == tid)
			return &w->gone[i];
	return NULL;
}

static struct waiter *thread_of(struct wait_times *w, uint32_t pid, uint32_t tid)
{
	struct waiter *t = *find_waiter(w, tid);
	if (t || tid == 0 || tid == DEAD || w->n_threads >= WAIT_TIMES_THREADS || find_ended_tid(w, tid))
		return t;
	t = calloc(1, sizeof(*t)); /* not from the shared limit: nothing could give it back */
	if (!t)
		return NULL;
	t->pid = pid;
	t->tid = tid;
	t->n_gaps = w->n_gaps;
	t->scale = 1;
	t->next = w->threads[tid % BUCKETS];
	w->threads[tid % BUCKETS] = t;
	w->n_threads++;
	return t;
}

static void tell_place(struct wait_times *w, struct waiter *t, struct wait_place *p);

static int64_t stack_at(const struct wait_times *w, const struct wait_place *p)
{
	return p->generation == w->generation ? p->stack : -1;
}

static void move_amount(struct amount *to, struct amount *from)
{
	to->count += from->count;
	to->ns += from->ns;
	to->entries += from->entries;
	to->more += from->more;
	to->more_ns += from->more_ns;
	*from = (struct amount){0};
}

/* Returns the stack of the place, or of one that differs in labels alone; -1: there is none. */
static int64_t stack_of(const struct wait_times *w, const struct waiter *t, const struct wait_place *p)
{
	int64_t stack = stack_at(w, p);
	for (const struct wait_place *q = t->labelled ? t->places : NULL; q && stack < 0; q = q->next)
		if (!memcmp(&q->at, &p->at, offsetof(struct wait_at, labels)))
			stack = stack_at(w, q);
	return stack;
}

/*
 * Reuses the least recently used place. If it has no stack, its waits go to `nowhere`: there may be thousands of them,
 * of no use in a profile.
 */
static struct wait_place *reuse_place(struct wait_times *w, struct waiter *t)
{
	struct wait_place **at = &t->places;
	while (*at && (*at)->next)
		at = &(*at)->next;
	struct wait_place *oldest = *at;
	if (!oldest || oldest == t->place || oldest == t->here)
		return NULL;
	if (stack_of(w, t, oldest) >= 0)
		tell_place(w, t, oldest);
	else
		move_amount(&t->nowhere, &oldest->untold);
	*at = NULL;
	return oldest;
}

static struct wait_place *new_place(struct wait_times *w, struct waiter *t)
{
	struct wait_place *p = NULL;
	if (t->n_places < WAIT_TIMES_PLACES && w->n_places < WAIT_TIMES_PLACES_ALL)
		p = allocate_memory(w, sizeof(*p));
	if (!p)
		return reuse_place(w, t);
	t->n_places++;
	w->n_places++;
	return p;
}

static bool is_same_place(const struct wait_at *a, const struct wait_at *b)
{
	return !memcmp(a, b, sizeof(*a)); /* words without padding */
}

static struct wait_place *place_of(struct wait_times *w, struct waiter *t, const struct wait_at *at)
{
	struct wait_place **slot = &t->places, *p;
	while (*slot && !is_same_place(&(*slot)->at, at))
		slot = &(*slot)->next;
	p = *slot;
	if (p) {
		*slot = p->next;
	} else {
		p = new_place(w, t);
		if (!p)
			return NULL;
		*p = (struct wait_place){.at = *at, .stack = -1};
		t->labelled |= at->labels != 0;
	}
	p->next = t->places;
	t->places = p;
	return p;
}

/* The place of wait_times_runs(). */
static struct wait_at seen_at(uint64_t labels)
{
	return (struct wait_at){.ip = 1, .labels = labels};
}

/* --- waits ---------------------------------------------------------------------------------------------- */

static void add_to_amount(struct wait_times *w, struct amount *a, uint64_t ns, double count, bool entered)
{
	w->account.ends += entered;
	a->count += count;
	a->entries += entered;
	a->ns += ns;
	a->more += count > 1 ? count - 1 : 0;
	a->more_ns += count > 1 ? (double)ns * (1 - 1 / count) : 0;
}

static uint64_t compute_overlap(uint64_t from, uint64_t to, uint64_t with_from, uint64_t with_to)
{
	uint64_t a = from > with_from ? from : with_from, b = to < with_to ? to : with_to;
	return b > a ? b - a : 0;
}

/* Accounts for the wait under way, which is over, or its window is. */
static void add_wait(struct wait_times *w, struct waiter *t, uint64_t to)
{
	if (!t->off || to <= t->off)
		return;
	uint64_t lost = compute_overlap(t->off, to, w->lost_from, w->lost_to);
	uint64_t ns = to - t->off - lost;
	if (lost)
		add_to_amount(w, &t->lost, lost, 1, false);
	if (ns)
		add_to_amount(w,
			(double)(t->wait + ns) < (double)w->min * t->scale ? &t->too_short
			: t->place					   ? &t->place->untold
									   : &t->nowhere,
			ns, t->scale, t->entered);
}

static void come_back(struct wait_times *w, struct waiter *t, uint64_t time)
{
	add_wait(w, t, time);
	t->off = t->wait = 0;
	t->on = time;
	t->n_gaps = w->n_gaps;
	t->placed = false;
	t->ran = true;
}

void wait_times_born(struct wait_times *w, uint32_t pid, uint32_t tid, uint64_t time)
{
	uint32_t *again = find_ended_tid(w, tid);
	if (again)
		*again = 0;
	struct waiter *t = thread_of(w, pid, tid);
	if (!t)
		return;
	t->pid = pid;
	t->n_gaps = w->n_gaps;
	t->off = time;
	t->place = NULL;
}

/* NULL: no memory. */
static struct clock *clock_of(struct wait_times *w, uint32_t cpu)
{
	if (cpu >= w->n_clocks) {
		struct clock *more = cpu < CPUS_MAX ? realloc(w->clocks, (cpu + 1) * sizeof(*more)) : NULL;
		if (!more)
			return NULL;
		memset(more + w->n_clocks, 0, (cpu + 1 - w->n_clocks) * sizeof(*more));
		w->clocks = more;
		w->n_clocks = cpu + 1;
	}
	return &w->clocks[cpu];
}

/* Returns how long the thread ran that now goes off this CPU; UINT64_MAX: not known. */
static uint64_t ran_until(struct wait_times *w, const struct switch_out *o)
{
	struct clock *c = clock_of(w, o->cpu);
	if (!c)
		return UINT64_MAX;
	const struct clock last = *c;
	c->time = o->time;
	c->count = o->count;
	c->ran = o->ran;
	if (o->count <= last.count || (!last.count && (w->midway || o->count > 1))) /* from before there was a ring */
		return UINT64_MAX;
	if (o->ran < last.ran) /* the clock is another event's now, which does not stand for more */
		c->ran = last.ran;
	if (o->count - last.count > 1) {
		w->lost += o->count - last.count - 1;
		w->lost_from = w->lost_to && w->lost_from < last.time ? w->lost_from : last.time;
		w->lost_to = o->time;
	}
	return c->ran - last.ran;
}

static bool has_ended(struct wait_times *w, const struct switch_out *o, uint64_t ran);

/* True: no thread of ours had gone off that CPU just before. */
static bool has_entered_cpu(uint64_t last, uint64_t on)
{
	return on > last + AT_ONCE_NS;
}

/* Assigns the time that the clocks missed to the ends not reported yet; the excess goes to later ones. */
void wait_times_correct(struct wait_times *w, uint64_t truly, uint64_t by_clocks)
{
	double missed = (double)(int64_t)(truly - by_clocks);
	if (!w->account.known)
		w->account.taken = missed;
	w->account.known = true;
	double each = w->account.ends ? (missed - w->account.taken) / (double)w->account.ends : 0;
	w->account.too_much = each > LATE_MOST_NS * w->scale ? w->account.too_much + 1 : 0;
	if (w->account.too_much > TOO_MUCH) { /* the target runs where none of our clocks is */
		w->account.taken = missed;
		each = 0;
	}
	w->account.each = each < 0 ? 0 : each < LATE_MOST_NS * w->scale ? each : LATE_MOST_NS * w->scale;
}

/*
 * A late clock makes waits too long, and then makes up for that all at once. Running time beyond the time that has
 * passed is taken off the next waits.
 */
static uint64_t adjust_run_time(struct waiter *t, uint64_t time, uint64_t ran)
{
	uint64_t since = time > t->off ? time - t->off : 0;
	if (ran > since) {
		t->owed += t->ran ? ran - since : 0;
		t->owed = t->owed < OWED_MOST ? t->owed : OWED_MOST;
		return ran;
	}
	uint64_t paid = t->owed < since - ran ? t->owed : since - ran;
	t->owed -= paid;
	return ran + paid;
}

void wait_times_out(struct wait_times *w, const struct switch_out *o)
{
	uint64_t before = o->timed && o->cpu < w->n_clocks ? w->clocks[o->cpu].time : 0;
	uint64_t ran = o->timed ? ran_until(w, o) : 0;
	w->scale = o->scale > 0 ? o->scale : 1;
	if (has_ended(w, o, ran))
		return;
	struct waiter *t = thread_of(w, o->pid, o->tid);
	if (!t)
		return;
	if (o->timed && t->off && ran != UINT64_MAX) {
		t->entered = has_entered_cpu(before, o->time - ran);
		t->scale = w->scale;
		come_back(w, t, o->time - adjust_run_time(t, o->time, ran));
		t->scale = 1;
		t->entered = false;
	}
	t->pid = o->pid;
	t->ran = true;
	t->off = o->time;
	t->wait = t->seen = 0;
	t->place = o->at.ip ? place_of(w, t, &o->at) : NULL;
}

/* --- by switch records ---------------------------------------------------------------------------------- */

/*
 * The thread's state differs from that before a gap, so it went off, or came back, in one of the gaps since its last
 * change, as likely in each: returns the middle one. Between two gaps a record would have told. 0: there was no gap.
 */
static uint64_t in_gap(const struct wait_times *w, const struct waiter *t)
{
	if (t->n_gaps >= w->n_gaps)
		return 0;
	uint64_t kept = w->n_gaps > GAPS ? w->n_gaps - GAPS : 0, first = t->n_gaps > kept ? t->n_gaps : kept;
	return w->gaps[(first + (w->n_gaps - 1 - first) / 2) % GAPS];
}

void wait_times_scale(struct wait_times *w, double scale)
{
	w->scale = scale;
}

static void come_back_scaled(struct wait_times *w, struct waiter *t, uint64_t time)
{
	t->scale = w->scale;
	come_back(w, t, time > t->off ? time : t->off);
	t->scale = 1;
}

/* The thread is on a CPU: if it was off before a gap, it came back in between. */
static void settle_gap(struct wait_times *w, struct waiter *t)
{
	uint64_t at = t->off ? in_gap(w, t) : 0;
	if (at)
		come_back_scaled(w, t, at);
}

static uint64_t compute_midpoint(uint64_t from, uint64_t to)
{
	return from < to ? from + (to - from) / 2 : to;
}

/* Returns where the thread was last seen; if it has not been seen yet, where it will first be seen. */
static struct wait_place *where_seen(struct wait_times *w, struct waiter *t)
{
	const struct wait_at at = seen_at(0);
	if (!t->here)
		t->here = place_of(w, t, &at);
	return t->here;
}

void wait_times_off(
	struct wait_times *w, uint32_t pid, uint32_t tid, uint32_t cpu, uint64_t time, const struct wait_at *at)
{
	struct clock *c = clock_of(w, cpu);
	struct waiter *t = thread_of(w, pid, tid);
	if (!t)
		return;
	settle_gap(w, t);
	if (t->off && (at || !t->placed)) /* the record of its coming back is lost */
		come_back_scaled(w, t, compute_midpoint(t->off, time));
	if (!t->off) {
		t->off = time;
		t->wait = 0;
		t->n_gaps = w->n_gaps;
		t->place = where_seen(w, t);
		if (c) {
			c->time = time;
			c->tid = tid;
		}
	}
	t->placed = at != NULL;
	t->pid = pid;
	t->ran = true;
	if (at && at->ip)
		t->place = place_of(w, t, at);
}

/*
 * Returns when the switch began: when another thread of ours went off that CPU, or else, from an idle CPU, the average
 * delay before the record.
 */
static uint64_t came_back_at(struct wait_times *w, uint32_t tid, uint32_t cpu, uint64_t time)
{
	const struct clock *c = clock_of(w, cpu);
	const double most = SWITCH_MOST_NS * w->scale;
	const bool anothers = c && c->time && c->time < time && c->tid != tid;
	double late = anothers ? (double)(time - c->time) : most;
	if (late < most)
		w->late += (late / w->scale - w->late) / LATE_OF;
	else
		late = w->late * w->scale;
	return (double)time > late ? time - (uint64_t)late : time;
}

void wait_times_on(struct wait_times *w, uint32_t tid, uint32_t cpu, uint64_t time)
{
	struct waiter *t = *find_waiter(w, tid);
	uint64_t began = came_back_at(w, tid, cpu, time);
	if (!t)
		return;
	if (!t->off && (t->on || in_gap(w, t))) { /* the record of its going off is lost */
		uint64_t at = in_gap(w, t);
		at = at ? at : compute_midpoint(t->on, time);
		t->off = at > t->on ? at : t->on;
		t->place = where_seen(w, t);
	}
	if (t->off)
		come_back_scaled(w, t, began);
}

void wait_times_runs(struct wait_times *w, uint32_t pid, uint32_t tid, uint64_t time, uint64_t labels,
	const struct stack_frame *frames, size_t n)
{
	const struct wait_at at = seen_at(labels);
	struct waiter *t = *find_waiter(w, tid);
	if (t)
		settle_gap(w, t);
	if (t && t->off) /* the record of its coming back is lost, and is no older than a clock's period */
		come_back_scaled(w, t, time);
	if (n) /* after that: the wait was where it was seen before */
		wait_times_stack(w, pid, tid, &at, frames, n);
	t = *find_waiter(w, tid);
	if (!t)
		return;
	t->on = time;
	t->n_gaps = w->n_gaps;
	t->here = n ? place_of(w, t, &at) : NULL;
}

void wait_times_gap(struct wait_times *w, uint64_t count, uint32_t cpu, uint64_t room, uint64_t time)
{
	uint64_t from = cpu < w->n_clocks && w->clocks[cpu].time < time ? w->clocks[cpu].time : 0;
	const uint64_t to = room > from && room < time ? room : time;
	w->lost += count;
	w->gaps[w->n_gaps++ % GAPS] = from ? compute_midpoint(from, to) : to;
}

void wait_times_seen(struct wait_times *w, uint32_t tid, uint32_t cpu, uint64_t time)
{
	struct waiter *t = *find_waiter(w, tid);
	if (!t || !t->off || time <= t->off)
		return;
	t->seen = time;
	t->seen_cpu = cpu;
}

/* --- reports -------------------------------------------------------------------------------------------- */

static uint64_t subtract_missed_time(struct wait_times *w, const struct amount *a)
{
	double less = w->account.each * (double)a->entries;
	if (less > (double)a->ns)
		less = (double)a->ns;
	w->account.taken += less;
	w->account.ends -= a->entries;
	return a->ns - (uint64_t)less;
}

static uint64_t round_count(double count)
{
	return (uint64_t)(count + 0.5);
}

static void report_amount(struct wait_times *w, struct waiter *t, enum wait_kind kind, struct amount *a)
{
	if (a->count > 0)
		t->unknown = !w->fn(w->arg, &(struct wait_total){.kind = kind,
						    .idle = w->ending && !t->ran,
						    .pid = t->pid,
						    .tid = t->tid,
						    .count = round_count(a->count),
						    .ns = subtract_missed_time(w, a)});
	*a = (struct amount){0};
}

static void tell_place(struct wait_times *w, struct waiter *t, struct wait_place *p)
{
	struct wait_total part = {.kind = WAIT_PLACE,
		.idle = w->ending && !t->ran,
		.pid = t->pid,
		.tid = t->tid,
		.count = round_count(p->untold.count),
		.at = p->at};
	struct stack_frame frames[AGGREGATE_STACK_MAX];
	struct aggregate_sample s;
	int64_t stack = stack_of(w, t, p);
	if (!part.count)
		return;
	part.ns = subtract_missed_time(w, &p->untold);
	if (stack < 0 && !p->at.sp) /* of wait_times_runs(): its stack is gone */
		part.kind = WAIT_NOWHERE;
	if (stack >= 0) {
		aggregate_sample(w->stacks, (size_t)stack, &s);
		for (size_t i = 0; i < s.n; i++)
			frames[i] = *aggregate_frame(w->stacks, s.frames[i]);
		part.kind = WAIT_STACK;
		part.frames = frames;
		part.n = s.n;
	}
	p->untold = (struct amount){0};
	t->unknown = !w->fn(w->arg, &part);
}

void wait_times_set_overhead(struct wait_times *w, double ns)
{
	w->longer = ns < 0 ? 0 : ns < LONGER_MOST_NS ? ns : LONGER_MOST_NS;
}

/* An unrecorded wait is as long as a recorded one without the overhead, scaled so that the sum stays. */
static void adjust_amount(struct amount *a, double mean, double longer)
{
	if (a->more <= 0)
		return;
	double own = a->more_ns / a->more, more = longer * a->more * ((own - longer) / (mean - longer) - 1);
	a->ns = (double)a->ns + more > 0 ? (uint64_t)((double)a->ns + more) : 0;
}

/* Of this thread, between the waits that are about to be reported; their sum stays. */
static void even_out(struct wait_times *w, struct waiter *t, bool all)
{
	struct amount *others[] = {&t->nowhere, &t->too_short};
	double more = t->nowhere.more + t->too_short.more, ns = t->nowhere.more_ns + t->too_short.more_ns;
	for (struct wait_place *p = t->places; p; p = p->next)
		if (all || stack_of(w, t, p) >= 0) {
			more += p->untold.more;
			ns += p->untold.more_ns;
		}
	const double mean = more > 0 ? ns / more : 0, longer = w->longer < mean / 2 ? w->longer : mean / 2;
	if (longer <= 0 || more < LONGER_LEAST)
		return;
	for (struct wait_place *p = t->places; p; p = p->next)
		if (all || stack_of(w, t, p) >= 0)
			adjust_amount(&p->untold, mean, longer);
	for (unsigned i = 0; i < 2; i++)
		adjust_amount(others[i], mean, longer);
}

static void tell_thread(struct wait_times *w, struct waiter *t, bool all)
{
	even_out(w, t, all);
	for (struct wait_place *p = t->places; p; p = p->next)
		if (all || stack_of(w, t, p) >= 0)
			tell_place(w, t, p);
	report_amount(w, t, WAIT_NOWHERE, &t->nowhere);
	report_amount(w, t, WAIT_SHORT, &t->too_short);
	report_amount(w, t, WAIT_LOST, &t->lost);
}

static void each_thread(struct wait_times *w, void (*fn)(struct wait_times *w, struct waiter *t))
{
	for (size_t i = 0; i < BUCKETS; i++)
		for (struct waiter *t = w->threads[i]; t; t = t->next)
			fn(w, t);
}

/* A new stack replaces another: earlier waits are reported with the old one, if there was one. */
void wait_times_stack(struct wait_times *w, uint32_t pid, uint32_t tid, const struct wait_at *at,
	const struct stack_frame *frames, size_t n)
{
	struct waiter *t = thread_of(w, pid, tid);
	struct wait_place *p = t ? place_of(w, t, at) : NULL;
	if (!p)
		return;
	int64_t had = stack_at(w, p), stack = aggregate_put(w->stacks, frames, n);
	if (had >= 0 && stack != had)
		tell_place(w, t, p);
	if (stack == -ENOSPC) { /* full: begin anew, those that matter come again */
		aggregate_clear(w->stacks);
		w->generation++;
		stack = aggregate_put(w->stacks, frames, n);
	}
	p->stack = stack;
	p->generation = w->generation;
}

static void finish_waiter(struct wait_times *w, struct clock *c, uint64_t until)
{
	struct waiter *t = c->ending;
	c->ending = NULL;
	come_back(w, t, until);
	tell_thread(w, t, true);
	free_waiter(w, t);
}

/* Takes a thread out of its list, and reports it. */
static void remove_waiter(struct wait_times *w, struct waiter **at)
{
	struct waiter *t = *at;
	*at = t->next;
	tell_thread(w, t, true);
	free_waiter(w, t);
}

/*
 * The kernel gives a thread that execs the number of the process, whatever its own was. All other threads have ended.
 */
void wait_times_exec(struct wait_times *w, uint32_t pid, uint32_t tid)
{
	uint32_t *again = find_ended_tid(w, tid);
	if (again)
		*again = 0;
	for (uint32_t i = 0; i < w->n_clocks; i++)
		if (w->clocks[i].ending && w->clocks[i].ending->tid == tid)
			finish_waiter(w, &w->clocks[i], w->clocks[i].ended);
	for (size_t i = 0; i < BUCKETS; i++)
		for (struct waiter **at = &w->threads[i]; *at;)
			if ((*at)->pid == pid && (*at)->tid != tid)
				remove_waiter(w, at);
			else
				at = &(*at)->next;
	struct waiter *t = *find_waiter(w, tid);
	if (!t)
		return;
	tell_thread(w, t, true);
	free_places(w, t);
	t->owed = 0;
}

/* True: an ended thread goes off for the last time; it may have no number any more. */
static bool has_ended(struct wait_times *w, const struct switch_out *o, uint64_t ran)
{
	struct clock *c = o->timed && o->cpu < w->n_clocks ? &w->clocks[o->cpu] : NULL;
	if (!c || !c->ending)
		return false;
	bool it = o->tid == DEAD || o->tid == c->ending->tid;
	c->ending->scale = it ? w->scale : 1;
	finish_waiter(w, c, it && ran != UINT64_MAX ? o->time - ran : c->ended);
	return it;
}

void wait_times_exit(struct wait_times *w, uint32_t tid, uint32_t cpu, uint64_t time)
{
	struct waiter **at = find_waiter(w, tid), *t = *at;
	struct clock *c = clock_of(w, cpu), none = {0};
	if (!find_ended_tid(w, tid))
		w->gone[w->n_gone++ % GONE] = tid;
	if (!t)
		return;
	settle_gap(w, t);
	if (!c)
		c = &none;
	if (c->ending)
		finish_waiter(w, c, c->ended);
	tell_thread(w, t, true); /* while it has a name */
	*at = t->next;
	c->ending = t;
	c->ended = time;
	if (c == &none || !t->off)
		finish_waiter(w, c, time);
}

static void tell_known(struct wait_times *w, struct waiter *t)
{
	tell_thread(w, t, false);
}

void wait_times_report(struct wait_times *w)
{
	each_thread(w, tell_known);
}

/*
 * Returns until when it has waited, if it was seen since: its CPU's clock has gone on since a thread last went off
 * there.
 */
static uint64_t find_wait_end(const struct wait_times *w, const struct waiter *t)
{
	const struct window_end *e = w->ending;
	const struct clock *c = t->seen_cpu < w->n_clocks ? &w->clocks[t->seen_cpu] : NULL;
	for (size_t i = 0; t->seen && c && i < e->n; i++)
		if (e->clocks[i].cpu == t->seen_cpu && e->clocks[i].ran >= c->ran)
			return e->time - (e->clocks[i].ran - c->ran);
	return t->seen;
}

static void end_thread(struct wait_times *w, struct waiter *t)
{
	uint64_t time = w->ending->time;
	if (t->seen) {
		come_back(w, t, find_wait_end(w, t));
		t->seen = 0;
	} else if (t->off && time > t->off) {
		add_wait(w, t, time);
		t->wait += time - t->off;
		t->off = time;
	}
	tell_thread(w, t, true);
	t->ran = !t->off;
	t->owed = 0;
}

void wait_times_over(struct wait_times *w)
{
	each_thread(w, settle_gap);
}

void wait_times_end(struct wait_times *w, uint64_t time, const struct wait_clock *clocks, size_t n)
{
	w->ending = &(struct window_end){time, clocks, n};
	for (uint32_t i = 0; i < w->n_clocks; i++)
		if (w->clocks[i].ending)
			finish_waiter(w, &w->clocks[i], w->clocks[i].ended);
	each_thread(w, end_thread);
	w->ending = NULL;
	w->lost_from = w->lost_to = 0;
	for (size_t i = 0; i < BUCKETS; i++)
		for (struct waiter **at = &w->threads[i]; *at;)
			if ((*at)->unknown)
				remove_waiter(w, at);
			else
				at = &(*at)->next;
}

/* Frees the places without waits, except where the thread is now. */
static void shed_places(struct wait_times *w, struct waiter *t)
{
	for (struct wait_place **at = &t->places, *p; (p = *at);) {
		if (p == t->place || p == t->here || p->untold.count > 0) {
			at = &p->next;
			continue;
		}
		*at = p->next;
		give_back(w, p, sizeof(*p));
		t->n_places--;
		w->n_places--;
	}
}

void wait_times_compact(struct wait_times *w)
{
	aggregate_clear(w->stacks);
	w->generation++;
	each_thread(w, shed_places);
}

static void clear_labels(struct wait_times *w, struct waiter *t)
{
	for (struct wait_place *p = t->places; p; p = p->next)
		p->at.labels = 0;
	t->labelled = false;
}

void wait_times_unlabel(struct wait_times *w)
{
	each_thread(w, shed_places);
	each_thread(w, clear_labels);
}
