/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/spool/user_spool.h"

#include "oci/base/fd.h"
#include "profiler/spool/spool.h"
#include "tests/unit/support/child.h"
#include "tests/unit/support/skip.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#define USER 64901
#define OTHER 64902
#define SERVICE 64900

static char top[] = "/tmp/test_user_spool.XXXXXX";

static void setup(void)
{
	ck_assert_ptr_nonnull(mkdtemp(strcpy(top, "/tmp/test_user_spool.XXXXXX")));
	ck_assert_int_eq(chmod(top, 0751), 0);
}

static void teardown(void)
{
	char command[64];
	snprintf(command, sizeof(command), "rm -rf %s", top);
	ck_assert_int_eq(system(command), 0);
}

static bool has_lists(void)
{
	if (geteuid() != 0)
		return skip("other users' eyes need root"), false;
	if (getxattr(top, "system.posix_acl_access", NULL, 0) < 0 && errno == EOPNOTSUPP)
		return skip("no access control lists in /tmp"), false;
	return true;
}

static void become(uid_t uid)
{
	MUST(setresgid(uid, uid, uid) == 0 && setresuid(uid, uid, uid) == 0);
}

/* As the exporter does it. */
static void write_profile(const void *arg)
{
	struct spool *s;
	struct err e;
	char path[400];
	become(SERVICE);
	umask(022);
	fd_auto spool = fd_open_dir(AT_FDCWD, top);
	int dir = user_spool_open(spool, USER);
	MUST(dir >= 0);
	MUST(spool_open_take(dir, 0, 0, &s, &e) == 0);
	MUST(spool_write(s, "web", 0, *(const unsigned *)arg, "cpu", "profile", 7, path, sizeof(path), &e) == 0);
	spool_close(s);
}

struct look {
	const char *path;
	int flags, user, others; /* open(2): 0 or -errno */
};

static const struct look looks[] = {
	{".users/64901", O_RDONLY | O_DIRECTORY, 0, -EACCES},
	{".users/64901/web", O_RDONLY | O_DIRECTORY, 0, -EACCES},
	{".users/64901/web/19700101T000000Z-000001-cpu.pb.gz", O_RDONLY, 0, -EACCES},
	{".users/64901/web/19700101T000000Z-000001-cpu.pb.gz", O_WRONLY, -EACCES, -EACCES},
	{".users/64901/new", O_WRONLY | O_CREAT, -EACCES, -EACCES},
	{".users/64901/web/new", O_WRONLY | O_CREAT, -EACCES, -EACCES},
	{".", O_RDONLY | O_DIRECTORY, -EACCES, -EACCES},
	{".users", O_RDONLY | O_DIRECTORY, -EACCES, -EACCES},
};

static void try(const struct look *l, uid_t uid, int wanted)
{
	char path[200];
	become(uid);
	snprintf(path, sizeof(path), "%s/%s", top, l->path);
	int fd = fd_open(AT_FDCWD, path, l->flags, 0600);
	if ((fd < 0 ? fd : 0) != wanted) {
		dprintf(2, "user %u, %s: %d, not %d\n", (unsigned)uid, l->path, fd, wanted);
		_exit(1);
	}
}

static void try_user(const void *arg)
{
	try(arg, USER, ((const struct look *)arg)->user);
}

static void try_other(const void *arg)
{
	try(arg, OTHER, ((const struct look *)arg)->others);
}

START_TEST(who_reads)
{
	if (!has_lists())
		return;
	ck_assert_int_eq(chown(top, SERVICE, SERVICE), 0);
	for (unsigned seq = 1; seq <= 2; seq++) /* the second time it is there */
		ck_assert_int_eq(in_child(write_profile, &seq), 0);
	for (size_t i = 0; i < sizeof(looks) / sizeof(looks[0]); i++) {
		ck_assert_int_eq(in_child(try_user, &looks[i]), 0);
		ck_assert_int_eq(in_child(try_other, &looks[i]), 0);
	}
}
END_TEST

/* A link that somebody put there leads nowhere. */
START_TEST(a_link)
{
	char path[100];
	snprintf(path, sizeof(path), "%s/.users", top);
	ck_assert_int_eq(mkdir(path, 0755), 0);
	snprintf(path, sizeof(path), "%s/.users/%u", top, USER);
	ck_assert_int_eq(symlink("/", path), 0);
	fd_auto spool = fd_open_dir(AT_FDCWD, top);
	ck_assert_int_lt(user_spool_open(spool, USER), 0);
}
END_TEST

UNIT_SUITE(user_spool)
{
	Suite *s = suite_create("user_spool");
	TCase *t = tcase_create("user_spool");
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, who_reads);
	tcase_add_test(t, a_link);
	suite_add_tcase(s, t);
	return s;
}
