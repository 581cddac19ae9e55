/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/event/uprobe.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "shim/attach/exe_open.h"
#include "shim/event/perf_event.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define N(a) (sizeof(a) / sizeof((a)[0]))

static int fds;

static void setup(void)
{
	fds = fd_count();
}

static void teardown(void)
{
	ck_assert_int_eq(fd_count(), fds);
}

/* --- a file made here ------------------------------------------------------------------------------------ */

#define STRINGS "\0xwork\0work\0other\0chosen\0outside\0data\0"
enum { XWORK = 1, WORK = 7, OTHER = 12, CHOSEN = 18, OUTSIDE = 25, DATA = 33 };

struct image {
	Elf64_Ehdr head;
	Elf64_Phdr segments[2];
	Elf64_Shdr sections[3];
	Elf64_Sym symbols[6];
	char strings[64];
	char code[256];
};

static Elf64_Sym symbol(uint32_t name, unsigned type, unsigned section, uint64_t value)
{
	return (Elf64_Sym){.st_name = name,
		.st_info = (unsigned char)ELF64_ST_INFO(STB_GLOBAL, type),
		.st_shndx = (Elf64_Half)section,
		.st_value = value};
}

static struct image image(void)
{
	struct image m = {0};
	const uint64_t code = offsetof(struct image, code);
	memcpy(m.head.e_ident, ELFMAG, SELFMAG);
	m.head.e_ident[EI_CLASS] = ELFCLASS64;
	m.head.e_ident[EI_DATA] = ELFDATA2LSB;
	m.head.e_type = ET_DYN;
	m.head.e_machine = EM_X86_64;
	m.head.e_phoff = offsetof(struct image, segments);
	m.head.e_phentsize = sizeof(Elf64_Phdr);
	m.head.e_phnum = 2;
	m.head.e_shoff = offsetof(struct image, sections);
	m.head.e_shentsize = sizeof(Elf64_Shdr);
	m.head.e_shnum = 3;
	m.segments[0] = (Elf64_Phdr){.p_type = PT_LOAD, .p_flags = PF_R, .p_filesz = code, .p_memsz = code};
	m.segments[1] = (Elf64_Phdr){.p_type = PT_LOAD,
		.p_flags = PF_R | PF_X,
		.p_offset = code,
		.p_vaddr = 0x5000,
		.p_filesz = sizeof(m.code),
		.p_memsz = sizeof(m.code)};
	m.sections[1] = (Elf64_Shdr){.sh_type = SHT_DYNSYM,
		.sh_offset = offsetof(struct image, symbols),
		.sh_size = sizeof(m.symbols),
		.sh_link = 2};
	m.sections[2] = (Elf64_Shdr){
		.sh_type = SHT_STRTAB, .sh_offset = offsetof(struct image, strings), .sh_size = sizeof(m.strings)};
	m.symbols[0] = symbol(WORK, STT_FUNC, SHN_UNDEF, 0x5001); /* that of another file */
	m.symbols[1] = symbol(XWORK, STT_FUNC, 1, 0x5010);
	m.symbols[2] = symbol(WORK, STT_FUNC, 1, 0x5020);
	m.symbols[3] = symbol(CHOSEN, STT_GNU_IFUNC, 1, 0x5030);
	m.symbols[4] = symbol(OUTSIDE, STT_FUNC, 1, 0x5000 + sizeof(m.code));
	m.symbols[5] = symbol(DATA, STT_OBJECT, 1, 0x5040);
	memcpy(m.strings, STRINGS, sizeof(STRINGS));
	memcpy(m.code + 0x20, (const char[]){0x55, 0x48, (char)0x89, (char)0xe5, 0x06, (char)0xc3}, 6);
	m.symbols[2].st_size = 6; /* push, mov, none, ret */
	return m;
}

static int lookup(const struct image *m, size_t size, const char *name, uint64_t *ret)
{
	int fd = memfd_create("image", MFD_CLOEXEC);
	ck_assert_int_eq(fd_write_all(fd, m, size), 0);
	struct uprobe_found found = {0};
	int r = uprobe_lookup(fd, name, &found);
	*ret = found.offset;
	fd_close(fd);
	return r;
}

static const struct {
	const char *name;
	int result;
	uint64_t offset; /* in the code */
} names[] = {
	{"work", 0, 0x20},
	{"xwork", 0, 0x10},
	{"ork", -ENOENT, 0}, /* it is in the table, as the end of another */
	{"wor", -ENOENT, 0},
	{"other", -ENOENT, 0}, /* a name of no symbol */
	{"data", -ENOENT, 0},
	{"chosen", -ENOSYS, 0},
	{"outside", -ENOEXEC, 0},
	{"no_such_function", -ENOENT, 0},
	{"work+0", 0, 0x20},
	{"work+1", 0, 0x21},
	{"work+0x4", 0, 0x24},
	{"work+2", -EILSEQ, 0},
	{"work+3", -EILSEQ, 0},
	{"work+5", -EOPNOTSUPP, 0},
	{"work+6", -ERANGE, 0},
	{"work+18446744073709551616", -ERANGE, 0},
	{"xwork+1", -ERANGE, 0}, /* nobody knows how long it is */
	{"work+", -ENOENT, 0},
	{"work+1x", -ENOENT, 0},
	{"no_such_function+1", -ENOENT, 0},
};

START_TEST(a_function_has_a_place)
{
	struct image m = image();
	uint64_t offset;
	int r = lookup(&m, sizeof(m), names[_i].name, &offset);
	ck_assert_msg(r == names[_i].result, "%s: %d", names[_i].name, r);
	if (r == 0)
		ck_assert_uint_eq(offset, offsetof(struct image, code) + names[_i].offset);
}
END_TEST

static void cut_ident(struct image *m)
{
	m->head.e_ident[0] = 'F';
}
static void other_class(struct image *m)
{
	m->head.e_ident[EI_CLASS] = ELFCLASS32;
}
static void many_sections(struct image *m)
{
	m->head.e_shnum = 65000;
}
static void far_sections(struct image *m)
{
	m->head.e_shoff = UINT64_MAX - 8;
}
static void far_segments(struct image *m)
{
	m->head.e_phoff = UINT64_MAX - 8;
}
static void no_such_link(struct image *m)
{
	m->sections[1].sh_link = 3;
}
static void large_table(struct image *m)
{
	m->sections[1].sh_size = UINT64_MAX;
}
static void large_strings(struct image *m)
{
	m->sections[2].sh_size = UINT64_MAX;
}
static void far_strings(struct image *m)
{
	m->sections[2].sh_offset = UINT64_MAX - 4;
}
static void far_code(struct image *m)
{
	m->segments[1].p_offset = UINT64_MAX - 0x10;
}
static void past_the_end(struct image *m)
{
	m->segments[1].p_filesz = m->segments[1].p_offset = 1u << 30;
}
static void not_executed(struct image *m)
{
	m->segments[1].p_flags = PF_R;
}

static const struct {
	const char *scenario;
	void (*spoil)(struct image *m);
} broken[] = {
	{"no ELF", cut_ident},
	{"32 bits", other_class},
	{"too many sections", many_sections},
	{"sections beyond the end", far_sections},
	{"segments beyond the end", far_segments},
	{"strings that are no section", no_such_link},
	{"a table larger than the file", large_table},
	{"strings larger than the file", large_strings},
	{"strings beyond the end", far_strings},
	{"an offset that wraps", far_code},
	{"code past the end of the file", past_the_end},
	{"code that is not executed", not_executed},
};

START_TEST(a_broken_file_is_refused)
{
	struct image m = image();
	uint64_t offset;
	broken[_i].spoil(&m);
	int r = lookup(&m, sizeof(m), "work", &offset);
	ck_assert_msg(r == -ENOEXEC, "%s: %d", broken[_i].scenario, r);
}
END_TEST

START_TEST(a_file_cut_anywhere)
{
	struct image m = image();
	uint64_t offset;
	for (size_t size = 0; size < sizeof(m); size += 7) {
		int r = lookup(&m, size, "work", &offset);
		ck_assert_msg(r == -ENOEXEC || (r == 0 && offset < size), "%zu bytes: %d", size, r);
	}
}
END_TEST

/* --- by its path ----------------------------------------------------------------------------------------- */

static int find(const char *path, const char *name, struct uprobe *ret, struct err *e)
{
	fd_auto tree = fd_open(AT_FDCWD, "/", O_PATH | O_DIRECTORY, 0);
	fd_auto self_fds = exe_self_fds();
	*e = (struct err){0};
	return uprobe_find(tree, self_fds, path, name, deadline_in(5 * NSEC_PER_SEC), ret, e);
}

static void self_path(char *buf, size_t size)
{
	ssize_t n = readlink("/proc/self/exe", buf, size - 1);
	ck_assert_int_gt(n, 0);
	buf[n] = 0;
}

START_TEST(a_function_of_this_program)
{
	struct uprobe p;
	struct err e;
	char path[512];
	uint8_t there[8];
	self_path(path, sizeof(path));
	int r = find(path, "uprobe_lookup", &p, &e);
	ck_assert_msg(r == 0, "%s", e.text);
	ck_assert_int_eq(fd_pread_all(p.fd, there, sizeof(there), (off_t)p.offset), sizeof(there));
	ck_assert_msg(!memcmp(there, (const void *)(uintptr_t)uprobe_lookup, sizeof(there)), "other code is there");
	fd_close(p.fd);
}
END_TEST

static const struct {
	const char *path, *name, *sentence;
	int result;
} mistakes[] = {
	{"/no/such/file", "f", "/no/such/file in the container: No such file or directory", -ENOENT},
	{"/etc", "f", "/etc is no 64-bit ELF program or library, or a broken one", -ENOEXEC},
	{"/etc/passwd", "f", "/etc/passwd is no 64-bit ELF program or library, or a broken one", -ENOEXEC},
	{"/proc/self/exe", "main", "/proc/self/exe is on another file system than the root of the container", -EXDEV},
	{NULL, "no_such_function+4", " has no function no_such_function in its symbol tables; ", -ENOENT},
	{NULL, "no_such_function", " has no function no_such_function in its symbol tables; 'nm' and 'nm -D' print ",
		-ENOENT},
};

START_TEST(mistakes_are_told)
{
	struct uprobe p;
	struct err e;
	char path[512];
	self_path(path, sizeof(path));
	int r = find(mistakes[_i].path ? mistakes[_i].path : path, mistakes[_i].name, &p, &e);
	ck_assert_msg(r == mistakes[_i].result && strstr(e.text, mistakes[_i].sentence), "%d: %s", r, e.text);
	ck_assert_int_eq(p.fd, -1);
}
END_TEST

static const struct {
	const char *list, *kept, *note;
	int result;
} lists[] = {
	{"cpu", "cpu", "", 0},
	{"uprobe:SELF:uprobe_find,cpu", "units:uprobe_find,cpu", "", 1},
	{"uprobe:SELF:no_such_function,cpu,uprobe:SELF:probes_count/5", "cpu,units:probes_count", "left out: uprobe ",
		1},
	{"uprobe:/no/file:f", "", "left out: uprobe /no/file in the container: No such file", -ENOENT},
};

START_TEST(all_of_a_target)
{
	static struct target_desc d;
	int files[EVENTS_MAX] = {-1};
	struct err e = {0};
	char text[1024] = "", path[512], kept[1024] = "";
	size_t n;
	bool clamped;
	memset(&d, 0, sizeof(d));
	self_path(path, sizeof(path));
	for (const char *at = lists[_i].list; *at;) {
		bool self = !strncmp(at, "SELF", 4);
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%.*s", self ? (int)sizeof(path) : 1,
			self ? path : at);
		at += self ? 4 : 1;
	}
	ck_assert_int_eq(event_spec_parse(text, 0, d.events, &n, &clamped, &e), 0);
	d.n_events = (uint32_t)n;
	fd_auto tree = fd_open(AT_FDCWD, "/", O_PATH | O_DIRECTORY, 0);
	fd_auto self_fds = exe_self_fds();
	int r = probes_find(&d, tree, self_fds, deadline_in(5 * NSEC_PER_SEC), files, &e);
	ck_assert_msg(r == lists[_i].result, "%s: %d, %s", text, r, e.text);
	for (uint32_t i = 0; i < d.n_events; i++)
		snprintf(kept + strlen(kept), sizeof(kept) - strlen(kept), "%s%s", i ? "," : "",
			event_name(&d.events[i]));
	ck_assert_str_eq(kept, lists[_i].kept);
	ck_assert_msg(!strncmp(d.notes, lists[_i].note, strlen(lists[_i].note)), "%s", d.notes);
	ck_assert_uint_eq(probes_count(&d), r < 0 ? 0 : (size_t)r);
	for (int i = 0; i < r; i++)
		ck_assert_int_eq(fd_close(files[i]), -1);
}
END_TEST

/* --- and the kernel -------------------------------------------------------------------------------------- */

__attribute__((noinline)) void called(void);
void called(void)
{
	__asm__ volatile("");
}

static void call(int times)
{
	for (int i = 0; i < times; i++)
		called();
}

/* An event of each call of called() in `pid`, as an opener makes them; or why there is none. */
static int open_called(pid_t pid, bool inherit)
{
	struct perf_want want = {.role = PERF_SAMPLES,
		.stacks = STACKS_NONE,
		.inherit = inherit,
		.probe_type = perf_probe_type(EVENT_TYPE_UPROBE),
		.probe = "/proc/self/exe"};
	struct perf_event_attr a;
	struct perf_layout layout;
	size_t n;
	bool clamped;
	struct event_spec specs[EVENTS_MAX];
	fd_auto self = fd_open(AT_FDCWD, "/proc/self/exe", O_RDONLY, 0);
	ck_assert_int_eq(event_spec_parse("uprobe:/x:called", 0, specs, &n, &clamped, NULL), 0);
	struct uprobe_found found;
	ck_assert_int_eq(uprobe_lookup(self, "called", &found), 0);
	specs[0].config = found.offset;
	want.spec = specs[0];
	perf_attr(&want, &a, &layout);
	return want.probe_type ? perf_open(&a, pid, -1, 0) : -EOPNOTSUPP;
}

static bool is_refused(int fd)
{
	if (fd >= 0)
		return false;
	ck_assert_msg((fd == -EACCES && geteuid() != 0) || fd == -EOPNOTSUPP, "%d", fd);
	ck_assert_msg(!getenv("NO_SKIP"), "no uprobes here: %d", fd);
	fprintf(stderr, "skipped: uprobes need root and a kernel that has them: %s\n", strerror(-fd));
	return true;
}

static uint64_t count_of(int fd)
{
	uint64_t count = 0;
	ck_assert_int_ge(read(fd, &count, sizeof(count)), (ssize_t)sizeof(count));
	return count;
}

START_TEST(a_probe_counts_calls)
{
	fd_auto fd = open_called(0, false);
	if (is_refused(fd))
		return;
	call(1000);
	ck_assert_uint_eq(count_of(fd), 1000);
}
END_TEST

/*
 * Why shim/attach/event_open.c opens none that is inherited: the kernel (6.18) opens the child's anew, with the path at
 * that address of whoever forks and by what he may, and where that comes to nothing there is no fork. A kernel that
 * counts the child as well has mended that.
 */
START_TEST(who_inherits_one_cannot_fork)
{
	int go[2], status;
	ck_assert_int_eq(pipe2(go, O_CLOEXEC), 0);
	pid_t child = fork();
	if (child == 0) {
		char byte;
		if (read(go[0], &byte, 1) != 1 || (geteuid() == 0 && setuid(65534) < 0))
			_exit(3);
		pid_t grandchild = fork();
		if (grandchild == 0)
			call(10);
		if (grandchild > 0)
			waitpid(grandchild, NULL, 0);
		_exit(grandchild < 0);
	}
	int fd = open_called(child, true);
	ck_assert_int_eq(fd_write_all(go[1], "x", 1), 0);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	fd_close(go[0]);
	fd_close(go[1]);
	if (is_refused(fd))
		return;
	ck_assert_msg(WIFEXITED(status), "status %x", (unsigned)status);
	if (WEXITSTATUS(status) == 0)
		ck_assert_uint_eq(count_of(fd), 10);
	else
		ck_assert_int_eq(WEXITSTATUS(status), 1);
	fprintf(stderr, "a process that inherits a uprobe event %s\n",
		WEXITSTATUS(status) ? "cannot fork" : "forks: pillion run could have them");
	fd_close(fd);
}
END_TEST

UNIT_SUITE(uprobe)
{
	Suite *s = suite_create("uprobe");
	TCase *t = tcase_create("uprobe");
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_loop_test(t, a_function_has_a_place, 0, N(names));
	tcase_add_loop_test(t, a_broken_file_is_refused, 0, N(broken));
	tcase_add_test(t, a_file_cut_anywhere);
	tcase_add_test(t, a_function_of_this_program);
	tcase_add_loop_test(t, mistakes_are_told, 0, N(mistakes));
	tcase_add_loop_test(t, all_of_a_target, 0, N(lists));
	tcase_add_test(t, a_probe_counts_calls);
	tcase_add_test(t, who_inherits_one_cannot_fork);
	suite_add_tcase(s, t);
	return s;
}
