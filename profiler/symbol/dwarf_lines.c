/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/symbol/dwarf_lines.h"

#include "oci/base/array.h"
#include "profiler/symbol/debug_sections.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEST_MAX 64 /* namespaces and classes around a function */

/* [low, high) is code of the DIE at `die`. */
struct range {
	uint64_t low, high;
	Dwarf_Off die;
};

struct ranges {
	struct range *list;
	size_t n, room;
};

/* Where the functions of a unit lie. */
struct unit {
	Dwarf_Off die;
	struct ranges functions;
	bool deep; /* also those inside of other functions: lambdas, methods of local classes */
	const char *directory;
};

/* A file and its handles in libelf and libdw. */
struct source {
	struct elf_memory file;
	void *decompressed; /* the image in `file`, where it had to be decompressed; else NULL */
	Elf *elf;
	Dwarf *dwarf;
};

struct dwarf_lines {
	struct source debug, alt;
	size_t memory, baseline; /* bytes: the limit; those taken when it was opened */
	struct ranges units;	 /* of all of them, as soon as they are needed */
	bool has_units;
	struct unit unit;	   /* the one asked last: addresses come sorted */
	struct ranges unit_ranges; /* of the unit that .debug_aranges named last */
	Dwarf_Off unit_ranges_of;
	char paths[DWARF_LINES_DEPTH_MAX][PATH_MAX]; /* of the last answer, where the file has them relative */
	size_t n_paths;
};

/* --- ranges -------------------------------------------------------------------------------------------- */

static int add_range(struct ranges *r, uint64_t low, uint64_t high, Dwarf_Off die)
{
	if (low >= high)
		return 0;
	if (array_reserve(&r->list, &r->room, r->n + 1, sizeof(*r->list), 64) < 0)
		return -ENOMEM;
	r->list[r->n++] = (struct range){low, high, die};
	return 0;
}

static int add_ranges_of(struct ranges *r, Dwarf_Die *die)
{
	Dwarf_Addr base, low, high;
	ptrdiff_t at = 0;
	int failed = 0;
	/* 0 begins a function that the linker threw away */
	while (!failed && (at = dwarf_ranges(die, at, &base, &low, &high)) > 0)
		failed = low ? add_range(r, low, high, dwarf_dieoffset(die)) : 0;
	return failed;
}

static int by_low(const void *a, const void *b)
{
	const struct range *x = a, *y = b;
	return x->low < y->low ? -1 : x->low > y->low;
}

static void sort_ranges(struct ranges *r)
{
	if (r->n)
		qsort(r->list, r->n, sizeof(r->list[0]), by_low);
}

/*
 * Returns the range around the address that begins last. Ranges that lie in each other are rare: a few are looked at.
 */
static const struct range *find_range(const struct ranges *r, uint64_t vaddr)
{
	size_t low = 0, high = r->n;
	while (low < high) {
		size_t mid = low + (high - low) / 2;
		if (r->list[mid].low <= vaddr)
			low = mid + 1;
		else
			high = mid;
	}
	for (size_t i = low, tries = 0; i > 0 && tries < 16; tries++)
		if (vaddr < r->list[--i].high)
			return &r->list[i];
	return NULL;
}

static void ranges_done(struct ranges *r)
{
	free(r->list);
	*r = (struct ranges){0};
}

/* --- opening ------------------------------------------------------------------------------------------- */

static size_t memory_taken(void)
{
	struct mallinfo2 m = mallinfo2();
	return m.uordblks + m.hblkhd;
}

static void take_file(struct source *s, const struct elf_memory *file)
{
	size_t size;
	s->decompressed = debug_sections_decompress(file, &size);
	s->file = s->decompressed ? (struct elf_memory){s->decompressed, size} : *file;
}

static void close_source(struct source *s)
{
	dwarf_end(s->dwarf);
	elf_end(s->elf);
	s->dwarf = NULL;
	s->elf = NULL;
}

static int open_source(struct source *s, struct err *e)
{
	s->elf = elf_memory((char *)s->file.data, s->file.size);
	if (!s->elf)
		return err_say(e, -EBADMSG, "no ELF file: %s", elf_errmsg(-1));
	s->dwarf = dwarf_begin_elf(s->elf, DWARF_C_READ, NULL);
	return s->dwarf ? 0 : err_say(e, -EBADMSG, "no debug information: %s", dwarf_errmsg(-1));
}

static void close_dwarf(struct dwarf_lines *l)
{
	ranges_done(&l->unit.functions);
	l->unit.die = 0;
	close_source(&l->debug);
	close_source(&l->alt);
}

/* Opens both handles anew: sections that libelf decompressed belong to the ELF handle. */
static int open_dwarf(struct dwarf_lines *l, struct err *e)
{
	int r = open_source(&l->debug, e);
	if (r == 0 && l->alt.file.data && open_source(&l->alt, e) == 0)
		dwarf_setalt(l->debug.dwarf, l->alt.dwarf);
	return r;
}

static bool is_unit_of_code(Dwarf_Die *die)
{
	return dwarf_tag(die) == DW_TAG_compile_unit || dwarf_tag(die) == DW_TAG_skeleton_unit;
}

static int read_units(struct dwarf_lines *l)
{
	Dwarf_CU *unit = NULL;
	Dwarf_Die die;
	int r = 0;
	l->has_units = true;
	while (r == 0 && dwarf_get_units(l->debug.dwarf, unit, &unit, NULL, NULL, &die, NULL) == 0)
		if (is_unit_of_code(&die))
			r = add_ranges_of(&l->units, &die);
	sort_ranges(&l->units);
	return r;
}

int dwarf_lines_open(const struct elf_memory *debug, const struct elf_memory *alt, size_t memory,
	struct dwarf_lines **ret, struct err *e)
{
	elf_version(EV_CURRENT);
	struct dwarf_lines *l = calloc(1, sizeof(*l));
	if (!l)
		return err_set(e, -ENOMEM, "cannot read debug information");
	take_file(&l->debug, debug);
	take_file(&l->alt, alt);
	l->memory = memory;
	int r = open_dwarf(l, e);
	if (r < 0) {
		dwarf_lines_close(l);
		return r;
	}
	l->baseline = memory_taken();
	*ret = l;
	return 0;
}

struct dwarf_lines *dwarf_lines_close(struct dwarf_lines *l)
{
	if (l) {
		close_dwarf(l);
		ranges_done(&l->units);
		ranges_done(&l->unit_ranges);
		free(l->debug.decompressed);
		free(l->alt.decompressed);
		free(l);
	}
	return NULL;
}

/* Closes and opens it beyond the limit: libdw keeps all that it ever read. */
static int forget_when_large(struct dwarf_lines *l)
{
	struct err e = {0};
	if (memory_taken() < l->baseline + l->memory)
		return 0;
	close_dwarf(l);
	int r = open_dwarf(l, &e);
	l->baseline = memory_taken();
	return r;
}

/* --- the unit of an address ---------------------------------------------------------------------------- */

static bool has_address(struct dwarf_lines *l, Dwarf_Die *unit, uint64_t vaddr)
{
	if (l->unit_ranges_of != dwarf_dieoffset(unit)) {
		ranges_done(&l->unit_ranges);
		l->unit_ranges_of = dwarf_dieoffset(unit);
		if (add_ranges_of(&l->unit_ranges, unit) < 0)
			ranges_done(&l->unit_ranges);
		sort_ranges(&l->unit_ranges);
	}
	return find_range(&l->unit_ranges, vaddr) != NULL;
}

/*
 * Searches .debug_aranges. Compilers may leave them out, and they may name units for code that the linker dropped, so
 * the ranges in the unit itself decide.
 */
static bool find_by_aranges(struct dwarf_lines *l, uint64_t vaddr, Dwarf_Die *ret)
{
	Dwarf_Aranges *list;
	size_t n;
	Dwarf_Off offset;
	if (dwarf_getaranges(l->debug.dwarf, &list, &n) != 0)
		return false;
	Dwarf_Arange *a = dwarf_getarange_addr(list, vaddr);
	return a && dwarf_getarangeinfo(a, NULL, NULL, &offset) == 0 && dwarf_offdie(l->debug.dwarf, offset, ret) &&
	       is_unit_of_code(ret) && has_address(l, ret, vaddr);
}

/* Returns 1, 0 (none) or -ENOMEM. */
static int find_unit(struct dwarf_lines *l, uint64_t vaddr, Dwarf_Die *ret)
{
	const struct range *r;
	if (find_by_aranges(l, vaddr, ret))
		return 1;
	if (!l->has_units && read_units(l) < 0)
		return -ENOMEM;
	r = find_range(&l->units, vaddr);
	return r && dwarf_offdie(l->debug.dwarf, r->die, ret);
}

/* --- functions of a unit ------------------------------------------------------------------------------- */

static bool holds_functions(int tag, bool deep)
{
	switch (tag) {
	case DW_TAG_subprogram:
	case DW_TAG_lexical_block:
		return deep;
	case DW_TAG_namespace:
	case DW_TAG_module:
	case DW_TAG_class_type:
	case DW_TAG_structure_type:
	case DW_TAG_union_type:
		return true;
	default:
		return false;
	}
}

/* Depth first, without recursion, as the file sets the depth. */
static int read_functions(struct unit *u, Dwarf_Die *top)
{
	Dwarf_Die at[NEST_MAX];
	int depth = 0, r = 0;
	ranges_done(&u->functions);
	if (dwarf_child(top, &at[0]) != 0)
		return 0;
	while (depth >= 0 && r == 0) {
		Dwarf_Die *die = &at[depth];
		int tag = dwarf_tag(die);
		if (tag == DW_TAG_subprogram)
			r = add_ranges_of(&u->functions, die);
		if (holds_functions(tag, u->deep) && depth + 1 < NEST_MAX && dwarf_child(die, die + 1) == 0) {
			depth++;
			continue;
		}
		while (depth >= 0 && dwarf_siblingof(&at[depth], &at[depth]) != 0)
			depth--;
	}
	sort_ranges(&u->functions);
	return r;
}

static bool enter_unit(struct dwarf_lines *l, Dwarf_Die *die)
{
	Dwarf_Attribute a;
	if (l->unit.die == dwarf_dieoffset(die))
		return true;
	l->unit.deep = false;
	l->unit.directory = dwarf_formstring(dwarf_attr(die, DW_AT_comp_dir, &a));
	bool read = read_functions(&l->unit, die) == 0;
	l->unit.die = read ? dwarf_dieoffset(die) : 0;
	return read;
}

/* Most functions lie at the top: everything in a unit is read only when one does not. */
static const struct range *find_function(struct dwarf_lines *l, Dwarf_Die *unit, uint64_t vaddr)
{
	const struct range *f = find_range(&l->unit.functions, vaddr);
	if (f || l->unit.deep)
		return f;
	l->unit.deep = true;
	return read_functions(&l->unit, unit) == 0 ? find_range(&l->unit.functions, vaddr) : NULL;
}

/* --- one address --------------------------------------------------------------------------------------- */

static const char *function_name(Dwarf_Die *die)
{
	Dwarf_Attribute a;
	const char *name = NULL;
	if (dwarf_attr_integrate(die, DW_AT_linkage_name, &a) || dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &a))
		name = dwarf_formstring(&a);
	if (!name && dwarf_attr_integrate(die, DW_AT_name, &a))
		name = dwarf_formstring(&a);
	return name;
}

static uint32_t number_of(Dwarf_Die *die, unsigned name, bool integrate)
{
	Dwarf_Attribute a;
	Dwarf_Word n = 0;
	if (!(integrate ? dwarf_attr_integrate(die, name, &a) : dwarf_attr(die, name, &a)) ||
		dwarf_formudata(&a, &n) != 0 || n > INT32_MAX)
		return 0;
	return (uint32_t)n;
}

/* Files are named from the directory of the compilation. */
static const char *make_path_absolute(struct dwarf_lines *l, const char *file)
{
	const char *directory = l->unit.directory;
	if (file && !strcmp(file, "???")) /* libdw's name for file 0 before DWARF 5: there is none */
		return NULL;
	if (!file || file[0] == '/' || !directory || l->n_paths == DWARF_LINES_DEPTH_MAX)
		return file;
	char *path = l->paths[l->n_paths];
	if (snprintf(path, PATH_MAX, "%s/%s", directory, file) >= PATH_MAX)
		return file;
	l->n_paths++;
	return path;
}

/* Line 0: code of the compiler's own, in that file. */
static struct dwarf_line line_of_code(struct dwarf_lines *l, Dwarf_Die *unit, uint64_t vaddr)
{
	struct dwarf_line s = {0};
	Dwarf_Line *line = dwarf_getsrc_die(unit, vaddr);
	int n = 0;
	if (line && dwarf_lineno(line, &n) == 0 && n >= 0) {
		s.line = (uint32_t)n;
		s.file = make_path_absolute(l, dwarf_linesrc(line, NULL, NULL));
	}
	return s;
}

static struct dwarf_line line_of_call(struct dwarf_lines *l, Dwarf_Die *unit, Dwarf_Die *call)
{
	struct dwarf_line s = {.line = number_of(call, DW_AT_call_line, false)};
	Dwarf_Files *files;
	size_t n, file = number_of(call, DW_AT_call_file, false);
	if (dwarf_hasattr(call, DW_AT_call_file) && dwarf_getsrcfiles(unit, &files, &n) == 0 && file < n)
		s.file = make_path_absolute(l, dwarf_filesrc(files, file, NULL, NULL));
	return s;
}

/* The child of a function or a block that has the address in it. */
static bool inner_scope(Dwarf_Die *die, uint64_t vaddr, Dwarf_Die *ret)
{
	int more = dwarf_child(die, ret);
	for (; more == 0; more = dwarf_siblingof(ret, ret)) {
		int tag = dwarf_tag(ret);
		bool scope = tag == DW_TAG_lexical_block || tag == DW_TAG_inlined_subroutine ||
			     tag == DW_TAG_try_block || tag == DW_TAG_catch_block;
		if (scope && dwarf_haspc(ret, vaddr) > 0)
			return true;
	}
	return false;
}

/* The function and the calls inlined around the address, outermost first. */
static size_t read_scopes(Dwarf_Die *function, uint64_t vaddr, Dwarf_Die *ret, size_t max)
{
	size_t n = 0;
	Dwarf_Die at = *function, inner;
	ret[n++] = at;
	for (int depth = 0; depth < 4 * DWARF_LINES_DEPTH_MAX && n < max && inner_scope(&at, vaddr, &inner); depth++) {
		at = inner;
		if (dwarf_tag(&at) == DW_TAG_inlined_subroutine)
			ret[n++] = at;
	}
	return n;
}

ssize_t dwarf_lines_find(struct dwarf_lines *l, uint64_t vaddr, struct dwarf_line *ret, size_t max)
{
	Dwarf_Die unit, function, scopes[DWARF_LINES_DEPTH_MAX];
	const struct range *f;
	if (!max)
		return 0;
	if (!l->debug.dwarf || forget_when_large(l) < 0)
		return -ENOMEM;
	int found = find_unit(l, vaddr, &unit);
	if (found <= 0)
		return found;
	if (!enter_unit(l, &unit))
		return -ENOMEM;
	l->n_paths = 0;
	struct dwarf_line here = line_of_code(l, &unit, vaddr);
	f = find_function(l, &unit, vaddr);
	if (!f || !dwarf_offdie(l->debug.dwarf, f->die, &function)) {
		ret[0] = here;
		return here.file != NULL; /* assembly has lines, but no functions */
	}
	size_t n = read_scopes(&function, vaddr, scopes, max < DWARF_LINES_DEPTH_MAX ? max : DWARF_LINES_DEPTH_MAX);
	for (size_t i = 0; i < n; i++) {
		Dwarf_Die *scope = &scopes[n - 1 - i];
		ret[i] = here;
		ret[i].function = function_name(scope);
		ret[i].start_line = number_of(scope, DW_AT_decl_line, true);
		if (i + 1 < n)
			here = line_of_call(l, &unit, scope);
	}
	return (ssize_t)n;
}
