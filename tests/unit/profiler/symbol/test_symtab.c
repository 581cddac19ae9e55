/* SPDX-License-Identifier: Apache-2.0 */
/* symbols: a hand-made table with every kind of rivalry, the same file spoiled, and real files against nm. */
#include "profiler/symbol/symtab.h"
#include "profiler/symbol/symtab_scan.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "tests/unit/support/pages.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#define LIBC "/lib/x86_64-linux-gnu/libc.so.6"
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* --- a hand-made file: .text at 0x1000..0x2000, .data at 0x3000..0x4000 */

enum { SH_NULL, SH_TEXT, SH_DATA, SH_SYMTAB, SH_STRTAB, SH_DYNSYM, SH_DYNSTR, N_SH };

struct image {
	Elf64_Ehdr eh;
	Elf64_Sym sym[64];
	Elf64_Sym dyn[4];
	char str[1024];
	char dynstr[64];
	Elf64_Shdr sh[N_SH];
};
#define AT(field) offsetof(struct image, field)

#define L STB_LOCAL
#define W STB_WEAK
#define G STB_GLOBAL
#define F STT_FUNC
#define N STT_NOTYPE

static const struct {
	const char *name;
	int bind, type, section;
	uint64_t value, size;
} symbols[] = {
	{"plain", G, F, SH_TEXT, 0x1000, 0x10},
	{"local", L, F, SH_TEXT, 0x1020, 0x10},
	{"weak", W, F, SH_TEXT, 0x1020, 0x10},
	{"global", G, F, SH_TEXT, 0x1020, 0x10},
	{"label", G, N, SH_TEXT, 0x1040, 0x10},
	{"local_function", L, F, SH_TEXT, 0x1040, 0x10},
	{"__alias", G, F, SH_TEXT, 0x1060, 0x10},
	{"an_alias_that_is_longer", G, F, SH_TEXT, 0x1060, 0x10},
	{"longer", G, F, SH_TEXT, 0x1080, 0x10},
	{"short", G, F, SH_TEXT, 0x1080, 0x10},
	{"bbbb", G, F, SH_TEXT, 0x10a0, 0x10},
	{"aaaa", G, F, SH_TEXT, 0x10a0, 0x10},
	{"resolver", G, STT_GNU_IFUNC, SH_TEXT, 0x10c0, 0x10},
	{"outer", G, F, SH_TEXT, 0x1100, 0x100},
	{"inner", L, F, SH_TEXT, 0x1140, 0x20},
	{"innermost", L, F, SH_TEXT, 0x1148, 0x8},
	{"label_inside", L, N, SH_TEXT, 0x1180, 0},
	{"open", G, F, SH_TEXT, 0x1300, 0},
	{"open_label", L, N, SH_TEXT, 0x1400, 0},
	{"after", G, F, SH_TEXT, 0x1500, 0x10},
	{"sized_alias", L, F, SH_TEXT, 0x1600, 0x20},
	{"open_alias", G, F, SH_TEXT, 0x1600, 0},
	{"label_in_alias", L, N, SH_TEXT, 0x1610, 0},
	{"last", G, F, SH_TEXT, 0x1f00, 0},
	{"$x", L, N, SH_TEXT, 0x1f80, 0},
	{"etext", G, N, SH_TEXT, 0x2000, 0},
	{"variable", G, STT_OBJECT, SH_DATA, 0x3000, 8},
	{"data_start", G, N, SH_DATA, 0x3010, 0},
	{"file.c", L, STT_FILE, SHN_ABS, 0, 0},
	{"absolute", G, F, SHN_ABS, 0x5000, 0x10},
	{"imported", G, F, SHN_UNDEF, 0x5100, 0x10},
	{"", G, F, SH_TEXT, 0x1700, 0x10},
	{"huge", G, F, SH_TEXT, 0x8000, UINT64_MAX},
	{"near_the_end", G, F, SH_TEXT, UINT64_MAX - 0xf, 0x100},
};

static void put(Elf64_Sym *s, char *strings, size_t *at, size_t i)
{
	*s = (Elf64_Sym){.st_name = (Elf64_Word)*at,
		.st_info = ELF64_ST_INFO(symbols[i].bind, symbols[i].type),
		.st_shndx = (uint16_t)symbols[i].section,
		.st_value = symbols[i].value,
		.st_size = symbols[i].size};
	memcpy(strings + *at, symbols[i].name, strlen(symbols[i].name) + 1);
	*at += strlen(symbols[i].name) + 1;
}

static void image_make(struct image *im)
{
	*im = (struct image){
		.eh = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
			.e_type = ET_DYN,
			.e_machine = EM_X86_64,
			.e_version = EV_CURRENT,
			.e_shoff = AT(sh),
			.e_shnum = N_SH,
			.e_shentsize = sizeof(Elf64_Shdr)},
		.sh =
			{
				[SH_TEXT] = {.sh_type = SHT_PROGBITS,
					.sh_flags = SHF_ALLOC | SHF_EXECINSTR,
					.sh_addr = 0x1000,
					.sh_size = 0x1000},
				[SH_DATA] = {.sh_type = SHT_PROGBITS,
					.sh_flags = SHF_ALLOC,
					.sh_addr = 0x3000,
					.sh_size = 0x1000},
				[SH_SYMTAB] = {.sh_type = SHT_SYMTAB,
					.sh_offset = AT(sym),
					.sh_link = SH_STRTAB,
					.sh_size = COUNT(symbols) * sizeof(Elf64_Sym),
					.sh_entsize = sizeof(Elf64_Sym)},
				[SH_STRTAB] = {.sh_type = SHT_STRTAB, .sh_offset = AT(str), .sh_size = sizeof(im->str)},
				[SH_DYNSYM] = {.sh_type = SHT_DYNSYM,
					.sh_offset = AT(dyn),
					.sh_link = SH_DYNSTR,
					.sh_size = sizeof(im->dyn),
					.sh_entsize = sizeof(Elf64_Sym)},
				[SH_DYNSTR] = {.sh_type = SHT_STRTAB,
					.sh_offset = AT(dynstr),
					.sh_size = sizeof(im->dynstr)},
			},
	};
	size_t at = 1, dyn_at = 1;
	/* from the last to the first, so that nothing depends on the order in the file */
	for (size_t i = 0; i < COUNT(symbols); i++)
		put(&im->sym[COUNT(symbols) - 1 - i], im->str, &at, i);
	put(&im->dyn[1], im->dynstr, &dyn_at, 0); /* "plain" again */
	im->dyn[2] = (Elf64_Sym){.st_name = (Elf64_Word)dyn_at,
		.st_info = ELF64_ST_INFO(G, F),
		.st_shndx = SH_TEXT,
		.st_value = 0x1800,
		.st_size = 0x10};
	memcpy(im->dynstr + dyn_at, "dynamic_only", 13);
}

static int read_image(const void *data, size_t size, struct symtab **ret, struct err *e)
{
	struct elf_memory m = {data, size};
	return symtab_read(elf_source_memory(&m), SIZE_MAX, ret, e);
}

static const struct {
	const char *name;
	uint64_t vaddr;
	const char *expect;
	uint64_t offset;
} lookups[] = {
	{"before all symbols", 0xfff, NULL, 0},
	{"first byte of a function", 0x1000, "plain", 0},
	{"last byte of a function", 0x100f, "plain", 0xf},
	{"a gap between functions", 0x1010, NULL, 0},
	{"global before weak before local", 0x1024, "global", 4},
	{"a local function before a global label", 0x1040, "local_function", 0},
	{"no leading underscores", 0x1060, "an_alias_that_is_longer", 0},
	{"the shorter name", 0x1080, "short", 0},
	{"else by name", 0x10a0, "aaaa", 0},
	{"an indirect function", 0x10c8, "resolver", 8},
	{"around a nested function: in front", 0x1120, "outer", 0x20},
	{"in a nested function", 0x1141, "inner", 1},
	{"in a function nested twice", 0x114f, "innermost", 7},
	{"behind the innermost", 0x1150, "inner", 0x10},
	{"around a nested function: behind", 0x1160, "outer", 0x60},
	{"a label inside a function does not end it", 0x1190, "outer", 0x90},
	{"behind the outer one", 0x1200, NULL, 0},
	{"size 0 reaches up to the next symbol", 0x13ff, "open", 0xff},
	{"a label outside functions", 0x1450, "open_label", 0x50},
	{"behind a function that follows a label", 0x1510, NULL, 0},
	{"an alias without size takes that of the other", 0x161f, "open_alias", 0x1f},
	{"and no more", 0x1620, NULL, 0},
	{"an empty name is no name", 0x1708, NULL, 0},
	{"only in .dynsym", 0x1808, "dynamic_only", 8},
	{"the last symbol reaches up to the end of its section", 0x1fff, "last", 0xff},
	{"etext covers nothing", 0x2000, NULL, 0},
	{"data", 0x3000, NULL, 0},
	{"an untyped data symbol", 0x3010, NULL, 0},
	{"an absolute symbol", 0x5000, NULL, 0},
	{"an imported function", 0x5100, NULL, 0},
	{"a size that wraps around is cut", 0x8000 + 0xfffffffeULL, "huge", 0xfffffffe},
	{"far behind it", 0x8000 + 0xffffffffULL, NULL, 0},
	{"a function at the end of the address space", UINT64_MAX, "near_the_end", 0xf},
	{"address 0", 0, NULL, 0},
};

START_TEST(which_symbol)
{
	int fds = fd_count();
	struct image im;
	image_make(&im);
	struct symtab *s = NULL;
	struct err e = {0};
	ck_assert_msg(read_image(&im, sizeof(im), &s, &e) == 0, "%s", e.text);
	uint64_t offset = 0;
	const char *name = symtab_find(s, lookups[_i].vaddr, 0, &offset);
	if (lookups[_i].expect) {
		ck_assert_msg(name && !strcmp(name, lookups[_i].expect), "%s: %s", lookups[_i].name, name);
		ck_assert_uint_eq(offset, lookups[_i].offset);
	} else {
		ck_assert_msg(!name, "%s: %s", lookups[_i].name, name);
	}
	ck_assert(!s->truncated);
	symtab_free(s);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

/* What is known of the code says how far a label reaches; functions with a size do not mind. */
static const struct {
	const char *name;
	uint64_t vaddr, label_floor;
	const char *expect;
} floors[] = {
	{"a label at its floor", 0x13ff, 0x1300, "open"},
	{"a label below its floor", 0x13ff, 0x1301, NULL},
	{"an untyped one", 0x1450, 0x1401, NULL},
	{"a function that begins below", 0x1190, 0x1190, "outer"},
	{"an alias with a size", 0x160f, 0x160f, "open_alias"},
};

START_TEST(how_far_a_label_reaches)
{
	struct image im;
	struct symtab *s = NULL;
	uint64_t offset;
	image_make(&im);
	ck_assert_int_eq(read_image(&im, sizeof(im), &s, NULL), 0);
	const char *name = symtab_find(s, floors[_i].vaddr, floors[_i].label_floor, &offset);
	const struct elf_memory image = {&im, sizeof(im)};
	const char *scanned = NULL, *expect = floors[_i].expect;
	ck_assert_int_eq(symtab_scan_symbols(&image, &floors[_i].vaddr, &floors[_i].label_floor, 1, &scanned, NULL), 0);
	ck_assert_msg(expect ? name && !strcmp(name, expect) : !name, "%s: %s", floors[_i].name, name);
	ck_assert_msg(expect ? scanned && !strcmp(scanned, expect) : !scanned, "%s: %s", floors[_i].name, scanned);
	ck_assert_uint_eq(symtab_label_floor(0x2000), 0x1001);
	ck_assert_uint_eq(symtab_label_floor(5), 0);
	symtab_free(s);
}
END_TEST

/* --- spoiled */

static void nothing(struct image *im) {}
static void name_out_of_range(struct image *im)
{
	im->sym[0].st_name = UINT32_MAX;
}
static void strtab_huge(struct image *im)
{
	im->sh[SH_STRTAB].sh_size = 1ULL << 50;
}
static void strtab_unterminated(struct image *im)
{
	im->sh[SH_STRTAB].sh_offset = sizeof(*im) - sizeof(im->sh) - 64;
	im->sh[SH_STRTAB].sh_size = sizeof(im->sh) + 64;
}
static void strtab_empty(struct image *im)
{
	im->sh[SH_STRTAB].sh_size = 0;
}
static void strtab_elsewhere(struct image *im)
{
	im->sh[SH_SYMTAB].sh_link = N_SH;
}
static void strtab_is_text(struct image *im)
{
	im->sh[SH_SYMTAB].sh_link = SH_TEXT;
}
static void symtab_huge(struct image *im)
{
	im->sh[SH_SYMTAB].sh_size = UINT64_MAX - 7;
}
static void symtab_wraps(struct image *im)
{
	im->sh[SH_SYMTAB].sh_offset = UINT64_MAX - 7;
}
static void symtab_entsize(struct image *im)
{
	im->sh[SH_SYMTAB].sh_entsize = 16;
}
static void symtab_over_itself(struct image *im)
{
	im->sh[SH_SYMTAB].sh_offset = im->sh[SH_STRTAB].sh_offset = 0;
	im->sh[SH_SYMTAB].sh_size = im->sh[SH_STRTAB].sh_size = sizeof(*im);
}
static void section_out_of_range(struct image *im)
{
	for (size_t i = 0; i < COUNT(im->sym); i++)
		im->sym[i].st_shndx = 0xfe00;
}
static void stripped(struct image *im)
{
	im->sh[SH_SYMTAB].sh_type = im->sh[SH_DYNSYM].sh_type = SHT_NOBITS;
}
static void no_sections(struct image *im)
{
	im->eh.e_shoff = 0;
}
static void sh_huge(struct image *im)
{
	im->eh.e_shnum = 65000;
}
static void is_32_bit(struct image *im)
{
	im->eh.e_ident[EI_CLASS] = ELFCLASS32;
}
static void is_big_endian(struct image *im)
{
	im->eh.e_ident[EI_DATA] = ELFDATA2MSB;
}

#define ALL 18
#define ANY SIZE_MAX /* whatever the noise happens to say */
static const struct {
	const char *name;
	void (*spoil)(struct image *im);
	int expect;
	size_t count;
} rows[] = {
	{"a sound file", nothing, 0, ALL},
	{"a name out of range", name_out_of_range, 0, ALL - 1},
	{"names of a petabyte", strtab_huge, -EBADMSG, 0},
	{"names without a NUL at the end", strtab_unterminated, 0, ANY},
	{"no names", strtab_empty, 0, 2},
	{"names in a section that is not there", strtab_elsewhere, -EBADMSG, 0},
	{"names in code", strtab_is_text, -EBADMSG, 0},
	{"more symbols than file", symtab_huge, -EBADMSG, 0},
	{"symbols that wrap around", symtab_wraps, -EBADMSG, 0},
	{"symbols of 16 bytes", symtab_entsize, -EBADMSG, 0},
	{"symbols and names laid over everything", symtab_over_itself, 0, ANY},
	{"symbols of sections that are not there", section_out_of_range, 0, 2},
	{"stripped", stripped, 0, 0},
	{"no section headers", no_sections, 0, 0},
	{"more section headers than file", sh_huge, -EBADMSG, 0},
	{"32-bit", is_32_bit, -ENOEXEC, 0},
	{"big-endian", is_big_endian, -ENOEXEC, 0},
};

START_TEST(one_field_spoiled)
{
	struct image im;
	image_make(&im);
	rows[_i].spoil(&im);
	struct symtab *s = NULL;
	struct err e = {0};
	int r = read_image(&im, sizeof(im), &s, &e);
	ck_assert_msg(r == rows[_i].expect, "%s: %d (%s)", rows[_i].name, r, e.text);
	ck_assert_msg((r < 0) == (e.text[0] && !s), "%s: '%s'", rows[_i].name, e.text);
	if (r == 0 && rows[_i].count != ANY)
		ck_assert_msg(s->count == rows[_i].count, "%s: %zu symbols", rows[_i].name, s->count);
	symtab_free(s);
}
END_TEST

START_TEST(truncated_everywhere)
{
	struct image im;
	image_make(&im);
	for (size_t size = 0; size < sizeof(im); size++) {
		struct symtab *s = NULL;
		int r = read_image(&im, size, &s, NULL);
		ck_assert_msg(r == (size < sizeof(Elf64_Ehdr) ? -ENOEXEC : -EBADMSG), "%zu bytes: %d", size, r);
	}
}
END_TEST

static void section_0_of_symbols(struct image *im)
{
	im->sh[SH_NULL] = im->sh[SH_SYMTAB];
	im->sh[SH_NULL].sh_size = 1 << 20;
}
static void no_dynamic_symbols(struct image *im)
{
	im->sh[SH_DYNSYM].sh_type = SHT_NOBITS;
}
/* Each size counts as 2^60 - 1 at most. Four tables three times, twice the names of two: 2^64 - 16; another table: 72.
 */
static void sum_wraps(struct image *im)
{
	for (size_t i = SH_TEXT; i < SH_DYNSTR; i++)
		im->sh[i] = (Elf64_Shdr){.sh_type = SHT_SYMTAB, .sh_size = i == SH_STRTAB ? 24 : UINT64_MAX - 7};
	im->sh[SH_TEXT].sh_link = im->sh[SH_DATA].sh_link = SH_DYNSTR;
	im->sh[SH_DYNSTR].sh_size = UINT64_MAX - 7;
}

/* The table and its names, as they are read, sorted and kept: the tables three times, the names twice. */
#define ROOM_DYNAMIC (3 * 4 * sizeof(Elf64_Sym) + 2 * 64)
#define ROOM_FULL (3 * COUNT(symbols) * sizeof(Elf64_Sym) + 2 * 1024)
static const struct {
	const char *name;
	void (*spoil)(struct image *im);
	size_t room;
	int expect;
} rooms[] = {
	{"as much as both tables need", nothing, ROOM_FULL + ROOM_DYNAMIC, 0},
	{"a byte less", nothing, ROOM_FULL + ROOM_DYNAMIC - 1, -ENOSPC},
	{"none", nothing, 0, -ENOSPC},
	{"one table alone", no_dynamic_symbols, ROOM_FULL, 0},
	{"a byte less for one table", no_dynamic_symbols, ROOM_FULL - 1, -ENOSPC},
	{"none, for a file without symbols", stripped, 0, 0},
	{"section 0 is none, whatever its header says", section_0_of_symbols, ROOM_FULL + ROOM_DYNAMIC, 0},
	{"names of a petabyte", strtab_huge, 1 << 30, -ENOSPC},
	{"symbols of any size", symtab_huge, 1 << 30, -ENOSPC},
	{"sizes whose sum wraps around", sum_wraps, 1 << 30, -ENOSPC},
	{"names in a section that is not there take nothing", strtab_elsewhere, ROOM_DYNAMIC, -EBADMSG},
};

/* A file that needs more is refused before it is read. */
START_TEST(reading_takes_no_more_than_the_room)
{
	struct image im;
	image_make(&im);
	rooms[_i].spoil(&im);
	struct elf_memory m = {&im, sizeof(im)};
	struct symtab *s = NULL;
	struct err e = {0};
	int r = symtab_read(elf_source_memory(&m), rooms[_i].room, &s, &e);
	ck_assert_msg(r == rooms[_i].expect, "%s: %d (%s)", rooms[_i].name, r, e.text);
	ck_assert_msg((r < 0) == (e.text[0] && !s), "%s: '%s'", rooms[_i].name, e.text);
	if (r == 0)
		ck_assert_uint_le(symtab_memory(s), rooms[_i].room + sizeof(*s));
	symtab_free(s);
}
END_TEST

/* The worst a small file can ask for: names that overlap, functions that all lie in each other. */
START_TEST(hostile_in_bounded_time)
{
	enum { MANY = 500000, LONG = 8 << 20 };
	size_t size = sizeof(struct image) + MANY * sizeof(Elf64_Sym) + LONG;
	char *data = calloc(1, size);
	struct image *im = (void *)data;
	image_make(im);
	Elf64_Sym *sym = (void *)(data + sizeof(*im));
	im->sh[SH_SYMTAB].sh_offset = sizeof(*im);
	im->sh[SH_SYMTAB].sh_size = MANY * sizeof(Elf64_Sym);
	im->sh[SH_STRTAB].sh_offset = sizeof(*im) + MANY * sizeof(Elf64_Sym);
	im->sh[SH_STRTAB].sh_size = LONG;
	memset(data + im->sh[SH_STRTAB].sh_offset, 'a', LONG);
	for (uint32_t i = 0; i < MANY; i++)
		sym[i] = (Elf64_Sym){
			.st_name = i,
			.st_info = ELF64_ST_INFO(G, F),
			.st_shndx = SH_TEXT,
			.st_value = i % 2 ? 0x1000 : 0x10000 + i,
			.st_size = i % 2 ? 1 : 2 * (MANY - i),
		};
	struct symtab *s = NULL;
	int64_t start = clock_cpu();
	ck_assert_int_eq(read_image(data, size, &s, NULL), 0);
	ck_assert(s->truncated); /* 4 KiB a name, above the cap for all of them */
	ck_assert_uint_le(symtab_memory(s), SYMTAB_STRINGS_MAX + MANY * 24ULL + 64);
	uint64_t offset;
	ck_assert_uint_eq(strlen(symtab_find(s, 0x10000, 0, &offset)), 4095);
	/* only the outermost of some ten thousand reaches this far: given up before */
	for (int i = 0; i < 100000; i++)
		ck_assert_ptr_null(symtab_find(s, 0x10000 + 2 * MANY - 1, 0, &offset));
	ck_assert_int_lt(clock_cpu() - start, 20 * NSEC_PER_SEC);
	symtab_free(s);
	free(data);
}
END_TEST

/* --- real files */

static char dir[] = "/tmp/test_symbols.XXXXXX";

static void shell(const char *command)
{
	char line[1024];
	snprintf(line, sizeof(line), "cd %s && %s", dir, command);
	ck_assert_msg(system(line) == 0, "%s", line);
}

static void build(void)
{
	static const char source[] =
		"#include <stdio.h>\n"
		"static int __attribute__((noinline)) hidden(int x) { return puts(x ? \"a\" : \"b\"); }\n"
		"int visible(int x) { return hidden(x) + getchar(); }\n"
		"int other_name(int x) __attribute__((alias(\"visible\")));\n"
		"__asm__(\".text\\nbare_label:\\n ret\\n\");\n"
		"int main(void) { return visible(1); }\n";
	ck_assert_ptr_nonnull(mkdtemp(dir));
	fd_auto at = fd_open_dir(AT_FDCWD, dir);
	fd_auto fd = fd_open(at, "a.c", O_WRONLY | O_CREAT, 0600);
	ck_assert_int_eq(fd_write_all(fd, source, strlen(source)), 0);
	shell("gcc -O1 -g -o plain a.c && gcc -O1 -o ibt -Wl,-z,lazy,-z,ibtplt -fcf-protection a.c && strip -o "
	      "ibt_dynamic ibt");
	shell("gcc -O1 -static -o static a.c && strip -o stripped static && strip -o dynamic plain");
	shell("objcopy --only-keep-debug plain debug");
	shell("for i in sysv gnu; do gcc -O1 -rdynamic -Wl,--hash-style=$i -o program_$i a.c && "
	      "gcc -O1 -shared -fPIC -Wl,--hash-style=$i -o library_$i a.c && strip program_$i library_$i; done");
	shell("gcc -O1 -no-pie -rdynamic -Wl,-z,noseparate-code -o one_segment a.c && strip one_segment");
	/* as Fedora's find-debuginfo does */
	shell("nm -D plain --format=posix --defined-only | awk '{print $1}' | sort >exported");
	shell("nm plain --format=posix --defined-only | awk '$2 ~ /[TtD]/ {print $1}' | sort | comm -13 exported - "
	      ">keep");
	shell("objcopy -S --remove-section .gdb_index --remove-section .comment --keep-symbols=keep debug mini");
	shell("xz -k mini && head -c 200 mini.xz >cut.xz && head -c 80000000 /dev/zero | xz -1 >bomb.xz");
	shell("xz <a.c >text.xz && for i in mini cut bomb text; do objcopy --add-section .gnu_debugdata=$i.xz dynamic "
	      "with_$i; done; objcopy --add-section .gnu_debugdata=mini dynamic with_unpacked");
}

static void clean(void)
{
	shell("rm -f a.c plain ibt ibt_dynamic static stripped dynamic debug exported keep mini *.xz with_* program_* "
	      "library_* one_segment");
	rmdir(dir);
}

struct target_table {
	uint64_t vaddr;
	char name[256];
};

/* Lines "ADDRESS NAME" of a command. */
static size_t list(const char *command, struct target_table *out, size_t max)
{
	FILE *p = popen(command, "r");
	ck_assert_ptr_nonnull(p);
	unsigned long long vaddr;
	size_t n = 0;
	while (n < max && fscanf(p, "%llx %255s\n", &vaddr, out[n].name) == 2)
		out[n++].vaddr = vaddr;
	pclose(p);
	return n;
}

static bool listed_as(const struct target_table *names, size_t n, uint64_t vaddr, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (names[i].vaddr == vaddr && !strcmp(names[i].name, name))
			return true;
	return false;
}

static struct symtab *read_file(const char *path)
{
	struct symtab *s = NULL;
	struct err e = {0};
	fd_auto fd = fd_open(AT_FDCWD, path, O_RDONLY, 0);
	ck_assert_msg(symtab_read(elf_source_fd(&fd), SIZE_MAX, &s, &e) == 0, "%s: %s", path, e.text);
	return s;
}

#define NM                                                                                                             \
	"nm %s --defined-only %s | awk '$2 ~ /[TtWwi]/ && $3 !~ /^(data_start|_*etext|_[.]stapsdt[.]base)$/ "          \
	"{sub(/@.*/, \"\", $3); "                                                                                      \
	"print "                                                                                                       \
	"$1, $3}'"
#define STUBS "objdump -d %s %s | sed -n 's/^\\([0-9a-f]*\\) <\\(.*@plt\\)>:/\\1 \\2/p'"

static const struct {
	const char *name, *path, *command, *option;
	size_t at_least;
} files[] = {
	{"libc, dynamic symbols", LIBC, NM, "-D", 2000},
	{"a program with symbols", "plain", NM, "", 10},
	{"a static program", "static", NM, "", 1000},
	{"its debug file", "debug", NM, "", 10},
	{"what is packed in the stripped one", "mini", NM, "", 5},
	{"PLT stubs", "plain", STUBS, "-j .plt", 2},
	{"PLT stubs for indirect branch tracking", "ibt", STUBS, "-j .plt.sec", 2},
	{"PLT stubs of a stripped program", "dynamic", STUBS, "-j .plt", 2},
};

START_TEST(same_as_binutils)
{
	enum { MOST = 16384 };
	struct target_table *names = pages_new(MOST * sizeof(*names));
	int fds = fd_count();
	char path[300], command[1024];
	snprintf(path, sizeof(path), "%s%s%s", files[_i].path[0] == '/' ? "" : dir, files[_i].path[0] == '/' ? "" : "/",
		files[_i].path);
	snprintf(command, sizeof(command), files[_i].command, files[_i].option, path);
	size_t n = list(command, names, MOST);
	ck_assert_msg(n >= files[_i].at_least, "%s: only %zu from %s", files[_i].name, n, command);
	struct symtab *s = read_file(path);
	size_t exact = 0;
	for (size_t i = 0; i < n; i++) {
		uint64_t offset = 1;
		const char *name = symtab_find(s, names[i].vaddr, 0, &offset);
		if (name && offset) /* a label inside a function: not ours */
			continue;
		exact++;
		ck_assert_msg(name != NULL, "%s: no %s", files[_i].name, names[i].name);
		ck_assert_msg(
			listed_as(names, n, names[i].vaddr, name), "%s: %s is %s", files[_i].name, names[i].name, name);
	}
	ck_assert_msg(exact >= n - n / 20, "%s: only %zu of %zu", files[_i].name, exact, n);
	symtab_free(s);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

START_TEST(stripped_static_program_has_none)
{
	char path[300];
	snprintf(path, sizeof(path), "%s/stripped", dir);
	struct symtab *s = read_file(path);
	ck_assert_uint_eq(s->count, 0);
	ck_assert_ptr_null(symtab_find(s, 0x401000, 0, &(uint64_t){0}));
	symtab_free(s);
}
END_TEST

static const struct {
	const char *name, *path;
	bool hidden;
} packed[] = {
	{"as Fedora packs them", "with_mini", true},
	{"no such section", "dynamic", false},
	{"cut", "with_cut", false},
	{"80 MB of zeros", "with_bomb", false},
	{"something else that was packed", "with_text", false},
	{"not packed", "with_unpacked", false},
};

/* A static function by name; exported ones and stubs as ever. */
START_TEST(symbols_packed_in_the_file)
{
	static struct target_table names[1000];
	char path[300], command[400];
	snprintf(path, sizeof(path), "%s/%s", dir, packed[_i].path);
	snprintf(command, sizeof(command), "nm --defined-only %s/plain | awk '$2 ~ /[Tt]/ {print $1, $3}'", dir);
	size_t n = list(command, names, COUNT(names)), found = 0;
	struct symtab *s = read_file(path);
	for (size_t i = 0; i < n; i++) {
		uint64_t offset;
		const char *name = symtab_find(s, names[i].vaddr, 0, &offset);
		found += !strcmp(names[i].name, "hidden") && name && !strcmp(name, "hidden") && !offset;
	}
	ck_assert_msg(found == packed[_i].hidden, "%s: found %zu of %zu", packed[_i].name, found, n);
	snprintf(command, sizeof(command), "objdump -d -j .plt %s/plain | sed -n 's/ <puts@plt>:/ x/p'", dir);
	ck_assert_uint_eq(list(command, names, 1), 1);
	uint64_t offset;
	const char *name = symtab_find(s, names[0].vaddr, 0, &offset);
	ck_assert(name && !strcmp(name, "puts@plt"));
	symtab_free(s);
}
END_TEST

/* --- without section headers */

static void cut_off(Elf64_Ehdr *h)
{
	h->e_shoff = 0;
	h->e_shentsize = h->e_shnum = h->e_shstrndx = 0;
}
static void beyond_the_file(Elf64_Ehdr *h)
{
	h->e_shoff = 1ull << 40;
}
static void in_the_code(Elf64_Ehdr *h)
{
	h->e_shoff = h->e_entry ? h->e_entry & 0xfffff : 0x1000;
}
static void in_the_program_headers(Elf64_Ehdr *h)
{
	h->e_shoff = h->e_phoff;
}
/* As lld writes them: code begins where it begins, so not where a stub might. */
static void segment_unaligned(Elf64_Ehdr *h)
{
	Elf64_Phdr *p = (Elf64_Phdr *)(void *)((char *)h + h->e_phoff);
	cut_off(h);
	while (p->p_type != PT_LOAD || !(p->p_flags & PF_X))
		p++;
	p->p_vaddr += 4;
	p->p_offset += 4;
	p->p_filesz -= 4;
}

static void (*const spoilers[])(Elf64_Ehdr *h) = {
	cut_off, beyond_the_file, in_the_code, in_the_program_headers, segment_unaligned};
static const char *const dynamic_files[] = {
	"program_sysv", "program_gnu", "library_sysv", "library_gnu", "one_segment", "ibt_dynamic", "dynamic", LIBC};

/* Exported functions and stubs as the section headers have them, at each address; a label is of its own address alone.
 */
START_TEST(names_without_section_headers)
{
	const char *file = dynamic_files[(size_t)_i / COUNT(spoilers)];
	char path[300];
	char *data;
	size_t size, named = 0;
	snprintf(path, sizeof(path), "%s%s%s", file[0] == '/' ? "" : dir, file[0] == '/' ? "" : "/", file);
	fd_auto fd = fd_open(AT_FDCWD, path, O_RDONLY, 0);
	ck_assert_int_eq(fd_slurp(fd, 64 << 20, &data, &size), 0);
	struct symtab *expect = NULL, *s = NULL;
	struct err e = {0};
	ck_assert_int_eq(read_image(data, size, &expect, NULL), 0);
	spoilers[(size_t)_i % COUNT(spoilers)]((Elf64_Ehdr *)(void *)data);
	ck_assert_msg(read_image(data, size, &s, &e) == 0, "%s: %s", file, e.text);
	const uint64_t base = strcmp(file, "one_segment") ? 0 : 0x400000;
	for (uint64_t vaddr = base; vaddr < base + size; vaddr++) {
		uint64_t at, expect_at;
		const char *name = symtab_find(s, vaddr, vaddr, &at);
		const char *right = symtab_find(expect, vaddr, vaddr, &expect_at);
		named += right != NULL;
		ck_assert_msg(right ? name && !strcmp(name, right) && at == expect_at : !name, "%s, %llx: %s, not %s",
			file, (unsigned long long)vaddr, name, right);
	}
	ck_assert_uint_ge(named, 32);
	ck_assert_uint_eq(s->count, expect->count);
	symtab_free(s);
	symtab_free(expect);
	free(data);
}
END_TEST

START_TEST(libc_truncated_at_every_64th_byte)
{
	fd_auto fd = fd_open(AT_FDCWD, LIBC, O_RDONLY, 0);
	char *data;
	size_t size;
	ck_assert_int_eq(fd_slurp(fd, 64 << 20, &data, &size), 0);
	struct symtab *whole = NULL;
	ck_assert_int_eq(read_image(data, size, &whole, NULL), 0);
	/* in steps that are no power of 2, fine where the tables are */
	for (size_t cut = 0; cut < size; cut += cut < 256 << 10 ? 64 : 4096 + 8) {
		struct symtab *s = NULL;
		int r = read_image(data, cut, &s, NULL);
		ck_assert_msg(r < 0 || s->count <= whole->count, "%zu bytes", cut);
		symtab_free(s);
	}
	symtab_free(whole);
	free(data);
}
END_TEST

START_TEST(the_vdso_in_memory)
{
	void *vdso = (void *)getauxval(AT_SYSINFO_EHDR);
	struct symtab *s = NULL;
	if (!vdso)
		return;
	if (read_image(vdso, 4096, &s, NULL) < 0)
		ck_assert_int_eq(read_image(vdso, 8192, &s, NULL), 0);
	ck_assert_uint_gt(s->count, 3);
	symtab_free(s);
}
END_TEST

UNIT_SUITE(symtab)
{
	Suite *s = suite_create("symtab");
	TCase *t = tcase_create("symtab");
	tcase_set_timeout(t, 60);
	tcase_add_unchecked_fixture(t, build, clean);
	tcase_add_loop_test(t, which_symbol, 0, COUNT(lookups));
	tcase_add_loop_test(t, how_far_a_label_reaches, 0, COUNT(floors));
	tcase_add_loop_test(t, how_far_a_label_reaches, 0, COUNT(floors));
	tcase_add_loop_test(t, one_field_spoiled, 0, COUNT(rows));
	tcase_add_test(t, truncated_everywhere);
	tcase_add_loop_test(t, reading_takes_no_more_than_the_room, 0, COUNT(rooms));
	tcase_add_test(t, hostile_in_bounded_time);
	tcase_add_loop_test(t, same_as_binutils, 0, COUNT(files));
	tcase_add_test(t, stripped_static_program_has_none);
	tcase_add_loop_test(t, symbols_packed_in_the_file, 0, COUNT(packed));
	tcase_add_loop_test(t, names_without_section_headers, 0, COUNT(dynamic_files) * COUNT(spoilers));
	tcase_add_test(t, libc_truncated_at_every_64th_byte);
	tcase_add_test(t, the_vdso_in_memory);
	suite_add_tcase(s, t);
	return s;
}
