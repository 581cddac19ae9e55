/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/pprof/profile_symbolize.h"

#include "oci/base/array.h"
#include "oci/base/fd.h"
#include "oci/base/string_table.h"
#include "oci/base/utf8.h"
#include "profiler/pprof/linked_address.h"
#include "profiler/pprof/profile_merge.h"
#include "profiler/process/debug_file.h"
#include "profiler/symbol/debuginfod.h"
#include "profiler/symbol/symbolizer_query.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define ID_SHOWN 12 /* digits of a build-id in the report */

struct module {
	const char *name; /* its file, without directories */
	const char *hex;
	struct build_id id;
	struct symbolizer_query_files files;
	struct debug_facts facts;  /* of files.debug */
	struct debug_facts placed; /* of the file that has offsets; none: zero */
	char from[PATH_MAX + 32];
	struct err why; /* the last failure */
	struct name_cache *names;
	size_t asked, named, lost; /* addresses; lost: their place in the file is not known */
};

struct profile_symbolize {
	bool network;
	struct err network_why;		 /* the failure after which it is not asked any more */
	struct debuginfod_client *fetch; /* NULL: not needed so far */
	struct symbolizer_query *inquiry;
	struct err broken;	   /* the symbolizer does not answer any more */
	struct string_table ids;   /* build-ids as text: the number of one is that of its module */
	struct string_table texts; /* names of modules */
	struct module **modules;   /* ids.count */
	size_t room;
};

/* An address that lacks its lines. */
struct missing {
	uint32_t module;
	uint64_t vaddr;
};

/* A profile at work. */
struct work {
	struct profile_symbolize *s;
	const struct profile *p;
	struct missing *at; /* by location; module PROFILE_NONE: it lacks nothing, or its place is not known */
	bool changed;
};

int profile_symbolize_open(bool network, struct profile_symbolize **ret, struct err *e)
{
	struct profile_symbolize *s = calloc(1, sizeof(*s));
	if (!s)
		return err_set(e, -ENOMEM, "cannot symbolize");
	s->network = network;
	int r = symbolizer_query_open(&s->inquiry, e);
	if (r < 0)
		profile_symbolize_close(s);
	else
		*ret = s;
	return r;
}

struct profile_symbolize *profile_symbolize_close(struct profile_symbolize *s)
{
	for (size_t i = 0; s && i < s->ids.count; i++) {
		fd_close(s->modules[i]->files.debug);
		fd_close(s->modules[i]->files.alt);
		name_cache_free(s->modules[i]->names);
		free(s->modules[i]);
	}
	if (s) {
		string_table_done(&s->ids);
		string_table_done(&s->texts);
		symbolizer_query_close(s->inquiry);
		debuginfod_client_close(s->fetch);
		free(s->modules);
	}
	free(s);
	return NULL;
}

static const char *base_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

/* --- finding debug information ------------------------------------------------------------------------- */

/* A file of its own may lack its section headers; of one that has nothing but debug information they are the index. */
static bool check_build_id(struct profile_symbolize *s, struct module *m, int fd, bool own, const struct build_id *id,
	struct debug_facts *ret)
{
	if (s->broken.code || symbolizer_query_facts(s->inquiry, fd, ret, &s->broken) < 0)
		return false;
	const bool whole = own || !ret->is_cut;
	if (build_id_equal(&ret->id, id) && whole)
		return true;
	err_say(&m->why, -EBADMSG,
		ret->id.len && whole ? "it has another build-id" : "it is no whole ELF file, or has no build-id");
	return false;
}

/* Takes an open file: keeps it if it is the module's and better than the one that it has. */
static void choose_debug_file(struct profile_symbolize *s, struct module *m, int fd, const char *from, bool own)
{
	struct debug_facts f;
	if (!check_build_id(s, m, fd, own, &m->id, &f)) {
		if (m->why.text[0])
			err_wrap(&m->why, m->why.code, "%.100s", from);
		fd_close(fd);
		return;
	}
	if (f.n_segments && f.segments[0].filesz == f.segments[0].memsz)
		m->placed = f;
	if (m->facts.has_debug || (m->files.debug >= 0 && !f.has_debug)) {
		fd_close(fd);
		return;
	}
	fd_close(m->files.debug);
	m->files.debug = fd;
	m->facts = f;
	snprintf(m->from, sizeof(m->from), "%s", from);
}

/* A profile may name any path: even opening a device can have an effect. */
static int open_regular(const char *path)
{
	char own[32];
	struct stat st;
	fd_auto place = fd_open(AT_FDCWD, path, O_PATH, 0);
	if (place < 0 || fstat(place, &st) < 0 || !S_ISREG(st.st_mode))
		return place < 0 ? place : -EINVAL;
	snprintf(own, sizeof(own), "/proc/self/fd/%d", place);
	return fd_open(AT_FDCWD, own, O_RDONLY, 0);
}

/* After a failure that is not the file's own debuginfod is not asked any more: each time would take as long. */
static int fetch_debuginfo(struct profile_symbolize *s, const struct build_id *id, const char **ret_from, struct err *e)
{
	if (!s->network)
		return -ENOENT;
	int r = s->fetch ? 0 : debuginfod_client_open(&s->fetch, e);
	if (r == 0)
		r = debuginfod_client_fetch(s->fetch, id, ret_from, e);
	if (r >= 0 || (r == -ENOENT && s->fetch))
		return r;
	s->network = false;
	s->network_why = *e;
	*e = (struct err){0}; /* said once is enough */
	return r;
}

/* Finds the file that a debug file shares with others (dwz(1)), by its build-id. */
static void find_alt(struct profile_symbolize *s, struct module *m)
{
	char path[PATH_MAX];
	const char *from;
	struct debug_facts f;
	const struct build_id *id = &m->facts.alt_id;
	if (!m->facts.alt[0])
		return;
	int fd = debug_files_on_host(id, path);
	if (fd < 0)
		fd = open_regular(m->facts.alt);
	if (fd < 0)
		fd = fetch_debuginfo(s, id, &from, &m->why);
	m->files.alt = fd >= 0 && check_build_id(s, m, fd, false, id, &f) ? fd : fd_close(fd);
	if (m->files.alt < 0)
		err_say(&m->why, -ENOENT, "what it shares with other modules is missing: %.100s",
			base_of(m->facts.alt));
}

static void find_files(struct profile_symbolize *s, struct module *m, const char *own)
{
	char path[PATH_MAX];
	const char *from;
	int fd = debug_files_on_host(&m->id, path);
	if (fd >= 0)
		choose_debug_file(s, m, fd, path, false);
	fd = own[0] == '/' ? open_regular(own) : -ENOENT;
	if (fd >= 0)
		choose_debug_file(s, m, fd, own, true);
	fd = m->facts.has_debug ? -ENOENT : fetch_debuginfo(s, &m->id, &from, &m->why);
	if (fd >= 0)
		choose_debug_file(s, m, fd, from, false);
	find_alt(s, m);
}

/* --- modules ------------------------------------------------------------------------------------------- */

static int parse_hex_digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* False: not a build-id, or not one of a linker. Go has build-ids of another kind. */
static bool parse_id(const char *hex, struct build_id *ret)
{
	size_t n = strlen(hex);
	ret->len = n / 2;
	if (n < 4 || n % 2 || ret->len > ELF_BUILD_ID_MAX)
		return false;
	for (size_t i = 0; i < n; i += 2) {
		int high = parse_hex_digit(hex[i]), low = parse_hex_digit(hex[i + 1]);
		if (high < 0 || low < 0)
			return false;
		ret->bytes[i / 2] = (uint8_t)(high << 4 | low);
	}
	return true;
}

static int keep_text(struct string_table *t, const char *text, const char **ret)
{
	int64_t id = string_table_add(t, text, strlen(text) + 1);
	if (id >= 0)
		*ret = t->items[id].data;
	return (int)(id < 0 ? id : 0);
}

/* Returns the number of the module, and looks for its files when it is met first. */
static int64_t module_of(struct profile_symbolize *s, const struct profile_mapping *map, const struct build_id *id)
{
	size_t before = s->ids.count;
	int64_t at = string_table_find(&s->ids, map->build_id, strlen(map->build_id) + 1);
	if (at >= 0)
		return at;
	struct module *m = NULL;
	if (array_reserve(&s->modules, &s->room, before + 1, sizeof(s->modules[0]), 64) < 0 ||
		!(m = calloc(1, sizeof(*m))))
		return -ENOMEM;
	m->id = *id;
	m->files = (struct symbolizer_query_files){-1, -1, .separate = true};
	int r = name_cache_new(&m->names);
	if (r == 0)
		r = keep_text(&s->texts, base_of(map->file), &m->name);
	if (r == 0)
		r = keep_text(&s->ids, map->build_id, &m->hex);
	if (r < 0) {
		name_cache_free(m->names);
		free(m);
		return r;
	}
	s->modules[before] = m;
	find_files(s, m, map->file);
	return (int64_t)before;
}

/* --- missing lines ------------------------------------------------------------------------------------- */

static bool has_line(const struct profile *p, const struct profile_location *l)
{
	struct profile_function f;
	for (size_t i = 0; i < l->n; i++) {
		profile_function_get(p, l->lines[i].function, &f);
		if (f.file[0] || l->lines[i].line)
			return true;
	}
	return false;
}

/*
 * True: its name says no more than the address does; window.c and the reader give such a name to a location without
 * one.
 */
static bool is_nameless(const struct work *w, const struct profile_location *l)
{
	struct profile_mapping map;
	profile_mapping_get(w->p, l->mapping, &map);
	const char *name = profile_function_name(w->p, l->lines[l->n - 1].function), *base = base_of(map.file);
	size_t n = strlen(base);
	return !strcmp(name, "?") || !strncmp(name, "[unreadable] ", 13) || !strcmp(name, "[unknown]") ||
	       (!strncmp(name, base, n) && !strncmp(name + n, "+0x", 3));
}

static int note_missing(struct work *w, uint32_t location)
{
	struct profile_location l;
	struct profile_mapping map;
	struct build_id id;
	struct missing *at = &w->at[location];
	at->module = PROFILE_NONE;
	profile_location_get(w->p, location, &l);
	if (l.mapping == PROFILE_NONE || has_line(w->p, &l))
		return 0;
	profile_mapping_get(w->p, l.mapping, &map);
	if (map.file[0] == '[' || !parse_id(map.build_id, &id)) /* of the kernel */
		return 0;
	int64_t number = module_of(w->s, &map, &id);
	if (number < 0)
		return (int)number;
	struct module *m = w->s->modules[number];
	if (linked_address_find(m->placed.n_segments ? &m->placed : &m->facts, &map, l.address, &at->vaddr))
		at->module = (uint32_t)number;
	else
		m->lost++;
	return 0;
}

static int by_module(const void *a, const void *b)
{
	const struct missing *x = a, *y = b;
	if (x->module != y->module)
		return x->module < y->module ? -1 : 1;
	return x->vaddr < y->vaddr ? -1 : x->vaddr > y->vaddr;
}

/* Collects the addresses that no profile before has asked about; sorted, each once. */
static int collect_missing(struct work *w, struct missing **ret, size_t *ret_n)
{
	size_t n = profile_locations(w->p), got = 0, out = 0;
	const struct symbol_line *lines;
	size_t count;
	struct missing *list = calloc(n + 1, sizeof(*list));
	int r = list ? 0 : -ENOMEM;
	for (uint32_t i = 0; r == 0 && i < n; i++) {
		r = note_missing(w, i);
		if (r == 0 && w->at[i].module != PROFILE_NONE &&
			!name_cache_get(w->s->modules[w->at[i].module]->names, w->at[i].vaddr, &lines, &count))
			list[got++] = w->at[i];
	}
	if (got)
		qsort(list, got, sizeof(*list), by_module);
	for (size_t i = 0; i < got; i++)
		if (!out || by_module(&list[out - 1], &list[i]) != 0)
			list[out++] = list[i];
	*ret = list;
	*ret_n = out;
	return r;
}

/* --- asking -------------------------------------------------------------------------------------------- */

static bool is_known(const struct symbol_line *lines, size_t n)
{
	return n && (lines[n - 1].name[0] || lines[0].file[0]);
}

/* Addresses without an answer are not asked about again: it would end the same way. */
static int mark_unanswered(struct module *m, const uint64_t *vaddrs, size_t n)
{
	const struct symbol_line *lines;
	size_t count;
	int r = 0;
	for (size_t i = 0; r == 0 && i < n; i++)
		if (!name_cache_get(m->names, vaddrs[i], &lines, &count))
			r = name_cache_put(m->names, vaddrs[i], NULL, 0);
		else
			m->named += is_known(lines, count);
	m->asked += n;
	return r;
}

static int ask_module(
	struct profile_symbolize *s, struct module *m, const struct missing *list, size_t n, struct err *e)
{
	uint64_t *vaddrs = malloc(n * sizeof(*vaddrs));
	int r = vaddrs ? 0 : err_set(e, -ENOMEM, "cannot symbolize");
	for (size_t i = 0; r == 0 && i < n; i++)
		vaddrs[i] = list[i].vaddr;
	if (r == 0 && m->files.debug >= 0)
		r = symbolizer_query_names(s->inquiry, &m->files, vaddrs, n, m->names, e);
	if (r == -ENODATA) {
		m->why = *e;
		r = 0;
	}
	if (r == 0 && mark_unanswered(m, vaddrs, n) < 0)
		r = err_set(e, -ENOMEM, "cannot symbolize");
	free(vaddrs);
	return r;
}

static int ask_all(struct profile_symbolize *s, const struct missing *list, size_t n, struct err *e)
{
	int r = 0;
	for (size_t i = 0, more; r == 0 && i < n; i += more) {
		for (more = 1; i + more < n && list[i + more].module == list[i].module;)
			more++;
		r = ask_module(s, s->modules[list[i].module], list + i, more, e);
	}
	return r;
}

/* --- the symbolized profile ---------------------------------------------------------------------------- */

static unsigned get_line_flags(const struct symbol_line *l, size_t n)
{
	return PROFILE_HAS_FUNCTIONS | (n > 1 ? PROFILE_HAS_INLINE_FRAMES : 0) |
	       (l->file[0] ? PROFILE_HAS_FILENAMES : 0) | (l->line ? PROFILE_HAS_LINE_NUMBERS : 0);
}

static const char *name_of(const struct work *w, const struct profile_location *l, bool outermost)
{
	return outermost ? profile_function_name(w->p, l->lines[l->n - 1].function) : "[inlined]";
}

/*
 * A symbol alone helps only a location without a name: the file at hand may have fewer symbols than the profiler saw.
 */
static int better_lines(void *arg, struct profile *to, uint32_t location, struct profile_line *ret, unsigned *ret_has)
{
	struct work *w = arg;
	const struct missing *at = &w->at[location];
	struct profile_location l;
	const struct symbol_line *named;
	size_t n;
	if (at->module == PROFILE_NONE || !name_cache_get(w->s->modules[at->module]->names, at->vaddr, &named, &n) ||
		!is_known(named, n))
		return 0;
	profile_location_get(w->p, location, &l);
	if (!named[0].file[0] && !is_nameless(w, &l))
		return 0;
	for (size_t i = 0; i < n; i++) {
		struct profile_function f = {named[i].name, named[i].linkage, named[i].file, named[i].start};
		if (!f.name[0])
			f.name = name_of(w, &l, i + 1 == n);
		int64_t id = profile_function(to, &f);
		if (id < 0)
			return (int)id;
		ret[i] = (struct profile_line){(uint32_t)id, named[i].line};
		*ret_has |= get_line_flags(&named[i], n);
	}
	w->changed = true;
	return (int)n;
}

int profile_symbolize_run(struct profile_symbolize *s, const struct profile *p, struct profile **ret, struct err *e)
{
	struct work w = {.s = s, .p = p, .at = calloc(profile_locations(p) + 1, sizeof(*w.at))};
	struct missing *list = NULL;
	struct profile *fresh = NULL;
	size_t n = 0;
	int r = w.at ? collect_missing(&w, &list, &n) : -ENOMEM;
	if (r < 0)
		err_set(e, r, "cannot symbolize");
	else if ((r = s->broken.code) < 0)
		*e = s->broken;
	else
		r = ask_all(s, list, n, e);
	if (r == 0)
		r = profile_merge_copy(p, better_lines, &w, &fresh, e);
	*ret = w.changed ? fresh : profile_free(fresh);
	free(list);
	free(w.at);
	return r;
}

/* --- telling ------------------------------------------------------------------------------------------- */

static void report_module(const struct module *m, FILE *out)
{
	char why[sizeof(m->why.text)];
	utf8_print(out, m->name, NULL);
	fprintf(out, " %.*s: %zu of %zu addresses named", ID_SHOWN, m->hex, m->named, m->asked + m->lost);
	fputs(m->facts.has_debug ? "" : ", no debug information", out);
	if (m->facts.has_debug || m->named) {
		fputs(m->facts.has_debug ? " by " : ", symbols of ", out);
		utf8_print(out, m->from, NULL);
	}
	if (m->lost && m->files.debug >= 0)
		fprintf(out, "; %zu that no file tells the place of", m->lost);
	if (m->why.text[0])
		fprintf(out, "; %s", err_clean(why, &m->why));
	putc('\n', out);
}

const char *profile_symbolize_network_failure(const struct profile_symbolize *s)
{
	return s->network_why.text[0] ? s->network_why.text : NULL;
}

void profile_symbolize_report(const struct profile_symbolize *s, FILE *out, struct profile_symbolize_sums *ret)
{
	*ret = (struct profile_symbolize_sums){.modules = s->ids.count};
	for (size_t i = 0; i < s->ids.count; i++) {
		const struct module *m = s->modules[i];
		report_module(m, out);
		ret->without += !m->facts.has_debug;
	}
}
