/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record FILE SAMPLES HZ COMMAND... - runs a command and records samples of it and its children, until there are
 * SAMPLES or it ends; it is then killed with its children. Needs root.
 */
#include "oci/base/clock.h"
#include "profiler/perf/cpu_rings.h"
#include "profiler/perf/record.h"
#include "profiler/process/process_table.h"
#include "shim/event/perf_event.h"
#include "tests/bench/corpus.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define EVENTS 512
#define STACK_BYTES 65528u /* the most that is accepted; the kernel takes off what a record has no room for */

static struct {
	FILE *out;
	unsigned long wanted, got;
	struct process_table *tasks;
	uint64_t ids[EVENTS];
	struct perf_layout layouts[EVENTS];
	unsigned n_events;
	uint64_t set_hash;
	uint32_t set_id;
} w;

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "record: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void put(const void *p, size_t n)
{
	if (fwrite(p, n, 1, w.out) != 1)
		die("write");
}

static void put_u32(uint32_t v)
{
	put(&v, sizeof(v));
}

static struct module *nothing(void *arg, const struct module_key *key)
{
	return NULL;
}

static uint64_t hash_maps(const struct address_space *s)
{
	uint64_t h = 1;
	for (size_t i = 0; i < address_space_count(s); i++) {
		const struct mapping *m = address_space_at(s, i);
		h = (h ^ m->start) * 0xff51afd7ed558ccdull;
		h = (h ^ m->end ^ (uintptr_t)m->file) * 0xff51afd7ed558ccdull;
		h ^= h >> 31;
	}
	return h;
}

static void put_maps(const struct address_space *s)
{
	uint64_t h = hash_maps(s);
	if (h == w.set_hash)
		return;
	w.set_hash = h;
	put_u32(CORPUS_MAPS);
	put_u32(++w.set_id);
	put_u32((uint32_t)address_space_count(s));
	for (size_t i = 0; i < address_space_count(s); i++) {
		const struct mapping *m = address_space_at(s, i);
		const char *path = mapping_key(m)->path;
		uint64_t range[] = {m->start, m->end, m->pgoff};
		put(range, sizeof(range));
		put_u32((uint32_t)strlen(path));
		if (*path)
			put(path, strlen(path));
	}
}

static void put_sample(const struct record *r)
{
	const struct record_sample *s = &r->sample;
	struct process *p = process_table_get(w.tasks, r->pid);
	if (!p || !s->has_regs || !s->stack_size || w.got == w.wanted)
		return;
	put_maps(p->space);
	put_u32(CORPUS_SAMPLE);
	put_u32(w.set_id);
	put(s->regs.r, sizeof(s->regs.r));
	put_u32((uint32_t)s->stack_size);
	put(s->stack, s->stack_size);
	w.got++;
}

static void on_record(void *arg, const struct perf_event_header *h, uint64_t id)
{
	struct record r;
	unsigned i = 0;
	while (i < w.n_events && w.ids[i] != id)
		i++;
	if (i == w.n_events || record_parse(h, &w.layouts[i], &r) < 0)
		return;
	if (r.type == PERF_RECORD_SAMPLE)
		put_sample(&r);
	else
		process_table_record(w.tasks, &r);
}

static void open_event(struct cpu_rings *rings, struct perf_want *want, pid_t pid, int cpu)
{
	struct perf_event_attr attr;
	perf_attr(want, &attr, &w.layouts[w.n_events]);
	if (attr.sample_stack_user)
		attr.sample_stack_user = w.layouts[w.n_events].stack_user = STACK_BYTES;
	int fd = perf_open(&attr, pid, cpu, 0);
	if (fd < 0 || w.n_events == EVENTS || cpu_rings_redirect(rings, cpu, fd) < 0 ||
		ioctl(fd, PERF_EVENT_IOC_ID, &w.ids[w.n_events]) < 0)
		die("perf_event_open");
	w.n_events++;
}

static pid_t start(char **argv, int *ret_go)
{
	int ends[2];
	char byte;
	if (pipe(ends) < 0)
		die("pipe");
	pid_t pid = fork();
	if (pid == 0) {
		setpgid(0, 0);
		close(ends[1]);
		if (read(ends[0], &byte, 1) != 1)
			_exit(127);
		execvp(argv[0], argv);
		_exit(127);
	}
	setpgid(pid, pid);
	close(ends[0]);
	*ret_go = ends[1];
	return pid;
}

int main(int argc, char **argv)
{
	static int cpus[256];
	struct cpu_rings *rings;
	struct err e;
	char note[160];
	int go, status;
	if (argc < 5) {
		fprintf(stderr, "usage: record FILE SAMPLES HZ COMMAND...\n");
		return 2;
	}
	w.out = fopen(argv[1], "w");
	w.wanted = strtoul(argv[2], NULL, 10);
	struct event_spec spec = {.kind = 0, .period = 1000000000ull / strtoul(argv[3], NULL, 10)};
	if (!w.out || process_table_new(nothing, NULL, &w.tasks) < 0 ||
		cpu_rings_open(&rings, note, sizeof(note), &e) < 0)
		die(argv[1]);
	put(CORPUS_MAGIC, 8);
	pid_t pid = start(argv + 4, &go);
	int n = perf_online_cpus(cpus, 256);
	for (int i = 0; i < n; i++) {
		struct perf_want want = {.role = PERF_SIDEBAND, .kernel = true, .inherit = true, .on_exec = true};
		open_event(rings, &want, pid, cpus[i]);
		want.role = PERF_SAMPLES;
		want.spec = spec;
		want.stacks = STACKS_DWARF;
		open_event(rings, &want, pid, cpus[i]);
	}
	if (write(go, "", 1) != 1)
		die("go");
	while (w.got < w.wanted && waitpid(pid, &status, WNOHANG) == 0) {
		usleep(2000);
		cpu_rings_drain(rings, clock_now() - 2 * NSEC_PER_MSEC, INT64_MAX, on_record, NULL, &(uint64_t){0});
	}
	kill(-pid, SIGKILL);
	waitpid(pid, &status, 0);
	printf("%lu samples, %u sets of mappings\n", w.got, w.set_id);
	return fclose(w.out) == 0 && w.got ? 0 : 1;
}
