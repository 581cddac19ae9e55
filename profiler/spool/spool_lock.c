/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/spool/spool_lock.h"

#include "oci/base/fd.h"
#include "oci/base/process/child_process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PREFIX ".session-"
#define TARGET "pid=%10d start=%20" PRIu64
#define SESSION " namespace=%20" PRIu64 " state=%c\n"
#define TARGET_LEN 41
#define LINE_LEN 81
#define STATE_AT (LINE_LEN - 2)

static bool is_lock_file(const char *name)
{
	return strncmp(name, PREFIX, strlen(PREFIX)) == 0;
}

static bool is_locked(int fd)
{
	struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
	return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

static DIR *list_directory(int dir)
{
	const int copy = fd_open_dir(dir, ".");
	DIR *d = copy < 0 ? NULL : fdopendir(copy);
	if (!d)
		fd_close(copy);
	return d;
}

static int open_lock_file(int dir, const char *name)
{
	return fd_open(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
}

static void remove_stale(int spool)
{
	DIR *d = list_directory(spool);
	for (struct dirent *de; d && (de = readdir(d));) {
		fd_auto fd = is_lock_file(de->d_name) ? open_lock_file(spool, de->d_name) : -1;
		if (fd >= 0 && !is_locked(fd))
			unlinkat(spool, de->d_name, 0);
	}
	if (d)
		closedir(d);
}

static void name_of(pid_t pid, char ret[static 32])
{
	snprintf(ret, 32, PREFIX "%d", (int)pid);
}

/* Another session may remove the file between its making and its lock: then readers do not wait for this session. */
int spool_lock_take(int spool, struct spool_lock *ret)
{
	char name[32], line[LINE_LEN + 1];
	uint64_t namespace = 0; /* 0: no /proc, and readers do not wait */
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	remove_stale(spool);
	name_of(getpid(), name);
	proc_namespace(getpid(), "pid", &namespace);
	*ret = (struct spool_lock){.dir = fd_open_dir(spool, "."), .file = -1};
	ret->file = ret->dir < 0 ? ret->dir : fd_open(ret->dir, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0640);
	int r = ret->file < 0 ? ret->file : fcntl(ret->file, F_OFD_SETLK, &lock) < 0 ? -errno : 0;
	snprintf(line, sizeof(line), TARGET SESSION, 0, (uint64_t)0, namespace, SPOOL_LOCK_RUNS);
	if (r == 0 && pwrite(ret->file, line, LINE_LEN, 0) != LINE_LEN)
		r = -ENOSPC;
	if (r < 0)
		spool_lock_release(ret);
	return r;
}

void spool_lock_describe(const struct spool_lock *l, pid_t pid, uint64_t start_time)
{
	char text[TARGET_LEN + 1];
	snprintf(text, sizeof(text), TARGET, (int)pid, start_time);
	if (l && pwrite(l->file, text, TARGET_LEN, 0) != TARGET_LEN)
		return;
}

void spool_lock_set_state(const struct spool_lock *l, enum spool_lock_state state)
{
	const char c = (char)state;
	if (l && pwrite(l->file, &c, 1, STATE_AT) < 0)
		return;
}

void spool_lock_close_directory(struct spool_lock *l)
{
	l->dir = fd_close(l->dir);
}

void spool_lock_release(struct spool_lock *l)
{
	char name[32];
	name_of(getpid(), name);
	if (l->file >= 0)
		unlinkat(l->dir, name, 0);
	l->file = fd_close(l->file);
	l->dir = fd_close(l->dir);
}

/* --- by a command that reads ------------------------------------------------------------------------------- */

static bool is_running(pid_t pid, uint64_t start_time)
{
	uint64_t start;
	char state[32];
	return proc_stat_start_time(pid, &start) == 0 && start == start_time &&
	       (proc_status_field(pid, "State", state, sizeof(state)) < 0 || state[0] != 'Z');
}

static bool is_pending(int fd, int64_t waited_ns)
{
	char line[LINE_LEN + 1] = "", state = 0;
	int pid;
	uint64_t start, namespace, ours;
	if (!is_locked(fd) || fd_pread_all(fd, line, LINE_LEN, 0) != LINE_LEN)
		return false;
	if (sscanf(line, "pid=%d start=%" SCNu64 " namespace=%" SCNu64 " state=%c", &pid, &start, &namespace, &state) !=
			4 ||
		!pid)
		return false;
	if (state == SPOOL_LOCK_ENDED)
		return waited_ns < SPOOL_LOCK_LAST_NS;
	return state == SPOOL_LOCK_RUNS && waited_ns < SPOOL_LOCK_VERDICT_NS &&
	       proc_namespace(getpid(), "pid", &ours) == 0 && namespace == ours && !is_running(pid, start);
}

bool spool_lock_pending(int dir, int64_t waited_ns)
{
	bool pending = false;
	DIR *d = list_directory(dir);
	for (struct dirent *de; d && !pending && (de = readdir(d));) {
		fd_auto fd = is_lock_file(de->d_name) ? open_lock_file(dir, de->d_name) : -1;
		pending = fd >= 0 && is_pending(fd, waited_ns);
	}
	if (d)
		closedir(d);
	return pending;
}
