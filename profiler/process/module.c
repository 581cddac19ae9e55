/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/process/module.h"

#include "oci/base/journal.h"
#include "profiler/process/quarantine.h"
#include "profiler/symbol/symtab.h"
#include "profiler/unwind/eh_frame_hdr.h"

#include <elf.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#define BUCKETS 4096
#define PATH_LENGTH_MAX 65536 /* as long as a record may be */
#define ROWS_ROOM_MIN (1u << 20)
#define NAMES_SHARE 8	       /* of the cap, for names of one module */
#define NAMES_ROOM (16u << 10) /* for one address, mostly enough */

struct module {
	struct modules *table;
	struct module *chain;	      /* same bucket */
	struct module *older, *newer; /* in the list of the unreferenced */
	size_t refs, bytes, wanted;   /* wanted: size of its content, when there was no room */
	uint32_t id, hash;
	enum module_state state;
	struct module_key key; /* the path is ours */
	char *reason;	       /* NULL: none */
	struct elf *elf;
	struct symtab *symbols;
	struct unwind_table *rows;
	struct symtab *debug_symbols; /* of a separate debug file */
	bool debug_symbols_read, is_libc;
	struct name_cache *names;
	bool symbols_elsewhere; /* too many to keep: the symbolizer looks them up */
	struct file_id file;	/* the one that it was loaded from */
	char hex[2 * ELF_BUILD_ID_MAX + 1];
};

struct modules {
	size_t cap;
	uint32_t last_id;
	struct module *oldest, *newest; /* unreferenced, by time of release */
	struct modules_stats stats;
	struct crash_marker *at; /* NULL: nothing is noted */
	const struct quarantine *quarantine;
	uint32_t noted;		/* id of the module there */
	struct elf_memory vdso; /* of another kernel; NULL: ours is the targets' */
	struct module *buckets[BUCKETS];
};

bool module_key_equal(const struct module_key *a, const struct module_key *b)
{
	if (a->build_id_len || b->build_id_len)
		return a->build_id_len == b->build_id_len && !memcmp(a->build_id, b->build_id, a->build_id_len);
	return a->maj == b->maj && a->min == b->min && a->ino == b->ino && a->generation == b->generation &&
	       !strcmp(a->path, b->path);
}

/* FNV-1a */
static uint32_t hash_bytes(uint32_t h, const void *data, size_t len)
{
	for (const uint8_t *p = data, *end = p + len; p < end; p++)
		h = (h ^ *p) * 16777619u;
	return h;
}

uint32_t module_key_hash(const struct module_key *key)
{
	uint32_t h = 2166136261u;
	if (key->build_id_len)
		return hash_bytes(h, key->build_id, key->build_id_len);
	h = hash_bytes(h, &key->ino, sizeof(key->ino));
	return hash_bytes(h, key->path, strlen(key->path));
}

void module_key_save(const struct module_key *key, struct journal *j)
{
	journal_text(j, key->path);
	journal_number(j, key->maj);
	journal_number(j, key->min);
	journal_number(j, key->ino);
	journal_number(j, key->generation);
	journal_bytes(j, key->build_id, key->build_id_len);
}

void module_key_load(struct journal_reader *from, struct module_key *ret)
{
	size_t n;
	*ret = (struct module_key){.path = saved_text(from, PATH_LENGTH_MAX)};
	ret->maj = (uint32_t)saved_below(from, 1ull << 32);
	ret->min = (uint32_t)saved_below(from, 1ull << 32);
	ret->ino = saved_number(from);
	ret->generation = saved_number(from);
	const uint8_t *id = saved_bytes(from, &n);
	from->bad |= n > sizeof(ret->build_id);
	if (from->bad)
		return;
	memcpy(ret->build_id, id, n);
	ret->build_id_len = (uint8_t)n;
}

int modules_new(size_t cap_bytes, struct modules **ret)
{
	struct modules *t = calloc(1, sizeof(*t));
	if (!t)
		return -ENOMEM;
	t->cap = cap_bytes;
	*ret = t;
	return 0;
}

void modules_guard(struct modules *t, struct crash_marker *at, const struct quarantine *q)
{
	t->at = at;
	t->quarantine = q;
}

void module_enter(const struct module *m)
{
	struct modules *t = m->table;
	if (!t->at)
		return;
	if (t->noted != m->id) /* an unwinder comes by here again and again */
		quarantine_note(t->at, &m->key);
	t->noted = m->id;
	t->at->reading = 1;
	atomic_signal_fence(memory_order_seq_cst); /* before the first byte */
}

void module_leave(const struct module *m)
{
	atomic_signal_fence(memory_order_seq_cst);
	if (m->table->at)
		m->table->at->reading = 0;
}

static void set_hex(struct module *m, const uint8_t *id, size_t len)
{
	m->hex[0] = 0;
	for (size_t i = 0; i < len && i < ELF_BUILD_ID_MAX; i++)
		snprintf(m->hex + 2 * i, 3, "%02x", id[i]);
}

static struct module *module_new(struct modules *t, const struct module_key *key)
{
	struct module *m = calloc(1, sizeof(*m));
	char *path = strdup(key->path);
	if (!m || !path) {
		free(path);
		free(m);
		return NULL;
	}
	m->table = t;
	m->refs = 1;
	m->id = ++t->last_id;
	m->hash = module_key_hash(key);
	m->key = *key;
	m->key.path = path;
	m->bytes = sizeof(*m) + strlen(path) + 1;
	set_hex(m, key->build_id, key->build_id_len);
	m->chain = t->buckets[m->hash % BUCKETS];
	t->buckets[m->hash % BUCKETS] = m;
	t->stats.count++;
	t->stats.bytes += m->bytes;
	return m;
}

static void module_free(struct module *m)
{
	struct modules *t = m->table;
	struct module **p = &t->buckets[m->hash % BUCKETS];
	while (*p != m)
		p = &(*p)->chain;
	*p = m->chain;
	t->stats.count--;
	t->stats.loaded -= m->state == MODULE_LOADED;
	t->stats.bytes -= m->bytes;
	unwind_table_free(m->rows);
	elf_free(m->elf);
	symtab_free(m->symbols);
	symtab_free(m->debug_symbols);
	name_cache_free(m->names);
	free(m->reason);
	free((char *)m->key.path);
	free(m);
}

struct modules *modules_free(struct modules *t)
{
	for (size_t i = 0; t && i < BUCKETS; i++)
		while (t->buckets[i])
			module_free(t->buckets[i]);
	free(t);
	return NULL;
}

static void list_remove(struct module *m)
{
	struct modules *t = m->table;
	*(m->older ? &m->older->newer : &t->oldest) = m->newer;
	*(m->newer ? &m->newer->older : &t->newest) = m->older;
	m->older = m->newer = NULL;
}

static void list_append(struct module *m)
{
	struct modules *t = m->table;
	m->older = t->newest;
	*(t->newest ? &t->newest->newer : &t->oldest) = m;
	t->newest = m;
}

struct module *module_ref(struct module *m)
{
	if (m && m->refs++ == 0)
		list_remove(m);
	return m;
}

struct module *module_unref(struct module *m)
{
	if (m && --m->refs == 0)
		list_append(m);
	return NULL;
}

void modules_drop(struct modules *t, uint64_t generation)
{
	for (struct module *m = t->oldest, *next; m; m = next) {
		next = m->newer;
		if (m->key.build_id_len || m->key.generation != generation)
			continue;
		list_remove(m);
		module_free(m);
	}
}

/* Frees unreferenced modules until `need` more bytes stay below the limit. */
static bool make_room(struct modules *t, size_t need, size_t limit)
{
	if (need > limit)
		return false;
	while (t->stats.bytes > limit - need && t->oldest) {
		struct module *m = t->oldest;
		list_remove(m);
		module_free(m);
		t->stats.evictions++;
	}
	return t->stats.bytes <= limit - need;
}

/* --- reading a file */

static size_t content_limit(const struct modules *t)
{
	return t->cap - t->cap / 8;
}

static void set_failure(struct module *m, enum module_state state, const char *reason)
{
	m->state = state;
	free(m->reason);
	m->reason = strdup(reason);
}

static bool has_prefix(const char *s, const char *prefix)
{
	return !strncmp(s, prefix, strlen(prefix));
}

static bool is_vdso(const char *path)
{
	return !strcmp(path, "[vdso]");
}

/* Names that the kernel gives to memory that has no file we could open. */
static bool is_anonymous(const char *path)
{
	static const char *const prefixes[] = {"[", "//", "/memfd:", "/dev/zero", "/SYSV", "anon_inode:"};
	for (size_t i = 0; i < sizeof(prefixes) / sizeof(*prefixes); i++)
		if (has_prefix(path, prefixes[i]))
			return !is_vdso(path);
	return !*path;
}

bool module_has_file(const char *path)
{
	return !is_anonymous(path) && !is_vdso(path);
}

/* The parts that are read of a file. */
struct content {
	struct elf *elf;
	struct symtab *symbols;	   /* NULL: frames are module and offset */
	struct unwind_table *rows; /* NULL: frame pointers alone */
};

static size_t content_bytes(const struct content *c)
{
	return sizeof(*c->elf) + c->elf->eh_frame_hdr.size + c->elf->eh_frame.size +
	       (c->symbols ? symtab_memory(c->symbols) : 0) + unwind_table_bytes(c->rows);
}

static void content_done(struct content *c)
{
	unwind_table_free(c->rows);
	symtab_free(c->symbols);
	elf_free(c->elf);
}

/* Takes over the content, if it fits. */
static void accept_take(struct module *m, struct content *c)
{
	struct modules *t = m->table;
	size_t bytes = content_bytes(c);
	if (!make_room(t, bytes, content_limit(t))) {
		m->wanted = bytes;
		set_failure(m, MODULE_NO_ROOM, "over the memory allowed for modules");
	} else {
		m->state = MODULE_LOADED;
		free(m->reason);
		m->reason = NULL;
		m->elf = c->elf;
		m->symbols = c->symbols;
		m->rows = c->rows;
		m->bytes += bytes;
		t->stats.bytes += bytes;
		t->stats.loaded++;
		m->is_libc = c->symbols && symtab_defines(c->symbols, "__libc_start_main");
		set_hex(m, c->elf->build_id, c->elf->build_id_len);
		return;
	}
	content_done(c);
}

/* While rows are made: half of the room, for they must fit beside the rest. */
static size_t rows_room(const struct modules *t)
{
	size_t half = content_limit(t) / 2;
	return half > ROWS_ROOM_MIN ? half : ROWS_ROOM_MIN;
}

static void load_source(struct module *m, struct elf_source src)
{
	struct err e = {0};
	struct content c = {0};
	int r = elf_read(src, &c.elf, &e);
	if (r < 0) {
		bool malformed = r == -ENOEXEC || r == -EBADMSG || r == -EFBIG;
		set_failure(m, malformed ? MODULE_NOT_ELF : MODULE_UNREADABLE, e.text);
		return;
	}
	const struct module_key *k = &m->key;
	if (k->build_id_len &&
		(k->build_id_len != c.elf->build_id_len || memcmp(k->build_id, c.elf->build_id, k->build_id_len))) {
		set_failure(m, MODULE_OTHER_FILE, "the file has another build-id than what is mapped");
		content_done(&c);
		return;
	}
	r = symtab_read(src, content_limit(m->table), &c.symbols, NULL);
	m->symbols_elsewhere = r == -ENOSPC;
	if (r < 0)
		c.symbols = NULL;
	/* code that an emulator runs has other registers */
	if (c.elf->machine != ELF_ARCH_NATIVE || unwind_table_build(c.elf, rows_room(m->table), &c.rows) < 0)
		c.rows = NULL;
	if (c.rows)
		unwind_table_read_code(c.rows, c.elf, src, rows_room(m->table));
	elf_drop_gopclntab(c.elf);
	elf_drop_debug_frame(c.elf);
	if (c.rows && content_bytes(&c) > content_limit(m->table)) /* it fits without */
		unwind_table_drop_code(c.rows);
	accept_take(m, &c);
}

/* The image is the kernel's, so its headers are trusted: segments, and section headers behind them. */
static void load_vdso(struct module *m)
{
	if (m->table->vdso.data) {
		load_source(m, elf_source_memory(&m->table->vdso));
		return;
	}
	const Elf64_Ehdr *h = (const void *)(uintptr_t)getauxval(AT_SYSINFO_EHDR);
	if (!h) {
		set_failure(m, MODULE_UNREADABLE, "this kernel has no vdso");
		return;
	}
	const Elf64_Phdr *p = (const void *)((const char *)h + h->e_phoff);
	size_t size = h->e_shoff + (size_t)h->e_shnum * h->e_shentsize;
	for (int i = 0; i < h->e_phnum; i++)
		if (p[i].p_type == PT_LOAD && p[i].p_offset + p[i].p_filesz > size)
			size = p[i].p_offset + p[i].p_filesz;
	struct elf_memory image = {h, size};
	load_source(m, elf_source_memory(&image));
}

/* -ETIMEDOUT: its file system has not answered, whichever call it was. */
static void fail_open(struct module *m, int r)
{
	struct err e = {0};
	if (r == -EINVAL) {
		set_failure(m, MODULE_NOT_ELF, "not a regular file");
	} else if (r == -ETIMEDOUT) {
		set_failure(m, MODULE_UNREADABLE, "its file system does not answer");
	} else if (r == -EPIPE) {
		set_failure(m, MODULE_UNREADABLE, "there was no process to read it");
	} else {
		err_set(&e, r, "cannot open %s", m->key.path);
		set_failure(m, MODULE_UNREADABLE, e.text);
	}
}

static void load_file(struct module *m, target_file_open_fn *open, void *arg)
{
	struct file f;
	int r = open(arg, m->key.path, &f);
	if (r < 0) {
		fail_open(m, r);
		return;
	}
	m->file = f.id;
	module_enter(m);
	load_source(m, file_source(&f));
	module_leave(m);
	file_close(&f);
}

static void load_module(struct module *m, target_file_open_fn *open, void *arg)
{
	struct modules *t = m->table;
	if (is_anonymous(m->key.path)) {
		set_failure(m, MODULE_ANONYMOUS, "no file");
		return;
	}
	if (is_vdso(m->key.path))
		load_vdso(m);
	else if (t->at && quarantine_has(t->quarantine, &m->key, t->at->target))
		set_failure(m, MODULE_QUARANTINED, "reading it has ended the profiler again and again");
	else
		load_file(m, open, arg);
	(*(m->state == MODULE_LOADED ? &t->stats.loads : &t->stats.failures))++;
}

static bool worth_another_try(const struct module *m)
{
	switch (m->state) {
	case MODULE_UNREADABLE:
	case MODULE_NOT_ELF:
	case MODULE_OTHER_FILE:
		return true;
	case MODULE_NO_ROOM: /* a hostile target would like us to read a large file again for nothing */
		return make_room(m->table, m->wanted, content_limit(m->table));
	default:
		return false;
	}
}

static struct module *find_module(struct modules *t, const struct module_key *key)
{
	uint32_t hash = module_key_hash(key);
	struct module *m = t->buckets[hash % BUCKETS];
	while (m && !(m->hash == hash && module_key_equal(&m->key, key)))
		m = m->chain;
	return m;
}

int modules_get(
	struct modules *t, const struct module_key *key, target_file_open_fn *open, void *arg, struct module **ret)
{
	if (key->build_id_len > ELF_BUILD_ID_MAX)
		return -EINVAL;
	struct module *m = module_ref(find_module(t, key));
	if (m) {
		t->stats.hits++;
		if (worth_another_try(m))
			load_module(m, open, arg);
		*ret = m;
		return 0;
	}
	if (!make_room(t, sizeof(*m) + strlen(key->path) + 1, t->cap))
		return -ENOSPC;
	m = module_new(t, key);
	if (!m)
		return -ENOMEM;
	m->state = MODULE_UNREADABLE;
	load_module(m, open, arg);
	*ret = m;
	return 0;
}

void modules_use_vdso(struct modules *t, const struct elf_memory *image)
{
	t->vdso = *image;
}

void modules_stats(const struct modules *t, struct modules_stats *ret)
{
	*ret = t->stats;
}

/* --- facts of a module */

uint32_t module_id(const struct module *m)
{
	return m ? m->id : 0;
}

enum module_state module_state(const struct module *m)
{
	return m ? m->state : MODULE_ANONYMOUS;
}

const char *module_reason(const struct module *m)
{
	return m && m->reason ? m->reason : "";
}

const char *module_name(const struct module *m)
{
	return m ? m->key.path : "[unknown]";
}

const char *module_build_id_hex(const struct module *m)
{
	return m ? m->hex : "";
}

const struct unwind_table *module_rows(const struct module *m)
{
	return m && m->state == MODULE_LOADED ? m->rows : NULL;
}

const struct elf *module_elf(const struct module *m)
{
	return m ? m->elf : NULL;
}

uint64_t module_vaddr(const struct module *m, uint64_t file_offset)
{
	uint64_t vaddr;
	return m && m->elf && elf_vaddr_of_offset(m->elf, file_offset, &vaddr) ? vaddr : file_offset;
}

static int find_last_entry(const struct module *m, uint64_t vaddr, uint64_t *ret_start, uint64_t *ret_end)
{
	if (!m->elf)
		return -ENOENT;
	module_enter(m);
	int r = eh_frame_hdr_last(m->elf, vaddr, ret_start, ret_end);
	module_leave(m);
	return r;
}

/* One entry describes one function, so a label reaches to the end of its entry; without one, to the next. */
uint64_t module_label_floor(const struct module *m, uint64_t vaddr)
{
	const uint64_t near = symtab_label_floor(vaddr);
	uint64_t start, end;
	if (!m || find_last_entry(m, vaddr, &start, &end) < 0)
		return near;
	return vaddr < end ? start : end > near ? end : near;
}

bool module_is_libc(const struct module *m)
{
	return m && m->is_libc;
}

bool module_begins(const struct module *m, uint64_t vaddr)
{
	uint64_t start, end, offset;
	if (!m)
		return false;
	if (m->elf && eh_frame_hdr_last(m->elf, vaddr, &start, &end) == 0 && start == vaddr)
		return true;
	return m->symbols && symtab_find(m->symbols, vaddr, vaddr, &offset) && offset == 0;
}

const char *module_symbol(const struct module *m, uint64_t vaddr, uint64_t *ret_offset)
{
	uint64_t ignored;
	const char *name = NULL;
	if (!m || (!m->debug_symbols && !m->symbols))
		return NULL;
	const uint64_t label_floor = module_label_floor(m, vaddr);
	if (m->debug_symbols)
		name = symtab_find(m->debug_symbols, vaddr, label_floor, ret_offset ? ret_offset : &ignored);
	if (m->symbols && !name)
		name = symtab_find(m->symbols, vaddr, label_floor, ret_offset ? ret_offset : &ignored);
	return name;
}

/* --- the symbolizer's answers */

const struct module_key *module_key(const struct module *m)
{
	return &m->key;
}

bool module_names(const struct module *m, uint64_t vaddr, const struct symbol_line **ret, size_t *ret_count)
{
	return m && name_cache_get(m->names, vaddr, ret, ret_count);
}

bool module_symbols_elsewhere(const struct module *m)
{
	return m->symbols_elsewhere;
}

bool module_names_full(const struct module *m)
{
	return m->names && name_cache_memory(m->names) >= m->table->cap / NAMES_SHARE;
}

int module_names_put(struct module *m, uint64_t vaddr, const struct symbol_line *lines, size_t count)
{
	struct modules *t = m->table;
	size_t had = m->names ? name_cache_memory(m->names) : 0;
	if (module_names_full(m) || !make_room(t, NAMES_ROOM, content_limit(t)))
		return -ENOSPC;
	int r = m->names ? 0 : name_cache_new(&m->names);
	if (r == 0)
		r = name_cache_put(m->names, vaddr, lines, count);
	size_t more = m->names ? name_cache_memory(m->names) - had : 0; /* also after a failure half way */
	m->bytes += more;
	t->stats.bytes += more;
	return r;
}

void module_add_symbols(struct module *m, const struct file *debug)
{
	struct modules *t = m->table;
	size_t limit = content_limit(t);
	if (m->debug_symbols_read)
		return;
	m->debug_symbols_read = true;
	if (symtab_read(file_source(debug), limit / 2, &m->debug_symbols, NULL) < 0)
		return;
	size_t more = symtab_memory(m->debug_symbols);
	if (!make_room(t, more, limit)) {
		m->debug_symbols = symtab_free(m->debug_symbols);
		return;
	}
	m->bytes += more;
	t->stats.bytes += more;
}

bool module_is_file(const struct module *m, const struct file_id *id)
{
	return file_id_equal(&m->file, id);
}

const char *module_frame_name(const struct module *m, uint64_t vaddr, char *buf, size_t size)
{
	const char *symbol = module_symbol(m, vaddr, NULL), *name = module_name(m), *slash = strrchr(name, '/');
	if (symbol)
		snprintf(buf, size, "%s", symbol);
	else if (module_state(m) == MODULE_ANONYMOUS)
		snprintf(buf, size, "%s", name[0] == '[' ? name : "[anon]");
	else {
		/*
		 * Without a symbol a function begins where its unwind entry does, and its addresses count as one. An
		 * address that no entry covers stands for itself.
		 */
		uint64_t start, end;
		if (!m || find_last_entry(m, vaddr, &start, &end) < 0 || vaddr >= end)
			start = vaddr;
		snprintf(buf, size, "%s%s+0x%llx", module_state(m) == MODULE_UNREADABLE ? "[unreadable] " : "",
			slash ? slash + 1 : name, (unsigned long long)start);
	}
	return buf;
}
