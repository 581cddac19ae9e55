/* SPDX-License-Identifier: Apache-2.0 */
/*
 * commit - what it costs that a worker's successor can continue: time and bytes of a second's commit, of a snapshot, of
 * taking over; the median of RUNS. CPU time of this thread, on a machine that should be idle.
 */
#include "tests/unit/support/fed.h"

#include "oci/base/clock.h"
#include "profiler/target/checkpoint/checkpoint_read.h"

#include <stdio.h>

#define RUNS 21
#define SECONDS 60
#define SAMPLES 10000 /* of a window, each busy target */
#define STACKS 3000
#define DEPTH 30

static int64_t now;

static int by_size(const void *a, const void *b)
{
	const double *x = a, *y = b;
	return *x < *y ? -1 : *x > *y;
}

static double median(double *values, size_t n)
{
	qsort(values, n, sizeof(*values), by_size);
	return values[n / 2];
}

/* A program of some libraries and processes, as a web server at rest. */
static void idle(struct target *t)
{
	char path[64];
	fed_comm(t, (uint64_t)now, FED_INIT, FED_INIT, "server", true);
	for (unsigned i = 0; i < 30; i++) {
		snprintf(path, sizeof(path), "/usr/lib/x86_64-linux-gnu/libsome%u.so.1", i);
		fed_map(t, (uint64_t)now, FED_INIT, 0x7f0000000000 + i * 0x1000000ull, 0x100000, path);
	}
	for (uint32_t pid = FED_INIT + 1; pid < FED_INIT + 4; pid++)
		fed_task(t, PERF_RECORD_FORK, (uint64_t)now, pid, pid, FED_INIT);
}

/* One of STACKS stacks, which share what is near their roots. */
static void sample(struct target *t, unsigned i)
{
	uint64_t chain[DEPTH + 1] = {PERF_CONTEXT_USER};
	unsigned stack = i * 7919 % STACKS;
	for (unsigned k = 0; k < DEPTH; k++) {
		unsigned what = k < 6 ? stack : k < 15 ? stack / 20 : stack / 300;
		chain[k + 1] = 0x7f0000000000 + (what * 31 + k) % 30 * 0x1000000ull + what * 64 + k;
	}
	fed_sample(t, fed_events(t, 0), (uint64_t)now, FED_INIT + i % 4, FED_INIT + i % 4, chain, DEPTH + 1);
}

static void second(struct engine *g, unsigned busy, unsigned at)
{
	char id[16];
	for (unsigned n = 1; n <= busy; n++) {
		snprintf(id, sizeof(id), "c%u", n);
		struct target *t = target_find(g, id);
		for (unsigned i = at * SAMPLES / SECONDS; i < (at + 1) * SAMPLES / SECONDS; i++)
			sample(t, i);
	}
}

static void fill(struct engine *g, const int *files, unsigned targets)
{
	fed_engine(g);
	fed_commit(g, files);
	checkpoint_resume(g->commit, g, now);
	for (unsigned i = 1; i <= targets; i++)
		idle(fed_target(g, i));
}

static double successor(const int *files, unsigned targets)
{
	static struct engine g;
	fed_engine(&g);
	fed_commit(&g, files);
	for (unsigned i = 1; i <= targets; i++)
		fed_target(&g, i);
	int64_t begin = clock_cpu();
	if (checkpoint_resume(g.commit, &g, now) != targets)
		abort();
	double took = (double)(clock_cpu() - begin) / 1e3;
	g.commit = checkpoint_free(g.commit);
	fed_engine_done(&g);
	return took;
}

static void row(unsigned targets, unsigned busy)
{
	static struct engine g;
	int files[2];
	double commits[SECONDS], again[RUNS];
	uint64_t bytes = 0, most = 0;
	fed_files(files);
	fill(&g, files, targets);
	for (unsigned i = 0; i < SECONDS; i++) {
		second(&g, busy, i);
		uint64_t had = checkpoint_bytes(g.commit);
		now += NSEC_PER_SEC;
		int64_t begin = clock_cpu();
		checkpoint_round(g.commit, &g, now);
		commits[i] = (double)(clock_cpu() - begin) / 1e3;
		uint64_t have = checkpoint_bytes(g.commit);
		bytes += have > had ? have - had : 0;
		most = have > most ? have : most;
	}
	double worst = 0;
	for (unsigned i = 0; i < SECONDS; i++)
		worst = commits[i] > worst ? commits[i] : worst;
	double usual = median(commits, SECONDS);
	now += NSEC_PER_SEC;
	for (unsigned i = 0; i < RUNS; i++)
		again[i] = successor(files, targets);
	uint64_t whole = 0;
	struct engine last;
	fed_engine(&last);
	fed_commit(&last, files);
	for (unsigned i = 1; i <= targets; i++)
		fed_target(&last, i);
	checkpoint_resume(last.commit, &last, now);
	whole = checkpoint_bytes(last.commit);
	last.commit = checkpoint_free(last.commit);
	fed_engine_done(&last);
	g.commit = checkpoint_free(g.commit);
	fed_engine_done(&g);
	printf("  %7u %5u %12.1f %12.1f %12" PRIu64 " %12" PRIu64 " %12" PRIu64 " %12.0f\n", targets, busy, usual,
		worst, bytes / SECONDS, most, whole, median(again, RUNS));
	for (int i = 0; i < 2; i++)
		fd_close(files[i]);
}

int main(void)
{
	now = clock_now();
	fed_n_events = 1;
	printf("  %7s %5s %12s %12s %12s %12s %12s %12s\n", "targets", "busy", "us/commit", "worst", "bytes/commit",
		"bytes most", "snapshot", "us/takeover");
	row(1, 1);
	row(100, 0);
	row(100, 10);
	row(1000, 10);
	return 0;
}
