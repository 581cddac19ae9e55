/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tenant - one who registers events on himself with a service and keeps copies of their descriptors, to read what
 * others' events write into the same rings, and to have it lost: a ring's first page can be written to, and there it
 * says how far its reader has come (the others cannot: kernel/events/core.c, perf_mmap_fault).
 *
 *	tenant keep SOCKET SECONDS	maps the rings through his events; prints
 *					"samples N foreign N taken N rings N cpu MS": of
 *					any pid, of another pid than his, how often he
 *					took what was unread, and what he used
 *	tenant layout SOCKET SECONDS	his records are laid out otherwise than he says; prints
 *					"done"
 *	tenant early SOCKET SECONDS	maps his events before he registers them; prints what
 *					comes of that
 *	tenant hang SOCKET SECONDS	his cgroup is the current directory; stops when he has it
 *					open; prints "done"
 */
#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "oci/base/process/child_process.h"
#include "shim/event/perf_event.h"
#include "shim/protocol/messages.h"
#include "tests/targets/cpu.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define CPUS_MAX 256
#define PATIENCE (5 * NSEC_PER_SEC)
#define PERIOD_NS 1000000

static union msg m;
static int cpus[CPUS_MAX], events[CPUS_MAX + 1], n_cpus; /* one a CPU, and one more that says how he lives */
static struct mapping {
	struct perf_event_mmap_page *page;
	size_t size;
	uint64_t seen;
} mappings[CPUS_MAX];
static unsigned long samples, foreign, taken, rings;

static _Noreturn void die(const char *what, int error)
{
	fprintf(stderr, "tenant: %s: %s\n", what, strerror(error));
	exit(2);
}

static int reach(const char *path)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	snprintf(un.sun_path, sizeof(un.sun_path), "%s", path);
	if (sock < 0 || connect(sock, (struct sockaddr *)&un, sizeof(un)) < 0)
		die(path, errno);
	return sock;
}

static void open_event(int i, int cpu, const struct perf_want *want, bool as_said)
{
	struct perf_event_attr attr;
	struct event_desc *d = &m.events.events[i];
	perf_attr(want, &attr, &d->layout);
	d->role = want->role;
	d->cpu = cpu;
	if (!as_said) {
		attr.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TIME | PERF_SAMPLE_PERIOD;
		attr.sample_id_all = 0;
	}
	events[i] = perf_open(&attr, 0, cpu, 0);
	if (events[i] < 0)
		die("perf_event_open", -events[i]);
}

static void open_events(bool as_said)
{
	const struct perf_want want = {
		.role = PERF_SAMPLES, .spec = {.kind = 0, .period = PERIOD_NS}, .stacks = STACKS_NONE};
	for (int i = 0; i < n_cpus; i++)
		open_event(i, cpus[i], &want, as_said);
	open_event(n_cpus, cpus[0], &(struct perf_want){.role = PERF_SIDEBAND}, as_said);
}

static void describe(void)
{
	struct target_desc *d = &m.target.desc;
	memset(&m, 0, sizeof(m));
	*d = (struct target_desc){.fds = TARGET_PIDFD,
		.strategy = STRATEGY_PROCESS,
		.init_pid = getpid(),
		.host_pid = getpid(),
		.window_s = 60,
		.n_events = 1,
		.events = {{.kind = 0, .period = PERIOD_NS}}};
	proc_stat_start_time(getpid(), &d->start_time);
	snprintf(d->id, sizeof(d->id), "tenant-%d", (int)getpid());
	snprintf(d->name, sizeof(d->name), "tenant");
}

/* Stops when it has it: then its file system may be stopped. */
static int open_here(void)
{
	int dir = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		die(".", errno);
	raise(SIGSTOP);
	return dir;
}

static int expect(int sock, enum msg_type type)
{
	struct err e = {0};
	int r = msg_answer(sock, clock_now() + PATIENCE, &m, type, &e);
	if (r < 0)
		printf("%s\n", e.text);
	return r;
}

static int enlist(int sock, const char *mode, int cgroup)
{
	fd_auto pidfd = child_process_pidfd(getpid());
	const int fds[] = {pidfd, cgroup};
	memset(&m, 0, sizeof(m));
	msg_send(sock, &m, MSG_HELLO, NULL, 0);
	if (expect(sock, MSG_WELCOME) < 0)
		return -1;
	describe();
	if (cgroup >= 0)
		m.target.desc.fds |= TARGET_CGROUP;
	msg_send(sock, &m, MSG_TARGET, fds, cgroup >= 0 ? 2 : 1);
	memset(&m, 0, sizeof(m));
	open_events(strcmp(mode, "layout") != 0);
	if (!strcmp(mode, "early") &&
		mmap(NULL, 9 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, events[0], 0) == MAP_FAILED)
		die("mmap", errno);
	m.events.n = m.events.total = (uint32_t)n_cpus + 1;
	msg_send(sock, &m, MSG_EVENTS, events, (size_t)n_cpus + 1);
	return expect(sock, MSG_OK);
}

/* Whatever size the ring behind it has. */
static void map(int i)
{
	struct mapping *o = &mappings[i];
	for (o->size = PERF_RING_BYTES; o->size >= 4096; o->size /= 2) {
		o->page = mmap(NULL, o->size + 4096, PROT_READ | PROT_WRITE, MAP_SHARED, events[i], 0);
		if (o->page != MAP_FAILED) {
			o->seen = o->page->data_head;
			rings++;
			return;
		}
	}
	o->page = NULL;
}

/* One sample: { header, identifier, ip, pid, ... }; one that wraps around the end is left alone. */
static void spy(const struct mapping *o, const struct perf_event_header *h)
{
	const uint64_t *id = (const uint64_t *)(h + 1);
	if (h->type != PERF_RECORD_SAMPLE || (const uint8_t *)(id + 3) > (const uint8_t *)o->page + 4096 + o->size)
		return;
	samples++;
	foreign += *(const uint32_t *)(id + 2) != (uint32_t)getpid();
}

static void look(struct mapping *o)
{
	uint64_t head = __atomic_load_n(&o->page->data_head, __ATOMIC_ACQUIRE);
	while (o->seen < head) {
		struct perf_event_header *h = (void *)((uint8_t *)o->page + 4096 + o->seen % o->size);
		if (h->size < sizeof(*h))
			break;
		spy(o, h);
		o->seen += h->size;
	}
	taken += o->page->data_tail != head;
	o->page->data_tail = head;
}

int main(int argc, char **argv)
{
	if (argc != 4) {
		fprintf(stderr, "usage: tenant keep|layout|early|hang SOCKET SECONDS\n");
		return 2;
	}
	bool keeps = !strcmp(argv[1], "keep");
	n_cpus = perf_online_cpus(cpus, CPUS_MAX);
	int sock = reach(argv[2]), cgroup = strcmp(argv[1], "hang") ? -1 : open_here();
	if (enlist(sock, argv[1], cgroup) < 0)
		return 1;
	for (int i = 0; keeps && i < n_cpus; i++)
		map(i);
	for (int64_t end = clock_now() + cpu_arg(argc, argv, 3, "1"); clock_now() < end;) {
		cpu_spin(MSEC);
		for (int i = 0; keeps && i < n_cpus; i++)
			if (mappings[i].page)
				look(&mappings[i]);
	}
	if (keeps)
		printf("samples %lu foreign %lu taken %lu rings %lu cpu %lld\n", samples, foreign, taken, rings,
			(long long)(cpu_now() / MSEC));
	else
		puts("done");
	return 0;
}
