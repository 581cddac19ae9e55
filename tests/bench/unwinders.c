/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unwinders FILE... - the same samples (tests/bench/corpus.h) through several unwinders, in one process: ours,
 * libunwind without a cache (its default for a remote address space) and with its global one, and libdw with a handle
 * that is kept. Prints a table per file: speed of a first pass over samples that nobody has touched lately, and how far
 * they agree. Our last resort is off: where it would be asked, ours stops.
 *
 * unwinders --without DIR FILE... - the same samples twice through ours: once as files are, and once with those below
 * DIR in their place, which lack their unwind tables. Prints how many stacks are the same, and in how many a frame is
 * another.
 *
 * unwinders --callers FILE... - the samples of tests/bench/record_calls.c through ours, held against the callers that
 * they really have.
 */
#include "oci/base/fd.h"
#include "profiler/process/address_space.h"
#include "profiler/unwind/cfi_parse.h"
#include "profiler/unwind/eh_frame_hdr.h"
#include "profiler/unwind/unwind.h"
#include "profiler/unwind/unwind_table.h"
#include "tests/bench/corpus.h"
#include "tests/unit/support/here.h"

#include <elfutils/libdwfl.h>
#include <errno.h>
#include <fcntl.h>
#include <libunwind.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

extern int UNW_OBJ(dwarf_search_unwind_table)(
	unw_addr_space_t as, unw_word_t ip, unw_dyn_info_t *di, unw_proc_info_t *pi, int need_unwind_info, void *arg);

#define SETS_MAX 65536
#define SAMPLES_MAX 20000

struct sample {
	uint32_t set, size;
	struct unwind_regs regs;
	const uint8_t *stack;
	const uint8_t *callers; /* u64 each; NULL: they are not known */
	uint32_t n_callers;
};

struct stack {
	unsigned n;
	bool complete;
	enum unwind_stop stop; /* ours */
	uint64_t ip[UNWIND_FRAMES_MAX];
};

static struct address_space *sets[SETS_MAX];
static struct sample samples[SAMPLES_MAX];
static size_t n_samples;
static struct modules *modules;
static struct map_files *files;

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "unwinders: %s: %s\n", what, strerror(errno));
	exit(1);
}

static const char *aside; /* NULL: files are taken where they are */

static int open_here(void *arg, const char *path, struct file *ret)
{
	char other[4096];
	int fd = -1;
	if (aside && snprintf(other, sizeof(other), "%s%s", aside, path) < (int)sizeof(other))
		fd = fd_open(AT_FDCWD, other, O_RDONLY, 0);
	return file_take(fd >= 0 ? fd : fd_open(AT_FDCWD, path, O_RDONLY, 0), ret);
}

static struct module *resolve(void *arg, const struct module_key *key)
{
	struct module *m = NULL;
	modules_get(modules, key, open_here, NULL, &m);
	return m;
}

/* --- reading a corpus */

static const uint8_t *at, *end;

static const void *take(size_t n)
{
	if ((size_t)(end - at) < n)
		die("a corpus that is cut off");
	at += n;
	return at - n;
}

static uint32_t take_u32(void)
{
	uint32_t v;
	memcpy(&v, take(4), 4);
	return v;
}

static void take_maps(void)
{
	uint32_t id = take_u32(), n = take_u32();
	if (id >= SETS_MAX || address_space_new(files, &sets[id]) < 0)
		die("too many sets");
	while (n--) {
		uint64_t range[3];
		char path[4096] = "";
		memcpy(range, take(sizeof(range)), sizeof(range));
		uint32_t len = take_u32();
		memcpy(path, take(len), len < sizeof(path) ? len : sizeof(path) - 1);
		struct module_key key = {.path = path};
		address_space_map(sets[id], range[0], range[1] - range[0], range[2], &key);
	}
}

static void take_sample(void)
{
	struct sample s = {.set = take_u32()};
	memcpy(s.regs.r, take(sizeof(s.regs.r)), sizeof(s.regs.r));
	s.size = take_u32();
	s.stack = take(s.size);
	if (n_samples < SAMPLES_MAX)
		samples[n_samples++] = s;
}

static void take_callers(void)
{
	const uint32_t n = take_u32();
	const uint8_t *callers = take(n * sizeof(uint64_t));
	if (n_samples) {
		samples[n_samples - 1].callers = callers;
		samples[n_samples - 1].n_callers = n;
	}
}

static void load(const char *path)
{
	struct stat st;
	int fd = open(path, O_RDONLY);
	if (fd < 0 || fstat(fd, &st) < 0)
		die(path);
	at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
	if (at == MAP_FAILED)
		die(path);
	close(fd);
	end = at + st.st_size;
	if (memcmp(take(8), CORPUS_MAGIC, 8) != 0)
		die("no corpus");
	n_samples = 0;
	while (at < end)
		switch (take_u32()) {
		case CORPUS_MAPS:
			take_maps();
			break;
		case CORPUS_SAMPLE:
			take_sample();
			break;
		case CORPUS_CALLERS:
			take_callers();
			break;
		default:
			die("no corpus");
		}
}

/* --- ours */

static struct unwind *ours;

static void unwind_ours(const struct sample *s, struct stack *ret)
{
	static struct unwind_frame frames[UNWIND_FRAMES_MAX];
	enum unwind_stop stop;
	ret->n = (unsigned)unwind_user(ours, address_space_unwind_map(sets[s->set]), &s->regs, s->stack, s->size,
		frames, UNWIND_FRAMES_MAX, &stop);
	for (unsigned i = 0; i < ret->n; i++)
		ret->ip[i] = frames[i].ip;
	ret->complete = stop == UNWIND_END;
	ret->stop = stop;
}

/* --- libunwind */

struct remote {
	const struct sample *s;
	const struct elf *elf;
	uint64_t bias;
	bool searching;
};

/* libunwind reads aligned words, and the ends of a section need not be: what is of the section is laid over `ret`. */
static bool read_section(const struct elf_section *x, uint64_t vaddr, unw_word_t *ret)
{
	bool any = false;
	for (unsigned i = 0; x->data && i < sizeof(*ret); i++)
		if (vaddr + i - x->vaddr < x->size) {
			((uint8_t *)ret)[i] = x->data[vaddr + i - x->vaddr];
			any = true;
		}
	return any;
}

static int access_mem(unw_addr_space_t as, unw_word_t addr, unw_word_t *val, int write, void *arg)
{
	const struct remote *r = arg;
	uint64_t off = addr - r->s->regs.r[UNWIND_SP];
	if (off < r->s->size && r->s->size - off >= 8) {
		memcpy(val, r->s->stack + off, 8);
		return 0;
	}
	*val = 0;
	bool frame = r->elf && read_section(&r->elf->eh_frame, addr - r->bias, val);
	bool hdr = r->elf && read_section(&r->elf->eh_frame_hdr, addr - r->bias, val);
	/* it follows the pointer to the personality routine, which is for exceptions */
	return frame || hdr || r->searching ? 0 : -UNW_EINVAL;
}

static int access_reg(unw_addr_space_t as, unw_regnum_t reg, unw_word_t *val, int write, void *arg)
{
	const struct remote *r = arg;
	if (write || reg < 0 || reg >= DWARF_REGS)
		return -UNW_EBADREG;
	*val = r->s->regs.r[unwind_reg_of[reg]];
	return 0;
}

/*
 * libunwind finds descriptions by .eh_frame_hdr alone, which gcc does not ask for in static programs. So that it can be
 * compared there as well, it is made: where nothing else is, TABLE_AT bytes behind .eh_frame.
 */
#define TABLE_AT (1u << 28)

static int by_start(const void *a, const void *b)
{
	const int32_t *x = a, *y = b;
	return (*x > *y) - (*x < *y);
}

static void make_hdr(struct elf *f)
{
	struct cfi_section s = {.bytes = &f->eh_frame};
	struct elf_section *hdr = &f->eh_frame_hdr;
	struct cfi_entry e;
	uint32_t entry, n = 0;
	hdr->vaddr = f->eh_frame.vaddr + TABLE_AT;
	hdr->data = calloc(1, 12 + f->eh_frame.size);
	int32_t *table = (int32_t *)(void *)(hdr->data + 12);
	for (uint64_t off = 0; cfi_entry_next(&s, &off, &entry);)
		if (cfi_entry_read(&s, entry, &e)) {
			table[2 * n] = (int32_t)(e.start - hdr->vaddr);
			table[2 * n++ + 1] = (int32_t)(f->eh_frame.vaddr + entry - hdr->vaddr);
		}
	qsort(table, n, 8, by_start);
	memcpy(hdr->data, (uint8_t[]){1, 0x1b, 0x03, 0x3b}, 4);
	memcpy(hdr->data + 4, (int32_t[]){-(int32_t)(TABLE_AT + 4), (int32_t)n}, 8);
	hdr->size = 12 + 8 * (uint64_t)n;
}

static bool find_code(struct remote *r, uint64_t ip)
{
	const struct mapping *m = address_space_find(sets[r->s->set], ip);
	struct module *module = m ? mapping_module(m) : NULL;
	r->elf = module_elf(module);
	if (r->elf && r->elf->eh_frame.data && !r->elf->eh_frame_hdr.data)
		make_hdr((struct elf *)r->elf);
	if (r->elf)
		r->bias = ip - module_vaddr(module, ip - m->start + m->pgoff);
	return r->elf;
}

static int find_proc_info(unw_addr_space_t as, unw_word_t ip, unw_proc_info_t *pi, int need, void *arg)
{
	struct remote *r = arg;
	uint64_t entry;
	if (!find_code(r, ip) || eh_frame_hdr_find(r->elf, ip - r->bias, &entry) < 0)
		return -UNW_ENOINFO;
	unw_dyn_info_t di = {.format = UNW_INFO_FORMAT_REMOTE_TABLE,
		.end_ip = ~(unw_word_t)0,
		.u.rti = {.segbase = r->bias + r->elf->eh_frame_hdr.vaddr,
			.table_data = r->bias + entry,
			.table_len = 1}};
	r->searching = true;
	int found = UNW_OBJ(dwarf_search_unwind_table)(as, ip, &di, pi, need, arg);
	r->searching = false;
	return found;
}

static void put_info(unw_addr_space_t as, unw_proc_info_t *pi, void *arg) {}
static int no_list(unw_addr_space_t as, unw_word_t *addr, void *arg)
{
	return -UNW_ENOINFO;
}
static int no_fpreg(unw_addr_space_t as, unw_regnum_t reg, unw_fpreg_t *val, int write, void *arg)
{
	return -UNW_EBADREG;
}
static int no_resume(unw_addr_space_t as, unw_cursor_t *c, void *arg)
{
	return -UNW_EINVAL;
}
static int no_name(unw_addr_space_t as, unw_word_t a, char *b, size_t n, unw_word_t *o, void *arg)
{
	return -UNW_EINVAL;
}

static unw_addr_space_t spaces[SETS_MAX];

static void unwind_libunwind(const struct sample *s, struct stack *ret, unw_caching_policy_t policy)
{
	static unw_accessors_t accessors = {.find_proc_info = find_proc_info,
		.put_unwind_info = put_info,
		.get_dyn_info_list_addr = no_list,
		.access_mem = access_mem,
		.access_reg = access_reg,
		.access_fpreg = no_fpreg,
		.resume = no_resume,
		.get_proc_name = no_name};
	struct remote r = {.s = s};
	unw_cursor_t c;
	unw_word_t ip;
	if (!spaces[s->set]) {
		spaces[s->set] = unw_create_addr_space(&accessors, 0);
		unw_set_caching_policy(spaces[s->set], policy);
	}
	find_code(&r, s->regs.r[UNWIND_IP]);
	ret->n = 0;
	ret->complete = false;
	if (unw_init_remote(&c, spaces[s->set], &r) < 0)
		return;
	for (;;) {
		unw_get_reg(&c, UNW_REG_IP, &ip);
		if (!ip) {
			ret->complete = true;
			return;
		}
		ret->ip[ret->n++] = ip;
		if (ret->n == UNWIND_FRAMES_MAX)
			return;
		int step = unw_step(&c);
		if (step <= 0) {
			ret->complete = step == 0;
			return;
		}
	}
}

static void unwind_default(const struct sample *s, struct stack *ret)
{
	unwind_libunwind(s, ret, UNW_CACHE_NONE);
}

static void unwind_cached(const struct sample *s, struct stack *ret)
{
	unwind_libunwind(s, ret, UNW_CACHE_GLOBAL);
}

static void forget_spaces(void)
{
	for (size_t i = 0; i < SETS_MAX; i++)
		if (spaces[i]) {
			unw_destroy_addr_space(spaces[i]);
			spaces[i] = NULL;
		}
}

/* --- libdw */

struct handle {
	uint64_t layout; /* of the files that it knows: a hash of their names and places */
	Dwfl *dwfl;
	struct handle *next;
};

static struct handle *handles[SETS_MAX], *all_handles;
static const struct sample *now;

static pid_t dw_next(Dwfl *d, void *arg, void **thread_arg)
{
	if (*thread_arg)
		return 0;
	*thread_arg = arg;
	return 1;
}

static bool dw_memory(Dwfl *d, Dwarf_Addr addr, Dwarf_Word *ret, void *arg)
{
	uint64_t off = addr - now->regs.r[UNWIND_SP];
	if (off >= now->size || now->size - off < 8)
		return false;
	memcpy(ret, now->stack + off, 8);
	return true;
}

static bool dw_regs(Dwfl_Thread *t, void *arg)
{
	Dwarf_Word regs[DWARF_REGS];
	for (unsigned i = 0; i < DWARF_REGS; i++)
		regs[i] = now->regs.r[unwind_reg_of[i]];
	return dwfl_thread_state_registers(t, 0, DWARF_REGS, regs);
}

static int no_debuginfo(
	Dwfl_Module *m, void **u, const char *n, Dwarf_Addr b, const char *f, const char *l, GElf_Word c, char **ret)
{
	return -1;
}

/* Where its file lies, if it is one that libdw can use. */
static bool dw_base(const struct mapping *m, uint64_t *base)
{
	const struct elf *elf = module_elf(mapping_module(m));
	uint64_t vaddr;
	if (!elf || mapping_key(m)->path[0] != '/' || !elf_vaddr_of_offset(elf, m->pgoff, &vaddr))
		return false;
	*base = m->start - vaddr;
	return true;
}

static Dwfl *dw_begin(const struct address_space *s)
{
	static const Dwfl_Callbacks callbacks = {.find_elf = dwfl_build_id_find_elf, .find_debuginfo = no_debuginfo};
	static const Dwfl_Thread_Callbacks threads = {
		.next_thread = dw_next, .memory_read = dw_memory, .set_initial_registers = dw_regs};
	Dwfl *d = dwfl_begin(&callbacks);
	Dwfl_Module *first = NULL;
	dwfl_report_begin(d);
	for (size_t i = 0; i < address_space_count(s); i++) {
		const struct mapping *m = address_space_at(s, i);
		const char *path = mapping_key(m)->path;
		uint64_t base;
		if (!dw_base(m, &base))
			continue;
		Dwfl_Module *x = dwfl_report_elf(d, path, path, -1, base, false);
		first = first ? first : x;
	}
	dwfl_report_end(d, NULL, NULL);
	Dwarf_Addr bias;
	Elf *elf = first ? dwfl_module_getelf(first, &bias) : NULL;
	dwfl_attach_state(d, elf, 1, &threads, NULL);
	return d;
}

/* FNV-1a */
static uint64_t hash_of(uint64_t hash, const void *data, size_t n)
{
	for (size_t i = 0; i < n; i++)
		hash = (hash ^ ((const uint8_t *)data)[i]) * 0x100000001b3;
	return hash;
}

static uint64_t dw_layout(const struct address_space *s)
{
	uint64_t hash = 0xcbf29ce484222325, base;
	for (size_t i = 0; i < address_space_count(s); i++) {
		const char *path = mapping_key(address_space_at(s, i))->path;
		if (!dw_base(address_space_at(s, i), &base))
			continue;
		hash = hash_of(hash, path, strlen(path));
		hash = hash_of(hash, &base, sizeof(base));
	}
	return hash;
}

/* Processes with the same files in the same places share one: of many short ones (Go's compiler) each takes 40 MB. */
static Dwfl *dw_handle(uint32_t set)
{
	if (handles[set])
		return handles[set]->dwfl;
	uint64_t layout = dw_layout(sets[set]);
	struct handle *h = all_handles;
	while (h && h->layout != layout)
		h = h->next;
	if (!h) {
		h = malloc(sizeof(*h));
		if (!h)
			die("memory");
		*h = (struct handle){.layout = layout, .dwfl = dw_begin(sets[set]), .next = all_handles};
		all_handles = h;
	}
	handles[set] = h;
	return h->dwfl;
}

/* They hold files open. */
static void forget_handles(void)
{
	while (all_handles) {
		struct handle *h = all_handles;
		all_handles = h->next;
		dwfl_end(h->dwfl);
		free(h);
	}
	memset(handles, 0, sizeof(handles));
}

static int dw_frame(Dwfl_Frame *f, void *arg)
{
	struct stack *ret = arg;
	Dwarf_Addr pc;
	bool activation;
	if (ret->n == UNWIND_FRAMES_MAX || !dwfl_frame_pc(f, &pc, &activation))
		return DWARF_CB_ABORT;
	ret->ip[ret->n++] = pc;
	return DWARF_CB_OK;
}

static void unwind_libdw(const struct sample *s, struct stack *ret)
{
	now = s;
	ret->n = 0;
	ret->complete = dwfl_getthread_frames(dw_handle(s->set), 1, dw_frame, ret) == 0;
}

/* --- the tables */

static double cpu_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* What was read is gone from the caches when the next one begins. */
static void make_cold(void)
{
	static volatile uint8_t other[64 << 20];
	for (size_t i = 0; i < sizeof(other); i += 64)
		other[i]++;
}

static const struct unwinder {
	const char *name;
	void (*fn)(const struct sample *s, struct stack *ret);
} unwinders[] = {
	{"pillion", unwind_ours},
	{"libdw, handle kept", unwind_libdw},
	{"libunwind, global cache", unwind_cached},
	{"libunwind, default", unwind_default},
};
#define UNWINDERS (sizeof(unwinders) / sizeof(unwinders[0]))

#define OURS 0
#define LIBDW 1
#define LIBUNWIND (UNWINDERS - 1)
#define RUNS 5

static struct stack *results[UNWINDERS];
static double ns[UNWINDERS][RUNS]; /* per frame, in order */

static bool same(const struct stack *a, const struct stack *b)
{
	return a->n == b->n && !memcmp(a->ip, b->ip, a->n * sizeof(a->ip[0]));
}

static int by_size(const void *a, const void *b)
{
	const double *x = a, *y = b;
	return (*x > *y) - (*x < *y);
}

static double pass(unsigned which)
{
	struct stack *ret = results[which];
	size_t frames = 0;
	memset(ret, 0xff, n_samples * sizeof(*ret)); /* its pages are there */
	make_cold();
	double begin = cpu_now();
	for (size_t i = 0; i < n_samples; i++)
		unwinders[which].fn(&samples[i], &ret[i]);
	double used = cpu_now() - begin;
	for (size_t i = 0; i < n_samples; i++)
		frames += ret[i].n;
	return used * 1e9 / (double)frames;
}

static void run(unsigned which)
{
	/* once so that modules, tables and handles are there: what is measured is unwinding */
	for (size_t i = 0; i < n_samples && i < 200; i++)
		unwinders[which].fn(&samples[i * (n_samples / 200 + 1) % n_samples], &results[which][0]);
	for (unsigned i = 0; i < RUNS; i++)
		ns[which][i] = pass(which);
	qsort(ns[which], RUNS, sizeof(double), by_size);
}

/* Of the samples that both go through to the end, those with the same frames, in percent. */
static double agreement(unsigned which, unsigned with)
{
	size_t finished = 0, alike = 0;
	for (size_t i = 0; i < n_samples; i++) {
		const struct stack *ref = &results[with][i];
		finished += ref->complete;
		alike += ref->complete && same(&results[which][i], ref);
	}
	return finished ? 100.0 * (double)alike / (double)finished : 0.0;
}

static void show(unsigned which)
{
	const double *t = ns[which], *ours_t = ns[OURS];
	size_t frames = 0, complete = 0;
	for (size_t i = 0; i < n_samples; i++) {
		frames += results[which][i].n;
		complete += results[which][i].complete;
	}
	printf("  %-24s %6.0f (%5.0f-%5.0f) %6.1f %6.1fx (%.1f-%.1f) %8.2f %10.2f", unwinders[which].name, t[RUNS / 2],
		t[0], t[RUNS - 1], 1e3 / t[RUNS / 2], t[RUNS / 2] / ours_t[RUNS / 2], t[0] / ours_t[RUNS - 1],
		t[RUNS - 1] / ours_t[0], (double)frames / (double)n_samples,
		100.0 * (double)complete / (double)n_samples);
	if (which != LIBUNWIND)
		printf(" %9.3f", agreement(which, LIBUNWIND));
	if (which == OURS)
		printf(" %9.3f", agreement(which, LIBDW));
	putchar('\n');
}

/* --- why two stacks differ, as far as registers, stacks and tables tell */

struct place_of {
	const struct mapping *map;
	const struct elf *elf;
	uint64_t vaddr;
};

static struct place_of place_of(const struct sample *s, uint64_t ip)
{
	struct place_of p = {.map = address_space_find(sets[s->set], ip)};
	struct module *m = p.map ? mapping_module(p.map) : NULL;
	p.elf = module_elf(m);
	p.vaddr = p.map ? module_vaddr(m, ip - p.map->start + p.map->pgoff) : 0;
	return p;
}

/* A program's first function: the kernel, or ld.so, jumps there, and it has nothing on its stack but argc. */
static bool is_entry(const struct place_of *p)
{
	return p->elf && p->vaddr - p->elf->entry < 64;
}

static bool has_description(const struct place_of *p)
{
	struct cfi_section s = {.bytes = p->elf ? &p->elf->eh_frame : NULL};
	struct cfi_entry e;
	uint64_t entry;
	if (!p->elf || eh_frame_hdr_find(p->elf, p->vaddr, &entry) < 0)
		return false;
	const struct elf_section *hdr = &p->elf->eh_frame_hdr;
	int32_t fde;
	memcpy(&fde, hdr->data + (entry - hdr->vaddr) + 4, sizeof(fde));
	uint64_t off = hdr->vaddr + (uint64_t)(int64_t)fde - p->elf->eh_frame.vaddr;
	return cfi_entry_read(&s, (uint32_t)off, &e) && p->vaddr >= e.start && p->vaddr < e.end;
}

static const char *class_of(const struct sample *s, const struct stack *x, const struct stack *y, unsigned f)
{
	/* the last frame that both have: who is its caller, is the question */
	const struct place_of p = f ? place_of(s, x->ip[f - 1] - (f > 1)) : (struct place_of){.map = NULL};
	if (f == x->n && x->complete && is_entry(&p) && !place_of(s, y->ip[f]).map)
		return "libunwind takes a word above _start, which has no description, for a caller";
	if (p.elf && !has_description(&p)) {
		if (f == x->n)
			return "no .eh_frame there: libunwind goes on by a guess, ours says that it cannot";
		if (f == y->n)
			return "no .eh_frame there (Go, V8, a PLT): libunwind calls it the end";
		return place_of(s, y->ip[f]).map
			       ? "no .eh_frame there (Go, V8, a PLT): libunwind leaves out a frame or more"
			       : "no .eh_frame there (Go, V8, a PLT): libunwind takes a word of the stack for a caller";
	}
	for (unsigned i = 0; i + 1 < f; i++) {
		const struct place_of before = place_of(s, x->ip[i] - (i > 0));
		if (before.elf && !has_description(&before))
			return "a frame before has no .eh_frame (.init, .fini): its caller's registers are guesses";
	}
	if (f == x->n)
		return x->complete ? "unexplained: ours is complete, libunwind goes on" : "unexplained: ours stops";
	return f == y->n ? "unexplained: libunwind stops" : "unexplained: another caller";
}

static struct {
	double m_frames, times_libdw, times_libunwind;
} bars[64];
static unsigned n_bars;

static double median(double *v, unsigned n)
{
	qsort(v, n, sizeof(*v), by_size);
	return n ? (v[n / 2] + v[(n - 1) / 2]) / 2 : 0;
}

/* Over the programs, each column by itself; where an unwinder finds no frame at all, there is nothing to compare. */
static void show_bars(void)
{
	double speed[64], libdw[64], libunwind[64];
	unsigned n_libdw = 0;
	for (unsigned i = 0; i < n_bars; i++) {
		speed[i] = bars[i].m_frames;
		libunwind[i] = bars[i].times_libunwind;
		if (bars[i].times_libdw < 1e6)
			libdw[n_libdw++] = bars[i].times_libdw;
	}
	double m = median(speed, n_bars), d = median(libdw, n_libdw), u = median(libunwind, n_bars);
	printf("median of %u programs: %.1f M frames/s (%.1f-%.1f)", n_bars, m, speed[0], speed[n_bars - 1]);
	printf(", %.1f times libdw (%.1f-%.1f), %.1f times libunwind's default (%.1f-%.1f)\n", d, libdw[0],
		libdw[n_libdw - 1], u, libunwind[0], libunwind[n_bars - 1]);
}

static void show_differences(unsigned a, unsigned b)
{
	static struct {
		const char *class;
		size_t n;
		char where[512];
	} classes[16];
	size_t n = 0, finished = 0, alike = 0, explained = 0;
	for (size_t i = 0; i < n_samples; i++) {
		const struct stack *x = &results[a][i], *y = &results[b][i];
		finished += y->complete;
		alike += y->complete && same(x, y);
		if (!y->complete || same(x, y))
			continue;
		unsigned f = 0;
		while (f < x->n && f < y->n && x->ip[f] == y->ip[f])
			f++;
		const char *class = class_of(&samples[i], x, y, f);
		size_t c = 0;
		while (c < n && classes[c].class != class)
			c++;
		if (c == n) {
			struct place_of p = place_of(&samples[i], f ? x->ip[f - 1] - (f > 1) : x->ip[0]);
			classes[n].class = class;
			classes[n].n = 0;
			snprintf(classes[n++].where, sizeof(classes[0].where), "%s+0x%llx",
				p.map ? mapping_key(p.map)->path : "?", (unsigned long long)p.vaddr);
		}
		classes[c].n++;
	}
	for (size_t c = 0; c < n; c++)
		explained += strncmp(classes[c].class, "unexplained", 11) ? classes[c].n : 0;
	printf("  libunwind finishes %zu: %zu the same, %zu differ for a known cause, %zu unexplained\n", finished,
		alike, explained, finished - alike - explained);
	for (size_t c = 0; c < n; c++)
		printf("  %zu differ: %s (the first behind %s)\n", classes[c].n, classes[c].class, classes[c].where);
}

/* Where ours end without being complete. */
static void show_stops(void)
{
	size_t stops[UNWIND_STOPS] = {0};
	for (size_t i = 0; i < n_samples; i++)
		stops[results[OURS][i].stop]++;
	for (unsigned i = UNWIND_END + 1; i < UNWIND_STOPS; i++)
		if (stops[i])
			printf("  %zu end in %s\n", stops[i], unwind_stop_name(i));
}

/* How many steps would be given to libunwind: a second unwinder, as it is at run time. */
static void show_last_resorts(void)
{
	struct unwind *without = ours;
	static struct stack ignored;
	if (unwind_new(&ours) < 0)
		die("memory");
	for (size_t i = 0; i < n_samples; i++)
		unwind_ours(&samples[i], &ignored);
	printf("  at run time the last resort does %llu steps\n", (unsigned long long)unwind_last_resorts(ours));
	unwind_free(ours);
	ours = without;
}

static void compare(const char *name)
{
	printf("%s: %zu samples\n  %-24s %6s %13s %6s %7s %11s %8s %10s %9s %9s\n", name, n_samples, "", "ns/fr",
		"(min-max)", "M fr/s", "ours=1", "(min-max)", "frames", "complete %", "=libunw %", "=libdw %");
	for (unsigned u = 0; u < UNWINDERS; u++) {
		run(u);
		forget_spaces();
	}
	for (unsigned u = 0; u < UNWINDERS; u++)
		show(u);
	bars[n_bars].m_frames = 1e3 / ns[OURS][RUNS / 2];
	bars[n_bars].times_libdw = ns[LIBDW][RUNS / 2] / ns[OURS][RUNS / 2];
	bars[n_bars++].times_libunwind = ns[LIBUNWIND][RUNS / 2] / ns[OURS][RUNS / 2];
	show_differences(OURS, LIBUNWIND);
	show_stops();
	show_last_resorts();
	fflush(stdout);
	forget_handles();
}

/* --- tables and none */

/* Before main: what the kernel enters is called by nothing that returns, so without tables the stack ends there. */
#define START_FRAMES 3

static void show_other(const struct sample *s, const struct stack *a, const struct stack *b)
{
	unsigned i = 0;
	while (i < a->n && i < b->n && a->ip[i] == b->ip[i])
		i++;
	const struct place_of p = place_of(s, b->ip[i - !!i]);
	printf("    %s behind %s+%llx\n", i < b->n ? "another frame" : "no frame",
		p.map ? module_name(mapping_module(p.map)) : "nowhere", (unsigned long long)p.vaddr);
}

static void compare_without(const char *file, const char *dir)
{
	size_t whole = 0, equal = 0, other = 0, stops[UNWIND_STOPS] = {0};
	for (unsigned pass = 0; pass < 2; pass++) {
		aside = pass ? dir : NULL;
		if (modules_new((size_t)4 << 30, &modules) < 0 || map_files_new(resolve, NULL, &files) < 0)
			die("memory");
		load(file);
		for (size_t i = 0; i < n_samples; i++)
			unwind_ours(&samples[i], &results[pass][i]);
	}
	for (size_t i = 0; i < n_samples; i++) {
		const struct stack *a = &results[0][i], *b = &results[1][i];
		const unsigned n = a->n < b->n ? a->n : b->n;
		const bool differs = memcmp(a->ip, b->ip, n * sizeof(a->ip[0])) != 0 || b->n > a->n;
		if (!a->complete)
			continue;
		whole++;
		const bool alike = b->complete && !differs && a->n - b->n <= START_FRAMES;
		equal += alike;
		other += differs;
		stops[b->stop] += !alike;
		if (!alike)
			show_other(&samples[i], a, b);
	}
	printf("%s: %zu whole stacks, %zu (%.2f %%) the same without tables, %zu with another frame", file, whole,
		equal, whole ? 100.0 * (double)equal / (double)whole : 0.0, other);
	for (unsigned i = 0; i < UNWIND_STOPS; i++)
		if (stops[i])
			printf(", %zu end in %s", stops[i], i ? unwind_stop_name(i) : "no cut");
	printf("; %llu read code\n", (unsigned long long)unwind_code_stacks(ours));
}

/* --- the callers that are known */

static void compare_callers(const char *file)
{
	size_t equal = 0, other = 0, by_code = 0, code_equal = 0, stops[UNWIND_STOPS] = {0};
	struct stack *got = &results[0][0];
	if (modules_new((size_t)4 << 30, &modules) < 0 || map_files_new(resolve, NULL, &files) < 0)
		die("memory");
	load(file);
	for (size_t i = 0; i < n_samples; i++) {
		const struct sample *s = &samples[i];
		const uint64_t before = unwind_code_stacks(ours);
		struct stack known = {.n = s->n_callers + 1, .ip = {s->regs.r[UNWIND_IP]}};
		if (known.n > UNWIND_FRAMES_MAX)
			known.n = UNWIND_FRAMES_MAX;
		if (s->callers)
			memcpy(known.ip + 1, s->callers, (known.n - 1) * sizeof(uint64_t));
		unwind_ours(s, got);
		const unsigned n = got->n < known.n ? got->n : known.n;
		const bool differs =
			memcmp(got->ip, known.ip, n * sizeof(got->ip[0])) != 0 || (got->complete && n < known.n);
		const bool alike = !differs && n == known.n, code = unwind_code_stacks(ours) != before;
		equal += alike;
		other += differs;
		by_code += code;
		code_equal += code && alike;
		stops[got->stop] += !alike && !differs;
		if (!alike)
			show_other(s, &known, got);
	}
	printf("%s: %zu samples, %zu (%.2f %%) have their callers, %zu have another; %zu by code, %zu (%.2f %%) of "
	       "them right",
		file, n_samples, equal, n_samples ? 100.0 * (double)equal / (double)n_samples : 0.0, other, by_code,
		code_equal, by_code ? 100.0 * (double)code_equal / (double)by_code : 0.0);
	for (unsigned i = 0; i < UNWIND_STOPS; i++)
		if (stops[i])
			printf(", %zu end in %s", stops[i], unwind_stop_name(i));
	putchar('\n');
}

int main(int argc, char **argv)
{
	if (argc > 2 && !strcmp(argv[1], "--callers")) {
		results[0] = calloc(1, sizeof(struct stack));
		if (unwind_new(&ours) < 0 || !results[0])
			die("memory");
		for (int i = 2; i < argc; i++)
			compare_callers(argv[i]);
		return 0;
	}
	if (argc > 3 && !strcmp(argv[1], "--without")) {
		if (unwind_new(&ours) < 0)
			die("memory");
		for (size_t i = 0; i < 2; i++)
			results[i] = calloc(SAMPLES_MAX, sizeof(struct stack));
		for (int i = 3; i < argc; i++)
			compare_without(argv[i], argv[2]);
		return 0;
	}
	if (modules_new((size_t)4 << 30, &modules) < 0 || unwind_new(&ours) < 0)
		die("memory");
	unwind_no_last_resort(ours);
	for (size_t i = 0; i < UNWINDERS; i++)
		results[i] = calloc(SAMPLES_MAX, sizeof(struct stack));
	for (int i = 1; i < argc && i <= 64; i++) {
		if (map_files_new(resolve, NULL, &files) < 0)
			die("memory");
		load(argv[i]);
		compare(strrchr(argv[i], '/') ? strrchr(argv[i], '/') + 1 : argv[i]);
	}
	if (n_bars)
		show_bars();
	return 0;
}
