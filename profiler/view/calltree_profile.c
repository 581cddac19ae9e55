/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/view/calltree_profile.h"

#include "oci/base/fd.h"
#include "profiler/elf/elf.h"
#include "profiler/symbol/symtab.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SYMBOLS_ROOM (256u << 20) /* bytes of one module's */

/* Symbols of a module that has no build-id; a file that was moved has none. */
struct symbol_file {
	const char *path;
	struct elf *elf;
	struct symtab *symbols;
};

struct work {
	struct profile *places; /* each address that is needed: one location and one sample each, in this order */
	struct profile *named;	/* the same with names; may be `places` */
	struct symbol_file *files;
	size_t n_files;
	struct profile *out;
	bool sites;
	uint64_t frames;
};

/* --- symbols of modules without a build-id -------------------------------------------------------------- */

static void read_symbols(struct symbol_file *s)
{
	struct stat st;
	struct err e = {0};
	fd_auto place = s->path[0] == '/' && s->path[1] != '/' ? fd_open(AT_FDCWD, s->path, O_PATH, 0) : -ENOENT;
	if (place < 0 || fstat(place, &st) < 0 || !S_ISREG(st.st_mode))
		return;
	fd_auto fd = fd_open(AT_FDCWD, s->path, O_RDONLY | O_NONBLOCK, 0);
	struct elf_source source = elf_source_fd(&fd);
	if (fd < 0 || elf_read(source, &s->elf, &e) < 0)
		return;
	if (s->elf->build_id_len || symtab_read(source, SYMBOLS_ROOM, &s->symbols, &e) < 0)
		s->elf = elf_free(s->elf);
}

static const struct symbol_file *symbol_file(struct work *w, const char *path)
{
	for (size_t i = 0; i < w->n_files; i++)
		if (!strcmp(w->files[i].path, path))
			return &w->files[i];
	struct symbol_file *more = reallocarray(w->files, w->n_files + 1, sizeof(*more));
	if (!more)
		return NULL;
	w->files = more;
	more[w->n_files] = (struct symbol_file){.path = path};
	read_symbols(&more[w->n_files]);
	return &w->files[w->n_files++];
}

static const char *symbol_of(struct work *w, const struct calltree_file_mapping *m, uint64_t address)
{
	uint64_t vaddr, offset;
	const struct symbol_file *s = m->build_id[0] ? NULL : symbol_file(w, m->path);
	if (!s || !s->elf || !elf_vaddr_of_offset(s->elf, address - m->start + m->offset, &vaddr))
		return NULL;
	return symtab_find(s->symbols, vaddr, symtab_label_floor(vaddr), &offset);
}

/* --- addresses ----------------------------------------------------------------------------------------- */

/* The location in `places`; PROFILE_NONE: it was mapped nowhere */
static int64_t add_location(
	struct work *w, const struct calltree_file *f, uint64_t address, uint32_t gone, uint64_t back)
{
	const struct calltree_file_mapping *m = calltree_file_find(f, &address, gone);
	if (!m)
		return PROFILE_NONE;
	if (address - m->start >= back)
		address -= back;
	struct profile_line line = {0};
	int64_t map = profile_mapping(w->places, m->start, m->end, m->offset, m->path, m->build_id, 0);
	const char *symbol = map < 0 ? NULL : symbol_of(w, m, address);
	if (symbol) {
		int64_t function = profile_function(w->places, &(struct profile_function){.name = symbol});
		if (function < 0)
			return function;
		line.function = (uint32_t)function;
	}
	size_t before = profile_locations(w->places);
	int64_t id = map < 0 ? map : profile_location(w->places, (uint32_t)map, address, &line, !!symbol);
	if (id < 0 || (size_t)id < before)
		return id;
	uint32_t location = (uint32_t)id;
	int r = profile_sample(w->places, &location, 1, (int64_t[]){1}, NULL, 0);
	return r < 0 ? r : id;
}

struct named {
	const char *name, *system_name, *file;
	int64_t start;
	uint32_t line;
	struct profile_mapping map;
	uint64_t address;
};

/* The function that is there, or, inline_too, the innermost one */
static void named_get(const struct work *w, uint32_t at, bool inlined, struct named *ret)
{
	struct profile_sample s;
	struct profile_location l;
	struct profile_function f;
	profile_sample_get(w->named, at, &s);
	profile_location_get(w->named, s.locations[0], &l);
	const struct profile_line *line = &l.lines[inlined ? 0 : l.n - 1];
	profile_function_get(w->named, line->function, &f);
	*ret = (struct named){f.name, f.system_name, f.file, f.start_line, line->line, {0}, l.address};
	profile_mapping_get(w->named, l.mapping, &ret->map);
}

/* --- paths --------------------------------------------------------------------------------------------- */

static int64_t add_named_location(struct work *w, const char *name)
{
	int64_t f = profile_function(w->out, &(struct profile_function){.name = name});
	return f < 0 ? f : profile_location(w->out, PROFILE_NONE, 0, &(struct profile_line){(uint32_t)f, 0}, 1);
}

static void with_site(const struct work *w, uint32_t site, const char *name, char *buf, size_t size)
{
	struct named n;
	if (site == PROFILE_NONE) {
		snprintf(buf, size, "%s (from nowhere that is known)", name);
		return;
	}
	named_get(w, site, true, &n);
	const char *slash = strrchr(n.file, '/');
	if (n.file[0])
		snprintf(buf, size, "%s (from %s:%" PRIu32 ")", name, slash ? slash + 1 : n.file, n.line);
	else
		snprintf(buf, size, "%s (from %s)", name, n.name);
}

/* fn, site: in `places` */
static int64_t location_of(struct work *w, uint32_t fn, uint32_t site)
{
	struct named n;
	char text[1024];
	named_get(w, fn, false, &n);
	struct profile_function f = {n.name, n.system_name, n.file, n.start};
	if (w->sites) {
		with_site(w, site, n.name, text, sizeof(text));
		f.name = text;
	}
	int64_t id = profile_function(w->out, &f);
	int64_t map = profile_mapping(w->out, n.map.start, n.map.limit, n.map.offset, n.map.file, n.map.build_id,
		PROFILE_HAS_FUNCTIONS | (n.file[0] ? PROFILE_HAS_FILENAMES : 0) |
			(n.line ? PROFILE_HAS_LINE_NUMBERS : 0));
	struct profile_line line = {(uint32_t)id, n.start > 0 && n.start < UINT32_MAX ? (uint32_t)n.start : n.line};
	return id < 0 ? id : map < 0 ? map : profile_location(w->out, (uint32_t)map, n.address, &line, 1);
}

static int add_path(struct work *w, const struct calltree_file *f, const uint32_t *locations, uint32_t i, int64_t cut)
{
	uint32_t stack[CALLTREE_PROFILE_DEPTH_MAX];
	size_t n = 0;
	const struct calltree_file_node *node = &f->nodes[i];
	if (!node->calls && !node->ns)
		return 0;
	for (uint32_t at = i; at != CALLTREE_FILE_NONE; at = f->nodes[at].parent) {
		if (n == CALLTREE_PROFILE_DEPTH_MAX - 1) {
			stack[n++] = (uint32_t)cut;
			break;
		}
		stack[n++] = locations[at];
	}
	w->frames += n;
	if (w->frames > CALLTREE_PROFILE_FRAMES_MAX)
		return -EFBIG;
	return profile_sample(w->out, stack, n, (int64_t[]){(int64_t)node->calls, (int64_t)node->ns}, NULL, 0);
}

/* Numbers in `places` of a node: 0 the function, 1 the call site */
typedef uint32_t place_pair[2];

static int add_file(struct work *w, const struct calltree_file *f, place_pair *places)
{
	uint32_t *locations = calloc(f->n_nodes + 1, sizeof(*locations));
	int64_t full = add_named_location(w, "[tree full]"), unknown = add_named_location(w, "[unknown]"),
		cut = add_named_location(w, "[deeper]"),
		r = locations && full >= 0 && unknown >= 0 && cut >= 0 ? 0 : -ENOMEM;
	for (uint32_t i = 0; r >= 0 && i < f->n_nodes; i++) {
		r = !f->nodes[i].fn		   ? full
		    : places[i][0] == PROFILE_NONE ? unknown
						   : location_of(w, places[i][0], places[i][1]);
		if (r < 0)
			break;
		locations[i] = (uint32_t)r;
		r = add_path(w, f, locations, i, cut);
	}
	if (r >= 0 && f->unplaced) {
		int64_t none = add_named_location(w, "[threads without a tree]");
		uint32_t at = (uint32_t)none;
		r = none < 0 ? none : profile_sample(w->out, &at, 1, (int64_t[]){(int64_t)f->unplaced, 0}, NULL, 0);
	}
	free(locations);
	return (int)r;
}

static int find_places(struct work *w, const struct calltree_file *f, place_pair **ret)
{
	place_pair *places = *ret = calloc(f->n_nodes + 1, sizeof(*places));
	int64_t r = places ? 0 : -ENOMEM;
	for (size_t i = 0; r >= 0 && i < f->n_nodes; i++) {
		const struct calltree_file_node *n = &f->nodes[i];
		r = n->fn ? add_location(w, f, n->fn, n->gone, 0) : PROFILE_NONE;
		places[i][0] = (uint32_t)r;
		places[i][1] = PROFILE_NONE;
		if (r < 0 || !w->sites)
			continue;
		r = add_location(w, f, n->site, n->gone, 1); /* the call, not the instruction after it */
		places[i][1] = (uint32_t)r;
	}
	return r < 0 ? (int)r : 0;
}

/* Names are worth having, not worth failing for. */
static void find_names(struct work *w, struct profile_symbolize *s)
{
	struct profile *fresh;
	struct err e = {0};
	w->named = w->places;
	if (s && profile_symbolize_run(s, w->places, &fresh, &e) == 0 && fresh)
		w->named = fresh;
}

static void free_work(struct work *w)
{
	for (size_t i = 0; i < w->n_files; i++) {
		elf_free(w->files[i].elf);
		if (w->files[i].symbols)
			symtab_free(w->files[i].symbols);
	}
	free(w->files);
	if (w->named != w->places)
		profile_free(w->named);
	profile_free(w->places);
}

int calltree_profile(struct calltree_file *const *files, size_t n, struct profile_symbolize *s, bool sites,
	struct profile **ret, struct err *e)
{
	struct profile_info one = {.n_types = 1, .types = (struct profile_type[]){{"addresses", "count"}}},
			    info = {.n_types = 1,
				    .types = (struct profile_type[]){{"calls", "count"}, {"time", "nanoseconds"}},
				    .period_type = {"calls", "count"}};
	struct work w = {.sites = sites};
	place_pair **places = calloc(n + 1, sizeof(*places));
	for (size_t i = 0; i < n; i++)
		info.n_types = files[i]->timed ? 2 : info.n_types;
	int r = !places ? -ENOMEM : profile_new(&one, &w.places);
	if (r == 0)
		r = profile_new(&info, &w.out);
	for (size_t i = 0; r == 0 && i < n; i++)
		r = find_places(&w, files[i], &places[i]);
	if (r == 0)
		find_names(&w, s);
	for (size_t i = 0; r == 0 && i < n; i++)
		r = add_file(&w, files[i], places[i]);
	for (size_t i = 0; places && i < n; i++)
		free(places[i]);
	free(places);
	free_work(&w);
	if (r == 0)
		*ret = w.out;
	else
		profile_free(w.out);
	return r == -EFBIG ? err_say(e, r, "its paths are too many and too long")
	       : r < 0	   ? err_set(e, r, "cannot make a profile of it")
			   : 0;
}
