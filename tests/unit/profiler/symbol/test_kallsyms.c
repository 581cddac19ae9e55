/* SPDX-License-Identifier: Apache-2.0 */
/* kallsyms: a sample in a memfd, and the kernel's own file where this process may see addresses. */
#include "profiler/symbol/kallsyms.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "tests/unit/support/many.h"
#include "tests/unit/support/no_memory.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const char sample[] = "0000000000000000 A fixed_percpu_data\n"
			     "0000000000000000 t hidden_one\n"
			     "ffffffff81000000 T _stext\n"
			     "ffffffff81000000 T _text\n"
			     "ffffffff81000000 t startup_64\n"
			     "ffffffff81000100 t local\n"
			     "ffffffff81000100 W weak\n"
			     "ffffffff81000100 T global\n"
			     "ffffffff81000180 D data\n"
			     "ffffffff81000200 T first\n"
			     "ffffffff81000200 T second\n"
			     "ffffffff81000300 T do_syscall_64\n"
			     "FFFFFFFF81000400 w upper_case\n"
			     "ffffffff81010000 t last_of_the_kernel\n"
			     "ffffffff81012000 T _etext\n"
			     "ffffffffc0500000 t long_one\t[zfs]\n"
			     "ffffffffc0510000 t next_one\t[zfs]\n"
			     "ffffffffc0400010 t in_module\t[ext4]\n"
			     "ffffffffc0300000 t earlier_module\t[xfs]\n"
			     "not an address\n"
			     "\n"
			     "ffffffffc0400100\n"
			     "ffffffffc0400100 t\n"
			     "ffffffffc0400100 t \n"
			     "ffffffffc0400100 t \t[nameless]\n"
			     "ffffffffc0400200 t bpf_prog_1234_x\t[bpf]\n"
			     "ffffffffc0400300 t without_newline";

static const struct {
	const char *name;
	uint64_t address;
	const char *expect;
} lookups[] = {
	{"an application's address", 0x401000, NULL},
	{"just before the kernel", 0xffffffff80ffffff, NULL},
	{"a name before section names", 0xffffffff81000000, "startup_64"},
	{"global before weak before local", 0xffffffff81000100, "global"},
	{"data ends nothing", 0xffffffff81000190, "global"},
	{"the first of equals", 0xffffffff81000200, "first"},
	{"the last byte of a function", 0xffffffff810003ff, "do_syscall_64"},
	{"upper case", 0xffffffff81000401, "upper_case"},
	{"a module that stands out of order", 0xffffffffc0300004, "earlier_module [xfs]"},
	{"a module", 0xffffffffc0400011, "in_module [ext4]"},
	{"lines without a name are skipped", 0xffffffffc0400101, "in_module [ext4]"},
	{"a BPF program", 0xffffffffc0400200, "bpf_prog_1234_x [bpf]"},
	{"a last line that is cut off", 0xffffffffc0400300, "bpf_prog_1234_x [bpf]"},
	{"the label at the end of the kernel's text", 0xffffffff81012001, NULL},
	{"a long function", 0xffffffff81011fff, "last_of_the_kernel"},
	{"the last function of a module", 0xffffffffc0300fff, "earlier_module [xfs]"},
	{"behind it, before another module", 0xffffffffc0301000, NULL},
	{"a long function of a module", 0xffffffffc050ffff, "long_one [zfs]"},
	{"behind the last module", 0xffffffffc0511000, NULL},
	{"far behind the kernel's text", 0xffffffff82000000, NULL},
	{"far behind everything", UINT64_MAX, NULL},
};

static int memory_file(const char *text, size_t size)
{
	int fd = memfd_create("kallsyms", MFD_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(fd_write_all(fd, text, size), 0); /* which leaves the offset at the end */
	return fd;
}

START_TEST(which_symbol)
{
	int fds = fd_count();
	int fd = memory_file(sample, strlen(sample));
	struct kallsyms *k = NULL;
	struct err e = {0};
	ck_assert_msg(kallsyms_read(fd, &k, &e) == 0, "%s", e.text);
	const char *name = kallsyms_find(k, lookups[_i].address);
	if (lookups[_i].expect)
		ck_assert_msg(name && !strcmp(name, lookups[_i].expect), "%s: %s", lookups[_i].name, name);
	else
		ck_assert_msg(!name, "%s: %s", lookups[_i].name, name);
	kallsyms_free(k);
	fd_close(fd);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

static const struct {
	const char *name, *text;
	int expect;
} refused[] = {
	{"all addresses are zero", "0000000000000000 T _stext\n0000000000000000 t startup_64\n", -EACCES},
	{"an empty file", "", -EBADMSG},
	{"data only", "ffffffff81000000 D data\n", -EBADMSG},
	{"no lines at all", "ffffffff81000000 T name", -EBADMSG},
	{"no space before the kind", "ffffffff81000000:T name\n", -EBADMSG},
	{"no space behind it", "ffffffff81000000 T:name\n", -EBADMSG},
};

START_TEST(not_a_table)
{
	int fds = fd_count();
	int fd = memory_file(refused[_i].text, strlen(refused[_i].text));
	struct kallsyms *k = NULL;
	struct err e = {0};
	int r = kallsyms_read(fd, &k, &e);
	ck_assert_msg(r == refused[_i].expect, "%s: %d", refused[_i].name, r);
	ck_assert_ptr_null(k);
	ck_assert_int_ne(e.text[0], 0);
	fd_close(fd);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

START_TEST(not_readable)
{
	struct kallsyms *k = NULL;
	ck_assert_int_eq(kallsyms_read(-1, &k, NULL), -EBADF);
	ck_assert_ptr_null(kallsyms_free(NULL));
}
END_TEST

START_TEST(two_hundred_thousand_lines)
{
	enum { LINES = MANY_OF(200000) };
	char first[64];
	char *text = malloc(LINES * 64);
	size_t size = 0;
	for (int i = 0; i < LINES; i++) /* the second half in front of the first: unsorted */
		size += (size_t)sprintf(text + size, "%016" PRIx64 " t some_kernel_function_%06d\n",
			UINT64_C(0xffffffff81000000) + (uint64_t)((i + LINES / 2) % LINES) * 64, i);
	int fd = memory_file(text, size);
	free(text);
	struct kallsyms *k = NULL;
	int64_t start = clock_cpu();
	ck_assert_int_eq(kallsyms_read(fd, &k, NULL), 0);
	int64_t took = clock_cpu() - start;
	printf("kallsyms: %d lines in %.1f ms\n", LINES, (double)took / 1e6);
	ck_assert_int_lt(took, 2000 * NSEC_PER_MSEC); /* 20 ms are usual; sanitizers and busy machines are slower */
	snprintf(first, sizeof(first), "some_kernel_function_%06d", LINES / 2);
	ck_assert_str_eq(kallsyms_find(k, UINT64_C(0xffffffff81000000)), first);
	kallsyms_free(k);
	fd_close(fd);
}
END_TEST

static bool in_file(const char *text, size_t size, uint64_t address, const char *name)
{
	char line[1024];
	const char *module = strstr(name, " [");
	int len = module ? (int)(module - name) : (int)strlen(name);
	for (const char *type = "tTwW"; *type; type++) {
		int n = snprintf(line, sizeof(line), "%016" PRIx64 " %c %.*s%s%s\n", address, *type, len, name,
			module ? "\t" : "", module ? module + 1 : "");
		if (memmem(text, size, line, (size_t)n))
			return true;
	}
	return false;
}

START_TEST(the_running_kernel)
{
	enum { EVERY = 997 }; /* the comparison is slow, and no line is special */
	int fd = fd_open(AT_FDCWD, "/proc/kallsyms", O_RDONLY, 0);
	struct kallsyms *k = NULL;
	int r = fd < 0 ? fd : kallsyms_read(fd, &k, NULL);
	if (r == -EACCES || r == -ENOENT) {
		printf("kallsyms: not visible to this process, skipped\n");
		fd_close(fd);
		return;
	}
	ck_assert_int_eq(r, 0);
	char *text;
	size_t size;
	ck_assert_int_eq(lseek(fd, 0, SEEK_SET), 0);
	ck_assert_int_eq(fd_slurp(fd, 128 << 20, &text, &size), 0);
	fd_close(fd);
	unsigned n = 0, seen = 0;
	for (char *line = text, *next; (next = strchr(line, '\n')); line = next + 1) {
		char *type;
		uint64_t address = strtoull(line, &type, 16);
		if (!address || !strchr("tTwW", type[1]) || n++ % EVERY)
			continue;
		const char *name = kallsyms_find(k, address);
		ck_assert_msg(name && in_file(text, size, address, name), "%s is not %.80s", name, line);
		seen++;
	}
	ck_assert_uint_gt(seen, 10);
	free(text);
	kallsyms_free(k);
}
END_TEST

static void read_without_memory(const void *fd)
{
	struct kallsyms *k = NULL;
	take_memory(2000); /* not for a slice of the file */
	MUST(kallsyms_read(*(const int *)fd, &k, NULL) == -ENOMEM && !k);
}

START_TEST(without_memory_there_is_no_table)
{
	fd_auto fd = fd_open(AT_FDCWD, "/proc/kallsyms", O_RDONLY, 0);
	ck_assert_int_ge(fd, 0);
	if (memory_can_end())
		ck_assert_int_eq(in_child(read_without_memory, &fd), 0);
}
END_TEST

UNIT_SUITE(kallsyms)
{
	Suite *s = suite_create("kallsyms");
	TCase *t = tcase_create("kallsyms");
	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, which_symbol, 0, COUNT(lookups));
	tcase_add_loop_test(t, not_a_table, 0, COUNT(refused));
	tcase_add_test(t, not_readable);
	tcase_add_test(t, two_hundred_thousand_lines);
	tcase_add_test(t, the_running_kernel);
	tcase_add_test(t, without_memory_there_is_no_table);
	suite_add_tcase(s, t);
	return s;
}
