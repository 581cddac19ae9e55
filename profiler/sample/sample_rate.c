/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/sample/sample_rate.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "oci/isolation/cgroup.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FACTOR_MOST (RATE_CAP_MOST * CPU_BUDGET_MOST)
#define STRETCH_MOST 1000.0
double sample_rate_scale(const struct target_rate *r, int64_t time)
{
	unsigned n = r->n_steps < RATE_STEPS ? r->n_steps : RATE_STEPS;
	for (unsigned i = 1; i <= n; i++) {
		const struct rate_step *s = &r->steps[(r->n_steps - i) % RATE_STEPS];
		if (time >= s->since)
			return s->scale;
	}
	return r->n_steps > RATE_STEPS ? r->steps[r->n_steps % RATE_STEPS].scale : 1;
}

uint64_t sample_rate_period(uint64_t period, double factor)
{
	return (uint64_t)((double)period * factor + 0.5);
}

uint64_t sample_rate_weight(const struct target_rate *r, uint64_t period, int64_t time)
{
	return r->n_steps ? sample_rate_period(period, sample_rate_scale(r, time)) : period;
}

int64_t sample_rate_cpu(const struct rate_control *r)
{
	return clock_cpu() - r->loading;
}

/* mmap and fork records of a program cost the same, however seldom it is sampled. */
void sample_rate_drained(struct rate_control *r, int64_t began)
{
	const int64_t cpu = sample_rate_cpu(r) - began;
	if (r->n_records && cpu > 0)
		r->drains += (uint64_t)((double)cpu * (double)r->n_samples / (double)r->n_records);
	r->n_samples = r->n_records = 0;
}

/* The scale is a whole number: one of so many samples is kept. */
bool sample_rate_keep(struct target_rate *r, uint32_t spec, int64_t time)
{
	if (++r->skipped[spec] < (uint32_t)sample_rate_scale(r, time))
		return false;
	r->skipped[spec] = 0;
	return true;
}

int sample_rate_open_account(void)
{
	char path[1024];
	struct cgroup_target c;
	if (cgroup_path(getpid(), NULL, path, sizeof(path)) < 0)
		return -1;
	/* a cgroup shared with other programs tells nothing of pilliond, and the root's is the machine's */
	const char *last = strrchr(path, '/');
	bool unit = last && strlen(last) > 8 && !strcmp(last + strlen(last) - 8, ".service");
	if (!unit && strcmp(path, "/" CGROUP_BASE "/service"))
		return -1;
	cgroup_find(getpid(), &c);
	int fd = c.events_dir < 0 ? -1 : fd_open(c.events_dir, "cpu.stat", O_RDONLY, 0);
	cgroup_target_done(&c);
	return fd < 0 ? -1 : fd;
}

void sample_rate_close_account(struct rate_control *r)
{
	if (r->account > 0)
		r->account = fd_close(r->account);
}

static bool read_account(int fd, uint64_t *ret)
{
	char text[512];
	ssize_t n = fd <= 0 ? -1 : pread(fd, text, sizeof(text) - 1, 0);
	text[n < 0 ? 0 : n] = 0;
	const char *at = strstr(text, "usage_usec ");
	if (at)
		*ret = strtoull(at + 11, NULL, 10) * 1000;
	return at;
}

/* Returns the cost since the last look: CPU time of our processes, and of taking samples. */
struct cpu_budget_cost sample_rate_spent(struct rate_control *r)
{
	uint64_t now, before = r->spent;
	if (!read_account(r->account, &now))
		now = (uint64_t)clock_cpu();
	uint64_t ours = now > before ? now - before : 0, drains = r->drains < ours ? r->drains : ours;
	struct cpu_budget_cost spent = {r->sampling + drains, ours - drains};
	r->spent = now;
	r->sampling = r->drains = 0;
	return spent;
}

/* --- for a journal ------------------------------------------------------------------------------------- */

uint64_t sample_rate_bits(double value)
{
	uint64_t bits;
	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

/* NaN becomes `least`. */
double sample_rate_double(uint64_t bits, double least, double most)
{
	double value;
	memcpy(&value, &bits, sizeof(value));
	return !(value >= least) ? least : value < most ? value : most;
}

void sample_rate_save(const struct target_rate *r, struct rate_saved *ret)
{
	unsigned n = r->n_steps < RATE_KEPT ? r->n_steps : RATE_KEPT;
	*ret = (struct rate_saved){.factor = sample_rate_bits(r->factor),
		.most = sample_rate_bits(r->most),
		.by = (r->by_cap ? 1 : 0) | (r->by_budget ? 2 : 0),
		.cap = sample_rate_bits(r->cap.factor),
		.stretch = sample_rate_bits(r->intervals.stretch),
		.n_steps = n};
	for (unsigned i = 0; i < n; i++) {
		const struct rate_step *s = &r->steps[(r->n_steps - n + i) % RATE_STEPS];
		bool stands_for_others = i == 0 && r->n_steps > n;
		ret->steps[i][0] = stands_for_others ? 0 : (uint64_t)s->since;
		ret->steps[i][1] = sample_rate_bits(s->scale);
	}
}

void sample_rate_restore(struct target_rate *r, const struct rate_saved *s)
{
	int64_t now = clock_now();
	*r = (struct target_rate){.factor = sample_rate_double(s->factor, 1, FACTOR_MOST),
		.most = sample_rate_double(s->most, 0, FACTOR_MOST),
		.by_cap = s->by & 1,
		.by_budget = s->by & 2,
		.cap.factor = sample_rate_double(s->cap, 1, RATE_CAP_MOST),
		.intervals.stretch = sample_rate_double(s->stretch, 0, STRETCH_MOST)};
	for (unsigned i = 0; i < RATE_CAP_CALM; i++) /* the cap is held for that long */
		r->cap.needed[i] = r->cap.factor > 1 ? r->cap.factor : 0;
	r->n_steps = s->n_steps < RATE_KEPT ? (unsigned)s->n_steps : RATE_KEPT;
	for (unsigned i = 0; i < r->n_steps; i++)
		r->steps[i] = (struct rate_step){s->steps[i][0] < (uint64_t)now ? (int64_t)s->steps[i][0] : now,
			sample_rate_double(s->steps[i][1], 1, STRETCH_MOST * FACTOR_MOST)};
}

void sample_rate_save_all(const struct rate_control *r, struct sample_rate_saved *ret)
{
	const struct cpu_budget *b = &r->allowance;
	*ret = (struct sample_rate_saved){
		.factor = sample_rate_bits(b->factor), .since = b->since, .seconds = b->seconds};
	for (unsigned i = 0; i < CPU_BUDGET_SECONDS; i++) {
		const struct cpu_budget_cost *spent = &b->spent[(b->at + 1 + i) % CPU_BUDGET_SECONDS];
		ret->sampling[i] = spent->sampling;
		ret->other[i] = spent->other;
	}
}

void sample_rate_restore_all(struct rate_control *r, const struct sample_rate_saved *s)
{
	struct cpu_budget *b = &r->allowance;
	*b = (struct cpu_budget){.factor = sample_rate_double(s->factor, 1, CPU_BUDGET_MOST),
		.since = s->since < UINT32_MAX ? (unsigned)s->since : UINT32_MAX,
		.seconds = s->seconds,
		.at = CPU_BUDGET_SECONDS - 1};
	for (unsigned i = 0; i < CPU_BUDGET_SECONDS; i++)
		b->spent[i] = (struct cpu_budget_cost){s->sampling[i], s->other[i]};
}
