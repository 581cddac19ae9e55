/* SPDX-License-Identifier: Apache-2.0 */
/* module: what becomes of a file, who shares it, what it is called, and when it is let go. */
#include "profiler/process/module.h"

#include "oci/base/fd.h"
#include "oci/base/journal.h"
#include "tests/unit/support/here.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int fds_before;
static int opened;

static void setup(void)
{
	fds_before = fd_count();
	opened = 0;
}

static void teardown(void)
{
	ck_assert_int_eq(fd_count(), fds_before);
}

static int text_file(void)
{
	int fd = memfd_create("text", MFD_CLOEXEC);
	ck_assert_int_eq(fd_write_all(fd, "#!/bin/sh\n", 10), 0);
	return fd;
}

/* The target's tree: a path decides what the open gives. arg: an errno that every open fails with. */
static int open_by_name(void *arg, const char *path, struct file *ret)
{
	opened++;
	if (arg)
		return *(int *)arg;
	if (!strncmp(path, "/bin/self", 9))
		return file_take(fd_open(AT_FDCWD, "/proc/self/exe", O_RDONLY, 0), ret);
	if (!strcmp(path, "/bin/sh")) /* small: the room for its rows does not depend on the limit */
		return file_take(fd_open(AT_FDCWD, path, O_RDONLY, 0), ret);
	if (!strcmp(path, "/bin/script"))
		return file_take(text_file(), ret);
	if (!strcmp(path, "/bin/directory"))
		return file_take(fd_open_dir(AT_FDCWD, "/"), ret);
	return !strcmp(path, "/bin/denied") ? -EACCES : -ENOENT;
}

static struct module *get(struct modules *t, const char *path, uint64_t ino, int *fail)
{
	struct module_key key = {.path = path, .ino = ino};
	struct module *m = NULL;
	ck_assert_int_eq(modules_get(t, &key, open_by_name, fail, &m), 0);
	ck_assert_ptr_nonnull(m);
	return m;
}

static const struct {
	const char *name, *path;
	enum module_state state;
	const char *frame; /* of address 0x1234; NULL: not looked at */
	int opens;
} rows[] = {
	{"a program", "/bin/self", MODULE_LOADED, NULL, 1},
	{"a program we may not read", "/bin/denied", MODULE_UNREADABLE, "[unreadable] denied+0x1234", 1},
	{"a library removed since", "/lib/gone.so (deleted)", MODULE_UNREADABLE,
		"[unreadable] gone.so (deleted)+0x1234", 1},
	{"a script is no ELF file", "/bin/script", MODULE_NOT_ELF, "script+0x1234", 1},
	{"a directory is no regular file", "/bin/directory", MODULE_NOT_ELF, "directory+0x1234", 1},
	{"anonymous memory is not opened", "//anon", MODULE_ANONYMOUS, "[anon]", 0},
	{"a mapping without a name", "", MODULE_ANONYMOUS, "[anon]", 0},
	{"the heap keeps its name", "[heap]", MODULE_ANONYMOUS, "[heap]", 0},
	{"a memfd is never in the tree", "/memfd:jit (deleted)", MODULE_ANONYMOUS, "[anon]", 0},
	{"the vdso is our own", "[vdso]", MODULE_LOADED, NULL, 0},
};

START_TEST(what_becomes_of_a_file)
{
	struct modules *t;
	char frame[MODULE_NAME_MAX];
	ck_assert_int_eq(modules_new(64 << 20, &t), 0);
	struct module *m = get(t, rows[_i].path, 1, NULL);
	ck_assert_msg(module_state(m) == rows[_i].state, "%s: state %d, %s", rows[_i].name, module_state(m),
		module_reason(m));
	ck_assert_str_eq(module_name(m), rows[_i].path);
	ck_assert_int_eq(opened, rows[_i].opens);
	ck_assert_int_eq(!*module_reason(m), rows[_i].state == MODULE_LOADED);
	ck_assert_int_eq(!!module_elf(m), rows[_i].state == MODULE_LOADED);
	if (rows[_i].frame)
		ck_assert_str_eq(module_frame_name(m, 0x1234, frame, sizeof(frame)), rows[_i].frame);
	module_unref(m);
	modules_free(t);
}
END_TEST

START_TEST(an_unknown_module_has_a_name_too)
{
	char frame[MODULE_NAME_MAX];
	ck_assert_str_eq(module_frame_name(NULL, 7, frame, sizeof(frame)), "[unknown]");
	ck_assert_uint_eq(module_id(NULL), 0);
	ck_assert_uint_eq(module_vaddr(NULL, 7), 7);
	ck_assert_ptr_null(module_symbol(NULL, 7, NULL));
	ck_assert_ptr_null(module_unref(module_ref(NULL)));
}
END_TEST

/* This function's own address, through /proc/self/maps. */
static uint64_t own_vaddr(const struct module *m)
{
	uint64_t me = (uint64_t)(uintptr_t)&own_vaddr, vaddr = 0;
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned long long start, end, off;
	char line[512];
	while (fgets(line, sizeof(line), maps))
		if (sscanf(line, "%llx-%llx %*s %llx", &start, &end, &off) == 3 && me >= start && me < end)
			vaddr = module_vaddr(m, me - start + off);
	fclose(maps);
	return vaddr;
}

START_TEST(symbols_of_this_program_and_of_the_vdso)
{
	struct modules *t;
	uint64_t offset = 1;
	char frame[MODULE_NAME_MAX];
	modules_new(64 << 20, &t);
	struct module *self = get(t, "/bin/self", 1, NULL), *vdso = get(t, "[vdso]", 0, NULL);
	uint64_t vaddr = own_vaddr(self);
	ck_assert_str_eq(module_symbol(self, vaddr, &offset), "own_vaddr");
	ck_assert_uint_eq(offset, 0);
	ck_assert_str_eq(module_frame_name(self, vaddr + 1, frame, sizeof(frame)), "own_vaddr");
	ck_assert_str_eq(module_frame_name(self, 1, frame, sizeof(frame)), "self+0x1");
	ck_assert_str_eq(module_frame_name(self, 1, frame, 4), "sel");
	ck_assert_ptr_nonnull(module_elf(vdso)->eh_frame_hdr.data);
	bool found = false;
	for (uint64_t v = 0; v < 8192 && !found; v++)
		found = !strncmp(module_frame_name(vdso, v, frame, sizeof(frame)), "__vdso_", 7);
	ck_assert(found);
	module_unref(self);
	module_unref(vdso);
	modules_free(t);
}
END_TEST

START_TEST(one_file_is_read_once)
{
	struct modules *t;
	struct modules_stats stats;
	modules_new(64 << 20, &t);
	struct module *a = get(t, "/bin/self", 1, NULL), *b = get(t, "/bin/self", 1, NULL);
	struct module *other = get(t, "/bin/self", 2, NULL), *path = get(t, "/bin/self2", 1, NULL);
	ck_assert_ptr_eq(a, b);
	ck_assert_ptr_ne(a, other);
	ck_assert_ptr_ne(a, path);
	ck_assert_uint_ne(module_id(a), module_id(other));
	modules_stats(t, &stats);
	ck_assert_uint_eq(stats.count, 3);
	ck_assert_uint_eq(stats.loaded, 3);
	ck_assert_uint_eq(stats.loads, 3);
	ck_assert_uint_eq(stats.hits, 1);
	module_unref(a);
	module_unref(b);
	module_unref(other);
	module_unref(path);
	modules_free(t);
}
END_TEST

START_TEST(the_build_id_decides)
{
	struct modules *t;
	modules_new(64 << 20, &t);
	struct module *first = get(t, "/bin/self", 1, NULL), *a, *b, *c;
	const struct elf *elf = module_elf(first);
	ck_assert_uint_gt(elf->build_id_len, 0);
	ck_assert_uint_eq(strlen(module_build_id_hex(first)), 2 * elf->build_id_len);
	struct module_key key = {.path = "/bin/self", .ino = 5, .build_id_len = (uint8_t)elf->build_id_len};
	memcpy(key.build_id, elf->build_id, elf->build_id_len);
	ck_assert_int_eq(modules_get(t, &key, open_by_name, NULL, &a), 0);
	ck_assert_int_eq(module_state(a), MODULE_LOADED);
	key.path = "/bin/self-elsewhere";
	key.ino = 6;
	ck_assert_int_eq(modules_get(t, &key, open_by_name, NULL, &b), 0);
	ck_assert_ptr_eq(a, b); /* the same code in another image */
	key.build_id[0] ^= 1;
	ck_assert_int_eq(modules_get(t, &key, open_by_name, NULL, &c), 0);
	ck_assert_int_eq(module_state(c), MODULE_OTHER_FILE);
	ck_assert_ptr_null(module_symbol(c, own_vaddr(first), NULL));
	module_unref(first);
	module_unref(a);
	module_unref(b);
	module_unref(c);
	modules_free(t);
}
END_TEST

START_TEST(a_failure_is_tried_again_with_the_next_tree)
{
	struct modules *t;
	int denied = -EACCES;
	modules_new(64 << 20, &t);
	struct module *a = get(t, "/bin/self", 1, &denied);
	uint32_t id = module_id(a);
	ck_assert_int_eq(module_state(a), MODULE_UNREADABLE);
	ck_assert_ptr_nonnull(strstr(module_reason(a), "Permission denied"));
	struct module *b = get(t, "/bin/self", 1, NULL);
	ck_assert_ptr_eq(a, b);
	ck_assert_int_eq(module_state(a), MODULE_LOADED);
	ck_assert_uint_eq(module_id(a), id);
	ck_assert_str_eq(module_reason(a), "");
	ck_assert_ptr_eq(get(t, "/bin/self", 1, &denied), a); /* and stays loaded */
	ck_assert_int_eq(module_state(a), MODULE_LOADED);
	ck_assert_int_eq(opened, 2);
	module_unref(a);
	module_unref(a);
	module_unref(a);
	modules_free(t);
}
END_TEST

START_TEST(the_cap_evicts_the_unreferenced_oldest_first)
{
	struct modules *t;
	struct modules_stats stats;
	modules_new(64 << 20, &t);
	struct module *m = get(t, "/bin/sh", 1, NULL);
	modules_stats(t, &stats);
	modules_free(t);
	size_t one = stats.bytes;

	modules_new(one * 2 + one / 2 + one / 4, &t); /* two files, and names */
	struct module *a = get(t, "/bin/sh", 1, NULL), *b = get(t, "/bin/sh", 2, NULL);
	m = get(t, "/bin/sh", 3, NULL); /* both are in use */
	ck_assert_int_eq(module_state(m), MODULE_NO_ROOM);
	ck_assert_ptr_null(module_elf(m));
	module_unref(b);
	module_unref(a);
	module_unref(m);
	m = get(t, "/bin/sh", 3, NULL); /* b goes, released first */
	ck_assert_int_eq(module_state(m), MODULE_LOADED);
	opened = 0;
	module_unref(get(t, "/bin/sh", 1, NULL));
	ck_assert_int_eq(opened, 0);
	module_unref(get(t, "/bin/sh", 2, NULL));
	ck_assert_int_eq(opened, 1);
	modules_stats(t, &stats);
	ck_assert_uint_ge(stats.evictions, 2);
	ck_assert_uint_le(stats.bytes, one * 2 + one / 2 + one / 4);
	module_unref(m);
	modules_free(t);
}
END_TEST

START_TEST(what_is_of_one_target_alone_goes_with_it)
{
	struct modules *t;
	struct modules_stats stats;
	struct module *m = NULL, *held;
	modules_new(64 << 20, &t);
	for (uint64_t generation = 1; generation <= 2; generation++) {
		struct module_key key = {.path = "/bin/self", .generation = generation};
		ck_assert_int_eq(modules_get(t, &key, open_by_name, NULL, &m), 0);
		module_unref(m);
		key.path = "/bin/script";
		ck_assert_int_eq(modules_get(t, &key, open_by_name, NULL, &held), 0);
		if (generation == 2)
			module_unref(held);
	}
	modules_drop(t, 1); /* its script is in use */
	modules_stats(t, &stats);
	ck_assert_uint_eq(stats.count, 3);
	modules_drop(t, 2);
	modules_stats(t, &stats);
	ck_assert_uint_eq(stats.count, 1);
	modules_drop(t, 1);
	modules_stats(t, &stats);
	ck_assert_uint_eq(stats.count, 1);
	modules_free(t);

	ck_assert(module_has_file("/bin/self") && module_has_file("/lib/gone.so (deleted)"));
	ck_assert(!module_has_file("[vdso]") && !module_has_file("//anon") && !module_has_file("/memfd:x (deleted)"));
}
END_TEST

START_TEST(not_even_room_for_a_name)
{
	struct modules *t;
	struct module *m = NULL;
	struct module_key key = {.path = "/bin/self"};
	modules_new(16, &t);
	ck_assert_int_eq(modules_get(t, &key, open_by_name, NULL, &m), -ENOSPC);
	ck_assert_ptr_null(m);
	key.build_id_len = ELF_BUILD_ID_MAX + 1;
	ck_assert_int_eq(modules_get(t, &key, open_by_name, NULL, &m), -EINVAL);
	modules_free(t);
}
END_TEST

/* As a journal has them: a text with its length and NUL, numbers below 128 in a byte. */
static const struct {
	const char *name, *bytes;
	size_t n;
	bool is_key;
} saved[] = {
	{"a key", "\3/a\0\1\2\3\4\2\xab\xcd", 11, true},
	{"no build-id", "\3/a\0\1\2\3\4\0", 9, true},
	{"cut", "\3/a\0\1\2\3\4\2\xab", 10, false},
	{"a path without end", "\3/ab\1\2\3\4\0", 9, false},
	{"a device beyond 32 bits", "\3/a\0\x80\x80\x80\x80\x10\2\3\4\0", 13, false},
	{"a build-id that is too long",
		"\3/a\0\1\2\3\4\x15"
		"012345678901234567890",
		9 + 21, false},
};

START_TEST(a_key_of_a_journal)
{
	struct journal_reader from = {.at = (const uint8_t *)saved[_i].bytes};
	struct module_key key;
	from.end = from.at + saved[_i].n;
	module_key_load(&from, &key);
	ck_assert_msg(from.bad == !saved[_i].is_key, "%s", saved[_i].name);
	if (from.bad)
		return;
	ck_assert_str_eq(key.path, "/a");
	ck_assert(key.maj == 1 && key.min == 2 && key.ino == 3 && key.generation == 4 && from.at == from.end);
	ck_assert(key.build_id_len == (_i ? 0 : 2) && (_i || !memcmp(key.build_id, "\xab\xcd", 2)));
}
END_TEST

UNIT_SUITE(module)
{
	Suite *suite = suite_create("module");
	TCase *t = tcase_create("module");
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_loop_test(t, what_becomes_of_a_file, 0, sizeof(rows) / sizeof(*rows));
	tcase_add_test(t, an_unknown_module_has_a_name_too);
	tcase_add_test(t, symbols_of_this_program_and_of_the_vdso);
	tcase_add_test(t, one_file_is_read_once);
	tcase_add_test(t, the_build_id_decides);
	tcase_add_test(t, a_failure_is_tried_again_with_the_next_tree);
	tcase_add_test(t, the_cap_evicts_the_unreferenced_oldest_first);
	tcase_add_test(t, what_is_of_one_target_alone_goes_with_it);
	tcase_add_test(t, not_even_room_for_a_name);
	tcase_add_loop_test(t, a_key_of_a_journal, 0, sizeof(saved) / sizeof(*saved));
	suite_add_tcase(suite, t);
	return suite;
}
