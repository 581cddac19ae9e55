/* SPDX-License-Identifier: Apache-2.0 */
/* The links of the machine: kernel, gates, cgroups. */
#include "profiler/install/doctor.h"

#include "oci/base/fd.h"
#include "shim/event/perf_event.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>

void doctor_kernel(const struct doctor *d, struct check_result *f)
{
	struct utsname name;
	int major = 0, minor = 0;
	uname(&name);
	sscanf(name.release, "%d.%d", &major, &minor);
	const int version = major * 1000 + minor;
	check_report(f,
		version < 5010	 ? FINDING_BROKEN
		: version < 6000 ? FINDING_WARNING
				 : FINDING_OK,
		"%s", name.release);
	if (version < 5010)
		check_suggest_fix(f, "pillion is made for Linux 5.10 and newer");
	else if (version < 6000)
		check_suggest_fix(f,
			"before 6.0 the kernel does not count lost samples for each target: they are shown as shared");
}

void doctor_paranoid(const struct doctor *d, struct check_result *f)
{
	int level = 0, r = perf_paranoid(&level);
	if (r < 0) {
		check_report(f, FINDING_BROKEN, "this kernel has no perf events (CONFIG_PERF_EVENTS)");
		check_suggest_fix(f, "timer mode alone works: 'pillion run' says how");
		return;
	}
	check_report(f, level > 2 ? FINDING_WARNING : FINDING_OK, "%d", level);
	if (level > 2)
		check_suggest_fix(f,
			"a level of this distribution's: root's hooks work and keep CAP_SYS_ADMIN for opening; "
			"for plain users "
			"and rootless containers there is nothing, until 'sysctl kernel.perf_event_paranoid=2'");
	else if (level == 2 && geteuid() != 0)
		check_suggest_fix(f, "user code only, for who is not root");
}

/* As capabilities(7) has it: libcap's names are in lower case. */
static void name_capability(cap_value_t cap, char *ret, size_t size)
{
	char *name = cap_to_name(cap);
	snprintf(ret, size, "%s", name ? name : "a capability");
	cap_free(name);
	for (; *ret; ret++)
		*ret = (char)toupper(*ret);
}

void doctor_caps(const struct doctor *d, struct check_result *f)
{
	static const struct {
		cap_value_t cap;
		const char *lost;
	} wanted[] = {
		{CAP_SYS_ADMIN, "the hook cannot join containers' namespaces"},
		{CAP_PERFMON, "no events may be opened"},
		{CAP_SYS_PTRACE, "containers' processes cannot be looked at"},
	};
	char map[64] = "", name[32];
	fd_read_text(AT_FDCWD, "/proc/self/uid_map", map, sizeof(map));
	if (geteuid() != 0) {
		check_report(f, FINDING_WARNING, "asked by a plain user, who has none of them");
		check_suggest_fix(f, "what root's engines can do, root sees: sudo pillion doctor");
		return;
	}
	if (!strstr(map, "4294967295")) {
		check_report(
			f, FINDING_WARNING, "root of a user namespace: the kernel's events take those of the host");
		check_suggest_fix(f, "ask on the host; rootless containers have user code only");
		return;
	}
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		if (cap_get_bound(wanted[i].cap) != 0) /* -1: this kernel does not know it */
			continue;
		name_capability(wanted[i].cap, name, sizeof(name));
		check_report(f, FINDING_BROKEN, "%s is not in the bounding set: %s", name, wanted[i].lost);
		check_suggest_fix(f,
			"whoever starts the engine (a unit's CapabilityBoundingSet, a container's) has to leave it in");
		return;
	}
	check_report(f, FINDING_OK, "CAP_SYS_ADMIN, CAP_PERFMON and CAP_SYS_PTRACE are to be had");
}

void doctor_lsm(const struct doctor *d, struct check_result *f)
{
	char list[256] = "", lockdown[128] = "", enforce[8] = "";
	fd_read_text(AT_FDCWD, "/sys/kernel/security/lsm", list, sizeof(list));
	fd_read_text(AT_FDCWD, "/sys/kernel/security/lockdown", lockdown, sizeof(lockdown));
	fd_read_text(AT_FDCWD, "/sys/fs/selinux/enforce", enforce, sizeof(enforce));
	check_report(f, FINDING_OK, "%s", list[0] ? list : "none that is told of");
	if (strstr(lockdown, "[confidentiality]")) {
		check_report(f, FINDING_WARNING,
			"lockdown is confidentiality: the kernel gives no registers, and no kernel addresses");
		check_suggest_fix(f, "stacks=fp works; else boot with lockdown=integrity");
	} else if (enforce[0] == '1') {
		check_report(f, FINDING_WARNING, "SELinux enforces%s",
			access("/sys/fs/selinux/class/perf_event", F_OK) == 0
				? ""
				: " a policy that does not know perf_event");
		check_suggest_fix(f, "denials are in 'ausearch -m avc -c pillion-hook'; the module "
				     "hooks/packaging/selinux/pillion.te allows "
				     "what it takes");
	}
}

void doctor_cgroups(const struct doctor *d, struct check_result *f)
{
	struct statfs fs;
	const long top = statfs("/sys/fs/cgroup", &fs) == 0 ? (long)fs.f_type : 0;
	const bool v2_beside = statfs("/sys/fs/cgroup/unified", &fs) == 0 && fs.f_type == CGROUP2_SUPER_MAGIC;
	if (top == CGROUP2_SUPER_MAGIC)
		check_report(f, FINDING_OK, "version 2");
	else if (top == TMPFS_MAGIC)
		check_report(f, FINDING_OK, v2_beside ? "version 1, with 2 beside it (hybrid)" : "version 1");
	else {
		check_report(f, FINDING_WARNING, "there are none at /sys/fs/cgroup");
		check_suggest_fix(f, "containers are profiled by process: what enters them later (exec) is not seen");
	}
}

void doctor_memlock(const struct doctor *d, struct check_result *f)
{
	struct rlimit l;
	char kb[32] = "?";
	getrlimit(RLIMIT_MEMLOCK, &l);
	fd_read_text(AT_FDCWD, "/proc/sys/kernel/perf_event_mlock_kb", kb, sizeof(kb));
	const bool enough = geteuid() == 0 || l.rlim_max == RLIM_INFINITY || l.rlim_max >= 1u << 20;
	check_report(f, enough ? FINDING_OK : FINDING_WARNING, "%s KiB a CPU for each user (perf_event_mlock_kb)", kb);
	if (!enough)
		check_suggest_fix(f, "rings of a plain user's sessions are smaller: 'ulimit -l' is %llu KiB",
			(unsigned long long)l.rlim_max / 1024);
}
