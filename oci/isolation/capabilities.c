/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/isolation/capabilities.h"

#include <errno.h>
#include <grp.h>
#include <linux/securebits.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The three sets as 64-bit masks; the kernel's interface has two 32-bit words of each. */
struct sets {
	uint64_t effective, permitted, inheritable;
};

static int get_sets(struct sets *ret)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct d[2] = {0};
	if (syscall(SYS_capget, &head, d) < 0)
		return -errno;
	*ret = (struct sets){
		.effective = d[0].effective | (uint64_t)d[1].effective << 32,
		.permitted = d[0].permitted | (uint64_t)d[1].permitted << 32,
		.inheritable = d[0].inheritable | (uint64_t)d[1].inheritable << 32,
	};
	return 0;
}

/* Permitted and effective become `keep`, nothing is inheritable (so nothing can be ambient). */
static int set_sets(uint64_t keep)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct d[2] = {
		{.effective = (uint32_t)keep, .permitted = (uint32_t)keep},
		{.effective = (uint32_t)(keep >> 32), .permitted = (uint32_t)(keep >> 32)},
	};
	return syscall(SYS_capset, &head, d) < 0 ? -errno : 0;
}

bool capabilities_known(unsigned cap)
{
	return prctl(PR_CAPBSET_READ, cap) >= 0;
}

uint64_t capabilities_effective(void)
{
	struct sets s = {0};
	return get_sets(&s) < 0 ? 0 : s.effective;
}

void capabilities_empty_bounding(void)
{
	for (unsigned cap = 0; capabilities_known(cap); cap++)
		if (prctl(PR_CAPBSET_DROP, cap) < 0)
			return;
}

/* Needs CAP_SETPCAP, so it goes first; a process without it has no uid 0 privilege to lock out either. */
static bool lock_root_out(void)
{
	return prctl(PR_SET_SECUREBITS, SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |
						SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED |
						SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED) == 0;
}

int capabilities_limit(uint64_t keep, struct err *e)
{
	lock_root_out();
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_set(e, -errno, "cannot set no_new_privs");
	struct sets s;
	int r = get_sets(&s);
	if (r == 0)
		r = set_sets(keep & s.permitted);
	return r < 0 ? err_set(e, r, "cannot give up capabilities") : 0;
}

int capabilities_become(uid_t uid, gid_t gid, uint64_t keep, struct err *e)
{
	if (geteuid() != 0 && getuid() == uid && geteuid() == uid && getgid() == gid)
		return capabilities_limit(keep, e);
	/* Once root is locked out, a change of user moves no capability; else KEEPCAPS keeps the permitted set. */
	if (!lock_root_out() && keep && prctl(PR_SET_KEEPCAPS, 1) < 0)
		return err_set(e, -errno, "cannot keep capabilities over the change of user");
	if (setgroups(0, NULL) < 0 && errno != EPERM)
		return err_set(e, -errno, "cannot drop supplementary groups");
	if (setresgid(gid, gid, gid) < 0)
		return err_set(e, -errno, "cannot become group %u", (unsigned)gid);
	if (setresuid(uid, uid, uid) < 0)
		return err_set(e, -errno, "cannot become user %u", (unsigned)uid);
	return capabilities_limit(keep, e);
}
