/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/isolation/namespaces.h"

#include "oci/base/fd.h"
#include "oci/base/process/child_process.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef AT_RECURSIVE
#define AT_RECURSIVE 0x8000
#endif

static const struct {
	const char *name;
	int flag;
} kinds[] = {[NS_MNT] = {"mnt", CLONE_NEWNS}, [NS_PID] = {"pid", CLONE_NEWPID}};

int ns_open(pid_t pid, enum ns_kind kind, bool *ret_same, struct err *e)
{
	char path[64];
	struct stat theirs, ours;
	snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int)pid, kinds[kind].name);
	int fd = fd_open(AT_FDCWD, path, O_RDONLY, 0);
	snprintf(path, sizeof(path), "/proc/self/ns/%s", kinds[kind].name);
	int r = fd < 0 ? fd : fstat(fd, &theirs) < 0 || stat(path, &ours) < 0 ? -errno : 0;
	if (r == -ENOENT || r == -ESRCH) { /* a zombie has a directory in /proc, and no namespaces */
		fd_close(fd);
		return child_process_explain(pid, -ESRCH, e);
	}
	if (r < 0) {
		fd_close(fd);
		return err_set(e, r, "cannot open the %s namespace of pid %d", kinds[kind].name, (int)pid);
	}
	*ret_same = theirs.st_dev == ours.st_dev && theirs.st_ino == ours.st_ino;
	return fd;
}

#ifndef NS_GET_TGID_IN_PIDNS
#define NS_GET_TGID_IN_PIDNS _IOR(0xb7, 0x9, int) /* linux/nsfs.h, since 6.12 */
#endif

int ns_pid_in(int pid_ns, pid_t pid, pid_t *ret)
{
	int there = ioctl(pid_ns, NS_GET_TGID_IN_PIDNS, pid);
	if (there <= 0)
		return proc_status_nspid(pid, ret);
	*ret = there;
	return 0;
}

int ns_join(int fd, enum ns_kind kind, struct err *e)
{
	if (setns(fd, kinds[kind].flag) < 0)
		return err_set(e, -errno, "cannot join the container's %s namespace", kinds[kind].name);
	return 0;
}

static int copy_tree(int at, const char *path, unsigned flags)
{
	long fd = syscall(SYS_open_tree, at, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE | flags);
	if (fd < 0)
		return -errno;
	/* No writes, set-user-ID bits or devices through this copy. Before 5.12 there is no mount_setattr; the
	 * profiler opens regular files only, read-only, so it can use the copy without. */
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV};
	syscall(SYS_mount_setattr, fd, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof(attr));
	return (int)fd;
}

int ns_tree(const char *path, struct err *e)
{
	int fd = copy_tree(AT_FDCWD, path, 0);
	return fd < 0 ? err_set(e, fd, "cannot copy the mount tree at %s", path) : fd;
}

int ns_tree_at(int root, struct err *e)
{
	int fd = copy_tree(root, "", AT_EMPTY_PATH);
	return fd < 0 ? err_set(e, fd, "cannot copy the mount tree") : fd;
}

/* pid_max is per pid namespace since 6.14, global before; set_tid takes at most pid_max - 1. */
static pid_t highest_pid(void)
{
	char text[32];
	if (fd_read_text(AT_FDCWD, "/proc/sys/kernel/pid_max", text, sizeof(text)) < 0)
		return 32767;
	return atoi(text) - 1;
}

pid_t ns_fork_high(pid_t *told)
{
	pid_t top = highest_pid();
	for (pid_t tid = top; tid > top - 4 && tid > 1; tid--) {
		/* exit_signal stays 0: with CLONE_PARENT it is ours */
		struct clone_args args = {.flags = CLONE_PARENT | CLONE_PARENT_SETTID,
			.parent_tid = (uintptr_t)told,
			.set_tid = (uintptr_t)&tid,
			.set_tid_size = 1};
		long pid = syscall(SYS_clone3, &args, sizeof(args));
		if (pid >= 0)
			return (pid_t)pid;
		if (errno != EEXIST)
			break;
	}
	return (pid_t)syscall(SYS_clone, CLONE_PARENT | CLONE_PARENT_SETTID | SIGCHLD, NULL, told, NULL, NULL);
}
