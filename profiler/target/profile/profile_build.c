/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/target/profile/profile_builder.h"

#include "profiler/inproc/live_heap.h"
#include "profiler/sample/event_counts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MODULE_SPACING (1ull << 40) /* modules lie apart, of any size: no two mappings overlap */

/* --- locations ----------------------------------------------------------------------------------------- */

static int64_t add_mapping(struct profile_builder *b, const struct module *m, unsigned has, uint64_t *ret_base)
{
	*ret_base = module_id(m) * MODULE_SPACING;
	if (m == b->mapping.module && !(has & ~b->mapping.has))
		return b->mapping.id;
	const struct elf *f = module_elf(m);
	uint64_t start = 0, limit = MODULE_SPACING / 2, offset = 0;
	for (unsigned i = 0; f && i < f->n_segments; i++)
		if (f->segments[i].exec) {
			start = f->segments[i].vaddr;
			limit = start + f->segments[i].memsz;
			offset = f->segments[i].offset;
			break;
		}
	b->mapping.id = profile_mapping(b->p, *ret_base + start, *ret_base + limit, offset, module_name(m),
		module_build_id_hex(m), PROFILE_HAS_FUNCTIONS | has);
	b->mapping.module = m;
	b->mapping.has = has;
	return b->mapping.id;
}

/* Kernel addresses leave as names only. */
static int64_t kernel_location(struct profile_builder *b, uint64_t address)
{
	struct engine *g = b->t->engine;
	/* takes tens of ms, and a runtime may be waiting for a session's end: only if a profile needs it */
	if (!g->symbols.kallsyms && g->symbols.kallsyms_fd >= 0)
		engine_read_kallsyms(g);
	const char *name = g->symbols.kallsyms ? kallsyms_find(g->symbols.kallsyms, address) : NULL;
	b->kernel_nameless |= !name;
	int64_t m = profile_mapping(b->p, 0, 0, 0, "[kernel]", "", PROFILE_HAS_FUNCTIONS);
	return m < 0 ? m : profile_named_location(b->p, (uint32_t)m, 0, name ? name : "[kernel]");
}

/* Fills the functions at an address, and the flags of a mapping (profile.h) that they justify. -errno. */
static int add_lines(struct profile_builder *b, const struct stack_frame *f, const struct symbol_line *named, size_t n,
	struct profile_line *ret, unsigned *ret_has)
{
	char own[MODULE_NAME_MAX];
	*ret_has = n > 1 ? PROFILE_HAS_INLINE_FRAMES : 0;
	for (size_t i = 0; i < n; i++) {
		const struct symbol_line *l = &named[i];
		struct profile_function fn = {l->name, l->linkage, l->file, l->start};
		if (!l->name[0])
			fn.name = i + 1 < n ? "[inlined]" : module_frame_name(f->module, f->vaddr, own, sizeof(own));
		int64_t id = profile_function(b->p, &fn);
		if (id < 0)
			return (int)id;
		ret[i] = (struct profile_line){(uint32_t)id, l->line};
		*ret_has |= (l->file[0] ? PROFILE_HAS_FILENAMES : 0) | (l->line ? PROFILE_HAS_LINE_NUMBERS : 0);
	}
	return 0;
}

static void note_quarantined(struct profile_builder *b, const struct module *m)
{
	for (unsigned i = 0; i < b->n_quarantined; i++)
		if (b->quarantined[i] == m)
			return;
	if (b->n_quarantined < QUARANTINE_MAX)
		b->quarantined[b->n_quarantined++] = m;
}

/* By the symbolizer's answer, else by the file's symbols. */
static int64_t user_location(struct profile_builder *b, const struct stack_frame *f)
{
	char name[MODULE_NAME_MAX];
	struct profile_line lines[NAME_CACHE_LINES_MAX];
	const struct symbol_line *named;
	size_t n;
	unsigned has = 0;
	uint64_t base;
	if (module_state(f->module) == MODULE_QUARANTINED)
		note_quarantined(b, f->module);
	if (!f->module && f->vaddr) { /* sample_stack_plain */
		snprintf(name, sizeof(name), "0x%llx", (unsigned long long)f->vaddr);
		return profile_named_location(b->p, PROFILE_NONE, f->vaddr, name);
	}
	if (!module_names(f->module, f->vaddr, &named, &n) || n == 0) {
		module_frame_name(f->module, f->vaddr, name, sizeof(name));
		if (!f->module)
			return profile_named_location(b->p, PROFILE_NONE, 0, name);
		int64_t m = add_mapping(b, f->module, 0, &base);
		return m < 0 ? m : profile_named_location(b->p, (uint32_t)m, base + f->vaddr, name);
	}
	int r = add_lines(b, f, named, n, lines, &has);
	int64_t m = r < 0 ? r : add_mapping(b, f->module, has, &base);
	return m < 0 ? m : profile_location(b->p, (uint32_t)m, base + f->vaddr, lines, n);
}

static int64_t jit_location(struct profile_builder *b, const struct stack_frame *f)
{
	struct profile_function fn = {0};
	struct profile_line line = {0};
	if (!jit_find(f->jit, f->vaddr, &fn.name, &fn.file, &line.line)) {
		if (!b->jit_denied[0])
			jit_denied(f->jit, b->jit_denied);
		return profile_named_location(b->p, PROFILE_NONE, 0, "[anon]");
	}
	int64_t id = profile_function(b->p, &fn);
	line.function = (uint32_t)id;
	/* code is moved and thrown away: no address */
	return id < 0 ? id : profile_location(b->p, PROFILE_NONE, 0, &line, 1);
}

static int64_t frame_location(struct profile_builder *b, const struct stack_frame *f)
{
	switch (f->kind) {
	case FRAME_KERNEL:
		return kernel_location(b, f->vaddr);
	case FRAME_JIT:
		return jit_location(b, f);
	case FRAME_SPECIAL:
		return profile_named_location(b->p, PROFILE_NONE, 0, f->name);
	default:
		return user_location(b, f);
	}
}

/* The program of the thread with the largest sum, as `exe` of its samples (process_table.h); "": no sample has one.
 * -ENOMEM */
static int find_program(const struct profile_builder *b, char *ret, size_t size)
{
	size_t n = aggregate_whos(b->counts);
	uint64_t *weights = calloc(n ? n : 1, sizeof(*weights)), most = 0;
	struct aggregate_sample s;
	ret[0] = 0;
	if (!weights)
		return -ENOMEM;
	for (size_t i = 0; i < aggregate_samples(b->counts); i++) {
		aggregate_sample(b->counts, i, &s);
		uint64_t weight = weights[s.who_number] += s.weight;
		if (weight > most && s.who.exe[0]) {
			most = weight;
			snprintf(ret, size, "%s", s.who.exe);
		}
	}
	free(weights);
	return 0;
}

/* The first mapping of a profile is its program (profile.proto): go tool pprof shows it as "File:". */
static int add_program(struct profile_builder *b)
{
	char exe[sizeof(((struct process *)NULL)->exe)];
	uint64_t base;
	int r = find_program(b, exe, sizeof(exe));
	for (size_t i = 0; r == 0 && exe[0] && i < aggregate_frames(b->counts); i++) {
		const struct stack_frame *f = aggregate_frame(b->counts, (uint32_t)i);
		const char *path = f->module ? module_name(f->module) : "", *name = strrchr(path, '/');
		if (f->kind == FRAME_USER && name && !strncmp(name + 1, exe, sizeof(exe) - 1)) {
			int64_t id = add_mapping(b, f->module, 0, &base);
			return id < 0 ? (int)id : 0;
		}
	}
	return r;
}

static int add_locations(struct profile_builder *b)
{
	size_t n = aggregate_frames(b->counts);
	b->locations = malloc((n ? n : 1) * sizeof(b->locations[0]));
	if (!b->locations)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		int64_t id = frame_location(b, aggregate_frame(b->counts, (uint32_t)i));
		if (id < 0)
			return (int)id;
		b->locations[i] = (uint32_t)id;
	}
	return 0;
}

/* --- samples ------------------------------------------------------------------------------------------- */

/* Allocates the label sets of sampled threads: each set is made once, not for each sample. */
static int add_whos(struct profile_builder *b)
{
	size_t n = aggregate_whos(b->counts);
	b->label_sets = malloc((n ? n : 1) * sizeof(b->label_sets[0]));
	if (!b->label_sets)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		b->label_sets[i] = PROFILE_NONE;
	return 0;
}

/* Converts a sample of the event at hand to the values of the profile's types. */
static void values_of(
	const struct profile_builder *b, uint64_t count, uint64_t weight, int64_t ret[PROFILE_BUILDER_TYPES])
{
	const enum event_measure m = event_kind(b->t->desc.events[b->spec].kind)->measure;
	const bool parts = m == MEASURES_ALLOC || m == MEASURES_LIVE_HEAP;
	const unsigned at = m == MEASURES_LIVE_HEAP ? 2 : 0; /* behind alloc_objects and alloc_space */
	memset(ret, 0, PROFILE_BUILDER_TYPES * sizeof(ret[0]));
	ret[at] = (int64_t)(parts ? (count + LIVE_HEAP_PART / 2) / LIVE_HEAP_PART : count);
	ret[at + 1] = (int64_t)weight;
}

static int add_samples(struct profile_builder *b)
{
	int64_t values[PROFILE_BUILDER_TYPES];
	struct aggregate_sample s;
	int r = add_whos(b);
	for (size_t i = 0; r == 0 && i < aggregate_samples(b->counts); i++) {
		aggregate_sample(b->counts, i, &s);
		if (!s.count && !s.weight) /* memory that is no longer in use */
			continue;
		uint32_t own = PROFILE_NONE, *set = s.when.cpu || s.when.us ? &own : &b->label_sets[s.who_number];
		int64_t made = *set == PROFILE_NONE ? profile_labels_add(b, &s.who, &s.when) : *set;
		if (made < 0)
			return (int)made;
		*set = (uint32_t)made;
		b->n_samples += event_is_of_app(&b->t->desc.events[b->spec]) ? 0 : s.count;
		for (size_t f = 0; f < s.n; f++)
			s.frames[f] = b->locations[s.frames[f]];
		values_of(b, s.count, event_counts_scaled(s.weight, b->kernel->correct), values);
		r = profile_sample_of(b->p, s.frames, s.n, values, *set);
	}
	return r;
}

/* --- all of it ------------------------------------------------------------------------------------------ */

bool profile_build_has(const struct target *t, uint32_t profile, uint32_t spec)
{
	uint32_t in = t->desc.events[spec].profiles;
	if (in == PROFILES_ALLOC)
		return profile < PROFILE_BUILD_WALL &&
		       event_kind(t->desc.events[profile].kind)->measure == MEASURES_ALLOC;
	return profile == PROFILE_BUILD_WALL ? in != PROFILES_OWN : profile == spec && in != PROFILES_WALL;
}

/* Adds the samples and losses of one event. */
static int add_part(struct profile_builder *b, uint32_t spec)
{
	b->spec = spec;
	b->kernel = &b->w->kernel[spec];
	b->counts = b->w->counts[spec];
	int r = profile_mappings(b->p) ? 0 : add_program(b); /* a profile of several events has its first by now */
	if (r == 0)
		r = add_locations(b);
	if (r == 0)
		r = add_samples(b);
	const bool is_heap = event_kind(b->t->desc.events[spec].kind)->measure ==
			     MEASURES_LIVE_HEAP; /* its losses are samples of it */
	if (r == 0 && !is_heap)
		r = profile_notes_add_losses(b);
	if (r == 0 && !is_heap)
		r = profile_notes_add_account(b);
	free(b->locations);
	free(b->label_sets);
	b->locations = b->label_sets = NULL;
	return r;
}

/* types: of the event; the returned info names them */
static struct profile_info info_of(const struct profile_builder *b, struct profile_type types[PROFILE_BUILDER_TYPES])
{
	struct profile_info info = {.time_ns = b->w->real,
		.duration_ns = b->w->duration,
		.n_types = 2,
		.types = types,
		.period_type = {EVENT_WALL, "nanoseconds"},
		.period = 1};
	types[0] = (struct profile_type){"samples", "count"};
	types[1] = info.period_type;
	if (b->profile == PROFILE_BUILD_WALL)
		return info;
	const struct event_spec *spec = &b->t->desc.events[b->profile];
	const struct event_kind *k = event_kind(spec->kind);
	if (k->measure == MEASURES_ALLOC) { /* like Go's, which tools know */
		info.n_types = 4;
		types[0] = (struct profile_type){"alloc_objects", "count"};
		types[1] = (struct profile_type){"alloc_space", "bytes"};
		types[2] = (struct profile_type){"inuse_objects", "count"};
		types[3] = (struct profile_type){"inuse_space", "bytes"};
		info.period_type = (struct profile_type){"space", "bytes"};
		info.period = (int64_t)spec->period;
		return info;
	}
	if (k->measure == MEASURES_CALLS) {
		info.n_types = spec->with_time ? 2 : 1;
		types[0] = info.period_type = (struct profile_type){"calls", "count"};
		types[1] = (struct profile_type){"time", "nanoseconds"};
		return info;
	}
	types[1].type = info.period_type.type = event_sample_type(spec);
	types[1].unit = info.period_type.unit = k->sample_unit;
	info.period = k->measure == MEASURES_OFFCPU || spec->value_size ? 1 : (int64_t)spec->period;
	return info;
}

static int build_profile(struct profile_builder *b)
{
	struct profile_type types[PROFILE_BUILDER_TYPES];
	struct profile_info info = info_of(b, types);
	int r = profile_new(&info, &b->p);
	if (r < 0)
		return r;
	profile_labels_fix(b);
	for (uint32_t i = 0; r == 0 && i < b->t->desc.n_events; i++)
		if (profile_build_has(b->t, b->profile, i))
			r = add_part(b, i);
	return r < 0 ? r : profile_notes_add_comments(b);
}

int profile_build(const struct window *w, uint32_t profile, struct profile **ret, uint64_t *ret_samples)
{
	struct profile_builder b = {.w = w, .t = w->t, .profile = profile};
	int r = build_profile(&b);
	*ret_samples = b.n_samples;
	*ret = r < 0 ? profile_free(b.p) : b.p;
	return r;
}
