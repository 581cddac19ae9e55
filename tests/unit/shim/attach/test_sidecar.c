/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/attach/sidecar.h"

#include "oci/base/fd.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <string.h>

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))

static int fds;

static void count_fds(void)
{
	fds = fd_count();
}

#define UID "01234567-89ab-cdef-0123-456789abcdef"
#define UID_ "01234567_89ab_cdef_0123_456789abcdef"
#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define HASH "0123456789abcdef0123456789abcdef"

static const struct {
	const char *scenario, *cgroup, *pod; /* NULL: in none */
} cases[] = {
	{"kubelet, cgroupfs", "/kubepods/besteffort/pod" UID "/" ID, "/kubepods/besteffort/pod" UID},
	{"kubelet, a static Pod", "/kubepods/pod" HASH "/" ID, "/kubepods/pod" HASH},
	{"kubelet, systemd",
		"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID_ ".slice/cri-containerd-" ID
		".scope",
		"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID_ ".slice"},
	{"kubelet in a cgroup of its own", "/docker/" ID "/kubelet/kubepods/pod" UID "/" ID,
		"/docker/" ID "/kubelet/kubepods/pod" UID},
	{"podman, systemd", "/machine.slice/machine-libpod_pod_" ID ".slice/libpod-" ID ".scope",
		"/machine.slice/machine-libpod_pod_" ID ".slice"},
	{"podman, cgroupfs", "/libpod_parent/" ID "/libpod-" ID, "/libpod_parent/" ID},
	{"podman, no Pod", "/libpod_parent/libpod-" ID, NULL},
	{"Docker: all containers of the host", "/docker/" ID, NULL},
	{"all Pods of a class", "/kubepods/besteffort/" ID, NULL},
	{"a short name", "/pod1/" ID, NULL},
	{"a word that begins so", "/podium-of-everything-that-there-is-and-was/" ID, NULL},
	{"the root's", "/" ID, NULL},
	{"the root", "/", NULL},
	{"nothing", "", NULL},
};

START_TEST(a_pod_is_known_by_the_name_above)
{
	char pod[1024] = "";
	const int r = sidecar_pod(cases[_i].cgroup, pod, sizeof(pod));
	ck_assert_msg((r == 0) == (cases[_i].pod != NULL), "%s: %d, %s", cases[_i].scenario, r, pod);
	ck_assert_msg(r < 0 || !strcmp(pod, cases[_i].pod), "%s: %s", cases[_i].scenario, pod);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

START_TEST(a_long_path_is_in_none)
{
	char pod[8];
	ck_assert_int_lt(sidecar_pod("/kubepods/pod" UID "/" ID, pod, sizeof(pod)), 0);
}
END_TEST

UNIT_SUITE(sidecar)
{
	Suite *s = suite_create("sidecar");
	TCase *tc = tcase_create("sidecar");
	tcase_add_checked_fixture(tc, count_fds, NULL);
	tcase_add_loop_test(tc, a_pod_is_known_by_the_name_above, 0, LENGTH(cases));
	tcase_add_test(tc, a_long_path_is_in_none);
	suite_add_tcase(s, tc);
	return s;
}
