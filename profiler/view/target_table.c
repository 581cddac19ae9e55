/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/view/target_table.h"

#include "oci/base/clock.h"
#include "oci/base/json/json_write.h"
#include "oci/base/utf8.h"
#include "profiler/view/top_table.h"
#include "shim/event/attach_strategy.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define CELL_MAX TARGET_TABLE_CELL_MAX
#define ID_SHOWN 12
#define NAME_SHOWN 32
#define MORE "\u2026"

static const char *const states[] = {
	[LISTED_REGISTERED] = "registered",
	[LISTED_ARMED] = "armed",
	[LISTED_STARTED] = "started",
	[LISTED_ENDING] = "ending",
};

/* --- collecting ---------------------------------------------------------------------------------------- */

static int make_room(struct target_table *l, size_t n)
{
	if (l->targets && n <= l->room)
		return 0;
	if (n > TARGET_TABLE_MAX)
		return -E2BIG;
	size_t room = n < TARGET_TABLE_MAX / 2 ? 2 * n + 1 : TARGET_TABLE_MAX;
	struct target_row *more = realloc(l->targets, room * sizeof(*more));
	if (!more)
		return -ENOMEM;
	l->targets = more;
	l->room = room;
	return 0;
}

int target_table_add(struct target_table *l, const struct msg_listing *page)
{
	int r = make_room(l, l->n + page->n);
	if (r < 0)
		return r;
	memcpy(l->targets + l->n, page->targets, page->n * sizeof(l->targets[0]));
	for (struct target_row *t = l->targets + l->n; t < l->targets + l->n + page->n; t++) {
		char *texts[] = {t->id, t->name, t->pod, t->pod_namespace, t->profile};
		for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
			utf8_clean(texts[i]);
	}
	l->n += page->n;
	l->sums = page->sums;
	/* a service of version 2 leaves there what it had in memory */
	l->sampling_us = page->sampling_us <= page->sums.minute_us ? page->sampling_us : 0;
	snprintf(l->spool, sizeof(l->spool), "%s", page->spool);
	utf8_clean(l->spool);
	return !!page->last;
}

int target_table_ask(int sock, int64_t deadline, struct target_table *l, struct err *e)
{
	static union msg m;
	int r = msg_tell(sock, &m, MSG_LIST, NULL, 0, e);
	while (r == 0) {
		r = msg_answer(sock, deadline, &m, MSG_LISTING, e);
		if (r == 0 && (r = target_table_add(l, &m.listing)) < 0)
			err_set(e, r, "the list of targets");
	}
	return r < 0 ? r : 0;
}

void target_table_done(struct target_table *l)
{
	free(l->targets);
	*l = (struct target_table){0};
}

static double compute_sample_rate(const struct target_row *t)
{
	return t->window_ms ? (double)t->window_samples * 1000 / (double)t->window_ms : 0;
}

/* --- a table ------------------------------------------------------------------------------------------- */

struct cell {
	const struct target_table *all;
	bool full;
	char *buf; /* CELL_MAX */
};

static size_t count_characters(const char *text)
{
	size_t n = 0;
	for (; *text; text++)
		n += (*text & 0xc0) !=
		     0x80; /* characters, of one width each: a container's name with others misaligns the table */
	return n;
}

static void set_cell(const struct cell *c, const char *text)
{
	snprintf(c->buf, CELL_MAX, "%s", text[0] ? text : "-");
}

/* At most so many characters, the last of them `mark`. */
static void truncate_cell(const struct cell *c, size_t most, const char *mark)
{
	size_t at = 0;
	if (c->full || count_characters(c->buf) <= most)
		return;
	for (size_t n = count_characters(mark); n < most; n++)
		at += utf8_valid((const unsigned char *)c->buf + at);
	snprintf(c->buf + at, CELL_MAX - at, "%s", mark);
}

static void put_id(const struct cell *c, const struct target_row *t)
{
	set_cell(c, t->id);
	truncate_cell(c, ID_SHOWN, "");
}

static void put_name(const struct cell *c, const struct target_row *t)
{
	set_cell(c, t->name);
	truncate_cell(c, NAME_SHOWN, MORE);
}

static void put_pod(const struct cell *c, const struct target_row *t)
{
	set_cell(c, t->pod);
	if (t->pod_namespace[0] && t->pod[0])
		snprintf(c->buf, CELL_MAX, "%s/%s", t->pod_namespace, t->pod);
	truncate_cell(c, 2 * NAME_SHOWN, MORE);
}

static void put_state(const struct cell *c, const struct target_row *t)
{
	set_cell(c, states[t->state]);
}

static void put_strategy(const struct cell *c, const struct target_row *t)
{
	snprintf(c->buf, CELL_MAX, "%s%s", strategy_name(t->strategy), t->kernel ? "" : ":user");
}

static void put_events(const struct cell *c, const struct target_row *t)
{
	char text[EVENTS_TEXT_MAX];
	snprintf(c->buf, CELL_MAX, "%s", event_spec_text(t->events, t->n_events, text));
}

static void put_age(const struct cell *c, const struct target_row *t)
{
	static const struct {
		uint64_t seconds;
		char unit;
	} units[] = {{86400, 'd'}, {3600, 'h'}, {60, 'm'}, {1, 's'}};
	uint64_t s = t->age_ms / 1000;
	size_t i = 0;
	while (units[i].seconds > 1 && s < 2 * units[i].seconds)
		i++;
	snprintf(c->buf, CELL_MAX, "%" PRIu64 "%c", s / units[i].seconds, units[i].unit);
}

static void put_samples(const struct cell *c, const struct target_row *t)
{
	snprintf(c->buf, CELL_MAX, "%" PRIu64, t->samples);
}

static void put_rate(const struct cell *c, const struct target_row *t)
{
	set_cell(c, "");
	if (t->state == LISTED_STARTED)
		snprintf(c->buf, CELL_MAX, "%.1f", compute_sample_rate(t));
}

static double lowered_by(const struct target_row *t)
{
	return (double)t->capped / 100 * ((double)t->lowered / 100);
}

/* "1/4.2 cap", if the rate was lowered */
static void put_lowered(const struct cell *c, const struct target_row *t)
{
	set_cell(c, "");
	if (lowered_by(t) > 1)
		snprintf(c->buf, CELL_MAX, "1/%.1f %s", lowered_by(t),
			t->lowered <= 100  ? "cap"
			: t->capped <= 100 ? "budget"
					   : "cap+budget");
}

static void put_bytes(const struct cell *c, const struct target_row *t)
{
	top_amount((int64_t)t->bytes, "bytes", c->buf, CELL_MAX);
}

static void put_lost(const struct cell *c, const struct target_row *t)
{
	int at = snprintf(c->buf, CELL_MAX, "%" PRIu64, t->lost);
	if (t->lost_shared)
		snprintf(c->buf + at, CELL_MAX - (size_t)at, "+%" PRIu64 "?", t->lost_shared);
}

static void put_throttled(const struct cell *c, const struct target_row *t)
{
	snprintf(c->buf, CELL_MAX, "%" PRIu64, t->throttled);
}

static void put_cpu(const struct cell *c, const struct target_row *t)
{
	if (t->cpu_us == LISTED_UNKNOWN)
		set_cell(c, "");
	else
		top_amount((int64_t)t->cpu_us * 1000, "nanoseconds", c->buf, CELL_MAX);
}

static void put_cost(const struct cell *c, const struct target_row *t)
{
	top_amount((int64_t)t->cost_us * 1000, "nanoseconds", c->buf, CELL_MAX);
}

static void put_memory(const struct cell *c, const struct target_row *t)
{
	top_amount((int64_t)t->memory, "bytes", c->buf, CELL_MAX);
}

static void put_profile(const struct cell *c, const struct target_row *t)
{
	set_cell(c, t->profile);
	if (c->full && t->profile[0])
		snprintf(c->buf, CELL_MAX, "%s/%s", c->all->spool, t->profile);
}

static const struct column {
	const char *title;
	bool right;
	void (*put)(const struct cell *c, const struct target_row *t);
} columns[] = {
	{"ID", false, put_id},
	{"NAME", false, put_name},
	{"POD", false, put_pod},
	{"STATE", false, put_state},
	{"STRATEGY", false, put_strategy},
	{"EVENTS", false, put_events},
	{"AGE", true, put_age},
	{"SAMPLES", true, put_samples},
	{"PER-S", true, put_rate},
	{"LOWERED", true, put_lowered},
	{"BYTES", true, put_bytes},
	{"LOST", true, put_lost},
	{"THROTTLED", true, put_throttled},
	{"CPU", true, put_cpu},
	{"COST", true, put_cost},
	{"MEMORY", true, put_memory},
	{"PROFILE", false, put_profile},
};
#define COLUMNS (sizeof(columns) / sizeof(columns[0]))

const char *target_table_cell(const struct target_table *l, const struct target_row *t, const char *title, char *buf)
{
	const struct cell cell = {l, true, buf};
	snprintf(buf, CELL_MAX, "-");
	for (size_t i = 0; i < COLUMNS; i++)
		if (!strcmp(columns[i].title, title))
			columns[i].put(&cell, t);
	return buf;
}

static void print_cell(size_t column, const char *text, size_t wide, FILE *out)
{
	int fill = (int)(wide - count_characters(text));
	if (columns[column].right)
		fprintf(out, "%*s%s", fill, "", text);
	else
		fprintf(out, "%s%*s", text, column + 1 < COLUMNS ? fill : 0, "");
	fputs(column + 1 < COLUMNS ? "  " : "\n", out);
}

static void print_sums(const struct target_table *l, FILE *out)
{
	const struct target_totals *s = &l->sums;
	char ring[32], memory[32], cpu[32], spent[32], allowed[32], sampling[32];
	fprintf(out,
		"%zu target%s, %" PRIu64 " of %" PRIu64 " descriptors, %" PRIu64 " rings of %s, %" PRIu64
		" records, %" PRIu64 " unknown, %s of memory, %s of CPU in the worker",
		l->n, l->n == 1 ? "" : "s", s->fds, s->fds_max, s->rings,
		top_amount((int64_t)s->ring_bytes, "bytes", ring, sizeof(ring)), s->records, s->unknown,
		top_amount((int64_t)s->memory, "bytes", memory, sizeof(memory)),
		top_amount((int64_t)s->cpu_us * 1000, "nanoseconds", cpu, sizeof(cpu)));
	if (s->allowed_us)
		fprintf(out, "; %s of a budget of %s in the last minute, %s of it for sampling",
			top_amount((int64_t)s->minute_us * 1000, "nanoseconds", spent, sizeof(spent)),
			top_amount((int64_t)s->allowed_us * 1000, "nanoseconds", allowed, sizeof(allowed)),
			top_amount((int64_t)l->sampling_us * 1000, "nanoseconds", sampling, sizeof(sampling)));
	fprintf(out, "; profiles in %s\n", l->spool);
}

int target_table_write(const struct target_table *l, bool full, FILE *out)
{
	char buf[CELL_MAX];
	const struct cell cell = {l, full, buf};
	size_t wide[COLUMNS];
	for (size_t i = 0; i < COLUMNS; i++) {
		wide[i] = count_characters(columns[i].title);
		for (size_t k = 0; k < l->n; k++) {
			columns[i].put(&cell, &l->targets[k]);
			wide[i] = count_characters(buf) > wide[i] ? count_characters(buf) : wide[i];
		}
	}
	for (size_t i = 0; i < COLUMNS; i++)
		print_cell(i, columns[i].title, wide[i], out);
	for (size_t k = 0; k < l->n; k++)
		for (size_t i = 0; i < COLUMNS; i++) {
			columns[i].put(&cell, &l->targets[k]);
			print_cell(i, buf, wide[i], out);
		}
	if (l->n)
		print_sums(l, out);
	return ferror(out) ? -EIO : 0;
}

/* --- JSON ---------------------------------------------------------------------------------------------- */

static struct jsonout *text_of(const struct target_table *l, const struct target_row *t, size_t at)
{
	return json_write_text((const char *)t + at);
}

static struct jsonout *number_of(const struct target_table *l, const struct target_row *t, size_t at)
{
	uint64_t value;
	memcpy(&value, (const char *)t + at, sizeof(value));
	return json_write_number(value > INT64_MAX ? INT64_MAX : (int64_t)value);
}

static struct jsonout *pid_of(const struct target_table *l, const struct target_row *t, size_t at)
{
	return json_write_number(t->host_pid);
}

static struct jsonout *state_of(const struct target_table *l, const struct target_row *t, size_t at)
{
	return json_write_text(states[t->state]);
}

static struct jsonout *strategy_of(const struct target_table *l, const struct target_row *t, size_t at)
{
	return json_write_text(strategy_name(t->strategy));
}

static struct jsonout *kernel_of(const struct target_table *l, const struct target_row *t, size_t at)
{
	return json_write_bool(t->kernel);
}

static struct jsonout *events_of(const struct target_table *l, const struct target_row *t, size_t at)
{
	char text[EVENTS_TEXT_MAX], *save = NULL;
	struct jsonout *list = json_write_array();
	event_spec_text(t->events, t->n_events, text);
	for (char *one = strtok_r(text, ",", &save); one; one = strtok_r(NULL, ",", &save))
		if (json_write_add(list, NULL, json_write_text(one)) < 0)
			return json_write_free(list);
	return list;
}

static struct jsonout *window_of(const struct target_table *l, const struct target_row *t, size_t at)
{
	return json_write_number(t->window_s);
}

static struct jsonout *rate_of(const struct target_table *l, const struct target_row *t, size_t at)
{
	return json_write_tenths(compute_sample_rate(t));
}

static struct jsonout *factor_of(const struct target_table *l, const struct target_row *t, size_t at)
{
	uint64_t hundredths;
	memcpy(&hundredths, (const char *)t + at, sizeof(hundredths));
	return json_write_tenths((double)hundredths / 100);
}

static struct jsonout *profile_of(const struct target_table *l, const struct target_row *t, size_t at)
{
	char path[CELL_MAX] = "";
	if (t->profile[0])
		snprintf(path, sizeof(path), "%s/%s", l->spool, t->profile);
	return json_write_text(path);
}

#define AT(field) offsetof(struct target_row, field)

static const struct key {
	const char *name;
	struct jsonout *(*value)(const struct target_table *l, const struct target_row *t, size_t at);
	size_t at; /* of its field, for those that several keys have */
} keys[] = {
	{"id", text_of, AT(id)},
	{"name", text_of, AT(name)},
	{"pod", text_of, AT(pod)},
	{"namespace", text_of, AT(pod_namespace)},
	{"pid", pid_of, 0},
	{"state", state_of, 0},
	{"strategy", strategy_of, 0},
	{"kernel", kernel_of, 0},
	{"events", events_of, 0},
	{"window_s", window_of, 0},
	{"age_ms", number_of, AT(age_ms)},
	{"window_ms", number_of, AT(window_ms)},
	{"samples", number_of, AT(samples)},
	{"window_samples", number_of, AT(window_samples)},
	{"samples_per_second", rate_of, 0},
	{"lost", number_of, AT(lost)},
	{"lost_shared", number_of, AT(lost_shared)},
	{"throttled", number_of, AT(throttled)},
	{"cpu_us", number_of, AT(cpu_us)},
	{"cost_us", number_of, AT(cost_us)},
	{"naming_us", number_of, AT(naming_us)},
	{"memory_bytes", number_of, AT(memory)},
	{"records", number_of, AT(records)},
	{"record_bytes", number_of, AT(bytes)},
	{"capped_by", factor_of, AT(capped)},
	{"lowered_by", factor_of, AT(lowered)},
	{"profile", profile_of, 0},
};

static int add_key(
	struct jsonout *object, const struct key *k, const struct target_table *l, const struct target_row *t)
{
	if (k->at == AT(cpu_us) && t->cpu_us == LISTED_UNKNOWN)
		return json_write_add_null(object, k->name);
	return json_write_add(object, k->name, k->value(l, t, k->at));
}

static struct jsonout *object_of(const struct target_table *l, const struct target_row *t)
{
	struct jsonout *object = json_write_object();
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (add_key(object, &keys[i], l, t) < 0)
			return json_write_free(object);
	return object;
}

int target_table_json(const struct target_table *l, FILE *out)
{
	struct jsonout *list = json_write_array();
	int r = list ? 0 : -ENOMEM;
	for (size_t i = 0; r == 0 && i < l->n; i++)
		r = json_write_add(list, NULL, object_of(l, &l->targets[i]));
	if (r == 0)
		r = json_write_out(list, out);
	json_write_free(list);
	return r;
}
