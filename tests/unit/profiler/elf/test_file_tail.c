/* SPDX-License-Identifier: Apache-2.0 */
/* tail: when a file is another one. */
#include "profiler/elf/file_tail.h"

#include "oci/base/fd.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int file(const char *text)
{
	int fd = memfd_create("tail", MFD_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(fd_write_all(fd, text, strlen(text)), 0);
	return fd;
}

/* As a reader does: opened anew for each look. */
static bool looks_on(struct file_tail *t, int fd)
{
	struct file f;
	ck_assert_int_eq(file_on(fd, &f), 0);
	return file_tail_look(t, &f);
}

static void read_up_to(struct file_tail *t, const char *text, size_t from, size_t to)
{
	t->offset = from;
	file_tail_seen(t, text + from, to - from);
	t->offset = to;
}

START_TEST(what_is_another_file)
{
	static const char text[] = "one line\nanother line\n";
	int fds = fd_count();
	struct file_tail t = {0};
	int fd = file(text), same = dup(fd), other = file(text);
	ck_assert(!looks_on(&t, fd));
	ck_assert(looks_on(&t, fd)); /* nothing read of it, yet the same */
	read_up_to(&t, text, 2, 9);
	ck_assert(looks_on(&t, fd));
	ck_assert(looks_on(&t, same));
	ck_assert_uint_eq(t.offset, 9);
	ck_assert_int_eq(pwrite(fd, "_", 1, 12), 1); /* not read yet */
	ck_assert(looks_on(&t, fd));
	ck_assert_int_eq(pwrite(fd, "_", 1, 8), 1);
	ck_assert(!looks_on(&t, fd));
	ck_assert_uint_eq(t.offset, 0);
	read_up_to(&t, text, 10, 15);
	ck_assert_int_eq(ftruncate(fd, 15), 0);
	ck_assert(!looks_on(&t, fd)); /* "_" was written into these */
	read_up_to(&t, text, 0, 7);
	ck_assert_int_eq(ftruncate(fd, 6), 0);
	ck_assert(!looks_on(&t, fd));
	read_up_to(&t, text, 0, 6);
	ck_assert(looks_on(&t, fd));
	ck_assert(!looks_on(&t, other));
	ck_assert(looks_on(&t, other));
	fd_close(fd);
	fd_close(same);
	fd_close(other);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

UNIT_SUITE(file_tail)
{
	Suite *s = suite_create("file_tail");
	TCase *t = tcase_create("file_tail");

	tcase_add_test(t, what_is_another_file);
	suite_add_tcase(s, t);
	return s;
}
