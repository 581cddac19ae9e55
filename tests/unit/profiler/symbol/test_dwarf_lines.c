/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lines: programs of three compilers, every Nth instruction of theirs beside what addr2line(1) says of it; DWARF
 * written by hand for what no compiler here makes; and files that are damaged, which may kill a process but hold up
 * none.
 */
#include "profiler/symbol/dwarf_lines.h"

#include "oci/base/fd.h"
#include "tests/unit/support/child.h"
#include "tests/unit/support/made.h"
#include "tests/unit/support/skip.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))
#define ADDRESSES 1500 /* of a program, evenly spread */

static char dir[64];

static int shell(const char *command)
{
	char line[2048];
	snprintf(line, sizeof(line), "cd %s && { %s; }", dir, command);
	return system(line);
}

static void must(const char *command)
{
	ck_assert_msg(shell(command) == 0, "%s", command);
}

static char sources[16384];

/* FILES of dir, as the command makes them from the programs below. */
static void make(const char *command, const char *files)
{
	ck_assert_msg(made(dir, sources, command, files) == 0, "%s", command);
}

static void put_file(const char *name, const char *text)
{
	fd_auto at = fd_open_dir(AT_FDCWD, dir);
	fd_auto fd = fd_open(at, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	ck_assert_int_eq(fd_write_all(fd, text, strlen(text)), 0);
}

static int open_file(const char *name)
{
	fd_auto at = fd_open_dir(AT_FDCWD, dir);
	return fd_open(at, name, O_RDONLY, 0);
}

static const char cxx[] =
	"#include <algorithm>\n"
	"#include <functional>\n"
	"#include <map>\n"
	"#include <stdexcept>\n"
	"#include <string>\n"
	"#include <vector>\n"
	"#include <cstdio>\n"
	"#include <cstdlib>\n"
	"int far(int n);\n"
	"namespace deep { namespace er {\n"
	"template <typename T> struct Box { T v; T twice() const { return v + v; } };\n"
	"static inline int add(int a, int b) { return a + b; }\n"
	"__attribute__((noinline)) int outer(std::vector<int> &v, int k) {\n"
	"	struct Local {\n"
	"		int k;\n"
	"		__attribute__((noinline)) int times(int n) const { return add(n, k) * k; }\n"
	"	} l{k};\n"
	"	auto f = [&](int n) __attribute__((noinline)) { return l.times(n) + Box<int>{n}.twice(); };\n"
	"	int sum = 0;\n"
	"	for (int n : v) try {\n"
	"		sum += f(n) + far(n);\n"
	"		if (sum > 1000000) throw std::runtime_error(\"big\");\n"
	"	} catch (std::exception &e) { puts(e.what()); sum = 0; }\n"
	"	return sum;\n"
	"}\n"
	"}}\n"
	"__asm__(\".text\\nbare:\\n nop\\n nop\\n ret\\n\");\n"
	"int main(int argc, char **argv) {\n"
	"	std::vector<int> v;\n"
	"	std::map<std::string, int> m;\n"
	"	for (int i = 0; i < argc * 1000; i++) { v.push_back(i * 7 % 13); m[std::to_string(i)] += i; }\n"
	"	std::sort(v.begin(), v.end(), [](int a, int b) { return a > b; });\n"
	"	std::function<int(int)> g = [&](int n) { return deep::er::outer(v, n); };\n"
	"	printf(\"%d %zu\\n\", g(3), m.size());\n"
	"	for (auto &e : m) if (e.second > 10000000) abort();\n"
	"}\n";
static const char cxx_other[] =
	"static int quarter(int n) { return n / 4; }\n"
	"int far(int n) { int s = 0; for (int i = 0; i < n; i++) s += quarter(i * n) ^ s; return s; }\n";
static const char rust[] =
	"use std::collections::BTreeMap;\n"
	"#[inline(never)]\n"
	"fn walk(m: &BTreeMap<String, Vec<u64>>) -> u64 {\n"
	"    m.iter().map(|(k, v)| k.len() as u64 + v.iter().sum::<u64>()).filter(|n| n % 3 == 0).sum()\n"
	"}\n"
	"fn main() {\n"
	"    let mut m = BTreeMap::new();\n"
	"    for i in 0..1000u64 {\n"
	"        m.entry(format!(\"{}\", i % 37)).or_insert_with(Vec::new).push(i);\n"
	"    }\n"
	"    println!(\"{}\", walk(&m));\n"
	"}\n";

static void setup(void)
{
	snprintf(dir, sizeof(dir), "/tmp/test_lines.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	must("mkdir -p sub");
	put_file("sub/a.cc", cxx);
	put_file("sub/b.cc", cxx_other);
	put_file("sub/a.rs", rust);
	snprintf(sources, sizeof(sources), "%s%s%s", cxx, cxx_other, rust);
}

static void teardown(void)
{
	char command[128];
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	ck_assert_int_eq(system(command), 0);
}

/* --- what addr2line says -------------------------------------------------------------------------------- */

struct said {
	char function[2048], file[2048];
	unsigned line;
};

struct oracle {
	FILE *f;
	bool binutils;
	char ahead[2048]; /* a line that was read too far; "" none */
	uint64_t vaddr;
	struct said lines[DWARF_LINES_DEPTH_MAX];
	size_t n;
};

static bool next_line(struct oracle *o, char *buf, size_t size)
{
	if (o->ahead[0]) {
		snprintf(buf, size, "%s", o->ahead);
		o->ahead[0] = 0;
		return true;
	}
	if (!fgets(buf, (int)size, o->f))
		return false;
	buf[strcspn(buf, "\n")] = 0;
	return true;
}

/* "./a", "a//b", "a/x/../b": as they are without those. */
static void normalise(char *path)
{
	char out[2048] = "", *save = NULL;
	size_t used = 0;
	bool absolute = path[0] == '/';
	for (char *part = strtok_r(path, "/", &save); part; part = strtok_r(NULL, "/", &save)) {
		char *slash = strrchr(out, '/');
		if (!strcmp(part, "."))
			continue;
		if (!strcmp(part, "..") && slash) {
			*slash = 0;
			used = strlen(out);
		} else {
			used += (size_t)snprintf(
				out + used, sizeof(out) - used, "%s%s", used || absolute ? "/" : "", part);
		}
	}
	memcpy(path, out, strlen(out) + 1);
}

/* "file:17 (discriminator 3)", "??:?", "??:0" */
static void read_place(char *text, struct said *s)
{
	char *colon = strrchr(text, ':');
	ck_assert_msg(colon != NULL, "%s", text);
	s->line = (unsigned)strtoul(colon + 1, NULL, 10);
	*colon = 0;
	snprintf(s->file, sizeof(s->file), "%s", !strcmp(text, "??") ? "" : text);
	normalise(s->file);
}

static bool next_address(struct oracle *o)
{
	char text[2048];
	if (!next_line(o, text, sizeof(text)))
		return false;
	o->vaddr = strtoull(text, NULL, 16);
	for (o->n = 0; next_line(o, text, sizeof(text)); o->n++) {
		struct said *s = &o->lines[o->n];
		if (!strncmp(text, "0x", 2)) {
			snprintf(o->ahead, sizeof(o->ahead), "%s", text);
			break;
		}
		ck_assert_uint_lt(o->n, DWARF_LINES_DEPTH_MAX);
		snprintf(s->function, sizeof(s->function), "%s", text);
		ck_assert(next_line(o, text, sizeof(text)));
		read_place(text, s);
	}
	return true;
}

/*
 * Make the files, and ask of every Nth instruction of .text; code: the file that has it. An empty answer is an error.
 */
static void make_and_ask(
	struct oracle *o, const char *how, const char *files, const char *tool, const char *code, const char *file)
{
	char command[2048], all[256];
	snprintf(command, sizeof(command),
		"%s && objdump -d --no-show-raw-insn -j .text %s | sed -n 's/^ *\\([0-9a-f]*\\):.*/0x\\1/p' >all && "
		"awk -v n=$(wc -l <all) 'NR %% (int(n / %d) + 1) == 0' all >some && test -s some && "
		"%s -a -f -i -e %s <some >said",
		how, code, ADDRESSES, tool, file);
	snprintf(all, sizeof(all), "%s said", files);
	make(command, all);
	*o = (struct oracle){.f = fdopen(open_file("said"), "r"), .binutils = !strcmp(tool, "addr2line")};
	ck_assert_ptr_nonnull(o->f);
}

/* --- and what we say ------------------------------------------------------------------------------------ */

#define MEMORY (24u << 20)

/* The whole file; it stays until this process ends. */
static struct elf_memory map(int fd)
{
	struct stat st;
	struct elf_memory m = {0};
	if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size)
		m = (struct elf_memory){
			mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0), (size_t)st.st_size};
	return m;
}

static struct dwarf_lines *open_limited(const char *debug, const char *alt, size_t memory)
{
	struct dwarf_lines *l = NULL;
	struct err e = {0};
	fd_auto fd = open_file(debug);
	fd_auto alt_fd = alt ? open_file(alt) : -1;
	struct elf_memory image = map(fd), other = map(alt_fd);
	int r = dwarf_lines_open(&image, &other, memory, &l, &e);
	ck_assert_msg(r == 0, "%s: %s", debug, e.text);
	return l;
}

static struct dwarf_lines *open_lines(const char *debug, const char *alt)
{
	return open_limited(debug, alt, MEMORY);
}

static void describe(const struct dwarf_line *s, size_t n, char *buf, size_t size)
{
	size_t used = 0;
	buf[0] = 0;
	for (size_t i = 0; i < n && used < size; i++)
		used += (size_t)snprintf(buf + used, size - used, "\n  %s %s:%u", s[i].function, s[i].file, s[i].line);
}

static bool same_place(const struct dwarf_line *got, const struct said *want)
{
	char file[2048];
	snprintf(file, sizeof(file), "%s", got->file ? got->file : "");
	normalise(file);
	return got->line == want->line && !strcmp(file, want->file);
}

/*
 * The outermost function has its name from the symbol table in addr2line (main.cold); and in binutils the innermost one
 * when it has no linkage name of its own (what is called with a lambda).
 */
static bool same_name(const struct dwarf_line *got, const struct oracle *o, size_t i)
{
	if (i + 1 == o->n)
		return true;
	if (!got->function)
		return false;
	return !strcmp(got->function, o->lines[i].function) ||
	       (i == 0 && o->binutils && strncmp(got->function, "_Z", 2) != 0);
}

static void compare_address(struct dwarf_lines *l, const struct oracle *o)
{
	struct dwarf_line got[DWARF_LINES_DEPTH_MAX];
	char text[8192], wanted[8192];
	size_t used = 0, n = dwarf_lines_find(l, o->vaddr, got, DWARF_LINES_DEPTH_MAX);
	bool same = n == o->n;
	for (size_t i = 0; same && i < n; i++)
		same = same_place(&got[i], &o->lines[i]) && same_name(&got[i], o, i);
	describe(got, n, text, sizeof(text));
	for (size_t i = 0; !same && i < o->n && used < sizeof(wanted); i++)
		used += (size_t)snprintf(wanted + used, sizeof(wanted) - used, "\n  %s %s:%u", o->lines[i].function,
			o->lines[i].file, o->lines[i].line);
	ck_assert_msg(same, "0x%llx:%s\nand addr2line:%s", (unsigned long long)o->vaddr, text, wanted);
}

/* How many addresses, and calls inlined at them, were compared. */
static void compare(struct dwarf_lines *l, struct oracle *o, size_t *ret_n, size_t *ret_inlined)
{
	*ret_n = *ret_inlined = 0;
	while (next_address(o)) {
		if (o->n == 1 && !o->lines[0].line) /* addr2line knows nothing: assembly, padding */
			continue;
		compare_address(l, o);
		*ret_n += 1;
		*ret_inlined += o->n - 1;
	}
	fclose(o->f);
}

/*
 * binutils 2.40 takes a line of DWARF 5 for one of the unit's own file now and then, where readelf and LLVM (and we)
 * name the header; and it cannot read clang's .debug_rnglists.
 */
static const struct {
	const char *compiler, *command, *tool;
	size_t inlined; /* at least so many calls in the addresses looked at */
} programs[] = {
	{"g++", "g++ -O2 -gdwarf-4 -o p sub/a.cc sub/b.cc", "addr2line", 1000},
	{"g++", "g++ -O2 -gdwarf-3 -gstrict-dwarf -o p sub/a.cc sub/b.cc", "addr2line", 1000},
	{"g++", "g++ -O2 -gdwarf-4 -gz=zlib -o p sub/a.cc sub/b.cc", "addr2line", 1000},
	{"g++", "g++ -O2 -gdwarf-4 -flto -o p sub/a.cc sub/b.cc", "addr2line", 1000},
	{"g++", "g++ -O2 -g -o p sub/a.cc sub/b.cc", "llvm-addr2line", 1000},
	{"g++", "(cd sub && g++ -O2 -g -o ../p a.cc ../sub/b.cc)", "llvm-addr2line", 1000},
	{"g++", "g++ -O2 -g -gz=zlib -o p sub/a.cc sub/b.cc", "llvm-addr2line", 1000},
	{"g++", "g++ -O2 -g -flto -o p sub/a.cc sub/b.cc", "llvm-addr2line", 1000},
	{"g++", "g++ -O0 -g -o p sub/a.cc sub/b.cc", "llvm-addr2line", 0},
	{"g++", "g++ -O3 -g -ffunction-sections -Wl,--gc-sections -o p sub/a.cc sub/b.cc", "llvm-addr2line", 0},
	{"g++", "g++ -O2 -g -c sub/*.cc && objcopy -R .debug_aranges -R .rela.debug_aranges b.o && g++ -o p a.o b.o",
		"llvm-addr2line", 1000},
	{"clang++", "clang++ -O2 -gdwarf-5 -o p sub/a.cc sub/b.cc", "llvm-addr2line", 1000},
	{"clang++", "clang++ -O2 -gdwarf-4 -o p sub/a.cc sub/b.cc", "addr2line", 1000},
	{"rustc", "rustc -O -g -o p sub/a.rs", "addr2line", 1000},
	{"rustc", "rustc -O -g -C symbol-mangling-version=v0 -o p sub/a.rs", "addr2line", 1000},
};

START_TEST(as_addr2line)
{
	struct oracle o;
	size_t n, inlined;
	if (skip_without(programs[_i].compiler) || skip_without(programs[_i].tool))
		return;
	make_and_ask(&o, programs[_i].command, "p", programs[_i].tool, "p", "p");
	struct dwarf_lines *l = open_lines("p", NULL);
	compare(l, &o, &n, &inlined);
	dwarf_lines_close(l);
	ck_assert_uint_gt(n, ADDRESSES / 10);
	ck_assert_uint_ge(inlined, programs[_i].inlined);
}
END_TEST

/* --- where debug information lies elsewhere -------------------------------------------------------------- */

START_TEST(a_separate_file)
{
	struct oracle o;
	size_t n, inlined;
	if (skip_without("g++"))
		return;
	make_and_ask(&o,
		"g++ -O2 -gdwarf-4 -o whole sub/a.cc sub/b.cc && objcopy --only-keep-debug whole p.debug && strip -o p "
		"whole",
		"p.debug", "addr2line", "p", "whole");
	struct dwarf_lines *l = open_lines("p.debug", NULL);
	compare(l, &o, &n, &inlined);
	dwarf_lines_close(l);
	ck_assert(n > 500 && inlined > 1000);
}
END_TEST

/* What two programs have in common goes into a third file (dwz(1) -m). */
START_TEST(an_alternative_file)
{
	struct oracle o;
	size_t n, inlined;
	if (skip_without("g++") || skip_without("dwz"))
		return;
	make_and_ask(&o,
		"g++ -O2 -gdwarf-4 -o whole sub/a.cc sub/b.cc && cp whole p && cp whole q && "
		"dwz -m common -M common p q && readelf -S p | grep -q gnu_debugaltlink",
		"p common", "addr2line", "whole", "whole");
	struct dwarf_lines *l = open_lines("p", "common");
	compare(l, &o, &n, &inlined);
	dwarf_lines_close(l);
	ck_assert(n > 500 && inlined > 1000);
}
END_TEST

/* --- DWARF 4 by hand: a unit over eight bytes of code, .debug_info and .debug_abbrev as given --------------- */

#define ABBREV(code, tag, children) ".uleb128 " #code "\n.uleb128 " #tag "\n.byte " #children "\n"
#define AT(name, form) ".uleb128 " #name "\n.uleb128 " #form "\n"
#define ENDS ".byte 0, 0\n"
#define CODE ".quad code\n.long 8\n"

/* 1: the unit; 2: a function by name, 3: and with children; 4: an inlined call; 5: a namespace */
static const char *const abbrevs = ABBREV(1, 0x11, 1) AT(0x11, 1) AT(0x12, 6) ENDS ABBREV(2, 0x2e, 0) AT(3, 8)
	AT(0x11, 1) AT(0x12, 6) ENDS ABBREV(3, 0x2e, 1) AT(3, 8) AT(0x11, 1) AT(0x12, 6) ENDS ABBREV(4, 0x1d, 1)
		AT(0x11, 1) AT(0x12, 6) ENDS ABBREV(5, 0x39, 1) ENDS;

static uint64_t code_address;

static void assemble(const char *name, const char *table, const char *dies, const char *more)
{
	char text[4096], command[256];
	snprintf(text, sizeof(text),
		".text\n.globl code\ncode: .fill 8, 1, 0x90\n.section .debug_abbrev,\"\",@progbits\n%s\n.byte 0\n"
		".section .debug_info,\"\",@progbits\n.long end - start\nstart: .value 4\n.long 0\n.byte 8\n"
		".byte 1\n" CODE "%s\n.byte 0\nend:\n%s\n",
		table, dies, more);
	put_file("hand.s", text);
	snprintf(command, sizeof(command), "gcc -nostdlib -static -Wl,-Ttext=0x1000,-ecode -o %s hand.s", name);
	must(command);
	code_address = 0x1000;
}

static size_t find_by_hand(const char *dies, struct dwarf_line *ret)
{
	assemble("hand", abbrevs, dies, "");
	struct dwarf_lines *l = open_lines("hand", NULL);
	size_t n = dwarf_lines_find(l, code_address, ret, DWARF_LINES_DEPTH_MAX);
	static char name[64];
	if (n && ret[n - 1].function) {
		snprintf(name, sizeof(name), "%s", ret[n - 1].function);
		ret[n - 1].function = name;
	}
	ck_assert_uint_eq(dwarf_lines_find(l, code_address + 8, ret + DWARF_LINES_DEPTH_MAX, 1), 0);
	dwarf_lines_close(l);
	return n;
}

START_TEST(a_function)
{
	struct dwarf_line got[DWARF_LINES_DEPTH_MAX + 1];
	ck_assert_uint_eq(find_by_hand(".byte 2\n.asciz \"f\"\n" CODE, got), 1);
	ck_assert_str_eq(got[0].function, "f");
	ck_assert(!got[0].file && !got[0].line);
}
END_TEST

START_TEST(calls_inlined_too_deep)
{
	struct dwarf_line got[DWARF_LINES_DEPTH_MAX + 1];
	size_t n = find_by_hand(".byte 3\n.asciz \"f\"\n" CODE ".rept 500\n.byte 4\n" CODE ".endr\n"
				".rept 501\n.byte 0\n.endr\n",
		got);
	ck_assert_uint_eq(n, DWARF_LINES_DEPTH_MAX);
	ck_assert_str_eq(got[n - 1].function, "f");
}
END_TEST

START_TEST(no_room_for_all)
{
	struct dwarf_line got[3] = {[2].line = 77};
	assemble("hand", abbrevs,
		".byte 3\n.asciz \"f\"\n" CODE ".rept 5\n.byte 4\n" CODE ".endr\n.rept 6\n.byte 0\n.endr\n", "");
	struct dwarf_lines *l = open_lines("hand", NULL);
	ck_assert_uint_eq(dwarf_lines_find(l, code_address, got, 0), 0);
	ck_assert_uint_eq(dwarf_lines_find(l, code_address, got, 2), 2);
	ck_assert_uint_eq(got[2].line, 77);
	ck_assert_str_eq(got[1].function, "f");
	dwarf_lines_close(l);
}
END_TEST

START_TEST(namespaces_in_each_other)
{
	struct dwarf_line got[DWARF_LINES_DEPTH_MAX + 1];
	ck_assert_uint_eq(
		find_by_hand(
			".rept 50\n.byte 5\n.endr\n.byte 2\n.asciz \"f\"\n" CODE ".rept 50\n.byte 0\n.endr\n", got),
		1);
	ck_assert_str_eq(got[0].function, "f");
	find_by_hand(
		".rept 100000\n.byte 5\n.endr\n.byte 2\n.asciz \"f\"\n" CODE ".rept 100000\n.byte 0\n.endr\n", got);
}
END_TEST

/* DWZ's own form: the name of a function is a string of another file's. */
START_TEST(a_name_in_an_alternative_file)
{
	struct dwarf_line got[DWARF_LINES_DEPTH_MAX];
	assemble("hand",
		ABBREV(1, 0x11, 1) AT(0x11, 1) AT(0x12, 6) ENDS ABBREV(2, 0x2e, 0) AT(3, 0x1f21) AT(0x11, 1) AT(0x12, 6)
			ENDS,
		".byte 2\n.long 6\n" CODE,
		".section .gnu_debugaltlink,\"\",@progbits\n.asciz \"/no/such\"\n.fill 20, 1, 7\n");
	assemble("other", abbrevs, ".byte 2\n.asciz \"f\"\n" CODE,
		".section .debug_str,\"MS\",@progbits,1\n.asciz \"first\"\n.asciz \"from_the_other\"\n");
	struct dwarf_lines *l = open_lines("hand", "other");
	ck_assert_uint_eq(dwarf_lines_find(l, code_address, got, DWARF_LINES_DEPTH_MAX), 1);
	ck_assert_str_eq(got[0].function, "from_the_other");
	dwarf_lines_close(l);
	l = open_lines("hand", NULL); /* not found: it has no name */
	ck_assert_uint_eq(dwarf_lines_find(l, code_address, got, DWARF_LINES_DEPTH_MAX), 1);
	ck_assert_ptr_null(got[0].function);
	dwarf_lines_close(l);
}
END_TEST

/* --- functions in functions ------------------------------------------------------------------------------- */

static uint64_t address_of(const char *file, const char *symbol)
{
	char command[256];
	unsigned long long at = 0;
	snprintf(command, sizeof(command), "nm %s | grep '%s$' >nm && [ $(wc -l <nm) = 1 ]", file, symbol);
	must(command);
	FILE *f = fdopen(open_file("nm"), "r");
	ck_assert_int_eq(fscanf(f, "%llx", &at), 1);
	fclose(f);
	return at;
}

static const struct {
	const char *options, *symbol, *function;
	uint32_t line, start_line;
} inner[] = {
	{"-O1 -g", "outer.*ENKUliE_clEi", "operator()", 18, 0},
	{"-O1 -g", "5Local5timesEi", "times", 16, 16},
	{"-O0 -gdwarf-4", "outer.*ENKUliE_clEi", "operator()", 18, 0},
	{"-O0 -gdwarf-4", "5Local5timesEi", "times", 16, 16},
};

START_TEST(inside_another_function)
{
	char command[256];
	struct dwarf_line got[DWARF_LINES_DEPTH_MAX];
	if (skip_without("g++"))
		return;
	snprintf(command, sizeof(command), "g++ %s -o p sub/a.cc sub/b.cc", inner[_i].options);
	make(command, "p");
	struct dwarf_lines *l = open_lines("p", NULL);
	size_t n = dwarf_lines_find(l, address_of("p", inner[_i].symbol), got, DWARF_LINES_DEPTH_MAX);
	ck_assert_uint_ge(n, 1);
	ck_assert_ptr_nonnull(got[n - 1].function);
	ck_assert_msg(strstr(got[n - 1].function, inner[_i].function) != NULL, "%s", got[n - 1].function);
	ck_assert_uint_eq(got[n - 1].line, inner[_i].line);
	ck_assert_uint_eq(got[n - 1].start_line, inner[_i].start_line);
	dwarf_lines_close(l);
}
END_TEST

START_TEST(where_a_function_is_declared)
{
	struct dwarf_line got[DWARF_LINES_DEPTH_MAX];
	if (skip_without("g++"))
		return;
	make("g++ -O2 -g -o p sub/a.cc sub/b.cc", "p");
	struct dwarf_lines *l = open_lines("p", NULL);
	size_t n = dwarf_lines_find(l, address_of("p", " main"), got, DWARF_LINES_DEPTH_MAX);
	ck_assert_uint_ge(n, 1);
	ck_assert_str_eq(got[n - 1].function, "main");
	ck_assert_uint_eq(got[n - 1].start_line, 28);
	ck_assert_uint_eq(dwarf_lines_find(l, 0, got, DWARF_LINES_DEPTH_MAX), 0);
	ck_assert_uint_eq(dwarf_lines_find(l, UINT64_MAX, got, DWARF_LINES_DEPTH_MAX), 0);
	dwarf_lines_close(l);
}
END_TEST

/* -gsplit-dwarf: what is in the program is lines; files of names that lie elsewhere are not looked for. */
START_TEST(split_dwarf)
{
	struct oracle o;
	struct dwarf_line got[DWARF_LINES_DEPTH_MAX];
	size_t n = 0;
	if (skip_without("g++"))
		return;
	make_and_ask(&o, "g++ -O2 -gdwarf-4 -gsplit-dwarf -o p sub/a.cc sub/b.cc && rm -f *.dwo sub/*.dwo", "p",
		"addr2line", "p", "p");
	struct dwarf_lines *l = open_lines("p", NULL);
	for (; next_address(&o); n += o.lines[0].line > 0)
		if (o.lines[0].line) {
			ck_assert_uint_eq(dwarf_lines_find(l, o.vaddr, got, DWARF_LINES_DEPTH_MAX), 1);
			ck_assert(same_place(got, o.lines));
		}
	fclose(o.f);
	dwarf_lines_close(l);
	ck_assert_uint_gt(n, 500);
}
END_TEST

/* Of a function that the linker threw away .debug_aranges says that it lies at 0: here over the one that is there. */
START_TEST(the_code_of_what_was_thrown_away)
{
	struct dwarf_line got[DWARF_LINES_DEPTH_MAX];
	put_file("gone.c", "#define GONE(name) int name(void) { __asm__ volatile(\".skip 65536\"); return 1; }\n"
			   "GONE(gone1) GONE(gone2) GONE(gone3) GONE(gone4)\n"
			   "int other(void) { return 2; }\n");
	put_file("there.c", "int other(void);\nint there(void)\n{\n\treturn other();\n}\n");
	must("gcc -O1 -g -ffunction-sections -c gone.c there.c && ld -o p --gc-sections -static -Ttext=0x1000 -e there "
	     "gone.o there.o && objdump --dwarf=aranges p | grep -q '^ *0* 0*100'");
	struct dwarf_lines *l = open_lines("p", NULL);
	uint64_t at = address_of("p", " there");
	ck_assert_uint_lt(at, 65536);
	ck_assert_uint_eq(dwarf_lines_find(l, at, got, DWARF_LINES_DEPTH_MAX), 1);
	ck_assert_str_eq(got[0].function, "there");
	dwarf_lines_close(l);
}
END_TEST

/* --- memory ----------------------------------------------------------------------------------------------- */

/* What was read is let go of and read again, for every address: the answers stay. */
START_TEST(over_the_memory_limit)
{
	struct oracle o;
	size_t n = 0;
	if (skip_without("g++"))
		return;
	make_and_ask(&o, "g++ -O2 -gdwarf-4 -o p sub/a.cc sub/b.cc", "p", "addr2line", "p", "p");
	struct dwarf_lines *l = open_limited("p", NULL, 1);
	for (; next_address(&o); n++)
		if (o.n > 1 || o.lines[0].line)
			compare_address(l, &o);
	fclose(o.f);
	dwarf_lines_close(l);
	ck_assert_uint_gt(n, 200);
}
END_TEST

/* --- what is no debug information --------------------------------------------------------------------------- */

static const struct {
	const char *name, *command;
} nothing[] = {
	{"no debug information", "gcc -o none -x c - <sub/b.cc -nostdlib 2>/dev/null"},
	{"stripped of it", "gcc -g -o none -x c - <sub/b.cc -nostdlib 2>/dev/null && strip none"},
	{"an empty file", ": >none"},
	{"no ELF file", "echo text >none"},
	{"a header of ELF alone", "head -c 64 /bin/true >none"},
	{"four bytes of it", "head -c 4 /bin/true >none"},
	{"an archive", "echo x >x && ar rc none x"},
};

START_TEST(nothing_there)
{
	struct dwarf_lines *l = NULL;
	struct dwarf_line got[1];
	struct err e = {0};
	must(nothing[_i].command);
	fd_auto fd = open_file("none");
	struct elf_memory image = map(fd), none = {0};
	int r = dwarf_lines_open(&image, &none, MEMORY, &l, &e);
	ck_assert_msg(r == -EBADMSG || (r == 0 && dwarf_lines_find(l, 0x1000, got, 1) == 0), "%s", nothing[_i].name);
	ck_assert_msg(r == 0 || e.text[0], "%s: no reason", nothing[_i].name);
	dwarf_lines_close(r == 0 ? l : NULL);
}
END_TEST

/* --- damaged ------------------------------------------------------------------------------------------------ */

/* Ask for everything. What libdw does to its process then is not our business; that it ends is. */
static void read_all(const void *arg)
{
	struct dwarf_lines *l;
	struct dwarf_line got[DWARF_LINES_DEPTH_MAX];
	struct err e = {0};
	const int *fd = arg;
	fd_null_stdio(7);
	struct elf_memory image = map(*fd), none = {0};
	if (dwarf_lines_open(&image, &none, MEMORY, &l, &e) == 0) {
		for (uint64_t at = 0x1000; at < 0x1400; at++)
			dwarf_lines_find(l, at, got, DWARF_LINES_DEPTH_MAX);
		dwarf_lines_close(l);
	}
}

static void ends(int fd, const char *what)
{
	int status = in_child(read_all, &fd);
	ck_assert_msg(status != -ETIMEDOUT, "%s: no end", what);
}

static const char *const sections[] = {".debug_info", ".debug_abbrev", ".debug_line", ".debug_str", ".debug_ranges",
	".debug_rnglists", ".debug_line_str"};

/* Where a section is in the file, by objdump(1); false: there is none. */
static bool find_section(const char *name, off_t *ret_at, size_t *ret_size)
{
	char command[256];
	unsigned long size = 0, at = 0;
	snprintf(command, sizeof(command), "objdump -h good | awk '$2 == \"%s\" {print \"0x\" $3, \"0x\" $6}' >section",
		name);
	must(command);
	FILE *f = fdopen(open_file("section"), "r");
	bool found = fscanf(f, "%lx %lx", &size, &at) == 2 && size > 0;
	fclose(f);
	*ret_at = (off_t)at;
	*ret_size = size;
	return found;
}

static void build_good(void)
{
	must("gcc -O2 -gdwarf-$(( $$ % 2 + 4 )) -nostdlib -static -Wl,-Ttext=0x1000,-efar -o good -x c - <sub/b.cc");
}

static char *read_good(size_t *ret_size)
{
	char *bytes;
	fd_auto fd = open_file("good");
	ck_assert_int_eq(fd_slurp(fd, 16 << 20, &bytes, ret_size), 0);
	return bytes;
}

static int memory_file(const void *bytes, size_t size)
{
	int fd = memfd_create("damaged", MFD_CLOEXEC);
	ck_assert_int_eq(fd_write_all(fd, bytes, size), 0);
	return fd;
}

START_TEST(garbage_in_a_section)
{
	off_t at;
	size_t size, file_size;
	build_good();
	if (!find_section(sections[_i], &at, &size))
		return;
	char *bytes = read_good(&file_size), *copy = malloc(file_size);
	unsigned seed = (unsigned)_i + 1;
	for (int run = 0; run < 30; run++) {
		memcpy(copy, bytes, file_size);
		size_t damage = run < 10 ? size : 1 + (size_t)run / 10;
		for (size_t i = 0; i < damage; i++)
			copy[(size_t)at + (damage == size ? i : (size_t)rand_r(&seed) % size)] = (char)rand_r(&seed);
		fd_auto fd = memory_file(copy, file_size);
		ends(fd, sections[_i]);
	}
	free(copy);
	free(bytes);
}
END_TEST

START_TEST(cut_off)
{
	size_t size;
	build_good();
	char *bytes = read_good(&size);
	for (size_t n = 0; n < size; n += size / 60) {
		fd_auto fd = memory_file(bytes, n);
		ends(fd, "cut off");
	}
	free(bytes);
}
END_TEST

/* Entries that point at themselves and at what lies before them. */
static const char *const circles[] = {
	/* a sibling that is the entry itself, and one that is the one before */
	ABBREV(1, 0x11, 1) AT(0x11, 1) AT(0x12, 6) ENDS ABBREV(2, 0x39, 1) AT(1, 0x13) ENDS,
	/* an origin that is the entry itself */
	ABBREV(1, 0x11, 1) AT(0x11, 1) AT(0x12, 6) ENDS ABBREV(2, 0x2e, 1) AT(0x31, 0x13) AT(0x11, 1) AT(0x12, 6) ENDS,
	/* an import of its own unit */
	ABBREV(1, 0x11, 1) AT(0x11, 1) AT(0x12, 6) ENDS ABBREV(2, 0x3d, 0) AT(0x18, 0x13) ENDS,
};
static const char *const entries[] = {
	"here: .byte 2\n.long here - start + 4\n.byte 0\n.byte 2\n.long here - start + 4\n.byte 0\n",
	"here: .byte 2\n.long here - start + 4\n" CODE ".byte 0\n",
	".byte 2\n.long 11\n",
};

START_TEST(in_circles)
{
	assemble("hand", circles[_i], entries[_i], "");
	fd_auto fd = open_file("hand");
	ends(fd, entries[_i]);
}
END_TEST

UNIT_SUITE(dwarf_lines)
{
	Suite *s = suite_create("dwarf_lines");
	TCase *t = tcase_create("compilers"), *hand = tcase_create("by hand"), *bad = tcase_create("damaged");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 120);
	tcase_add_loop_test(t, as_addr2line, 0, LENGTH(programs));
	tcase_add_test(t, a_separate_file);
	tcase_add_test(t, an_alternative_file);
	tcase_add_loop_test(t, inside_another_function, 0, LENGTH(inner));
	tcase_add_test(t, where_a_function_is_declared);
	tcase_add_test(t, split_dwarf);
	tcase_add_test(t, the_code_of_what_was_thrown_away);
	tcase_add_test(t, over_the_memory_limit);
	suite_add_tcase(s, t);

	tcase_add_checked_fixture(hand, setup, teardown);
	tcase_set_timeout(hand, 60);
	tcase_add_test(hand, a_function);
	tcase_add_test(hand, calls_inlined_too_deep);
	tcase_add_test(hand, no_room_for_all);
	tcase_add_test(hand, namespaces_in_each_other);
	tcase_add_test(hand, a_name_in_an_alternative_file);
	suite_add_tcase(s, hand);

	tcase_add_checked_fixture(bad, setup, teardown);
	tcase_set_timeout(bad, 120);
	tcase_add_loop_test(bad, nothing_there, 0, LENGTH(nothing));
	tcase_add_loop_test(bad, garbage_in_a_section, 0, LENGTH(sections));
	tcase_add_test(bad, cut_off);
	tcase_add_loop_test(bad, in_circles, 0, LENGTH(circles));
	suite_add_tcase(s, bad);
	return s;
}
