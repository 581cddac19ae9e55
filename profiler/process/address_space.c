/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/process/address_space.h"

#include "oci/base/array.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

/* --- identities of files */

struct mapped_file {
	struct map_files *table;
	struct mapped_file *chain;
	size_t refs;
	uint32_t hash;
	bool resolved;
	struct module *module; /* referenced; NULL: unknown */
	struct module_key key; /* the path is ours */
};

#define SAVED_MAPPINGS_MAX 65536 /* 0.1.0 kept as many of a process; the next mapping drops the oldest */
#define FILE_BUCKETS 256

struct map_files {
	map_resolve_fn *resolve;
	void *arg;
	size_t count, mappings;
	struct mapped_file *buckets[FILE_BUCKETS];
};

int map_files_new(map_resolve_fn *resolve, void *arg, struct map_files **ret)
{
	struct map_files *f = calloc(1, sizeof(*f));
	if (!f)
		return -ENOMEM;
	f->resolve = resolve;
	f->arg = arg;
	*ret = f;
	return 0;
}

struct map_files *map_files_free(struct map_files *f)
{
	free(f); /* the spaces are gone, and with them every identity */
	return NULL;
}

size_t map_files_count(const struct map_files *f)
{
	return f->count;
}

static struct mapped_file *file_get(struct map_files *t, const struct module_key *key)
{
	static const struct module_key one_too_many = {.path = "[too many files]"};
	uint32_t hash = module_key_hash(key);
	struct mapped_file **bucket = &t->buckets[hash % FILE_BUCKETS];
	for (struct mapped_file *f = *bucket; f; f = f->chain)
		if (f->hash == hash && module_key_equal(&f->key, key)) {
			f->refs++;
			return f;
		}
	if (t->count >= MAP_FILES_MAX && key != &one_too_many)
		return file_get(t, &one_too_many);
	struct mapped_file *f = calloc(1, sizeof(*f));
	char *path = strdup(key->path);
	if (!f || !path) {
		free(path);
		free(f);
		return NULL;
	}
	*f = (struct mapped_file){.table = t, .chain = *bucket, .refs = 1, .hash = hash, .key = *key};
	f->key.path = path;
	*bucket = f;
	t->count++;
	return f;
}

static void file_put(struct mapped_file *f)
{
	if (--f->refs)
		return;
	struct mapped_file **p = &f->table->buckets[f->hash % FILE_BUCKETS];
	while (*p != f)
		p = &(*p)->chain;
	*p = f->chain;
	f->table->count--;
	module_unref(f->module);
	free((char *)f->key.path);
	free(f);
}

const struct module_key *mapping_key(const struct mapping *m)
{
	return &m->file->key;
}

struct module *mapping_module(const struct mapping *m)
{
	struct mapped_file *f = m->file;
	if (!f->resolved) {
		f->resolved = true;
		f->module = f->table->resolve(f->table->arg, &f->key);
	}
	return f->module;
}

/* --- the array of mappings, shared until a space changes it */

static size_t all_mappings;

static void count_mappings(struct map_files *files, ssize_t n)
{
	files->mappings += (size_t)n;
	all_mappings += (size_t)n;
}

struct map_set {
	struct map_files *files;
	size_t refs, count, room;
	struct mapping *maps; /* sorted, disjoint */
	struct unwind_cache *cache;
};

struct address_space {
	struct map_files *files;
	struct map_set *set;
	uint64_t born, dropped;
	bool lossy;
};

static void set_drop_cache(struct map_set *set)
{
	struct unwind_cache *c = set->cache;
	set->cache = NULL;
	if (c)
		c->drop(c);
}

static void set_put(struct map_set *set)
{
	if (!set || --set->refs)
		return;
	set_drop_cache(set);
	for (size_t i = 0; i < set->count; i++)
		file_put(set->maps[i].file);
	count_mappings(set->files, -(ssize_t)set->count);
	free(set->maps);
	free(set);
}

static struct map_set *set_copy(const struct map_set *from, size_t room)
{
	struct map_set *set = calloc(1, sizeof(*set));
	struct mapping *maps = malloc(room * sizeof(*maps));
	if (!set || !maps) {
		free(maps);
		free(set);
		return NULL;
	}
	set->files = from->files;
	count_mappings(set->files, (ssize_t)from->count);
	set->refs = 1;
	set->room = room;
	set->count = from->count;
	set->maps = maps;
	if (from->count)
		memcpy(maps, from->maps, from->count * sizeof(*maps));
	for (size_t i = 0; i < set->count; i++)
		maps[i].file->refs++;
	return set;
}

/* Own the set alone, with room for `more` mappings. */
static int set_own(struct address_space *s, size_t more)
{
	struct map_set *set = s->set;
	size_t room = set->room;
	while (room < set->count + more)
		room = room ? room * 2 : 16;
	if (set->refs > 1) {
		struct map_set *copy = set_copy(set, room);
		if (!copy)
			return -ENOMEM;
		set_put(set);
		s->set = copy;
		return 0;
	}
	return array_reserve(&set->maps, &set->room, room, sizeof(*set->maps), 0);
}

int address_space_new(struct map_files *files, struct address_space **ret)
{
	struct address_space *s = calloc(1, sizeof(*s));
	struct map_set *set = calloc(1, sizeof(*set));
	if (!s || !set) {
		free(set);
		free(s);
		return -ENOMEM;
	}
	set->refs = 1;
	set->files = files;
	s->files = files;
	s->set = set;
	*ret = s;
	return 0;
}

int address_space_fork(const struct address_space *parent, struct address_space **ret)
{
	struct address_space *s = malloc(sizeof(*s));
	if (!s)
		return -ENOMEM;
	*s = *parent;
	s->set->refs++;
	*ret = s;
	return 0;
}

struct address_space *address_space_free(struct address_space *s)
{
	if (s)
		set_put(s->set);
	free(s);
	return NULL;
}

/* --- changing it */

#define DROP_PART 64 /* one part of the time from the oldest mapping to the newest */

/* The first mapping that ends above the address. */
static size_t first_above(const struct map_set *set, uint64_t addr)
{
	size_t lo = 0, hi = set->count;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (set->maps[mid].end > addr)
			hi = mid;
		else
			lo = mid + 1;
	}
	return lo;
}

static struct mapping *insert_mapping(struct map_set *set, size_t at, struct mapping m)
{
	memmove(set->maps + at + 1, set->maps + at, (set->count - at) * sizeof(m));
	set->maps[at] = m;
	set->count++;
	count_mappings(set->files, 1);
	return set->maps + at;
}

static void remove_range(struct map_set *set, size_t from, size_t to)
{
	for (size_t i = from; i < to; i++)
		file_put(set->maps[i].file);
	memmove(set->maps + from, set->maps + to, (set->count - to) * sizeof(*set->maps));
	set->count -= to - from;
	count_mappings(set->files, -(ssize_t)(to - from));
}

static void trim_front(struct mapping *m, uint64_t start)
{
	m->pgoff += start - m->start;
	m->start = start;
}

/* Makes [start, end) empty; returns the index where it lies. Needs room for one more: a hole makes two of one. */
static size_t clear_range(struct map_set *set, uint64_t start, uint64_t end)
{
	size_t i = first_above(set, start), j;
	if (i < set->count && set->maps[i].start < start) {
		struct mapping *m = &set->maps[i];
		if (m->end > end) {
			struct mapping *tail = insert_mapping(set, i + 1, *m);
			tail->file->refs++;
			trim_front(tail, end);
			m = &set->maps[i];
		}
		m->end = start;
		i++;
	}
	for (j = i; j < set->count && set->maps[j].end <= end; j++)
		;
	remove_range(set, i, j);
	if (i < set->count && set->maps[i].start < end)
		trim_front(&set->maps[i], end);
	return i;
}

/* True: most likely made at run time, and gone again; programs and libraries stay. */
static bool is_memory(const struct mapping *m)
{
	return m->file->key.path[0] != '/' || m->file->key.path[1] == '/';
}

/* Drops the oldest mappings, and those hardly younger: to look for each of them alone would cost more than all else. */
static void drop_oldest(struct address_space *s)
{
	struct map_set *set = s->set;
	uint64_t oldest = UINT64_MAX, newest = 0;
	size_t kept = 0, memory = 0;
	for (size_t i = 0; i < set->count; i++)
		memory += is_memory(&set->maps[i]);
	const bool files = memory < set->count / 2; /* those go as well */
	for (size_t i = 0; i < set->count; i++) {
		const uint64_t born = set->maps[i].born;
		if (!files && !is_memory(&set->maps[i]))
			continue;
		oldest = born < oldest ? born : oldest;
		newest = born > newest ? born : newest;
	}
	const uint64_t until = oldest + (newest - oldest) / DROP_PART;
	for (size_t i = 0; i < set->count; i++)
		if (set->maps[i].born > until || (!files && !is_memory(&set->maps[i])))
			set->maps[kept++] = set->maps[i];
		else
			file_put(set->maps[i].file);
	s->dropped += set->count - kept;
	count_mappings(s->files, -(ssize_t)(set->count - kept));
	set->count = kept;
	set_drop_cache(set);
	s->lossy = true;
}

static bool has_overlap(const struct map_set *set, uint64_t start, uint64_t end)
{
	size_t i = first_above(set, start);
	return i < set->count && set->maps[i].start < end;
}

/* mprotect reports a mapping again that is there already: then nothing changes, and the cache stays. */
static bool is_there(const struct address_space *s, const struct mapping *m)
{
	const struct mapping *old = address_space_find(s, m->start);
	return old && old->file == m->file && old->end >= m->end && old->pgoff + (m->start - old->start) == m->pgoff;
}

/* A change would take a copy of all shared mappings, and two more. */
static bool is_full(const struct address_space *s)
{
	const size_t more = (s->set->refs > 1 ? s->set->count : 0) + 2;
	return s->files->mappings + more > SPACES_MAPPINGS_MAX || all_mappings + more > ALL_MAPPINGS_MAX;
}

static int address_space_put_take(struct address_space *s, const struct mapping *m)
{
	if (is_full(s)) {
		s->dropped++;
		s->lossy = true;
		return 1;
	}
	int r = set_own(s, 2);
	if (r < 0)
		return r;
	if (has_overlap(s->set, m->start, m->end))
		set_drop_cache(s->set);
	insert_mapping(s->set, clear_range(s->set, m->start, m->end), *m);
	while (s->set->count > ADDRESS_SPACE_MAPPINGS_MAX)
		drop_oldest(s);
	return 0;
}

int address_space_map(
	struct address_space *s, uint64_t start, uint64_t len, uint64_t pgoff, const struct module_key *file)
{
	struct mapping m = {.start = start, .end = start + len, .pgoff = pgoff, .born = s->born++};
	if (!len || m.end < start || file->build_id_len > ELF_BUILD_ID_MAX)
		return -EINVAL;
	m.file = file_get(s->files, file);
	if (!m.file)
		return -ENOMEM;
	int r = is_there(s, &m) ? 1 : address_space_put_take(s, &m); /* 1: it is not kept */
	if (r)
		file_put(m.file);
	return r < 0 ? r : 0;
}

/* --- reading it */

const struct mapping *address_space_find(const struct address_space *s, uint64_t addr)
{
	size_t i = first_above(s->set, addr);
	return i < s->set->count && s->set->maps[i].start <= addr ? &s->set->maps[i] : NULL;
}

size_t address_space_count(const struct address_space *s)
{
	return s->set->count;
}

const struct mapping *address_space_at(const struct address_space *s, size_t i)
{
	return &s->set->maps[i];
}

uint64_t address_space_dropped(const struct address_space *s)
{
	return s->dropped;
}

void address_space_set_lossy(struct address_space *s)
{
	s->lossy = true;
}

bool address_space_lossy(const struct address_space *s)
{
	return s->lossy;
}

struct unwind_cache **address_space_cache(const struct address_space *s)
{
	return &s->set->cache;
}

static bool find_code(const void *space, uint64_t addr, struct unwind_code *ret)
{
	const struct mapping *m = address_space_find(space, addr);
	if (!m)
		return false;
	ret->start = m->start;
	ret->end = m->end;
	ret->module = mapping_module(m);
	/* by this address: a segment may begin in the middle of the mapping's first page */
	ret->bias = addr - module_vaddr(ret->module, addr - m->start + m->pgoff);
	ret->rows = module_rows(ret->module);
	ret->elf = ret->rows ? module_elf(ret->module) : NULL;
	return true;
}

static bool is_lossy(const void *space)
{
	return address_space_lossy(space);
}

static struct unwind_cache **unwinder_cache(const void *space)
{
	return address_space_cache(space);
}

static const char *symbol_name(const struct module *m, uint64_t vaddr)
{
	return module_symbol(m, vaddr, NULL);
}

struct unwind_map address_space_unwind_map(const struct address_space *s)
{
	static const struct unwind_map_ops ops = {.find = find_code,
		.lossy = is_lossy,
		.cache = unwinder_cache,
		.enter = module_enter,
		.leave = module_leave,
		.symbol = symbol_name,
		.begins = module_begins,
		.is_libc = module_is_libc};
	return (struct unwind_map){s, &ops};
}

/* --- in a journal */

/* Writes the number of an item: the one that it had before, or, for a new one, the next number. */
static bool is_new(struct journal *j, struct pair_table *known, const void *p)
{
	size_t had = known->count;
	int64_t id = pair_table_add(known, (uintptr_t)p, 0);
	journal_number(j, id < 0 ? had : (uint64_t)id); /* out of memory it is written again, under a number too high */
	return id < 0 || known->count > had;
}

static void save_set(const struct map_set *set, struct spaces_saved *known, struct journal *j)
{
	uint64_t at = 0;
	journal_number(j, set->count);
	for (size_t i = 0; i < set->count; i++) {
		const struct mapping *m = &set->maps[i];
		journal_number(j, m->start - at);
		journal_number(j, m->end - m->start);
		journal_number(j, m->pgoff);
		journal_number(j, m->born);
		if (is_new(j, &known->files, m->file))
			module_key_save(&m->file->key, j);
		at = m->end;
	}
}

void address_space_save(const struct address_space *s, struct spaces_saved *known, struct journal *j)
{
	journal_number(j, s->born);
	journal_number(j, s->dropped);
	journal_number(j, s->lossy);
	if (is_new(j, &known->sets, s->set))
		save_set(s->set, known, j);
}

void spaces_saved_done(struct spaces_saved *known)
{
	pair_table_done(&known->sets);
	pair_table_done(&known->files);
}

static int append_pointer(void ***list, size_t *n, size_t *room, void *p)
{
	if (array_reserve(list, room, *n + 1, sizeof(**list), 16) < 0)
		return -ENOMEM;
	(*list)[(*n)++] = p;
	return 0;
}

static int restore_file(struct map_files *files, struct spaces_restored *known, struct journal_reader *s)
{
	struct module_key key;
	module_key_load(s, &key);
	if (s->bad)
		return -EBADMSG;
	struct mapped_file *f = file_get(files, &key);
	int r = f ? append_pointer((void ***)&known->files, &known->n_files, &known->files_room, f) : -ENOMEM;
	if (r < 0 && f)
		file_put(f);
	return r;
}

static int restore_mapping(struct map_files *files, struct spaces_restored *known, struct journal_reader *s,
	uint64_t *at, struct mapping *ret)
{
	uint64_t gap = saved_number(s), len = saved_number(s);
	struct mapping m = {.start = *at + gap, .end = *at + gap + len};
	m.pgoff = saved_number(s);
	m.born = saved_number(s);
	uint64_t file = saved_below(s, known->n_files + 1);
	if (s->bad || m.start < *at || m.end <= m.start)
		return -EBADMSG;
	int r = file < known->n_files ? 0 : restore_file(files, known, s);
	if (r < 0)
		return r;
	m.file = known->files[file];
	m.file->refs++;
	*ret = m;
	*at = m.end;
	return 0;
}

static int restore_set(struct map_files *files, struct spaces_restored *known, struct journal_reader *s)
{
	const struct map_set none = {.files = files};
	uint64_t at = 0;
	size_t n = saved_count(s, 5);
	if (s->bad || n > SAVED_MAPPINGS_MAX)
		return -EBADMSG;
	struct map_set *set = set_copy(&none, n ? n : 1);
	int r = set ? append_pointer((void ***)&known->sets, &known->n_sets, &known->sets_room, set) : -ENOMEM;
	if (r < 0) {
		set_put(set);
		return r;
	}
	for (; r == 0 && set->count < n; set->count += r == 0, count_mappings(files, r == 0))
		r = restore_mapping(files, known, s, &at, &set->maps[set->count]);
	return r;
}

int address_space_restore(
	struct map_files *files, struct spaces_restored *known, struct journal_reader *from, struct address_space **ret)
{
	struct address_space *s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->files = files;
	s->born = saved_number(from);
	s->dropped = saved_number(from);
	s->lossy = saved_below(from, 2);
	uint64_t set = saved_below(from, known->n_sets + 1);
	int r = from->bad ? -EBADMSG : set < known->n_sets ? 0 : restore_set(files, known, from);
	if (r < 0) {
		free(s);
		return r;
	}
	s->set = known->sets[set];
	s->set->refs++;
	*ret = s;
	return 0;
}

void spaces_restored_done(struct spaces_restored *known)
{
	for (size_t i = 0; i < known->n_sets; i++)
		set_put(known->sets[i]);
	for (size_t i = 0; i < known->n_files; i++)
		file_put(known->files[i]);
	free(known->sets);
	free(known->files);
	*known = (struct spaces_restored){0};
}

/* A program shows where its jitdump is by mapping its first page executable (jitdump-specification.txt). */
const char *address_space_find_jitdump(const struct address_space *s, uint32_t pid)
{
	char wanted[32];
	snprintf(wanted, sizeof(wanted), "jit-%u.dump", pid);
	for (size_t i = 0; i < address_space_count(s); i++) {
		const char *path = mapping_key(address_space_at(s, i))->path, *slash = strrchr(path, '/');
		if (slash && !strcmp(slash + 1, wanted))
			return path;
	}
	return NULL;
}
