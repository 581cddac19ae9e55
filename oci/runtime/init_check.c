/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/runtime/init_check.h"

#include "oci/base/fd.h"
#include "oci/base/process/child_process.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CGROUP_TEXT_MAX 16384

/* The names of a runtime's program (as installed, or a sealed copy: "/memfd:runc_cloned:/proc/self/exe") and of its
 * init. */
static const struct {
	const char *program, *comm;
} runtimes[] = {{"runc", "runc:["}, {"crun", "crun"}, {"youki", "youki:["}};

/* Is `name` a word of `exe`: "runc", "runc-1.2", "runc_cloned", but not "truncate"? */
static bool has_word(const char *exe, const char *name)
{
	for (const char *at = exe; (at = strstr(at, name)); at++) {
		bool begins = at == exe || strchr("/:-", at[-1]);
		if (begins && strchr("_:-. ", at[strlen(name)])) /* or at its end */
			return true;
	}
	return false;
}

/* A copy in memory, or one bound from a mount that is in no namespace (runc's): its path is "/". */
static bool is_nameless(const char *exe)
{
	return !strncmp(exe, "/memfd:", 7) || !strcmp(exe, "/") || !strcmp(exe, "/ (deleted)");
}

static bool is_runtime(const char *exe, const char *comm)
{
	bool nameless = is_nameless(exe);
	const char *slash = nameless ? NULL : strrchr(exe, '/');
	for (size_t i = 0; i < sizeof(runtimes) / sizeof(runtimes[0]); i++)
		if (has_word(slash ? slash + 1 : exe, runtimes[i].program) ||
			(nameless && !strncmp(comm, runtimes[i].comm, strlen(runtimes[i].comm))))
			return true;
	return false;
}

static int check_program(pid_t pid, struct err *e)
{
	char path[64], exe[512], comm[32];
	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	int r = fd_read_text(AT_FDCWD, path, comm, sizeof(comm));
	if (r < 0)
		return child_process_explain(pid, r == -ENOENT ? -ESRCH : r, e);
	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	ssize_t n = readlink(path, exe, sizeof(exe) - 1);
	if (n < 0)
		return child_process_explain(pid, errno == ENOENT ? -ESRCH : -errno, e);
	exe[n] = 0;
	return is_runtime(exe, comm)
		       ? 0
		       : err_say(e, -EPERM, "pid %d is not parked by runc, crun or youki: it runs %.100s (%s)",
				 (int)pid, exe, comm);
}

static int check_cgroup(pid_t pid, const char *id, struct err *e)
{
	char path[64], text[CGROUP_TEXT_MAX];
	snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
	int r = fd_read_text(AT_FDCWD, path, text, sizeof(text));
	if (r < 0)
		return child_process_explain(pid, r == -ENOENT ? -ESRCH : r, e);
	return strstr(text, id) ? 0 : err_say(e, -EPERM, "pid %d is in no cgroup of container %s", (int)pid, id);
}

static int check_namespace(pid_t pid, struct err *e)
{
	uint64_t its = 0, ours = 1;
	int r = proc_namespace(pid, "mnt", &its);
	if (r == 0)
		r = proc_namespace(getpid(), "mnt", &ours);
	if (r < 0)
		return child_process_explain(pid, r, e);
	return its != ours ? 0 : err_say(e, -EPERM, "pid %d is in the machine's own mount namespace", (int)pid);
}

int init_check_parked(pid_t pid, const char *id, struct err *e)
{
	int r = check_program(pid, e);
	if (r == 0)
		r = check_cgroup(pid, id, e);
	return r < 0 ? r : check_namespace(pid, e);
}

/* --- inits that exec no program ----------------------------------------------------------------------------- */

#define RESTORED                                                                                                       \
	"it is restored from a checkpoint, so nothing of it begins: when it runs, `pillion attach` its name or pid"
#define VIRTUAL                                                                                                        \
	"it is a virtual machine's monitor: what runs in there can only be profiled in there, with `pillion run`"
#define GVISOR "it is gVisor's own kernel: what runs in there is not seen from here; use `pillion run` in it"

/* Names as the kernel keeps them, cut to 15 bytes. */
static const struct {
	const char *prefix, *why;
} foreign[] = {
	{"criu", RESTORED},
	{"qemu-", VIRTUAL},
	{"cloud-hyperviso", VIRTUAL},
	{"firecracker", VIRTUAL},
	{"dragonball", VIRTUAL},
	{"containerd-shim", VIRTUAL}, /* Kata's, which gives its own pid if it knows no other */
	{"runsc", GVISOR},
};

int init_check_program(pid_t init, struct err *e)
{
	char path[64], name[32];
	snprintf(path, sizeof(path), "/proc/%d/comm", (int)init);
	if (fd_read_text(AT_FDCWD, path, name, sizeof(name)) < 0)
		return 0; /* gone: later steps report it */
	for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++)
		if (!strncmp(name, foreign[i].prefix, strlen(foreign[i].prefix)))
			return err_say(e, -ENOTSUP, "the container's init (pid %d) is %s: %s", (int)init, name,
				foreign[i].why);
	return 0;
}
