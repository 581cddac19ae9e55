/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/web/metrics.h"

#include "oci/base/clock.h"
#include "shim/event/attach_strategy.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* The unit of a number: the metric's own, or a part of it, as microseconds of seconds. */
enum unit { AS_IS, HUNDREDTHS, MS, US };

struct row {
	const char *name, *type, *help;
	size_t at; /* uint64_t in struct target_row, target_totals, export_state, metrics, process_use or push_status */
	enum unit unit;
};

#define TARGET(f) offsetof(struct target_row, f)
static const struct row target_rows[] = {
	{"pillion_target_samples_total", "counter", "Samples taken of the target.", TARGET(samples), AS_IS},
	{"pillion_target_lost_samples_total", "counter",
		"Samples of the target that are in no profile: the kernel had no room for them, or their profile could "
		"not be "
		"handed over. As of the end of its last window.",
		TARGET(lost), AS_IS},
	{"pillion_target_lost_shared_records", "gauge",
		"Records of the window under way that were lost on rings which all targets share: of which target is "
		"unknown.",
		TARGET(lost_shared), AS_IS},
	{"pillion_target_throttled_total", "counter",
		"How often the kernel stopped the target's events for a tick, because samples came faster than "
		"kernel.perf_event_max_sample_rate.",
		TARGET(throttled), AS_IS},
	{"pillion_target_cpu_seconds_total", "counter",
		"CPU time the target used since it was armed, by its cgroup's account. Absent where it has none of its "
		"own.",
		TARGET(cpu_us), US},
	{"pillion_target_cost_seconds_total", "counter",
		"CPU time of the profiler for the target: reading its samples, making its profiles. Without the "
		"kernel's own, "
		"which is spent taking them.",
		TARGET(cost_us), US},
	{"pillion_target_naming_seconds_total", "counter",
		"Time from question to answer of names for the target's functions, in a process beside the profiler.",
		TARGET(naming_us), US},
	{"pillion_target_memory_bytes", "gauge", "Memory of what was counted for the target, and of its events.",
		TARGET(memory), AS_IS},
	{"pillion_target_records_total", "counter", "Records that the target's events wrote, samples or not.",
		TARGET(records), AS_IS},
	{"pillion_target_record_bytes_total", "counter", "Their size.", TARGET(bytes), AS_IS},
	{"pillion_target_capped_ratio", "gauge",
		"By how much the target is sampled less often because it alone brought too much (target_rate, "
		"target_bytes): 4 is a quarter of the rate that was asked for, 1 all of it.",
		TARGET(capped), HUNDREDTHS},
	{"pillion_target_lowered_ratio", "gauge", "The same, because sampling all targets costs too much (cpu_budget).",
		TARGET(lowered), HUNDREDTHS},
	{"pillion_target_age_seconds", "gauge", "Time since the target registered.", TARGET(age_ms), MS},
};

#define SUM(f) offsetof(struct target_table, sums.f)
static const struct row sum_rows[] = {
	{"pillion_targets", "gauge", "Targets that are profiled now.", SUM(targets), AS_IS},
	{"pillion_refused_targets_total", "counter", "Targets that were refused: there were as many as there may be.",
		SUM(refused), AS_IS},
	{"pillion_open_fds", "gauge", "Descriptors that the worker holds, nearly all of them perf events.", SUM(fds),
		AS_IS},
	{"pillion_max_fds", "gauge", "Descriptors that it may hold.", SUM(fds_max), AS_IS},
	{"pillion_rings", "gauge", "Ring buffers, one for each CPU, whatever the number of targets.", SUM(rings),
		AS_IS},
	{"pillion_ring_bytes", "gauge", "Size of each of them.", SUM(ring_bytes), AS_IS},
	{"pillion_records_total", "counter", "Records read from the rings.", SUM(records), AS_IS},
	{"pillion_unknown_records_total", "counter",
		"Records of events that nobody knows: mostly of targets that ended a moment before.", SUM(unknown),
		AS_IS},
	{"pillion_table_bytes", "gauge", "Memory of counted stacks of all targets, which table_size bounds.",
		SUM(table_bytes), AS_IS},
	{"pillion_budget_spent_seconds", "gauge",
		"CPU time of profiling in the last minute, with an estimate of what samples cost where they were "
		"taken.",
		SUM(minute_us), US},
	{"pillion_budget_sampling_seconds", "gauge",
		"Of that, what sampling cost: it falls when all targets are sampled less often.",
		offsetof(struct target_table, sampling_us), US},
	{"pillion_budget_seconds", "gauge", "How much it may be in a minute (cpu_budget); 0: as much as it takes.",
		SUM(allowed_us), US},
	{"pillion_worker_memory_bytes", "gauge", "Resident memory of the worker.", SUM(memory), AS_IS},
	{"pillion_worker_cpu_seconds_total", "counter", "CPU time of the worker.", SUM(cpu_us), US},
};

#define STATE(f) offsetof(struct export_state, f)
static const struct row state_rows[] = {
	{"pillion_profiles_waiting", "gauge", "Profiles that are made and not yet written.", STATE(held), AS_IS},
	{"pillion_profiles_waiting_bytes", "gauge", "Their size.", STATE(held_bytes), AS_IS},
	{"pillion_profiles_dropped_total", "counter",
		"Profiles that were not handed over: too many waited already for a slow spool.", STATE(dropped), AS_IS},
	{"pillion_exporter_starts_total", "counter", "Starts of the process that writes the spool: 1, unless it died.",
		STATE(exporters), AS_IS},
};

#define OWN(f) offsetof(struct metrics, f)
static const struct row own_rows[] = {
	{"pillion_profiles_written_total", "counter", "Profiles written to the spool by this exporter.", OWN(written),
		AS_IS},
	{"pillion_profile_bytes_written_total", "counter", "Their size.", OWN(written_bytes), AS_IS},
	{"pillion_profiles_failed_total", "counter",
		"Profiles that it could not write: the spool is full, or read only.", OWN(failed), AS_IS},
	{"pillion_crashes_total", "counter", "Crashes of programs of which this exporter wrote a report.", OWN(crashes),
		AS_IS},
	{"pillion_spool_bytes", "gauge", "What the spool takes on the disk.", OWN(spool_bytes), AS_IS},
	{"pillion_spool_files", "gauge", "Profiles in the spool.", OWN(spool_files), AS_IS},
	{"pillion_spool_limit_bytes", "gauge", "Beyond this size the oldest profiles are removed; 0: never.",
		OWN(spool_max), AS_IS},
	{"pillion_spool_removed_files_total", "counter",
		"Profiles that were removed for the spool's size, or for their age.", OWN(spool_removed), AS_IS},
	{"pillion_scrapes_total", "counter", "How often these numbers were asked for.", OWN(scrapes), AS_IS},
};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* --- writing -------------------------------------------------------------------------------------------- */

static void write_metric_head(const char *name, const char *type, const char *help, FILE *out)
{
	fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* The texts hold no control characters (target_table.h). */
static void write_label(const char *key, const char *value, bool first, FILE *out)
{
	fprintf(out, "%s%s=\"", first ? "" : ",", key);
	for (; *value; value++) {
		if (*value == '"' || *value == '\\')
			fputc('\\', out);
		fputc(*value, out);
	}
	fputc('"', out);
}

static uint64_t read_field(const void *of, size_t at)
{
	uint64_t value;
	memcpy(&value, (const char *)of + at, sizeof(value));
	return value;
}

static void write_sample_value(uint64_t value, enum unit unit, FILE *out)
{
	if (unit == US)
		fprintf(out, " %" PRIu64 ".%06u\n", value / 1000000, (unsigned)(value % 1000000));
	else if (unit == HUNDREDTHS)
		fprintf(out, " %" PRIu64 ".%02u\n", value / 100, (unsigned)(value % 100));
	else if (unit == MS)
		fprintf(out, " %" PRIu64 ".%03u\n", value / 1000, (unsigned)(value % 1000));
	else
		fprintf(out, " %" PRIu64 "\n", value);
}

static void write_unlabelled_metrics(const struct row *rows, size_t n, const void *of, FILE *out)
{
	for (const struct row *r = rows; r < rows + n; r++) {
		write_metric_head(r->name, r->type, r->help, out);
		fputs(r->name, out);
		write_sample_value(read_field(of, r->at), r->unit, out);
	}
}

/* --- targets -------------------------------------------------------------------------------------------- */

static int by_labels(const void *a, const void *b)
{
	const struct target_row *x = *(const struct target_row *const *)a, *y = *(const struct target_row *const *)b;
	int c = strcmp(x->id, y->id);
	if (!c)
		c = strcmp(x->name, y->name);
	if (!c)
		c = strcmp(x->pod, y->pod);
	if (!c)
		c = strcmp(x->pod_namespace, y->pod_namespace);
	return c ? c : x->serial > y->serial ? -1 : 1;
}

static bool same_labels(const struct target_row *x, const struct target_row *y)
{
	return !strcmp(x->id, y->id) && !strcmp(x->name, y->name) && !strcmp(x->pod, y->pod) &&
	       !strcmp(x->pod_namespace, y->pod_namespace);
}

/* Lists targets without repeated labels, as no series may be there twice: of a target that ended and came again,
 * the latest. */
static const struct target_row **list_distinct_targets(const struct target_table *l, size_t *ret_n)
{
	const struct target_row **list = calloc(l->n + 1, sizeof(*list));
	size_t n = 0;
	for (size_t i = 0; list && i < l->n; i++)
		list[i] = &l->targets[i];
	if (list)
		qsort(list, l->n, sizeof(list[0]), by_labels);
	for (size_t i = 0; list && i < l->n; i++)
		if (n == 0 || !same_labels(list[n - 1], list[i]))
			list[n++] = list[i];
	*ret_n = n;
	return list;
}

static void target_labels(const char *name, const struct target_row *t, FILE *out)
{
	fprintf(out, "%s{", name);
	write_label("target", t->id, true, out);
	write_label("name", t->name, false, out);
	write_label("pod", t->pod, false, out);
	write_label("namespace", t->pod_namespace, false, out);
}

static void target_info(const struct target_row *const *list, size_t n, FILE *out)
{
	static const char name[] = "pillion_target_info";
	static const char *const states[] = {[LISTED_REGISTERED] = "registered",
		[LISTED_ARMED] = "armed",
		[LISTED_STARTED] = "started",
		[LISTED_ENDING] = "ending"};
	write_metric_head(name, "gauge", "1 for each target: how it is attached to, and how far it is.", out);
	for (size_t i = 0; i < n; i++) {
		target_labels(name, list[i], out);
		write_label("strategy", strategy_name(list[i]->strategy), false, out);
		write_label("state", states[list[i]->state], false, out);
		fputs("} 1\n", out);
	}
}

static int write_target_metrics(const struct target_table *l, FILE *out)
{
	size_t n;
	const struct target_row **list = list_distinct_targets(l, &n);
	if (!list)
		return -ENOMEM;
	target_info(list, n, out);
	for (const struct row *r = target_rows; r < target_rows + COUNT(target_rows); r++) {
		write_metric_head(r->name, r->type, r->help, out);
		for (size_t i = 0; i < n; i++) {
			uint64_t value = read_field(list[i], r->at);
			if (value == LISTED_UNKNOWN)
				continue;
			target_labels(r->name, list[i], out);
			fputc('}', out);
			write_sample_value(value, r->unit, out);
		}
	}
	free(list);
	return 0;
}

/* --- the service ---------------------------------------------------------------------------------------- */

static void write_hook_metrics(const struct hook_stats *o, FILE *out)
{
	static const char name[] = "pillion_hook_duration_seconds";
	uint64_t sum = 0;
	write_metric_head("pillion_hook_starts_total", "counter",
		"Starts of containers by what became of their profile, and how they were attached to. Those whose hook "
		"did not "
		"reach the service are not in it.",
		out);
	for (unsigned i = 1; i < HOOK_OUTCOMES; i++)
		for (unsigned s = 0; s <= STRATEGY_TIMERS; s++)
			if (o->count[i][s])
				fprintf(out, "pillion_hook_starts_total{outcome=\"%s\",strategy=\"%s\"} %" PRIu64 "\n",
					outcome_name(i), s ? strategy_name(s) : "", o->count[i][s]);
	write_metric_head(name, "histogram", "How long containers' starts were held up by the hook.", out);
	for (unsigned i = 0; i < OUTCOME_BUCKETS - 1; i++) {
		sum += o->bucket[i];
		fprintf(out, "%s_bucket{le=\"%g\"} %" PRIu64 "\n", name, (double)outcome_bucket_us[i] / 1e6, sum);
	}
	fprintf(out, "%s_bucket{le=\"+Inf\"} %" PRIu64 "\n%s_sum", name, o->n, name);
	write_sample_value(o->sum_us, US, out);
	fprintf(out, "%s_count %" PRIu64 "\n", name, o->n);
}

static void write_process_metrics(const struct metrics *m, FILE *out)
{
	static const struct row rows[] = {
		{"pillion_process_resident_memory_bytes", "gauge",
			"Resident memory of the service's processes by their name; what they share is in each of them.",
			offsetof(struct process_use, resident), AS_IS},
		{"pillion_process_cpu_seconds", "gauge", "CPU time of those processes that live now.",
			offsetof(struct process_use, cpu_us), US},
	};
	for (const struct row *r = rows; r < rows + COUNT(rows); r++) {
		write_metric_head(r->name, r->type, r->help, out);
		for (unsigned i = 0; i < m->n_processes; i++) {
			fprintf(out, "%s{", r->name);
			write_label("process", m->processes[i].name, true, out);
			fputc('}', out);
			write_sample_value(read_field(&m->processes[i], r->at), r->unit, out);
		}
	}
	write_metric_head("pillion_processes", "gauge", "How many there are.", out);
	for (unsigned i = 0; i < m->n_processes; i++) {
		fputs("pillion_processes{", out);
		write_label("process", m->processes[i].name, true, out);
		fprintf(out, "} %u\n", m->processes[i].n);
	}
}

static void write_push_metrics(const struct metrics *m, FILE *out)
{
	static const struct row rows[] = {
		{"pillion_push_profiles_total", "counter",
			"Profiles that an endpoint of `pillion push` took, since its process began.",
			offsetof(struct push_status, sent), AS_IS},
		{"pillion_push_bytes_total", "counter", "What was sent of them.", offsetof(struct push_status, bytes),
			AS_IS},
		{"pillion_push_refused_total", "counter", "Profiles that it will never take: its log says why.",
			offsetof(struct push_status, refused), AS_IS},
		{"pillion_push_lost_total", "counter",
			"Profiles that the spool's caps removed before they could be sent.",
			offsetof(struct push_status, lost), AS_IS},
		{"pillion_push_failures_total", "counter", "Tries that were not answered, or by \"later\".",
			offsetof(struct push_status, failures), AS_IS},
		{"pillion_push_waiting", "gauge", "Profiles that are yet to be sent.",
			offsetof(struct push_status, waiting), AS_IS},
		{"pillion_push_oldest_seconds", "gauge", "Since the one that waits longest began; 0: none waits.",
			offsetof(struct push_status, oldest_s), AS_IS},
		{"pillion_push_failing_seconds", "gauge", "For how long nothing has been taken; 0: all is well.",
			offsetof(struct push_status, failing_s), AS_IS},
		{"pillion_push_heard_seconds", "gauge",
			"Since the endpoint's process told this; it does so each 30 s while it lives.",
			offsetof(struct push_status, heard_s), AS_IS},
	};
	for (const struct row *r = rows; r < rows + COUNT(rows); r++) {
		write_metric_head(r->name, r->type, r->help, out);
		for (unsigned i = 0; i < m->n_pushed; i++) {
			fprintf(out, "%s{", r->name);
			write_label("endpoint", m->pushed[i].name, true, out);
			fputc('}', out);
			write_sample_value(read_field(&m->pushed[i], r->at), r->unit, out);
		}
	}
}

static void write_gauge(const char *name, const char *help, unsigned value, FILE *out)
{
	write_metric_head(name, "gauge", help, out);
	fprintf(out, "%s %u\n", name, value);
}

int metrics_write(const struct metrics *m, FILE *out)
{
	int r = 0;
	write_metric_head("pillion_build_info", "gauge", "1, and the version of pilliond.", out);
	fprintf(out, "pillion_build_info{version=\"%s\"} 1\n", VERSION);
	write_gauge("pillion_worker_up",
		"1 when the process that profiles answered, else 0: then what it knows is left out.",
		m->listed && m->state, out);
	write_unlabelled_metrics(own_rows, COUNT(own_rows), m, out);
	write_process_metrics(m, out);
	write_push_metrics(m, out);
	if (m->state) {
		write_unlabelled_metrics(state_rows, COUNT(state_rows), m->state, out);
		write_gauge("pillion_symbolizer_up",
			"1 when names are found by debug information, 0: by symbol tables alone.", m->state->symbolizer,
			out);
		write_gauge("pillion_readers_up",
			"1 when files of targets can be read, 0: there are no names but the kernel's.",
			m->state->readers, out);
		write_gauge("pillion_symbolizer_renewable",
			"1 when there will be another symbolizer, with readers of files, when it ends.",
			m->state->renewable, out);
		write_hook_metrics(&m->state->outcomes, out);
	}
	if (m->listed) {
		write_unlabelled_metrics(sum_rows, COUNT(sum_rows), m->listed, out);
		r = write_target_metrics(m->listed, out);
	}
	return r < 0 ? r : ferror(out) ? -EIO : 0;
}
