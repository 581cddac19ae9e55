/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/isolation/capabilities.h"

#include <errno.h>
#include <grp.h>
#include <linux/securebits.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <unistd.h>

/* Permitted and effective become what there is of `keep`, nothing is inheritable (so nothing can be ambient). */
static int keep_only(uint64_t keep)
{
	cap_t had = cap_get_proc(), left = cap_init();
	int r = had && left ? 0 : -errno;
	for (; r == 0 && keep; keep &= keep - 1) {
		const cap_value_t cap = __builtin_ctzll(keep);
		cap_flag_value_t is;
		if (cap_get_flag(had, cap, CAP_PERMITTED, &is) < 0 ||
			cap_set_flag(left, CAP_PERMITTED, 1, &cap, is) < 0 ||
			cap_set_flag(left, CAP_EFFECTIVE, 1, &cap, is) < 0)
			r = -errno;
	}
	if (r == 0 && cap_set_proc(left) < 0)
		r = -errno;
	cap_free(had);
	cap_free(left);
	return r;
}

bool capabilities_known(unsigned cap)
{
	return CAP_IS_SUPPORTED((cap_value_t)cap);
}

uint64_t capabilities_effective(void)
{
	uint64_t ret = 0;
	cap_t had = cap_get_proc();
	cap_flag_value_t is;
	for (cap_value_t cap = 0; had && cap < cap_max_bits(); cap++)
		if (cap_get_flag(had, cap, CAP_EFFECTIVE, &is) == 0 && is == CAP_SET)
			ret |= CAP_BIT(cap);
	cap_free(had);
	return ret;
}

void capabilities_empty_bounding(void)
{
	for (unsigned cap = 0; capabilities_known(cap); cap++)
		if (cap_drop_bound((cap_value_t)cap) < 0)
			return;
}

/* Needs CAP_SETPCAP, so it goes first; a process without it has no uid 0 privilege to lock out either. */
static bool lock_root_out(void)
{
	return cap_set_secbits(SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |
			       SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE |
			       SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED) == 0;
}

int capabilities_limit(uint64_t keep, struct err *e)
{
	lock_root_out();
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_set(e, -errno, "cannot set no_new_privs");
	int r = keep_only(keep);
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
