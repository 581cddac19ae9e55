/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/target/symbol_requests.h"

#include "oci/base/clock.h"
#include "oci/base/log.h"
#include "profiler/process/debug_file.h"
#include "profiler/symbol/demangle.h"
#include "profiler/symbol/symbolizer_client.h"
#include "profiler/target/symbolizer_link.h"
#include "profiler/target/target_open.h"
#include "profiler/target/target_rate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FAILURES_MAX 3 /* failed jobs of a module */
#define AT_ONCE 4      /* modules asked about; files are looked for when it is their turn */

/*
 * State of a module in a target (target.not_named): another target may have other files beside it. The first failure is
 * FAILED, the next one FAILED + 1, ...: after FAILURES_MAX its debug information is not used any more, after twice as
 * many the module is not asked about.
 */
enum { NO_DEBUG, FAILED };

/* An address without a name. */
struct missing {
	struct module *module;
	uint64_t vaddr;
};

/* The missing names of one module. */
struct part {
	struct symbol_request *naming;
	struct module *module;			/* referenced */
	const struct missing *first, *question; /* question: the first of the open question */
	size_t n;				/* addresses from `first` on, not asked about yet */
	int64_t asked;				/* when */
	struct job *job;			/* NULL: not asked, or answered */
	bool with_debug;
};

struct symbol_request {
	struct target *target;
	int64_t deadline;
	void (*done)(void *arg);
	void *arg;
	struct missing *list;
	size_t given_up;      /* addresses of questions that failed */
	size_t n, next, open; /* parts; the first without all answers; open questions */
	struct part parts[];
};

/* --- missing names -------------------------------------------------------------------------------------- */

static int by_module(const void *a, const void *b)
{
	const struct missing *x = a, *y = b;
	uint32_t i = module_id(x->module), j = module_id(y->module);
	if (i != j)
		return i < j ? -1 : 1;
	return x->vaddr < y->vaddr ? -1 : x->vaddr > y->vaddr;
}

static unsigned count_failures(const struct target *t, const struct module *m)
{
	unsigned n = 0;
	while (n < 2 * FAILURES_MAX && pair_table_find(&t->names.not_named, module_id(m), FAILED + n) >= 0)
		n++;
	return n;
}

static bool lacks_debug(const struct target *t, const struct module *m)
{
	return module_name(m)[0] != '/' || count_failures(t, m) >= FAILURES_MAX ||
	       pair_table_find(&t->names.not_named, module_id(m), NO_DEBUG) >= 0;
}

static bool is_wanted(const struct target *t, const struct stack_frame *f)
{
	const struct symbol_line *lines;
	const char *name;
	size_t n;
	if (f->kind != FRAME_USER || module_state(f->module) != MODULE_LOADED ||
		module_names(f->module, f->vaddr, &lines, &n) || module_names_full(f->module) ||
		count_failures(t, f->module) >= 2 * FAILURES_MAX)
		return false;
	return !lacks_debug(t, f->module) ||
	       ((name = module_symbol(f->module, f->vaddr, NULL)) && demangle_wanted(name));
}

/* Sorted by module and address, each once; malloc'ed. */
static struct missing *collect_missing(const struct target *t, struct aggregate *const *counts, size_t n, size_t *ret_n)
{
	size_t room = 0, got = 0, out = 0;
	for (size_t i = 0; i < n; i++)
		room += aggregate_frames(counts[i]);
	struct missing *list = room ? malloc(room * sizeof(*list)) : NULL;
	for (size_t i = 0; list && i < n; i++)
		for (size_t k = 0; k < aggregate_frames(counts[i]); k++) {
			const struct stack_frame *f = aggregate_frame(counts[i], (uint32_t)k);
			if (is_wanted(t, f))
				list[got++] = (struct missing){f->module, f->vaddr};
		}
	if (got)
		qsort(list, got, sizeof(*list), by_module);
	for (size_t i = 0; i < got; i++)
		if (!out || by_module(&list[out - 1], &list[i]) != 0)
			list[out++] = list[i];
	*ret_n = out;
	return list;
}

static size_t count_modules(const struct missing *list, size_t n)
{
	size_t modules = 0;
	for (size_t i = 0; i < n; i++)
		modules += i == 0 || list[i].module != list[i - 1].module;
	return modules;
}

/* --- asking --------------------------------------------------------------------------------------------- */

static void ask_next(struct symbol_request *a);

static bool is_over(const struct symbol_request *a)
{
	return a->next == a->n;
}

static void on_answer(void *arg, uint64_t vaddr, const struct symbol_line *lines, size_t n)
{
	struct part *p = arg;
	module_names_put(p->module, vaddr, lines, n);
}

static void count_failure(struct target *t, const struct part *p)
{
	unsigned n = count_failures(t, p->module);
	pair_table_add(&t->names.not_named, module_id(p->module), FAILED + n);
	if (n + 1 == FAILURES_MAX)
		log_line(LOG_WARNING, "target=%s module=\"%s\" outcome=%s reason=\"the symbolizer failed %d times\"",
			t->desc.id, module_name(p->module), p->with_debug ? "no_source_lines" : "mangled_names",
			FAILURES_MAX);
}

static void on_done(void *arg, enum symbolizer_outcome outcome)
{
	struct part *p = arg;
	struct symbol_request *a = p->naming;
	struct crash_marker *at = a->target->engine->host.at;
	at->target = a->target->number; /* should its files kill us: the loop calls this */
	p->job = NULL;
	a->open--;
	a->target->names.spent += clock_now() - p->asked;
	if (outcome == SYMBOLIZER_GONE) { /* the next symbolizer is asked the same */
		p->n += (size_t)(p->first - p->question);
		p->first = p->question;
	} else if (outcome != SYMBOLIZER_COMPLETE) {
		a->given_up += p->n + (size_t)(p->first - p->question);
		p->n = 0; /* addresses without an answer are missing in the next window, too */
	}
	if (outcome == SYMBOLIZER_BROKEN)
		count_failure(a->target, p);
	ask_next(a);
	if (is_over(a))
		a->done(a->arg);
	at->target = 0;
}

static void find_debug(struct target *t, struct module *m, struct debug_files *ret)
{
	struct err e = {0};
	static const struct debug_files none = {FILE_NONE, FILE_NONE, false};
	struct debug_places places = {target_open_file, target_open_on_host, t};
	*ret = none;
	if (lacks_debug(t, m))
		return;
	module_enter(m);
	if (debug_files_find(m, &places, ret, &e) < 0 || !file_is_open(&ret->debug))
		pair_table_add(&t->names.not_named, module_id(m), NO_DEBUG);
	else if (ret->separate)
		module_add_symbols(m, &ret->debug);
	module_leave(m);
}

/* Without debug information asks about mangled names alone; never about addresses that a lost job answered. */
static size_t choose_addresses(struct part *p, uint64_t *vaddrs, uint64_t *label_floors, const char **names)
{
	const struct symbol_line *lines;
	size_t n = 0, n_lines;
	for (size_t i = 0; i < p->n; i++) {
		const char *name = module_symbol(p->module, p->first[i].vaddr, NULL);
		if ((!p->with_debug && !(name && demangle_wanted(name))) ||
			module_names(p->module, p->first[i].vaddr, &lines, &n_lines))
			continue;
		vaddrs[n] = p->first[i].vaddr;
		label_floors[n] = module_label_floor(p->module, vaddrs[n]);
		names[n++] = name;
	}
	return n;
}

static void forget_symbolizer(struct engine *g)
{
	if (g->host.channel < 0) /* else the supervisor has logged it */
		log_line(LOG_ERR, "outcome=no_symbolizer reason=\"the symbolizer has ended\"");
	g->symbols.symbolizer = symbolizer_free(g->symbols.symbolizer); /* its open jobs end by themselves */
}

/* Asks about as many of the part's addresses as fit. */
static int send_symbol_request(struct part *p)
{
	struct target *t = p->naming->target;
	struct debug_files files;
	uint64_t *vaddrs = malloc(2 * (p->n + 1) * sizeof(*vaddrs)), *label_floors = vaddrs ? vaddrs + p->n + 1 : NULL;
	const char **names = malloc((p->n + 1) * sizeof(*names));
	struct symbolizer_callbacks a = {on_answer, on_done, p};
	size_t taken = 0;
	find_debug(t, p->module, &files);
	p->with_debug = file_is_open(&files.debug);
	struct symbolizer_request q = {.vaddrs = vaddrs,
		.label_floors = label_floors,
		.names = names,
		.debug = p->with_debug ? &files.debug : NULL,
		.alt = file_is_open(&files.alt) ? &files.alt : NULL,
		.separate = files.separate};
	q.n = vaddrs && names ? choose_addresses(p, vaddrs, label_floors, names) : 0;
	int r = q.n ? symbolizer_ask(t->engine->symbols.symbolizer, t->engine->loop, &q, &a, &taken, &p->job)
		    : -ENODATA;
	p->asked = clock_now();
	p->question = p->first;
	if (r == 0) /* addresses not chosen lie between: they are checked once more, and skipped */
		for (; p->n && p->first->vaddr <= vaddrs[taken - 1]; p->first++)
			p->n--;
	debug_files_done(&files);
	free(vaddrs);
	free(names);
	return r;
}

/* False: the symbolizer is busy, with questions of other targets, or the next one is awaited. */
static bool may_ask(const struct engine *g)
{
	return !symbolizer_link_awaited(g) && !(g->symbols.symbolizer && symbolizer_busy(g->symbols.symbolizer));
}

static void ask_next(struct symbol_request *a)
{
	struct engine *g = a->target->engine;
	for (size_t i = a->next; i < a->n && a->open < AT_ONCE; i++) {
		struct part *p = &a->parts[i];
		if (!p->n || p->job)
			continue;
		int r = !may_ask(g) ? -EBUSY : g->symbols.symbolizer ? send_symbol_request(p) : -EPIPE;
		a->open += r == 0;
		if (r == -EBUSY || (r == -EPIPE && symbolizer_link_awaited(g))) /* symbol_requests_round tries again */
			break;
		if (r == -EPIPE && g->symbols.symbolizer)
			forget_symbolizer(g);
		if (r < 0)
			p->n = 0;
	}
	while (a->next < a->n && !a->parts[a->next].n && !a->parts[a->next].job)
		a->next++;
}

static struct symbol_request *symbol_requests_new(struct target *t, struct missing *list, size_t n)
{
	struct symbol_request *a = calloc(1, sizeof(*a) + count_modules(list, n) * sizeof(a->parts[0]));
	if (!a)
		return NULL;
	a->target = t;
	a->list = list;
	for (size_t i = 0, more; i < n; i += more) {
		for (more = 1; i + more < n && list[i + more].module == list[i].module;)
			more++;
		a->parts[a->n++] =
			(struct part){.naming = a, .module = module_ref(list[i].module), .first = list + i, .n = more};
	}
	return a;
}

static bool has_credit(const struct target *t)
{
	int64_t lived = clock_now() - t->born;
	return t->names.spent < SYMBOL_REQUESTS_CREDIT + lived / SYMBOL_REQUESTS_SHARE;
}

static bool may_cost(const struct target *t, enum symbol_requests_use use)
{
	return use == SYMBOL_REQUESTS_CRASH ||
	       (target_rate_have_room(t->engine) && (use == SYMBOL_REQUESTS_LAST_WINDOW || has_credit(t)));
}

struct symbol_request *symbol_requests_start(struct target *t, struct aggregate *const *counts, size_t n_counts,
	enum symbol_requests_use use, int64_t deadline, void (*done)(void *arg), void *arg)
{
	size_t n = 0;
	bool able = t->engine->symbols.symbolizer && may_cost(t, use);
	struct missing *list = able ? collect_missing(t, counts, n_counts, &n) : NULL;
	struct symbol_request *a = n ? symbol_requests_new(t, list, n) : NULL;
	if (!a) {
		free(list);
		return NULL;
	}
	a->deadline = deadline;
	a->done = done;
	a->arg = arg;
	ask_next(a);
	return is_over(a) ? symbol_requests_free(a) : a;
}

size_t symbol_requests_put_off(
	const struct target *t, struct aggregate *const *counts, size_t n_counts, enum symbol_requests_use use)
{
	size_t n = 0;
	if (t->engine->symbols.symbolizer && !may_cost(t, use))
		free(collect_missing(t, counts, n_counts, &n));
	return n;
}

struct symbol_request *symbol_requests_free(struct symbol_request *a)
{
	for (size_t i = 0; a && i < a->n; i++) {
		if (a->parts[i].job) {
			a->target->names.spent += clock_now() - a->parts[i].asked;
			symbolizer_cancel(a->parts[i].job);
		}
		module_unref(a->parts[i].module);
	}
	if (a)
		free(a->list);
	free(a);
	return NULL;
}

size_t symbol_requests_left(const struct symbol_request *a)
{
	const struct symbol_line *lines;
	size_t left = a ? a->given_up : 0, n;
	for (size_t i = 0; a && i < a->n; i++) {
		const struct part *p = &a->parts[i];
		const struct missing *from = p->job ? p->question : p->first, *to = p->first + p->n;
		for (; from < to; from++)
			left += !module_names(p->module, from->vaddr, &lines, &n);
	}
	return left;
}

void symbol_requests_hurry(struct symbol_request *a, int64_t deadline)
{
	if (deadline < a->deadline)
		a->deadline = deadline;
}

int symbol_requests_round(struct symbol_request *a, int64_t now)
{
	if (now < a->deadline)
		ask_next(a);
	if (now < a->deadline && !is_over(a))
		return (int)((a->deadline - now) / NSEC_PER_MSEC) + 1;
	a->done(a->arg);
	return -1;
}
