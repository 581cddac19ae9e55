/* SPDX-License-Identifier: Apache-2.0 */
/* jit: the files of a process beneath a tree, of its parent, and what they may hold. */
#include "profiler/symbol/jit_symbols.h"

#include "profiler/process/address_space.h"

#include "oci/base/fd.h"
#include "tests/unit/support/here.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROOM (1u << 20)

static char dir[64];
static int fds, tree, opened;
static struct jit_room room;
static struct map_files *files;
static struct address_space *space;

static struct module *no_module(void *arg, const struct module_key *key)
{
	return NULL;
}

static int open_here(void *arg, const char *path, struct file *ret)
{
	opened++;
	return file_take(fd_open_beneath(tree, path, O_RDONLY | O_NOFOLLOW), ret);
}

static void begin(void)
{
	fds = fd_count();
	snprintf(dir, sizeof(dir), "/tmp/test_jit.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	tree = fd_open_dir(AT_FDCWD, dir);
	ck_assert_int_eq(mkdirat(tree, "tmp", 0755), 0);
	room = (struct jit_room){.left = ROOM};
	ck_assert_int_eq(map_files_new(no_module, NULL, &files), 0);
	ck_assert_int_eq(address_space_new(files, &space), 0);
	opened = 0;
}

static void end(void)
{
	char command[128];
	space = address_space_free(space);
	files = map_files_free(files);
	tree = fd_close(tree);
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	ck_assert_int_eq(system(command), 0);
	ck_assert_uint_eq(room.left, ROOM); /* all of it came back */
	ck_assert_int_eq(fd_count(), fds);
}

static void append(const char *path, const char *text)
{
	int fd = openat(tree, path, O_WRONLY | O_CREAT | O_APPEND, 0644);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

static const char *name_at(const struct jit *j, uint64_t address)
{
	const char *name, *file;
	uint32_t line;
	return jit_find(j, address, &name, &file, &line) ? name : NULL;
}

START_TEST(a_map_is_read_on_as_it_grows)
{
	struct jit *j;
	ck_assert_int_eq(jit_new(7, address_space_find_jitdump(space, 7), NULL, &room, &j), 0);
	jit_refresh(j, 1, open_here, NULL); /* not there yet */
	ck_assert_ptr_null(name_at(j, 0x1000));
	append("tmp/perf-7.map", "1000 10 first\n");
	append("tmp/perf-8.map", "1000 10 of another process\n");
	jit_refresh(j, 2, open_here, NULL);
	ck_assert_str_eq(name_at(j, 0x100f), "first");
	ck_assert_ptr_null(name_at(j, 0x1010));
	append("tmp/perf-7.map", "1008 10 second\n");
	jit_refresh(j, 3, open_here, NULL);
	ck_assert_str_eq(name_at(j, 0x1007), "first");
	ck_assert_str_eq(name_at(j, 0x1008), "second");
	ck_assert_uint_lt(room.left, ROOM);
	jit_unref(j);
}
END_TEST

/* A program that forks without end, and each child of it is seen in such code. */
START_TEST(generations_are_not_kept_for_ever)
{
	struct jit *j = NULL, *child;
	size_t left = 0;
	for (uint32_t pid = 1; pid <= 1000; pid++) {
		ck_assert_int_eq(jit_new(pid, address_space_find_jitdump(space, pid), j, &room, &child), 0);
		jit_unref(j);
		j = child;
		left = pid == 100 ? room.left : left;
	}
	ck_assert_uint_eq(room.left, left);
	append("tmp/perf-998.map", "1000 10 first\n");
	jit_refresh(j, 1, open_here, NULL);
	ck_assert_str_eq(name_at(j, 0x1000), "first");
	jit_unref(j);
}
END_TEST

START_TEST(the_same_moment_reads_once)
{
	struct jit *j;
	ck_assert_int_eq(jit_new(7, address_space_find_jitdump(space, 7), NULL, &room, &j), 0);
	jit_refresh(j, 1, open_here, NULL);
	jit_refresh(j, 1, open_here, NULL);
	ck_assert_int_eq(opened, 1);
	jit_unref(j);
}
END_TEST

START_TEST(a_child_has_its_own_names_and_its_parents)
{
	struct jit *parent, *child;
	ck_assert_int_eq(jit_new(7, address_space_find_jitdump(space, 7), NULL, &room, &parent), 0);
	ck_assert_int_eq(jit_new(8, address_space_find_jitdump(space, 8), parent, &room, &child), 0);
	jit_unref(parent); /* the child's reference stays */
	append("tmp/perf-7.map", "1000 10 inherited\n2000 10 inherited, thrown away\n");
	append("tmp/perf-8.map", "2000 10 own\n");
	jit_refresh(child, 1, open_here, NULL);
	ck_assert_str_eq(name_at(child, 0x1000), "inherited");
	ck_assert_str_eq(name_at(child, 0x2000), "own");
	jit_unref(child);
}
END_TEST

START_TEST(a_jitdump_is_found_by_its_mapping)
{
	/* struct jitheader, then one JIT_CODE_LOAD of 16 bytes of code at 0x5000 (jitdump-specification.txt) */
	struct {
		uint32_t magic, version, size, machine, pad, pid;
		uint64_t time, flags;
		uint32_t id, total;
		uint64_t stamp;
		uint32_t p, t;
		uint64_t vma, addr, code_size, index;
		char name[8];
		uint8_t code[16];
	} __attribute__((packed))
	dump = {0x4A695444, 1, 40, 62, 0, 7, 0, 0, 0, 56 + 8 + 16, 1, 7, 7, 0x5000, 0x5000, 16, 1, "dumped!", {0}};
	struct module_key key = {.path = "/tmp/jit-7.dump", .ino = 1};
	struct jit *j;
	int fd = openat(tree, "tmp/jit-7.dump", O_WRONLY | O_CREAT, 0644);
	ck_assert_int_eq(write(fd, &dump, sizeof(dump)), sizeof(dump));
	close(fd);
	ck_assert_int_eq(address_space_map(space, 0x9000, 0x1000, 0, &key), 0);
	ck_assert_int_eq(jit_new(7, address_space_find_jitdump(space, 7), NULL, &room, &j), 0);
	jit_refresh(j, 1, open_here, NULL);
	ck_assert_str_eq(name_at(j, 0x5008), "dumped!");
	jit_unref(j);
	ck_assert_int_eq(jit_new(8, address_space_find_jitdump(space, 8), NULL, &room, &j),
		0); /* not what another process wrote */
	jit_refresh(j, 1, open_here, NULL);
	ck_assert_ptr_null(name_at(j, 0x5008));
	jit_unref(j);
}
END_TEST

START_TEST(a_link_in_place_of_the_map_is_not_followed)
{
	struct jit *j;
	append("secret", "1000 10 secret\n");
	ck_assert_int_eq(symlinkat("../secret", tree, "tmp/perf-7.map"), 0);
	ck_assert_int_eq(jit_new(7, address_space_find_jitdump(space, 7), NULL, &room, &j), 0);
	jit_refresh(j, 1, open_here, NULL);
	ck_assert_ptr_null(name_at(j, 0x1000));
	jit_unref(j);
}
END_TEST

static int open_denied(void *arg, const char *path, struct file *ret)
{
	return strstr(path, arg) ? -EACCES : open_here(NULL, path, ret);
}

static const struct {
	const char *denied, *dump, *expect;
} denials[] = {
	{"perf-7.map", "", "/tmp/perf-7.map"},
	{"perf-6.map", "", "/tmp/perf-6.map"}, /* the parent's */
	{"perf-8.map", "", NULL},
	{"nothing", "/tmp/jit-7.dump", NULL}, /* neither file is there */
	{"jit-7.dump", "/tmp/jit-7.dump", "/tmp/jit-7.dump"},
	{"/tmp/", "/tmp/jit-7.dump", "/tmp/jit-7.dump"},
};

START_TEST(a_file_that_may_not_be_read_is_told)
{
	struct jit *parent, *j;
	char path[PATH_MAX];
	const char *expect = denials[_i].expect;
	ck_assert_int_eq(jit_new(6, "", NULL, &room, &parent), 0);
	ck_assert_int_eq(jit_new(7, denials[_i].dump, parent, &room, &j), 0);
	ck_assert_ptr_null(jit_denied(j, path));
	jit_refresh(j, 1, open_denied, (void *)denials[_i].denied);
	const char *denied = jit_denied(j, path);
	ck_assert_msg(expect ? denied && !strcmp(denied, expect) : !denied, "%s: %s", denials[_i].denied, denied);
	jit_refresh(j, 2, open_here, NULL); /* it may be by now */
	ck_assert_ptr_null(jit_denied(j, path));
	jit_unref(j);
	jit_unref(parent);
}
END_TEST

START_TEST(all_of_them_share_one_limit)
{
	struct jit *a, *b;
	char line[64];
	FILE *f;
	ck_assert_int_eq(jit_new(7, address_space_find_jitdump(space, 7), NULL, &room, &a), 0);
	ck_assert_int_eq(jit_new(8, address_space_find_jitdump(space, 8), NULL, &room, &b), 0);
	f = fdopen(openat(tree, "tmp/perf-7.map", O_WRONLY | O_CREAT, 0644), "w");
	for (unsigned i = 0; i < 200000; i++)
		fprintf(f, "%x 10 function_%u\n", 0x10000 + i * 16, i);
	fclose(f);
	snprintf(line, sizeof(line), "1000 10 late\n");
	append("tmp/perf-8.map", line);
	jit_refresh(a, 1, open_here, NULL);
	ck_assert_str_eq(name_at(a, 0x10000), "function_0");
	ck_assert_uint_lt(room.left, ROOM / 4);
	jit_refresh(b, 1, open_here, NULL);
	ck_assert_uint_le(room.left, ROOM);
	jit_unref(a);
	jit_refresh(b, 2, open_here, NULL);
	jit_unref(b);
}
END_TEST

UNIT_SUITE(jit_symbols)
{
	Suite *s = suite_create("jit_symbols");
	TCase *t = tcase_create("jit_symbols");
	tcase_add_checked_fixture(t, begin, end);
	tcase_add_test(t, a_map_is_read_on_as_it_grows);
	tcase_add_test(t, generations_are_not_kept_for_ever);
	tcase_add_test(t, the_same_moment_reads_once);
	tcase_add_test(t, a_child_has_its_own_names_and_its_parents);
	tcase_add_test(t, a_jitdump_is_found_by_its_mapping);
	tcase_add_test(t, a_link_in_place_of_the_map_is_not_followed);
	tcase_add_loop_test(t, a_file_that_may_not_be_read_is_told, 0, sizeof(denials) / sizeof(denials[0]));
	tcase_add_test(t, all_of_them_share_one_limit);
	suite_add_tcase(s, t);
	return s;
}
