/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/isolation/capabilities.h"

#include "oci/base/fd.h"
#include "tests/unit/support/no_memory.h"
#include "tests/unit/support/skip.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/securebits.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))
#define NOBODY 65534

static int fds;

static void count_fds(void)
{
	fds = fd_count();
}

static uint64_t mask_of(const char *field)
{
	char text[64];
	MUST(proc_status_field(getpid(), field, text, sizeof(text)) == 0);
	return strtoull(text, NULL, 16);
}

/* What must hold of a process that has given up everything but `keep`. */
static void is_limited_to(uint64_t keep)
{
	MUST(mask_of("CapEff") == keep);
	MUST(mask_of("CapPrm") == keep);
	MUST(mask_of("CapInh") == 0);
	MUST(mask_of("CapAmb") == 0);
	MUST(mask_of("NoNewPrivs") == 1);
	MUST(capabilities_effective() == keep);
}

static int set_permitted(uint64_t mask)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct d[2] = {
		{.effective = (uint32_t)mask, .permitted = (uint32_t)mask},
		{.effective = (uint32_t)(mask >> 32), .permitted = (uint32_t)(mask >> 32)},
	};
	return (int)syscall(SYS_capset, &head, d);
}

/* Every way back that there was. */
static void cannot_regain(void)
{
	const uint64_t had = capabilities_effective();
	int bits = prctl(PR_GET_SECUREBITS);
	MUST(bits & SECBIT_NOROOT && bits & SECBIT_NOROOT_LOCKED && bits & SECBIT_NO_SETUID_FIXUP_LOCKED);
	MUST(set_permitted(had | CAP_BIT(CAP_SYS_PTRACE)) < 0 && errno == EPERM);
	MUST(prctl(PR_SET_SECUREBITS, 0) < 0);
	MUST(prctl(PR_SET_KEEPCAPS, 1) < 0);
	MUST(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_PERFMON, 0, 0) < 0);
	if (geteuid() != 0)
		MUST(setresuid(0, 0, 0) < 0 && setresgid(0, 0, 0) < 0);
	else
		MUST(setresuid(0, 0, 0) == 0); /* means nothing any more */
	MUST(capabilities_effective() == had);
}

/* An exec, also one of a setuid program as uid 0, starts with nothing. */
static void exec_gains_nothing(void)
{
	execl("/bin/sh", "sh", "-c",
		"while read -r k v; do case $k in CapEff:|CapPrm:|CapAmb:|CapInh:)"
		" [ $v = 0000000000000000 ] || exit 1;; esac; done </proc/self/status",
		(char *)NULL);
	_exit(2);
}

static const struct limit {
	const char *scenario;
	uint64_t keep, kept;
} limits[] = {
	{"nothing", 0, 0},
	{"one", CAP_BIT(CAP_PERFMON), CAP_BIT(CAP_PERFMON)},
	{"two", CAP_BIT(CAP_PERFMON) | CAP_BIT(CAP_SYS_ADMIN), CAP_BIT(CAP_PERFMON) | CAP_BIT(CAP_SYS_ADMIN)},
	{"one that no kernel knows", CAP_BIT(62), 0},
};

static void limit(const void *arg)
{
	const struct limit *l = arg;
	struct err e;
	capabilities_empty_bounding();
	MUST(mask_of("CapBnd") == 0);
	MUST(capabilities_limit(l->keep, &e) == 0);
	is_limited_to(l->kept);
	cannot_regain();
	MUST(capabilities_limit(l->keep, &e) == 0); /* again: nothing changes */
	is_limited_to(l->kept);
	MUST(capabilities_limit(0, &e) == 0);
	is_limited_to(0);
	exec_gains_nothing();
}

static const struct becoming {
	const char *scenario;
	uid_t uid;
	gid_t gid;
	uint64_t keep;
} becomings[] = {
	{"nobody with nothing", NOBODY, NOBODY, 0},
	{"nobody who may open perf events", NOBODY, NOBODY, CAP_BIT(CAP_PERFMON)},
	{"another group than user", NOBODY, 12345, CAP_BIT(CAP_PERFMON)},
	{"root with nothing", 0, 0, 0},
	{"root with one", 0, 0, CAP_BIT(CAP_PERFMON)},
};

static void become(const void *arg)
{
	const struct becoming *b = arg;
	struct err e = {0};
	uid_t r, u, su;
	gid_t rg, g, sg;
	gid_t groups[] = {0, 4, 24};
	MUST(setgroups(LENGTH(groups), groups) == 0);
	MUST(capabilities_become(b->uid, b->gid, b->keep, &e) == 0);
	MUST(getresuid(&r, &u, &su) == 0 && r == b->uid && u == b->uid && su == b->uid);
	MUST(getresgid(&rg, &g, &sg) == 0 && rg == b->gid && g == b->gid && sg == b->gid);
	MUST(getgroups(0, NULL) == 0);
	is_limited_to(b->keep);
	cannot_regain();
	int shadow = fd_open(AT_FDCWD, "/etc/shadow", O_RDONLY, 0);
	MUST(b->uid == 0 ? shadow >= 0 : shadow == -EACCES);
	exec_gains_nothing();
}

/* As a plain user, who has nothing to give up, it is the same promise. */
static void become_myself(const void *arg)
{
	struct err e = {0};
	MUST(setresgid(NOBODY, NOBODY, NOBODY) == 0 && setresuid(NOBODY, NOBODY, NOBODY) == 0);
	MUST(capabilities_become(NOBODY, NOBODY, 0, &e) == 0);
	is_limited_to(0);
	MUST(capabilities_become(NOBODY, NOBODY, CAP_BIT(CAP_PERFMON), &e) == 0); /* as far as we had it */
	is_limited_to(0);
	MUST(capabilities_become(12345, 12345, 0, &e) == -EPERM);
	MUST(!strcmp(e.text, "cannot become group 12345: Operation not permitted"));
}

/* Asked to keep what is not there: it is not there afterwards. */
static void become_without_means(const void *arg)
{
	struct err e = {0};
	MUST(set_permitted(capabilities_effective() & ~CAP_BIT(CAP_PERFMON)) == 0);
	MUST(capabilities_become(NOBODY, NOBODY, CAP_BIT(CAP_PERFMON), &e) == 0);
	is_limited_to(0);
}

/* Without CAP_SETPCAP root cannot be locked out, but what is to be kept is kept all the same. */
static void become_without_setpcap(const void *arg)
{
	struct err e = {0};
	MUST(set_permitted(capabilities_effective() & ~CAP_BIT(CAP_SETPCAP)) == 0);
	MUST(capabilities_become(NOBODY, NOBODY, CAP_BIT(CAP_PERFMON), &e) == 0);
	is_limited_to(CAP_BIT(CAP_PERFMON));
	MUST(setresuid(0, 0, 0) < 0);
	MUST(set_permitted(CAP_BIT(CAP_PERFMON) | CAP_BIT(CAP_CHOWN)) < 0);
	exec_gains_nothing();
}

/* libcap's sets are on the heap: without memory nothing is given up, and that is an error. */
static void limit_without_memory(const void *arg)
{
	struct err e = {0};
	const uint64_t had = capabilities_effective();
	take_memory(0);
	MUST(capabilities_limit(0, &e) == -ENOMEM);
	MUST(!strcmp(e.text, "cannot give up capabilities: Cannot allocate memory"));
	MUST(capabilities_effective() == 0); /* it cannot tell */
	setrlimit(RLIMIT_AS, &(struct rlimit){RLIM_INFINITY, RLIM_INFINITY});
	MUST(capabilities_effective() == had);
	MUST(capabilities_limit(0, &e) == 0);
	is_limited_to(0);
}

static bool is_root(const char *what)
{
	if (geteuid() == 0 && capabilities_effective() & CAP_BIT(CAP_SETPCAP))
		return true;
	skip(what);
	return false;
}

START_TEST(limiting)
{
	if (is_root("limiting needs root"))
		ck_assert_msg(in_child(limit, &limits[_i]) == 0, "%s", limits[_i].scenario);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

START_TEST(becoming)
{
	if (is_root("becoming another user needs root"))
		ck_assert_msg(in_child(become, &becomings[_i]) == 0, "%s", becomings[_i].scenario);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

START_TEST(a_plain_user)
{
	if (is_root("becoming a plain user needs root"))
		ck_assert_int_eq(in_child(become_myself, NULL), 0);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

START_TEST(keeping_what_is_not_there)
{
	if (is_root("becoming another user needs root"))
		ck_assert_int_eq(in_child(become_without_means, NULL), 0);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

START_TEST(root_that_may_not_lock_itself_out)
{
	if (is_root("becoming another user needs root"))
		ck_assert_int_eq(in_child(become_without_setpcap, NULL), 0);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

START_TEST(without_memory)
{
	if (memory_can_end())
		ck_assert_int_eq(in_child(limit_without_memory, NULL), 0);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

START_TEST(known_ones)
{
	ck_assert(capabilities_known(CAP_CHOWN));
	ck_assert(!capabilities_known(63));
	ck_assert(!capabilities_known(1000));
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

UNIT_SUITE(capabilities)
{
	Suite *s = suite_create("capabilities");
	TCase *t = tcase_create("capabilities");

	tcase_set_timeout(t, 30);
	tcase_add_checked_fixture(t, count_fds, NULL);
	tcase_add_loop_test(t, limiting, 0, LENGTH(limits));
	tcase_add_loop_test(t, becoming, 0, LENGTH(becomings));
	tcase_add_test(t, a_plain_user);
	tcase_add_test(t, keeping_what_is_not_there);
	tcase_add_test(t, root_that_may_not_lock_itself_out);
	tcase_add_test(t, without_memory);
	tcase_add_test(t, known_ones);
	suite_add_tcase(s, t);
	return s;
}
