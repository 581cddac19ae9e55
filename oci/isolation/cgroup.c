/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/isolation/cgroup.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "oci/base/process/child_process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/mount.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DEPTH_MAX 16 /* of cgroups in a container */
#define SWEEP_TURN_US 2000

struct hierarchy {
	bool v2;
	char controllers[128]; /* ",cpu,cpuacct," for v1; "" for v2 */
	char mount[512];       /* "" = not mounted here */
	char root[512];	       /* the cgroup that the mount shows as its "/" */
};

struct hierarchies {
	unsigned n;
	struct hierarchy h[24];
};

/* mountinfo: "id parent dev root mount options - fstype source superoptions" (proc_pid_mountinfo(5)). */
static bool parse_mount(char *line, struct hierarchy *h)
{
	char *dash = strstr(line, " - ");
	if (!dash)
		return false;
	char type[32], super[256] = "";
	if (sscanf(dash + 3, "%31s %*s %255s", type, super) < 1)
		return false;
	h->v2 = !strcmp(type, "cgroup2");
	if (!h->v2 && strcmp(type, "cgroup") != 0)
		return false;
	*dash = 0;
	if (sscanf(line, "%*d %*d %*s %511s %511s", h->root, h->mount) != 2)
		return false;
	if (h->v2)
		h->controllers[0] = 0;
	else
		snprintf(h->controllers, sizeof(h->controllers), ",%.125s,", super);
	return true;
}

static void find_hierarchies(struct hierarchies *ret)
{
	char *text = NULL;
	size_t len;
	ret->n = 0;
	fd_auto fd = fd_open(AT_FDCWD, "/proc/self/mountinfo", O_RDONLY, 0);
	if (fd < 0 || fd_slurp(fd, 16 << 20, &text, &len) < 0)
		return;
	char *save = NULL;
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		if (ret->n < sizeof(ret->h) / sizeof(ret->h[0]) && parse_mount(line, &ret->h[ret->n]))
			ret->n++;
	free(text);
}

static const struct hierarchy *find_v1(const struct hierarchies *all, const char *controller)
{
	char want[64];
	snprintf(want, sizeof(want), ",%s,", controller);
	for (unsigned i = 0; i < all->n; i++)
		if (!all->h[i].v2 && strstr(all->h[i].controllers, want))
			return &all->h[i];
	return NULL;
}

static const struct hierarchy *find_v2(const struct hierarchies *all)
{
	for (unsigned i = 0; i < all->n; i++)
		if (all->h[i].v2)
			return &all->h[i];
	return NULL;
}

/* Opens the root of the v2 hierarchy without a mount point: no other process sees it, it goes with the descriptor. */
static int detached_v2(void)
{
	long fs = syscall(SYS_fsopen, "cgroup2", FSOPEN_CLOEXEC);
	if (fs < 0)
		return -errno;
	fd_auto fs_fd = (int)fs;
	if (syscall(SYS_fsconfig, fs_fd, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -errno;
	long mnt = syscall(SYS_fsmount, fs_fd, FSMOUNT_CLOEXEC, 0);
	return mnt < 0 ? -errno : (int)mnt;
}

/* Root directory of a hierarchy. */
static int open_root(const struct hierarchy *h)
{
	return h ? fd_open_dir(AT_FDCWD, h->mount) : detached_v2();
}

/* proc_pid_cgroup(5): "N:list:path" */
int cgroup_path(pid_t pid, const char *controller, char *ret, size_t size)
{
	char file[64], text[8192], want[64] = "";
	snprintf(file, sizeof(file), "/proc/%d/cgroup", (int)pid);
	int r = fd_read_text(AT_FDCWD, file, text, sizeof(text));
	if (r < 0)
		return r == -ENOENT ? -ESRCH : r;
	if (controller)
		snprintf(want, sizeof(want), ",%s,", controller);
	char *save = NULL;
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		char list[128] = "", *first = strchr(line, ':'), *second = first ? strchr(first + 1, ':') : NULL;
		if (!second)
			continue;
		snprintf(list, sizeof(list), ",%.*s,", (int)(second - first - 1), first + 1);
		if (controller ? !strstr(list, want) : strcmp(list, ",,") != 0)
			continue;
		return snprintf(ret, size, "%s", second + 1) >= (int)size ? -ENAMETOOLONG : 0;
	}
	return -ENODATA;
}

/* Path below a hierarchy's root as mounted: /proc paths are relative to our cgroup namespace, mounts to their root. */
static const char *strip_hierarchy_root(const struct hierarchy *h, const char *path)
{
	size_t n = h ? strlen(h->root) : 1;
	if (n > 1 && !strncmp(path, h->root, n) && (path[n] == '/' || !path[n]))
		path += n;
	while (*path == '/')
		path++;
	return *path ? path : ".";
}

static int open_cgroup(const struct hierarchy *h, const char *path)
{
	fd_auto root = open_root(h);
	if (root < 0)
		return root;
	if (strstr(path, "/.."))
		return -EXDEV; /* outside of our cgroup namespace */
	return fd_open_dir(root, strip_hierarchy_root(h, path));
}

/* Is `pid` the only process in it? */
static bool only_process(int dir, pid_t pid)
{
	char text[4096];
	if (fd_read_text(dir, "cgroup.procs", text, sizeof(text)) < 0)
		return false;
	char *save = NULL;
	unsigned n = 0;
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save), n++)
		if (atoi(line) != pid)
			return false;
	return n == 1;
}

static bool procs_live_apart(int dir, uint64_t ours)
{
	uint64_t theirs;
	char *text = NULL;
	size_t len;
	fd_auto fd = fd_open(dir, "cgroup.procs", O_RDONLY, 0);
	if (fd < 0 || fd_slurp(fd, 4 << 20, &text, &len) < 0)
		return false;
	bool apart = true;
	char *save = NULL;
	for (char *line = strtok_r(text, "\n", &save); line && apart; line = strtok_r(NULL, "\n", &save)) {
		int r = proc_namespace(atoi(line), "mnt", &theirs);
		apart = r == -ESRCH || (r == 0 && theirs != ours);
	}
	free(text);
	return apart;
}

/* Is no process in it, or below, of our own mount namespace, as the container's monitor is? */
static bool live_apart(int dir, uint64_t ours, unsigned depth)
{
	int copy = fd_open_dir(dir, ".");
	DIR *d = copy < 0 || depth > DEPTH_MAX ? NULL : fdopendir(copy);
	if (!d) {
		fd_close(copy);
		return false;
	}
	bool apart = procs_live_apart(dir, ours);
	for (struct dirent *de; apart && (de = readdir(d));) {
		if (de->d_type != DT_DIR || de->d_name[0] == '.')
			continue;
		fd_auto below = fd_open_dir(dir, de->d_name);
		apart = below == -ENOENT || (below >= 0 && live_apart(below, ours, depth + 1));
	}
	closedir(d);
	return apart;
}

static bool lives_apart(int dir)
{
	uint64_t ours;
	return proc_namespace(getpid(), "mnt", &ours) == 0 && live_apart(dir, ours, 0);
}

/* "libpod-ID.scope", "cri-containerd-ID.scope", "ID" */
static bool is_named_by(const char *at, const char *path, size_t len)
{
	return (at == path || strchr("/-:", at[-1])) && (!at[len] || strchr("/.", at[len]));
}

/* Cuts `path` at the cgroup that has the container's id in its name: its processes may have moved below that. */
static void climb_to(char *path, const char *id)
{
	char *found = NULL;
	size_t len = strlen(id);
	for (char *at = path; len && (at = strstr(at, id)); at++)
		if (is_named_by(at, path, len))
			found = at;
	if (found)
		found[strcspn(found, "/")] = 0;
}

/* We look for the cgroup of this process: an init parked alone in it, or a process of a running container. */
struct wanted {
	pid_t pid;
	const char *id; /* NULL: parked */
};

static int own_cgroup(const struct hierarchy *h, const char *controller, const struct wanted *w, char *path,
	size_t size, char *reason, size_t reason_size)
{
	char ours[1024];
	int r = cgroup_path(w->pid, controller, path, size);
	if (r < 0) {
		snprintf(reason, reason_size, "its cgroup cannot be read: %s", strerror(-r));
		return r;
	}
	if (w->id)
		climb_to(path, w->id);
	int dir = open_cgroup(h, path);
	if (dir < 0) {
		snprintf(reason, reason_size, "its cgroup %.100s cannot be opened: %s", path, strerror(-dir));
		return dir;
	}
	if (strcmp(path, "/") != 0 && (w->id ? lives_apart(dir) : only_process(dir, w->pid)))
		return dir;
	fd_close(dir);
	if (!strcmp(path, "/") || (cgroup_path(getpid(), controller, ours, sizeof(ours)) == 0 && !strcmp(path, ours)))
		snprintf(reason, reason_size, "it has no cgroup of its own (%.100s)", path);
	else
		snprintf(reason, reason_size, "its cgroup %.100s also holds other processes", path);
	return -EBUSY;
}

static void take_perf_dir(struct cgroup_target *ret, int dir)
{
	ret->perf_dir = dir < 0 ? -1 : dir;
	snprintf(ret->reason, sizeof(ret->reason), "%s", dir < 0 ? strerror(errno) : "");
}

/*
 * v2 is mounted at one of two places nearly everywhere, and a node's mountinfo has thousands of lines: look there
 * first. own_cgroup checks the processes in the cgroup, which proves that it is the right one.
 */
static bool find_quickly(const struct wanted *w, struct cgroup_target *ret)
{
	static const struct hierarchy places[] = {{.v2 = true, .mount = "/sys/fs/cgroup", .root = "/"},
		{.v2 = true, .mount = "/sys/fs/cgroup/unified", .root = "/"}};
	struct statfs fs;
	size_t i = 0, n = sizeof(places) / sizeof(places[0]);
	while (i < n && (statfs(places[i].mount, &fs) < 0 || fs.f_type != CGROUP2_SUPER_MAGIC))
		i++;
	if (i == n || access("/sys/fs/cgroup/perf_event", F_OK) == 0)
		return false;
	int dir = own_cgroup(&places[i], NULL, w, ret->path, sizeof(ret->path), ret->reason, sizeof(ret->reason));
	if (dir < 0)
		return false;
	ret->events_dir = dir;
	take_perf_dir(ret, fcntl(dir, F_DUPFD_CLOEXEC, 3));
	return true;
}

static void find_cgroup_target(const struct wanted *w, struct cgroup_target *ret)
{
	struct hierarchies all;
	*ret = (struct cgroup_target){.perf_dir = -1, .events_dir = -1};
	if (find_quickly(w, ret))
		return;
	find_hierarchies(&all);
	const struct hierarchy *v2 = find_v2(&all), *perf = find_v1(&all, "perf_event");

	char v2_reason[sizeof(ret->reason)];
	int dir = own_cgroup(v2, NULL, w, ret->path, sizeof(ret->path), v2_reason, sizeof(v2_reason));
	if (dir >= 0)
		ret->events_dir = dir;
	if (!perf) { /* perf_event lives on v2 unless it is mounted on a v1 hierarchy */
		snprintf(ret->reason, sizeof(ret->reason), "%s", v2_reason);
		if (dir >= 0)
			take_perf_dir(ret, fcntl(dir, F_DUPFD_CLOEXEC, 3));
		return;
	}
	dir = own_cgroup(perf, "perf_event", w, ret->path, sizeof(ret->path), ret->reason, sizeof(ret->reason));
	ret->perf_dir = dir >= 0 ? dir : -1;
	ret->v1 = true;
}

void cgroup_find(pid_t pid, struct cgroup_target *ret)
{
	find_cgroup_target(&(struct wanted){.pid = pid}, ret);
}

void cgroup_find_running(pid_t pid, const char *id, struct cgroup_target *ret)
{
	find_cgroup_target(&(struct wanted){.pid = pid, .id = id}, ret);
}

void cgroup_target_done(struct cgroup_target *t)
{
	t->perf_dir = fd_close(t->perf_dir);
	t->events_dir = fd_close(t->events_dir);
}

/* --- a cgroup of our own ------------------------------------------------------------------------------- */

/* The hierarchies in which a profiler's cgroup is made. */
static const struct kind {
	const char *controller; /* NULL: v2 */
} kinds[] = {{"cpu"}, {"memory"}, {"pids"}, {NULL}};

static void write_number(int dir, const char *file, uint64_t value)
{
	char text[32];
	snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	fd_write_text(dir, file, text); /* a controller that is not enabled here has no file: no limit of that kind */
}

static void set_limits(int dir, bool v2, const struct cgroup_limits *l)
{
	char text[64];
	if (l->memory) {
		write_number(dir, v2 ? "memory.max" : "memory.limit_in_bytes", l->memory);
		if (v2)
			write_number(dir, "memory.swap.max", 0);
	}
	if (l->pids)
		write_number(dir, "pids.max", l->pids);
	if (!l->cpu_percent)
		return;
	uint64_t period = 100000, quota = period * l->cpu_percent / 100;
	if (v2) {
		snprintf(text, sizeof(text), "%llu %llu", (unsigned long long)quota, (unsigned long long)period);
		fd_write_text(dir, "cpu.max", text);
	} else {
		write_number(dir, "cpu.cfs_period_us", period);
		write_number(dir, "cpu.cfs_quota_us", quota);
	}
}

/* Controllers given to children bind the cgroup's own processes: only if it has none, or in the real root. */
static bool may_hand_down(int dir)
{
	char text[64];
	return faccessat(dir, "cgroup.type", F_OK, 0) < 0 ||
	       (fd_read_text(dir, "cgroup.procs", text, sizeof(text)) == 0 && !text[0]);
}

/* mkdir -p of two levels below the hierarchy's root; controllers are handed down on v2. */
static int make_in(const struct hierarchy *h, const char *name, const struct cgroup_limits *l)
{
	static const char *const hand_down[] = {"+cpu", "+memory", "+pids"};
	bool v2 = !h || h->v2;
	fd_auto root = open_root(h);
	if (root < 0)
		return root;
	for (size_t i = 0; v2 && may_hand_down(root) && i < sizeof(hand_down) / sizeof(hand_down[0]); i++)
		fd_write_text(root, "cgroup.subtree_control", hand_down[i]);
	if (mkdirat(root, CGROUP_BASE, 0755) < 0 && errno != EEXIST)
		return -errno;
	fd_auto base = fd_open_dir(root, CGROUP_BASE);
	if (base < 0)
		return base;
	for (size_t i = 0; v2 && i < sizeof(hand_down) / sizeof(hand_down[0]); i++)
		fd_write_text(base, "cgroup.subtree_control", hand_down[i]);
	int dir = -ENOENT;
	for (int try = 0; dir == -ENOENT && try < 8; try++) { /* another start may sweep it as it is still empty */
		if (mkdirat(base, name, 0755) < 0 && errno != EEXIST)
			return -errno;
		dir = fd_open_dir(base, name);
	}
	if (dir >= 0)
		set_limits(dir, v2, l);
	return dir;
}

int cgroup_create(const char *name, const struct cgroup_limits *limits, struct cgroup *ret, struct err *e)
{
	struct hierarchies all;
	int first = -ENOENT;
	find_hierarchies(&all);
	*ret = (struct cgroup){0};
	snprintf(ret->name, sizeof(ret->name), CGROUP_BASE "/%s", name);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		const struct hierarchy *h = kinds[i].controller ? find_v1(&all, kinds[i].controller) : find_v2(&all);
		if (!h)
			continue;
		int dir = make_in(h, name, limits);
		if (dir >= 0)
			ret->dirs[ret->n++] = dir;
		else if (first == -ENOENT)
			first = dir;
	}
	return ret->n ? 0 : err_set(e, first, "cannot make the cgroup %s", ret->name);
}

int cgroup_enter(const struct cgroup *c, pid_t pid, struct err *e)
{
	char text[16];
	snprintf(text, sizeof(text), "%d", (int)pid);
	for (unsigned i = 0; i < c->n; i++) {
		int r = fd_write_text(c->dirs[i], "cgroup.procs", text);
		if (r < 0)
			return err_set(e, r, "cannot enter the cgroup %s", c->name);
	}
	return 0;
}

int cgroup_enter_own(const char *name, const struct cgroup_limits *limits, bool alone, struct err *e)
{
	struct cgroup cg;
	int r = 0;
	for (int try = 0; try < 8; try++) {
		r = cgroup_create(name, limits, &cg, e);
		if (r < 0)
			return r;
		/* on a later try the process may be us: entered in one hierarchy, swept in the next */
		if (alone && try == 0 && !cgroup_is_empty(&cg))
			r = err_say(e, -EALREADY, "in the cgroup %s there is a process", cg.name);
		else
			r = cgroup_enter(&cg, 0, e);
		cgroup_done(&cg);
		if (r != -ENODEV && r != -ENOENT) /* swept by another start between making and entering: again */
			break;
	}
	return r;
}

bool cgroup_is_empty(const struct cgroup *c)
{
	char text[64];
	return c->n == 0 || fd_read_text(c->dirs[0], "cgroup.procs", text, sizeof(text)) < 0 || !text[0];
}

void cgroup_done(struct cgroup *c)
{
	while (c->n)
		fd_close(c->dirs[--c->n]);
}

typedef int base_fn(int base, const char *arg);

/* Calls fn for /pillion in every hierarchy that may hold a cgroup of ours. Returns the sum of results, or an error. */
static int each_base(base_fn *fn, const char *arg)
{
	struct hierarchies all;
	int sum = 0, busy = 0;
	find_hierarchies(&all);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		const struct hierarchy *h = kinds[i].controller ? find_v1(&all, kinds[i].controller) : find_v2(&all);
		fd_auto root = h ? open_root(h) : -1;
		fd_auto base = root < 0 ? -1 : fd_open_dir(root, CGROUP_BASE);
		int r = base < 0 ? 0 : fn(base, arg);
		if (r < 0)
			busy = r;
		else
			sum += r;
	}
	return busy < 0 ? busy : sum;
}

static int sweep_one(int base, const char *prefix)
{
	int n = 0, copy = fcntl(base, F_DUPFD_CLOEXEC, 3);
	DIR *d = copy < 0 ? NULL : fdopendir(copy);
	if (!d) {
		fd_close(copy);
		return 0;
	}
	bool busy = false;
	for (struct dirent *de; (de = readdir(d));) {
		if (strncmp(de->d_name, prefix, strlen(prefix)) != 0)
			continue;
		if (unlinkat(base, de->d_name, AT_REMOVEDIR) == 0)
			n++;
		else
			busy |= errno == EBUSY;
	}
	closedir(d);
	return busy ? -EBUSY : n;
}

int cgroup_sweep(const char *prefix)
{
	return each_base(sweep_one, prefix);
}

void cgroup_sweep_until(const char *prefix, int64_t deadline)
{
	while (cgroup_sweep(prefix) == -EBUSY && deadline_left_ms(deadline) > 0)
		usleep(SWEEP_TURN_US);
}

int cgroup_populated(int events)
{
	char text[256];
	ssize_t n = fd_pread_all(events, text, sizeof(text) - 1, 0);
	if (n < 0)
		return (int)n;
	text[n] = 0;
	const char *at = strstr(text, "populated ");
	return at ? at[10] == '1' : -ENODATA;
}

int cgroup_cpu_usage(int stat, uint64_t *ret_usec)
{
	char text[1024];
	ssize_t n = fd_pread_all(stat, text, sizeof(text) - 1, 0);
	if (n < 0)
		return (int)n;
	text[n] = 0;
	const char *at = strstr(text, "usage_usec ");
	if (!at)
		return -ENODATA;
	*ret_usec = strtoull(at + 11, NULL, 10);
	return 0;
}
