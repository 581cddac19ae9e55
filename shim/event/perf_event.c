/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/event/perf_event.h"

#include "oci/base/fd.h"
#include "oci/config/user_dirs.h"
#include "oci/isolation/capabilities.h"

#include <errno.h>
#include <limits.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SAMPLE_ID_TYPE (PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU)

#define FAST_HZ 250 /* above: a ring holds 16 snapshots of 32 KiB, as many as a CPU takes in 64 ms at this rate */
#define FEW_SAMPLES 8
#define STACKS_BYTES (16u << 10) /* of inherited events: nothing but the room in a ring bounds their number */
#define WAITS_BYTES (112 + PERF_STACK_PLACE) /* a record of waits_attr */
#define SAMPLE_REST 512			     /* bytes of a sample beside its stack snapshot, about */

uint32_t perf_stack_user(uint32_t rung)
{
	static const uint32_t sizes[PERF_RUNGS] = {8u << 10, PERF_STACK_USER_DEFAULT, PERF_STACK_USER_MAX};
	return rung >= 1 && rung <= PERF_RUNGS ? sizes[rung - 1] : PERF_STACK_USER_DEFAULT;
}

uint32_t perf_first_rung(const struct event_spec *s)
{
	return event_kind(s->kind)->measure == MEASURES_CPU && s->period < 1000000000 / FAST_HZ ? 1 : 2;
}

/* Wakes the reader when records of this size take so much of a ring. */
static void wake_at(struct perf_event_attr *a, uint32_t bytes, uint32_t size)
{
	a->watermark = 0;
	a->wakeup_events = (bytes + size / 2) / size;
}

/*
 * A ring wakes its reader when three quarters of it are full: seldom, since a reader with cold caches takes longer to
 * wake than to read. The rest is for records that come before the reader runs. Where a quarter is but a few samples,
 * the event wakes the reader when its samples take half of the ring; an event that could fill more than that, at a high
 * rate or an unknown one, when they take a quarter.
 */
static void wake_early(const struct event_spec *s, struct perf_event_attr *a)
{
	bool slow = event_kind(s->kind)->measure == MEASURES_CPU && s->period >= 1000000000 / FAST_HZ;
	uint32_t size = a->sample_stack_user + SAMPLE_REST;
	if (!slow)
		wake_at(a, PERF_RING_BYTES / 4, size);
	else if (size > PERF_RING_BYTES / 4 / FEW_SAMPLES)
		wake_at(a, PERF_RING_BYTES / 2, size);
}

/* Tells in each record how long the target ran; not with inherited events. */
static void tell_running(const struct perf_want *w, struct perf_event_attr *a)
{
	if (w->inherit)
		return;
	a->sample_type |= PERF_SAMPLE_READ;
	a->read_format = PERF_FORMAT_TOTAL_TIME_RUNNING;
}

/* For waits: takes turns with the event of waits_attr, and tells all that that one tells. */
static void stacks_attr(const struct perf_want *w, struct perf_event_attr *a)
{
	if (w->inherit && !w->kernel) {
		a->config = PERF_COUNT_SW_CPU_CLOCK;
		a->sample_stack_user = a->sample_stack_user ? perf_stack_user(1) : 0; /* a user's rings are small */
		return;
	}
	a->sample_type |= PERF_SAMPLE_REGS_USER;
	a->sample_regs_user = PERF_REGS_USER_MASK;
	a->sample_period = 1;
	if (w->inherit && a->sample_stack_user)
		a->sample_stack_user = STACKS_BYTES;
	tell_running(w, a);
}

static void probe_attr(const struct perf_want *w, struct perf_event_attr *a)
{
	a->type = w->probe_type;
	a->config = 0;			      /* where it is entered, not where it returns */
	a->uprobe_path = (uintptr_t)w->probe; /* and kprobe_func */
	a->probe_offset = w->spec.config;
}

static void sample_attr(const struct perf_want *w, struct perf_event_attr *a)
{
	const struct event_kind *k = event_kind(w->spec.kind);
	a->type = k->type;
	a->config = k->naming ? w->spec.config : k->config;
	if (k->naming == NAMED_UPROBE || k->naming == NAMED_KPROBE)
		probe_attr(w, a);
	if (w->spec.value_size)
		a->sample_type |= PERF_SAMPLE_RAW;
	a->exclude_user = w->spec.only == EVENT_ONLY_KERNEL;
	/* Never PERF_SAMPLE_PERIOD: with it a fixed-period software event turns every event into a sample. */
	a->sample_period = w->spec.period;
	a->sample_type |= PERF_SAMPLE_IP;
	bool dwarf = w->stacks != STACKS_FP && w->stacks != STACKS_NONE;
	if (w->stacks != STACKS_NONE && (w->kernel || !dwarf))
		a->sample_type |= PERF_SAMPLE_CALLCHAIN;
	a->exclude_callchain_user = dwarf;
	if (dwarf) {
		a->sample_type |= PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
		a->sample_regs_user = PERF_REGS_USER_MASK;
		a->sample_stack_user = perf_stack_user(w->rung);
	}
	if (k->measure == MEASURES_OFFCPU)
		stacks_attr(w, a);
	wake_early(&w->spec, a);
}

/* Records each switch: ip, sp and the nearest callers tell one place from another (profiler/offcpu/wait_times.h). */
static void waits_attr(const struct perf_want *w, struct perf_event_attr *a)
{
	const struct event_kind *k = event_kind(w->spec.kind);
	a->type = k->type;
	a->config = k->config;
	a->sample_period = 1;
	a->sample_type |= PERF_SAMPLE_IP | PERF_SAMPLE_REGS_USER;
	a->sample_regs_user = PERF_REGS_PLACE_MASK;
	if (w->stacks != STACKS_NONE && w->stacks != STACKS_FP) {
		a->sample_type |= PERF_SAMPLE_STACK_USER;
		a->sample_stack_user = PERF_STACK_PLACE;
	}
	tell_running(w, a);
	wake_at(a, PERF_RING_BYTES / 2, WAITS_BYTES);
}

static void seen_attr(const struct perf_want *w, struct perf_event_attr *a)
{
	a->type = PERF_TYPE_SOFTWARE;
	a->config = PERF_COUNT_SW_CPU_CLOCK;
	a->sample_period = PERF_SEEN_NS;
	a->sample_type |= PERF_SAMPLE_IP;
}

static void dummy_attr(const struct perf_want *w, struct perf_event_attr *a)
{
	a->type = PERF_TYPE_SOFTWARE;
	a->config = PERF_COUNT_SW_DUMMY;
}

/* Without a period: it counts, and has no samples. */
static void alone_attr(const struct perf_want *w, struct perf_event_attr *a)
{
	dummy_attr(w, a);
	if (w->counts)
		a->config = PERF_COUNT_SW_CONTEXT_SWITCHES;
}

static void switches_attr(const struct perf_want *w, struct perf_event_attr *a)
{
	dummy_attr(w, a);
	a->context_switch = 1;
}

static void sideband_attr(const struct perf_want *w, struct perf_event_attr *a)
{
	a->mmap = a->mmap2 = a->comm = a->comm_exec = a->task = 1;
	a->build_id = w->build_id;
}

static bool has_spec(const struct perf_want *w)
{
	return w->role != PERF_SIDEBAND && w->role != PERF_OWNER;
}

/* Inherited events of waits do without: see stacks_attr. */
static bool needs_kernel(const struct perf_want *w)
{
	const struct event_kind *k = event_kind(w->spec.kind);
	return k->in_kernel && !(w->inherit && k->measure == MEASURES_OFFCPU);
}

typedef void attr_fn(const struct perf_want *w, struct perf_event_attr *a);
static attr_fn *const attr_of[PERF_ROLES] = {
	[PERF_SAMPLES] = sample_attr,
	[PERF_SIDEBAND] = alone_attr,
	[PERF_OWNER] = dummy_attr,
	[PERF_OFFCPU_SMALL] = waits_attr,
	[PERF_ROLL_CALL] = seen_attr,
	[PERF_SWITCHES] = switches_attr,
};

void perf_attr(const struct perf_want *w, struct perf_event_attr *a, struct perf_layout *ret_layout)
{
	memset(a, 0, sizeof(*a));
	a->size = sizeof(*a);
	a->sample_type = SAMPLE_ID_TYPE;
	a->sample_id_all = 1;
	a->use_clockid = 1;
	a->clockid = CLOCK_MONOTONIC;
	/*
	 * an event that waits for no exec counts from the beginning: there is no ring yet to write to, and no call to
	 * enable it later
	 */
	a->disabled = w->on_exec || w->idle || w->role == PERF_OWNER;
	/* the ring's own mark counts, which its owner sets; the 1 only says that there is one */
	a->watermark = 1;
	a->wakeup_watermark = 1;
	attr_of[w->role](w, a);
	if (w->role == PERF_SIDEBAND || w->sideband)
		sideband_attr(w, a);
	a->exclude_hv = 1;
	/* an event that happens in the kernel alone would otherwise never have a sample, and nothing would say why */
	a->exclude_kernel = (!w->kernel && !(has_spec(w) && needs_kernel(w))) ||
			    (w->role == PERF_SAMPLES && w->spec.only == EVENT_ONLY_USER);
	a->exclude_callchain_kernel = !w->kernel;
	if (w->role == PERF_SIDEBAND)
		a->read_format = PERF_FORMAT_TOTAL_TIME_RUNNING;
	else if (w->lost && !a->read_format)
		a->read_format = PERF_FORMAT_LOST;
	const bool times = w->role == PERF_SAMPLES && event_shares_counters(event_kind(w->spec.kind));
	if (times)
		a->read_format |= PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
	a->inherit = w->inherit;
	a->enable_on_exec = w->on_exec && !w->idle;
	*ret_layout = (struct perf_layout){.sample_type = a->sample_type,
		.regs_user = a->sample_regs_user,
		.stack_user = a->sample_stack_user,
		.flags = (times							   ? LAYOUT_TIMES
				 : a->read_format & PERF_FORMAT_TOTAL_TIME_RUNNING ? LAYOUT_RUNNING
										   : 0) |
			 (a->read_format & PERF_FORMAT_LOST ? LAYOUT_LOST : 0)};
}

int perf_open(const struct perf_event_attr *attr, int target, int cpu, unsigned long flags)
{
	struct perf_event_attr copy = *attr; /* the kernel writes its size back on E2BIG */
	long fd = syscall(SYS_perf_event_open, &copy, target, cpu, -1, flags | PERF_FLAG_FD_CLOEXEC);
	return fd < 0 ? -errno : (int)fd;
}

uint32_t perf_probe_type(uint32_t type)
{
	static const char uprobe[] = "/sys/bus/event_source/devices/uprobe/type",
			  kprobe[] = "/sys/bus/event_source/devices/kprobe/type";
	char text[32];
	int r = fd_read_text(AT_FDCWD, type == EVENT_TYPE_UPROBE ? uprobe : kprobe, text, sizeof(text));
	return r < 0 ? 0 : (uint32_t)strtoul(text, NULL, 10);
}

uint32_t perf_max_rate(void)
{
	char text[32];
	int r = fd_read_text(AT_FDCWD, "/proc/sys/kernel/perf_event_max_sample_rate", text, sizeof(text));
	return r < 0 ? 0 : (uint32_t)strtoul(text, NULL, 10);
}

uint64_t perf_caps(bool uprobes)
{
	int paranoid = 2;
	perf_paranoid(&paranoid);
	if (!capabilities_known(CAP_PERFMON))
		return CAP_BIT(CAP_SYS_ADMIN) | CAP_BIT(CAP_SYS_PTRACE);
	return CAP_BIT(CAP_PERFMON) | (paranoid > 2 || uprobes ? CAP_BIT(CAP_SYS_ADMIN) : 0);
}

int perf_paranoid(int *ret)
{
	/* kept: an opener has to explain a refusal from within seccomp, where it opens no file any more */
	static bool known;
	static int last;
	char text[32];
	int r = fd_read_text(AT_FDCWD, "/proc/sys/kernel/perf_event_paranoid", text, sizeof(text));
	if (r < 0 && !(r == -EPERM && known))
		return r;
	if (r == 0)
		last = atoi(text);
	known = true;
	*ret = last;
	return 0;
}

/* Root of the host without a capability is in a container that was not given it: the service of a DaemonSet. */
static bool is_in_container(void)
{
	return geteuid() == 0 && !user_dirs_in_userns();
}

/* The kernel's own gates say EACCES; EPERM comes from a filter, or a security module, before them. */
static int explain_refusal(int error, const char *what, struct err *e)
{
	int paranoid = 0;
	uint64_t caps =
		user_dirs_in_userns() ? 0 : capabilities_effective(); /* those of a user's namespace do not count */
	bool admin = caps & CAP_BIT(CAP_SYS_ADMIN), perfmon = admin || caps & CAP_BIT(CAP_PERFMON);
	if (error == -EPERM)
		return err_say(e, error,
			"%s: a seccomp filter or security module forbids perf_event_open; let it through, in a "
			"container by "
			"--security-opt seccomp=FILE",
			what);
	if (perf_paranoid(&paranoid) < 0)
		return err_say(e, error, "%s: refused by the kernel (%s)", what, strerror(-error));
	if (paranoid > 2 && !admin && is_in_container())
		return err_say(e, error,
			"%s: kernel.perf_event_paranoid is %d, which this distribution grants to CAP_SYS_ADMIN only; "
			"give the container CAP_SYS_ADMIN (in Kubernetes: hooks/kubernetes/paranoid in place of base), "
			"or set it to 2",
			what, paranoid);
	if (paranoid > 2 && !admin)
		return err_say(e, error,
			"%s: kernel.perf_event_paranoid is %d, which this distribution grants to CAP_SYS_ADMIN only; "
			"run the hook as root of the host, or set it to 2",
			what, paranoid);
	if (paranoid > 0 && !perfmon)
		return err_say(e, error,
			"%s: kernel.perf_event_paranoid is %d and this process has no CAP_PERFMON; grant it, or lower "
			"the "
			"setting",
			what, paranoid);
	return err_say(e, error,
		"%s: %s although capabilities and perf_event_paranoid (%d) allow it: a seccomp filter or security "
		"module "
		"refused",
		what, strerror(-error), paranoid);
}

int perf_explain(int error, const char *what, struct err *e)
{
	struct rlimit nofile = {0};
	int paranoid;
	switch (-error) {
	case EACCES:
	case EPERM:
		return explain_refusal(error, what, e);
	case ENOSYS:
		if (perf_paranoid(&paranoid) == 0)
			return err_say(e, error, "%s: a seccomp filter hides perf_event_open", what);
		return err_say(e, error, "%s: this kernel has no perf events (CONFIG_PERF_EVENTS)", what);
	case EMFILE:
		getrlimit(RLIMIT_NOFILE, &nofile);
		return err_say(e, error, "%s: out of file descriptors (RLIMIT_NOFILE is %llu)", what,
			(unsigned long long)nofile.rlim_cur);
	case ENFILE:
		return err_say(e, error, "%s: the host is out of file descriptors (fs.file-max)", what);
	default:
		return err_set(e, error, "%s", what);
	}
}

int perf_refused(struct err *e)
{
	const struct perf_want want = {.role = PERF_SIDEBAND};
	struct perf_event_attr attr;
	struct perf_layout layout;
	perf_attr(&want, &attr, &layout);
	/*
	 * for a pid that no process has: the kernel checks our rights first, and opening the first event of a machine
	 * takes long
	 */
	const int fd = perf_open(&attr, INT_MAX, -1, 0);
	return fd == -EACCES || fd == -EPERM || fd == -ENOSYS ? perf_explain(fd, "perf_event_open", e) : 0;
}

int perf_explain_event(int error, const char *what, struct err *e)
{
	if (error == -ENOENT || error == -EOPNOTSUPP)
		return err_say(
			e, error, "%s: this machine has no such counter (or is a virtual one that gets none)", what);
	return perf_explain(error, what, e);
}

/* Takes the lines "cpu0", "cpu1", ... but not "cpu": they come first (proc_stat(5)). */
static int cpus_of_stat(int *cpus, size_t max)
{
	static char text[256 << 10];
	size_t n = 0;
	int r = fd_read_text(AT_FDCWD, "/proc/stat", text, sizeof(text));
	for (const char *line = text; r == 0 && !strncmp(line, "cpu", 3); line = strchrnul(line, '\n'), line += !!*line)
		if (n < max && line[3] >= '0' && line[3] <= '9')
			cpus[n++] = atoi(line + 3);
	return r < 0 ? r : (int)n;
}

int perf_online_cpus(int *cpus, size_t max)
{
	char text[4096];
	int r = fd_read_text(AT_FDCWD, PERF_ONLINE, text, sizeof(text));
	return r < 0 ? cpus_of_stat(cpus, max) : perf_parse_cpus(text, cpus, max); /* there may be no sysfs */
}

int perf_parse_cpus(const char *text, int *cpus, size_t max)
{
	size_t n = 0;
	for (const char *at = text; *at && *at != '\n'; at += *at == ',') {
		char *end;
		long first = strtol(at, &end, 10), last = first;
		if (end == at)
			return -EBADMSG;
		if (*end == '-')
			last = strtol(end + 1, &end, 10);
		for (long cpu = first; cpu <= last && n < max; cpu++)
			cpus[n++] = (int)cpu;
		at = end;
	}
	return (int)n;
}
