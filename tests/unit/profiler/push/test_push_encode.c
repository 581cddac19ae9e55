/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/push/push_encode.h"

#include "oci/base/fd.h"
#include "oci/base/protobuf.h"
#include "profiler/pprof/pprof.h"
#include "profiler/push/otlp.h"
#include "profiler/push/profile_split.h"
#include "profiler/push/push_labels.h"
#include "tests/unit/support/full.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define N(a) (sizeof(a) / sizeof((a)[0]))
#define TYPES 3
#define START 1700000000123456789
#define HAS(text, part) ck_assert_msg(strstr(text, part), "no \"%s\" in:\n%s", part, text)
#define HAS_NOT(text, part) ck_assert_msg(!strstr(text, part), "\"%s\" in:\n%s", part, text)

static const struct push_source source = {"target-1", "target-1/20260101T000000Z-000001-cpu.pb.gz", "cpu", "node-1"};
static int fds;

static void setup(void)
{
	fds = fd_count();
}

static void teardown(void)
{
	ck_assert_int_eq(fd_count(), fds);
}

/* --- profiles */

static struct profile *profile_of(const char *const types[TYPES], const char *period)
{
	struct profile_type named[TYPES];
	struct profile_info info = {.time_ns = START,
		.duration_ns = 10000000000,
		.n_types = TYPES,
		.types = named,
		.period_type = {period, "nanoseconds"},
		.period = 10101010};
	struct profile *p;
	for (unsigned i = 0; i < TYPES; i++)
		named[i] = (struct profile_type){types[i], i == 0 ? "count" : "nanoseconds"};
	ck_assert_int_eq(profile_new(&info, &p), 0);
	profile_mapping(p, 0x400000, 0x500000, 0, "/usr/bin/app", "00beef11", PROFILE_HAS_FUNCTIONS);
	profile_mapping(p, 0, 0, 0, "[kernel]", "", PROFILE_HAS_FUNCTIONS);
	return p;
}

static struct profile *cpu_profile(void)
{
	return profile_of((const char *const[]){"samples", "idle", "cpu"}, "cpu");
}

static uint32_t location(struct profile *p, const char *name)
{
	const bool kernel = !strncmp(name, "k_", 2);
	int64_t f = profile_function(p, &(struct profile_function){.name = name, .file = "/src/a.c"});
	int64_t l = profile_location(p, kernel ? 1 : 0, kernel ? 0 : 0x400000 + 16 * (uint64_t)f,
		&(struct profile_line){.function = (uint32_t)f, .line = 7}, 1);
	ck_assert_int_ge(l, 0);
	return (uint32_t)l;
}

static const struct profile_label plain_labels[] = {{"service_name", "shop", NULL, 0}, {"container", "web", NULL, 0},
	{"container_id", "0123abcd", NULL, 0}, {"pod", "shop-1", NULL, 0}, {"namespace", "prod", NULL, 0},
	{"exe", "shopd", NULL, 0}, {"pid", NULL, NULL, 1}, {"user.team", "a", NULL, 0}};

static void add(struct profile *p, const uint32_t *stack, size_t n, int64_t value, const struct profile_label *labels,
	size_t n_labels)
{
	ck_assert_int_eq(profile_sample(p, stack, n, (int64_t[]){1, -value, value * 7}, labels, n_labels), 0);
}

/* n samples, of two threads; of some the value is 0, or less */
static struct profile *many(size_t n)
{
	struct profile *p = cpu_profile();
	struct profile_label labels[N(plain_labels) + 2];
	memcpy(labels, plain_labels, sizeof(plain_labels));
	for (size_t i = 0; i < n; i++) {
		char name[64];
		snprintf(name, sizeof(name), "f_%zu", i);
		const uint32_t stack[] = {
			location(p, i % 5 ? "leaf" : "k_read"), location(p, name), location(p, "main")};
		labels[N(plain_labels)] = (struct profile_label){"thread", i % 2 ? "worker" : "main", NULL, 0};
		labels[N(plain_labels) + 1] = (struct profile_label){"tid", NULL, NULL, (int64_t)(i % 2)};
		add(p, stack, N(stack), (int64_t)i - 3, labels, N(labels));
	}
	profile_comment(p, "lost 12 records");
	return p;
}

static struct profile *one(const struct profile_label *labels, size_t n)
{
	struct profile *p = cpu_profile();
	const uint32_t stack[] = {location(p, "main")};
	add(p, stack, 1, 5, labels, n);
	return p;
}

/* --- requests */

struct made {
	struct push_request *r;
	size_t n;
};

static struct made make_of(
	enum push_form form, const struct profile *p, struct push_limits limits, const struct push_source *of)
{
	struct made m = {0};
	struct err e = {0};
	ck_assert_msg(push_requests(form, &limits, of, p, "bytes", 5, &m.r, &m.n, &e) == 0, "%s", e.text);
	return m;
}

static struct made make(enum push_form form, const struct profile *p, struct push_limits limits)
{
	return make_of(form, p, limits, &source);
}

static void done(struct made m)
{
	push_requests_free(m.r, m.n);
}

static const uint8_t *find(const void *in, size_t len, const char *text)
{
	return memmem(in, len, text, strlen(text));
}

/* The pprof in a request, and what is around it as text. */
static struct profile *inside(enum push_form form, const struct push_request *r, char *text, size_t size)
{
	struct profile *p = NULL;
	struct err e = {0};
	size_t len = 0;
	const uint8_t *bytes = NULL;
	text[0] = 0;
	if (form == PUSH_INGEST) {
		char end[128];
		snprintf(end, sizeof(end), "\r\n--%s", strstr(r->content_type, "boundary=") + 9);
		bytes = find(r->body, r->len, "\r\n\r\n") + 4;
		const uint8_t *behind = find(bytes, r->len - (size_t)(bytes - r->body), end);
		ck_assert_ptr_nonnull(behind);
		len = (size_t)(behind - bytes);
		snprintf(text, size, "%s\n%.*s", r->path, (int)(r->len - len - (size_t)(bytes - r->body)), behind);
	} else {
		struct pb m = pb_of(r->body, r->len);
		struct pb_field series, f, in;
		ck_assert(pb_next(&m, &series) && pb_is(&series, 1));
		struct pb s = pb_inside(&series);
		while (pb_next(&s, &f)) {
			struct pb_field key, value;
			struct pb sample = pb_inside(&f);
			if (f.number == 1) {
				ck_assert_int_eq(pb_pair(&f, &key, &value), 0);
				snprintf(text + strlen(text), size - strlen(text), "%.*s=%.*s\n", (int)key.len,
					key.data, (int)value.len, value.data);
				continue;
			}
			while (pb_next(&sample, &in))
				if (in.number == 1) {
					bytes = (const uint8_t *)in.data;
					len = in.len;
				} else
					snprintf(text + strlen(text), size - strlen(text), "ID %.*s\n", (int)in.len,
						in.data);
		}
		ck_assert(!m.bad && !s.bad && !pb_next(&m, &f));
	}
	ck_assert_msg(pprof_read(bytes, len, &p, &e) == 0, "%s", e.text);
	return p;
}

/* --- OTLP, by oci/base/protobuf.h: the suite has a decoder that is not ours */

struct otlp {
	uint8_t *bytes;
	size_t len;
	struct pb_field strings[65536];
	size_t n_strings;
	struct {
		char type[64];
		size_t samples;
		int64_t sum;
		uint64_t period;
		char id[33];
	} profiles[TYPES];
	size_t n;
};

static void inflate_to(const struct push_request *r, struct otlp *o)
{
	z_stream z = {.next_in = r->body, .avail_in = (uInt)r->len};
	o->bytes = malloc(64u << 20);
	ck_assert_int_eq(inflateInit2(&z, 31), Z_OK);
	z.next_out = o->bytes;
	z.avail_out = 64u << 20;
	ck_assert_int_eq(inflate(&z, Z_FINISH), Z_STREAM_END);
	o->len = z.total_out;
	inflateEnd(&z);
}

static bool child(struct pb m, uint32_t number, struct pb_field *ret)
{
	while (pb_next(&m, ret))
		if (ret->number == number)
			return true;
	return false;
}

static int64_t first_varint(const struct pb_field *f)
{
	uint64_t value = 0;
	for (size_t i = 0; i < f->len; i++) {
		value |= (uint64_t)((uint8_t)f->data[i] & 0x7f) << 7 * i;
		if (!((uint8_t)f->data[i] & 0x80))
			return (int64_t)value;
	}
	ck_abort_msg("no number");
	return 0;
}

static void read_profile(struct otlp *o, struct pb p)
{
	struct pb_field f, in;
	size_t at = o->n++;
	ck_assert_uint_lt(at, TYPES);
	while (pb_next(&p, &f)) {
		struct pb inner = f.type == PB_BYTES ? pb_inside(&f) : pb_of("", 0);
		if (f.number == 1 && child(inner, 1, &in)) {
			ck_assert_uint_lt(in.value, o->n_strings);
			snprintf(o->profiles[at].type, sizeof(o->profiles[at].type), "%.*s",
				(int)o->strings[in.value].len, o->strings[in.value].data);
		} else if (f.number == 2) {
			o->profiles[at].samples++;
			ck_assert(child(inner, 4, &in));
			o->profiles[at].sum += first_varint(&in);
		} else if (f.number == 6)
			o->profiles[at].period = f.value;
		else if (f.number == 7) {
			ck_assert_uint_eq(f.len, 16);
			for (size_t i = 0; i < 16; i++)
				sprintf(o->profiles[at].id + 2 * i, "%02x", (uint8_t)f.data[i]);
		}
	}
	ck_assert(!p.bad);
}

static struct otlp *otlp_of(const struct push_request *r)
{
	struct otlp *o = calloc(1, sizeof(*o));
	struct pb_field rp, sp, f;
	inflate_to(r, o);
	struct pb m = pb_of(o->bytes, o->len);
	ck_assert(child(m, 2, &f));
	struct pb d = pb_inside(&f);
	while (pb_next(&d, &f))
		if (f.number == 5) {
			ck_assert_uint_lt(o->n_strings, N(o->strings));
			o->strings[o->n_strings++] = f;
		}
	ck_assert(child(m, 1, &rp) && child(pb_inside(&rp), 2, &sp));
	struct pb s = pb_inside(&sp);
	while (pb_next(&s, &f))
		if (f.number == 2)
			read_profile(o, pb_inside(&f));
	return o;
}

static void otlp_free(struct otlp *o)
{
	free(o->bytes);
	free(o);
}

/* --- splitting */

static const struct {
	const char *scenario;
	struct push_limits limits;
	size_t samples, requests; /* requests: at least; 1 is exact */
} splits[] = {
	{"all in one", {0, 0}, 100, 1},
	{"one sample", {0, 0}, 1, 1},
	{"seven at a time", {0, 7}, 100, 15},
	{"each alone", {0, 1}, 20, 20},
	{"by bytes", {2000, 0}, 300, 4},
	{"by both", {3000, 60}, 300, 5},
	{"more than Pyroscope takes", {0, 0}, 16001, 2},
};

static void add_sums(enum push_form form, const struct push_request *r, struct push_limits limits, int64_t sums[TYPES])
{
	char text[8192];
	if (form == PUSH_OTLP) {
		struct otlp *o = otlp_of(r);
		ck_assert_uint_le(o->len, limits.bytes ? limits.bytes : 2u << 20);
		for (size_t i = 0; i < o->n; i++) {
			const char *const names[] = {"samples", "idle", "cpu"};
			ck_assert_uint_le(o->profiles[i].samples, limits.samples ? limits.samples : 16000);
			for (size_t k = 0; k < TYPES; k++)
				if (!strcmp(o->profiles[i].type, names[k]))
					sums[k] += o->profiles[i].sum;
		}
		otlp_free(o);
		return;
	}
	struct profile *p = inside(form, r, text, sizeof(text));
	ck_assert_uint_le(profile_samples(p), limits.samples ? limits.samples : 16000);
	ck_assert_uint_eq(profile_samples(p), r->samples);
	for (unsigned i = 0; i < TYPES; i++)
		sums[i] += profile_total(p, i);
	profile_free(p);
}

START_TEST(test_splits)
{
	struct profile *p = many(splits[_i].samples);
	for (enum push_form form = PUSH_PYROSCOPE; form <= PUSH_OTLP; form++) {
		struct made m = make(form, p, splits[_i].limits);
		int64_t sums[TYPES] = {0};
		uint64_t samples = 0;
		if (splits[_i].requests == 1)
			ck_assert_msg(m.n == 1, "%s: %zu", splits[_i].scenario, m.n);
		ck_assert_msg(m.n >= splits[_i].requests, "%s: %zu", splits[_i].scenario, m.n);
		for (size_t i = 0; i < m.n; i++) {
			add_sums(form, &m.r[i], splits[_i].limits, sums);
			samples += m.r[i].samples;
		}
		ck_assert_uint_eq(samples, splits[_i].samples);
		for (unsigned i = 0; i < TYPES; i++)
			ck_assert_msg(sums[i] == profile_total(p, i), "%s, %s, type %u: %" PRId64 " of %" PRId64,
				splits[_i].scenario, push_form_name(form), i, sums[i], profile_total(p, i));
		done(m);
	}
	profile_free(p);
}
END_TEST

START_TEST(test_parts_say_so)
{
	struct profile *p = many(30);
	struct made m = make(PUSH_PYROSCOPE, p, (struct push_limits){0, 10});
	char text[8192], ids[3][64];
	ck_assert_uint_eq(m.n, 3);
	for (size_t i = 0; i < m.n; i++) {
		struct profile *part = inside(PUSH_PYROSCOPE, &m.r[i], text, sizeof(text));
		char expect[128];
		snprintf(expect, sizeof(expect), "samples %zu to %zu of 30: the whole is too large for one request",
			10 * i + 1, 10 * i + 10);
		ck_assert_uint_eq(profile_comments(part), 2);
		ck_assert_str_eq(profile_comment_get(part, 0), "lost 12 records");
		ck_assert_str_eq(profile_comment_get(part, 1), expect);
		ck_assert_int_eq(profile_info(part)->time_ns, START + (int64_t)i * 1000000);
		ck_assert_uint_lt(profile_locations(part), profile_locations(p));
		snprintf(ids[i], sizeof(ids[i]), "%.60s", strstr(text, "ID "));
		profile_free(part);
	}
	ck_assert_str_ne(ids[0], ids[1]);
	ck_assert_str_ne(ids[1], ids[2]);
	done(m);
	profile_free(p);
}
END_TEST

/* --- what is too large alone */

static struct profile *deep(size_t depth, size_t text)
{
	struct profile *p = cpu_profile();
	uint32_t *stack = calloc(depth, sizeof(*stack));
	char *name = malloc(text + 32);
	for (size_t i = 0; i < depth; i++) {
		int n = snprintf(name, 32, "f%zu_", i);
		memset(name + n, 'x', text);
		name[(size_t)n + text] = 0;
		stack[i] = location(p, name);
	}
	add(p, stack, depth, 9, plain_labels, N(plain_labels));
	free(name);
	free(stack);
	return p;
}

static const struct {
	const char *scenario;
	size_t depth, text;
	size_t bytes;	    /* the limit */
	size_t depth_after; /* of the stack; 0: refused */
} alone[] = {
	{"as it is", 10, 10, 0, 10},
	{"a name over 64 KiB", 2, 70000, 0, 2},
	{"1000 deep", 1000, 10, 0, 1000},
	{"deeper than Pyroscope takes", 3000, 10, 0, 1000},
	{"names of 40 MB in one stack", 800, 50000, 0, 800},
	{"small room: stacks are cut, too", 900, 2000, 60000, 200},
	{"smaller", 900, 2000, 6000, 20},
	{"no room at all", 900, 2000, 300, 0},
};

START_TEST(test_alone)
{
	if (alone[_i].depth * alone[_i].text > 10 << 20 && !full_bytes())
		return;
	struct profile *p = deep(alone[_i].depth, alone[_i].text);
	for (enum push_form form = PUSH_PYROSCOPE; form <= PUSH_OTLP; form++) {
		struct push_request *r;
		struct err e = {0};
		size_t n;
		char text[8192];
		int code =
			push_requests(form, &(struct push_limits){alone[_i].bytes, 0}, &source, p, NULL, 0, &r, &n, &e);
		if (!alone[_i].depth_after) {
			ck_assert_int_eq(code, -EFBIG);
			HAS(e.text, "target-1/20260101T000000Z-000001-cpu.pb.gz: a single sample takes ");
			HAS(e.text, "bytes, of 300 that a request may have");
			continue;
		}
		ck_assert_msg(code == 0, "%s: %s", alone[_i].scenario, e.text);
		ck_assert_uint_eq(n, 1);
		if (form != PUSH_OTLP) {
			struct profile *part = inside(form, r, text, sizeof(text));
			struct profile_sample s;
			profile_sample_get(part, 0, &s);
			ck_assert_msg(s.n == alone[_i].depth_after, "%s: %zu", alone[_i].scenario, s.n);
			ck_assert_int_eq(s.values[2], 63);
			/* the leaf is there, and what is cut is told */
			struct profile_location l;
			profile_location_get(part, s.locations[0], &l);
			ck_assert_int_eq(strncmp(profile_function_name(part, l.lines[0].function), "f0_x", 4), 0);
			profile_location_get(part, s.locations[s.n - 1], &l);
			ck_assert_int_eq(
				!strcmp(profile_function_name(part, l.lines[0].function), "[truncated: depth]"),
				s.n < alone[_i].depth);
			for (uint32_t i = 0; i < profile_strings(part); i++)
				ck_assert_uint_le(strlen(profile_string_get(part, i)), 65535);
			profile_free(part);
		} else {
			struct otlp *o = otlp_of(r);
			ck_assert_int_eq(o->profiles[0].sum, 63);
			for (size_t i = 0; i < o->n_strings; i++)
				ck_assert_uint_le(o->strings[i].len, 65535);
			otlp_free(o);
		}
		push_requests_free(r, n);
	}
	profile_free(p);
}
END_TEST

/* 6 MB that all samples share: in parts it would be 6 MB for each. Names are cut instead. */
START_TEST(test_shared_is_large)
{
	struct profile *p = cpu_profile();
	uint32_t stack[101];
	const size_t n = 50; /* of one each, that were 300 MB: more than SPEND_MIN */
	char *name = calloc(1, 60001);
	for (size_t i = 0; i < 100; i++) {
		memset(name, 'x', 60000);
		name[snprintf(name, 60000, "f%zu", i)] = 'x';
		stack[1 + i] = location(p, name);
	}
	for (size_t i = 0; i < n; i++) {
		snprintf(name, 60000, "leaf%zu", i);
		stack[0] = location(p, name);
		add(p, stack, N(stack), 3, NULL, 0);
	}
	free(name);
	/* what is done about it is the same for all of them */
	for (enum push_form form = full(PUSH_PYROSCOPE, PUSH_OTLP); form <= PUSH_OTLP; form++) {
		struct made m = make(form, p, (struct push_limits){0});
		int64_t sums[TYPES] = {0};
		ck_assert_uint_eq(m.n, 1);
		add_sums(form, m.r, (struct push_limits){0}, sums);
		ck_assert_int_eq(sums[2], (int64_t)n * 21);
		done(m);
	}
	profile_free(p);
}
END_TEST

/* A pprof file of 8 MiB may become parts of 512 MiB together: its samples are sent whole. */
START_TEST(the_parts_of_a_large_file_are_not_cut)
{
	const size_t file_len = 8u << 20;
	void *file = calloc(1, file_len);
	struct profile *p = deep(3, 3000); /* of the second cut, names are 2048 bytes */
	for (enum push_form form = PUSH_PYROSCOPE; form <= PUSH_INGEST; form++) {
		struct push_request *r;
		struct err e = {0};
		size_t n;
		char text[8192];
		ck_assert_msg(push_requests(form, NULL, &source, p, file, file_len, &r, &n, &e) == 0, "%s", e.text);
		ck_assert_uint_eq(n, 1);
		struct profile *part = inside(form, r, text, sizeof(text));
		struct profile_sample s;
		struct profile_location l;
		profile_sample_get(part, 0, &s);
		ck_assert_uint_eq(s.n, 3);
		profile_location_get(part, s.locations[0], &l);
		ck_assert_uint_eq(strlen(profile_function_name(part, l.lines[0].function)), strlen("f0_") + 3000);
		profile_free(part);
		push_requests_free(r, n);
	}
	profile_free(p);
	free(file);
}
END_TEST

/* --- names */

static const struct {
	const char *scenario, *types[TYPES], *period, *kind, *metric, *display;
} kinds[] = {
	{"cpu", {"samples", "x", "cpu"}, "cpu", "cpu", "process_cpu", NULL},
	{"wall", {"samples", "x", "wall"}, "wall", "wall", "wall", NULL},
	{"off the CPU", {"samples", "x", "offcpu"}, "offcpu", "offcpu", "off_cpu", "off_CPU"},
	{"allocations", {"alloc_objects", "alloc_space", "inuse_space"}, "space", "alloc", "memory", NULL},
	{"calls", {"calls", "x", "time"}, "calls", "calls", "calls", "calls"},
	{"an event with a dash", {"samples", "x", "page-faults"}, "page-faults", "page-faults", "page_faults",
		"page_faults"},
	{"a tracepoint", {"samples", "x", "sched:sched_switch"}, "sched:sched_switch", "sched-sched_switch",
		"sched_sched_switch", "sched_sched_switch"},
	{"cycles", {"samples", "x", "cpu-cycles"}, "cpu-cycles", "cpu-cycles", "cpu_cycles", "CPU_cycles"},
	{"Go's mutex", {"contentions", "x", "delay"}, "contentions", "mutex", "mutex", "mutex_"},
	{"Go's block", {"contentions", "x", "delay"}, "contentions", "block", "block", "block_"},
	{"samples of a known period", {"samples", "x", "samples"}, "cpu", "", "process_cpu", NULL},
	{"no ASCII", {"samples", "x", "größe"}, "größe", "", "gr____e", "gr____e"},
	{"a digit first", {"samples", "x", "4k"}, "4k", "", "_4k", "_4k"},
	{"no type at all", {"", "", ""}, "", "", "samples", "samples"},
};

START_TEST(test_kinds)
{
	struct push_source of = source;
	struct profile *p = profile_of(kinds[_i].types, kinds[_i].period);
	const uint32_t stack[] = {location(p, "main")};
	char text[8192], expect[256];
	of.kind = kinds[_i].kind;
	add(p, stack, 1, 5, plain_labels, N(plain_labels));
	struct made m = make_of(PUSH_PYROSCOPE, p, (struct push_limits){0}, &of);
	struct profile *part = inside(PUSH_PYROSCOPE, m.r, text, sizeof(text));
	snprintf(expect, sizeof(expect), "__delta__=false\n__name__=%s\n", kinds[_i].metric);
	HAS(text, expect);
	for (unsigned i = 0; i < TYPES; i++)
		ck_assert_uint_eq(strspn(profile_info(part)->types[i].type,
					  "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"),
			strlen(profile_info(part)->types[i].type));
	ck_assert_str_ne(profile_info(part)->period_type.type, "");
	profile_free(part);
	done(m);
	m = make_of(PUSH_INGEST, p, (struct push_limits){0}, &of);
	profile_free(inside(PUSH_INGEST, m.r, text, sizeof(text)));
	snprintf(expect, sizeof(expect), "\"display-name\":\"%s\"}}", kinds[_i].display ? kinds[_i].display : "");
	if (kinds[_i].display)
		HAS(text, expect);
	else
		HAS_NOT(text, "sample_type_config");
	done(m);
	profile_free(p);
}
END_TEST

static const struct {
	const char *name, *expect;
} names[] = {{"pod", "pod"}, {"user.team", "user_team"}, {"user.a-b/c", "user_a_b_c"}, {"__name__", "label__name__"},
	{"._x", "label__x"}, {"1st", "_1st"}, {"", "_"}, {"_", "_"}, {"span_id", "span_id"}, {"\xc3\xa9", "label__"},
	{"a b\n\"{}", "a_b____"}};

START_TEST(test_names)
{
	char name[PUSH_LABELS_NAME_MAX], longer[2000];
	for (size_t i = 0; i < N(names); i++) {
		push_labels_name(names[i].name, name);
		ck_assert_str_eq(name, names[i].expect);
	}
	memset(longer, 'y', sizeof(longer));
	longer[sizeof(longer) - 1] = 0;
	push_labels_name(longer, name);
	ck_assert_uint_lt(strlen(name), PUSH_LABELS_NAME_MAX);
	/* two keys never get one name, nor one that is taken */
	struct label_names n = {0};
	ck_assert_int_eq(pushnames_take(&n, "service_name"), 0);
	ck_assert_str_eq(pushnames_of(&n, "service_name"), "service_name_2");
	ck_assert_str_eq(pushnames_of(&n, "user.a-b"), "user_a_b");
	ck_assert_str_eq(pushnames_of(&n, "user.a_b"), "user_a_b_2");
	ck_assert_str_eq(pushnames_of(&n, "user.a-b"), "user_a_b");
	pushnames_done(&n);
}
END_TEST

START_TEST(test_cut)
{
	ck_assert_uint_eq(profile_split_cut("abc", 3), 3);
	ck_assert_uint_eq(profile_split_cut("abcd", 3), 3);
	ck_assert_uint_eq(profile_split_cut("ab\xc3\xa9", 3), 2);
	ck_assert_uint_eq(profile_split_cut("\xf0\x9f\x98\x80", 3), 0);
	ck_assert_uint_eq(profile_split_cut("", 3), 0);
}
END_TEST

/* --- labels */

START_TEST(test_shared)
{
	struct profile *p = many(10);
	char text[8192];
	struct made m = make(PUSH_PYROSCOPE, p, (struct push_limits){0});
	struct profile *part = inside(PUSH_PYROSCOPE, m.r, text, sizeof(text));
	*strstr(text, "ID ") = 0;
	ck_assert_str_eq(text,
		"__delta__=false\n__name__=process_cpu\ncontainer=web\ncontainer_id=0123abcd\nexe=shopd\n"
		"namespace=prod\nnode=node-1\npod=shop-1\npyroscope_spy=pillion\nservice_name=shop\n"
		"user_team=a\n");
	/* what differs, and numbers, are the samples' */
	struct profile_sample s;
	profile_sample_get(part, 0, &s);
	ck_assert_uint_eq(s.n_labels, 3);
	ck_assert_str_eq(s.labels[0].key, "pid");
	ck_assert_str_eq(s.labels[1].key, "thread");
	ck_assert_str_eq(s.labels[2].key, "tid");
	profile_free(part);
	done(m);
	m = make(PUSH_INGEST, p, (struct push_limits){0});
	ck_assert_str_eq(m.r->path,
		"/ingest?name=shop%7Bcontainer%3Dweb%2Ccontainer_id%3D0123abcd%2Cexe%3Dshopd%2Cnamespace%3Dprod%2C"
		"node%3Dnode-1%2Cpod%3Dshop-1%2Cuser_team%3Da%7D&from=1700000000&until=1700000010&spyName=pillion");
	done(m);
	profile_free(p);
}
END_TEST

/* A loss has no thread, and of its origin nothing: that is the target's all the same. */
START_TEST(test_some_without)
{
	struct profile *p = one(plain_labels, N(plain_labels));
	const uint32_t stack[] = {location(p, "[lost]")};
	char text[8192];
	add(p, stack, 1, 2, NULL, 0);
	struct made m = make(PUSH_PYROSCOPE, p, (struct push_limits){0});
	profile_free(inside(PUSH_PYROSCOPE, m.r, text, sizeof(text)));
	HAS(text, "pod=shop-1\n");
	HAS(text, "service_name=shop\n");
	HAS_NOT(text, "exe=");
	HAS_NOT(text, "user_team=");
	done(m);
	profile_free(p);
}
END_TEST

static const struct {
	const char *scenario;
	struct profile_label labels[2]; /* of a sample each */
	struct push_source of;
	const char *expect; /* in the series */
} services[] = {
	{"its label", {{"service_name", "s", NULL, 0}, {"service_name", "s", NULL, 0}}, {"t", "f", "", ""},
		"service_name=s\n"},
	{"the container's name", {{"container", "c", NULL, 0}, {"container", "c", NULL, 0}}, {"t", "f", "", ""},
		"service_name=c\n"},
	{"its id", {{"container_id", "i", NULL, 0}, {"container_id", "i", NULL, 0}}, {"t", "f", "", ""},
		"service_name=i\n"},
	{"the target", {{"a", "b", NULL, 0}, {"a", "b", NULL, 0}}, {"t", "f", "", ""}, "service_name=t\n"},
	{"none", {{"a", "b", NULL, 0}, {"a", "b", NULL, 0}}, {"", "f", "", ""}, "service_name=unknown_service\n"},
	{"two", {{"service_name", "s", NULL, 0}, {"service_name", "z", NULL, 0}}, {"t", "f", "", ""},
		"service_name=t\n"},
	{"the profile's node", {{"node", "mine", NULL, 0}, {"node", "mine", NULL, 0}}, {"t", "f", "", "other"},
		"node=mine\n"},
	{"another node", {{"a", "b", NULL, 0}, {"a", "b", NULL, 0}}, {"t", "f", "", "other"}, "node=other\n"},
};

START_TEST(test_services)
{
	struct profile *p = one(&services[_i].labels[0], 1);
	const uint32_t stack[] = {location(p, "other")};
	char text[8192];
	add(p, stack, 1, 2, &services[_i].labels[1], 1);
	struct made m = make_of(PUSH_PYROSCOPE, p, (struct push_limits){0}, &services[_i].of);
	struct profile *part = inside(PUSH_PYROSCOPE, m.r, text, sizeof(text));
	HAS(text, services[_i].expect);
	/* what one of them is called is not hidden by what the series is called */
	struct profile_sample s;
	profile_sample_get(part, 0, &s);
	if (!strcmp(services[_i].scenario, "two"))
		ck_assert_str_eq(s.labels[0].key, "service_name_2");
	profile_free(part);
	done(m);
	profile_free(p);
}
END_TEST

START_TEST(test_hostile_labels)
{
	struct profile_label labels[] = {{"service_name", "a b{c}=,\"\n\xff", NULL, 0}, {"__name__", "mine", NULL, 0},
		{"__delta__", "true", NULL, 0}, {"pyroscope_spy", "not ours", NULL, 0}, {"user.x", "},evil=1", NULL, 0},
		{"user.a-b", "1", NULL, 0}, {"user.a_b", "2", NULL, 0}, {"container", "", NULL, 0}};
	struct profile *p = one(labels, N(labels));
	char text[8192];
	struct made m = make(PUSH_PYROSCOPE, p, (struct push_limits){0});
	profile_free(inside(PUSH_PYROSCOPE, m.r, text, sizeof(text)));
	HAS(text, "__name__=process_cpu\n");
	HAS(text, "__delta__=false\n");
	HAS(text, "label__name__=mine\n");
	HAS(text, "label__delta__=true\n");
	HAS(text, "\npyroscope_spy=pillion\n");
	HAS(text, "pyroscope_spy_2=not ours\n");
	HAS(text, "service_name=a b{c}=,\"\n?\n");
	HAS(text, "user_a_b=1\n");
	HAS(text, "user_a_b_2=2\n");
	done(m);
	m = make(PUSH_INGEST, p, (struct push_limits){0});
	HAS(m.r->path, "/ingest?name=a_b_c______%7B");
	HAS(m.r->path, "user_x%3D__evil%3D1%7D");
	ck_assert_uint_eq(strcspn(m.r->path, " \"\n{}"), strlen(m.r->path));
	done(m);
	done(make(PUSH_OTLP, p, (struct push_limits){0}));
	profile_free(p);
}
END_TEST

/* As many as a profile holds: what a series has no room for is left out, and that is told. */
START_TEST(test_many_labels)
{
	struct profile_label labels[PROFILE_LABELS_MAX];
	char keys[PROFILE_LABELS_MAX][32], text[16384];
	struct profile *p = cpu_profile();
	for (int k = 0; k < 2; k++) {
		const uint32_t stack[] = {location(p, k ? "b" : "a")};
		for (size_t i = 0; i < N(labels); i++) {
			snprintf(keys[i], sizeof(keys[i]), "user.%02zu", i);
			labels[i] = (struct profile_label){keys[i], k && i >= 20 ? "other" : "same", NULL, 0};
		}
		add(p, stack, 1, 5, labels, N(labels));
	}
	struct made m = make(PUSH_PYROSCOPE, p, (struct push_limits){0});
	struct profile *part = inside(PUSH_PYROSCOPE, m.r, text, sizeof(text));
	struct profile_sample s;
	size_t series = 0;
	for (const char *at = text; (at = strstr(at, "=same\n")); at++)
		series++;
	profile_sample_get(part, 0, &s);
	ck_assert_uint_eq(series, 20);
	ck_assert_uint_eq(
		series + 5 + s.n_labels, 30); /* with __name__, __delta__, service_name, node, pyroscope_spy */
	ck_assert_str_eq(profile_comment_get(part, profile_comments(part) - 1),
		"labels left out: 30; the receiver takes 30 of a series");
	ck_assert_uint_eq(profile_samples(part), 2);
	profile_free(part);
	done(m);
	profile_free(p);
}
END_TEST

/* Of labels that all samples share, too: those beyond a series' 30 are counted, none disappears. */
START_TEST(test_many_shared_labels)
{
	struct profile_label labels[40];
	char keys[N(labels)][32], text[16384];
	for (size_t i = 0; i < N(labels); i++) {
		snprintf(keys[i], sizeof(keys[i]), "user.%02zu", i);
		labels[i] = (struct profile_label){keys[i], "same", NULL, 0};
	}
	struct profile *p = one(labels, N(labels));
	struct made m = make(PUSH_PYROSCOPE, p, (struct push_limits){0});
	struct profile *part = inside(PUSH_PYROSCOPE, m.r, text, sizeof(text));
	size_t series = 0;
	for (const char *at = text; (at = strstr(at, "=same\n")); at++)
		series++;
	ck_assert_uint_eq(series, 25); /* with __name__, __delta__, service_name, node, pyroscope_spy */
	ck_assert_str_eq(profile_comment_get(part, profile_comments(part) - 1),
		"labels left out: 15; the receiver takes 30 of a series");
	profile_free(part);
	done(m);
	profile_free(p);
}
END_TEST

/* The address of /ingest has room for 900 bytes of labels: a label that all samples share stays with them otherwise. */
START_TEST(test_long_shared_labels)
{
	static char value[201];
	static const struct profile_label long_labels[] = {{"user.0", value, NULL, 0}, {"user.1", value, NULL, 0},
		{"user.2", value, NULL, 0}, {"user.3", value, NULL, 0}, {"user.4", value, NULL, 0},
		{"user.5", value, NULL, 0}, {"user.6", "short", NULL, 0}};
	memset(value, 'v', sizeof(value) - 1);
	struct profile *p = one(long_labels, N(long_labels));
	char text[8192];
	struct made m = make(PUSH_INGEST, p, (struct push_limits){0});
	struct profile *part = inside(PUSH_INGEST, m.r, text, sizeof(text));
	struct profile_sample s;
	HAS(m.r->path, "user_3%3Dvvv");
	HAS_NOT(m.r->path, "user_4");
	HAS(m.r->path, "user_6%3Dshort");
	profile_sample_get(part, 0, &s);
	ck_assert_uint_eq(s.n_labels, 2);
	ck_assert_str_eq(s.labels[0].key, "user_4");
	ck_assert_str_eq(s.labels[0].str, value);
	ck_assert_str_eq(s.labels[1].key, "user_5");
	profile_free(part);
	done(m);
	profile_free(p);
}
END_TEST

/* --- OTLP */

START_TEST(test_otlp)
{
	struct profile *p = profile_of((const char *const[]){"samples", "x", "offcpu"}, "offcpu");
	const uint32_t stack[] = {location(p, "k_read"), location(p, "main")};
	profile_sample(p, stack, 2, (int64_t[]){3, 0, 900}, plain_labels, N(plain_labels));
	struct made m = make(PUSH_OTLP, p, (struct push_limits){0});
	ck_assert_str_eq(m.r->path, "/" OTLP_VERSION "/profiles");
	ck_assert_str_eq(m.r->content_type, "application/x-protobuf");
	ck_assert_str_eq(m.r->content_encoding, "gzip");
	struct otlp *o = otlp_of(m.r);
	ck_assert_uint_eq(o->n, 2); /* a type of which all is 0 is none */
	ck_assert_str_eq(o->profiles[0].type, "off_cpu");
	ck_assert_uint_eq(o->profiles[0].period, 0);
	ck_assert_int_eq(o->profiles[0].sum, 900);
	ck_assert_str_eq(o->profiles[1].type, "samples");
	ck_assert_uint_eq(o->profiles[1].period, 10101010);
	ck_assert_int_eq(o->profiles[1].sum, 3);
	ck_assert_str_ne(o->profiles[0].id, o->profiles[1].id);
	ck_assert_uint_eq(o->strings[0].len, 0);
	for (size_t i = 0; i < o->n_strings; i++)
		for (size_t k = 0; k < i; k++)
			ck_assert(o->strings[i].len != o->strings[k].len ||
				  memcmp(o->strings[i].data, o->strings[k].data, o->strings[i].len));
	ck_assert_ptr_nonnull(find(o->bytes, o->len, "k8s.node.name"));
	ck_assert_ptr_nonnull(find(o->bytes, o->len, "process.executable.build_id.gnu"));
	otlp_free(o);
	done(m);
	profile_free(p);
}
END_TEST

/* Nothing that could be received is in a profile of zeros. */
START_TEST(test_otlp_zeros)
{
	struct profile *p = cpu_profile();
	const uint32_t stack[] = {location(p, "main")};
	profile_sample(p, stack, 1, (int64_t[]){0, 0, 0}, NULL, 0);
	struct made m = make(PUSH_OTLP, p, (struct push_limits){0});
	ck_assert_uint_eq(m.n, 0);
	done(m);
	profile_free(p);
}
END_TEST

/* A part of nothing but zeros is left out, and those behind it are sent. */
START_TEST(test_otlp_zeros_in_front)
{
	struct profile *p = cpu_profile();
	int64_t sums[TYPES] = {0};
	for (int64_t i = 0; i < 30; i++) {
		char name[32];
		snprintf(name, sizeof(name), "f_%d", (int)i);
		const uint32_t stack[] = {location(p, name)};
		add(p, stack, 1, 0, NULL, 0);
		profile_sample(p, stack, 1, (int64_t[]){i < 10 ? -1 : 0, 0, i < 10 ? 0 : 5}, NULL, 0);
	}
	struct made m = make(PUSH_OTLP, p, (struct push_limits){0, 10});
	ck_assert_uint_eq(m.n, 2);
	for (size_t i = 0; i < m.n; i++)
		add_sums(PUSH_OTLP, &m.r[i], (struct push_limits){0, 10}, sums);
	ck_assert_int_eq(sums[2], profile_total(p, 2));
	done(m);
	profile_free(p);
}
END_TEST

/* --- all forms */

START_TEST(test_empty)
{
	struct profile *p = cpu_profile();
	for (enum push_form form = PUSH_PYROSCOPE; form <= PUSH_OTLP; form++) {
		struct made m = make(form, p, (struct push_limits){0});
		ck_assert_uint_eq(m.n, 0);
		done(m);
	}
	struct made m = make(PUSH_PUT, p, (struct push_limits){0});
	ck_assert_uint_eq(m.n, 1);
	done(m);
	profile_free(p);
}
END_TEST

START_TEST(test_same_bytes)
{
	for (enum push_form form = PUSH_PYROSCOPE; form <= PUSH_PUT; form++) {
		struct profile *p = many(50), *q = many(50);
		struct made a = make(form, p, (struct push_limits){0, 20}),
			    b = make(form, q, (struct push_limits){0, 20});
		ck_assert_uint_eq(a.n, b.n);
		for (size_t i = 0; i < a.n; i++) {
			ck_assert_uint_eq(a.r[i].len, b.r[i].len);
			ck_assert_mem_eq(a.r[i].body, b.r[i].body, a.r[i].len);
			ck_assert_str_eq(a.r[i].path, b.r[i].path);
			ck_assert_str_eq(a.r[i].content_type, b.r[i].content_type);
		}
		done(a);
		done(b);
		profile_free(p);
		profile_free(q);
	}
}
END_TEST

static const struct {
	const char *node, *target, *file, *path;
} paths[] = {
	{"node-1", "web", "web/20260101T000000Z-000001-cpu.pb.gz", "/node-1/web/20260101T000000Z-000001-cpu.pb.gz"},
	{"", "web", "web/20260101T000000Z-000001-cpu.pb.gz", "/web/20260101T000000Z-000001-cpu.pb.gz"},
	{"../n", "web", "alone.pb.gz", "/..%2Fn/web/alone.pb.gz"},
	{"n", "a b", "x", "/n/a%20b/x"},
	{"..", "", "../../etc/passwd", "/%2E%2E/%2E%2E/%2E%2E/etc/passwd"},
	{".", "", "./x", "/%2E/%2E/x"},
	{"", "", "//a///b?c#d%", "/a/b%3Fc%23d%25"},
	{"", "", "\xc3\xa9", "/%C3%A9"},
};

START_TEST(test_put)
{
	struct push_source of = source;
	for (size_t i = 0; i < N(paths); i++) {
		of.node = paths[i].node;
		of.target = paths[i].target;
		of.file = paths[i].file;
		struct made m = make_of(PUSH_PUT, NULL, (struct push_limits){1, 1}, &of);
		ck_assert_uint_eq(m.n, 1);
		ck_assert_str_eq(m.r->path, paths[i].path);
		ck_assert_str_eq(m.r->method, "PUT");
		ck_assert_str_eq(m.r->content_type, "application/octet-stream");
		ck_assert_ptr_null(m.r->content_encoding);
		ck_assert_uint_eq(m.r->len, 5);
		ck_assert_mem_eq(m.r->body, "bytes", 5);
		done(m);
	}
}
END_TEST

START_TEST(test_forms)
{
	struct push_request *r;
	struct err e;
	size_t n;
	for (int i = 0; i < PUSH_FORMS; i++)
		ck_assert_int_eq(push_form_find(push_form_name((enum push_form)i)), i);
	ck_assert_int_eq(push_form_find("jaeger"), -ENOENT);
	struct profile *p = many(1);
	ck_assert_int_eq(push_requests(PUSH_DIRECTORY, NULL, &source, p, NULL, 0, &r, &n, &e), -EINVAL);
	ck_assert_int_eq(
		push_requests(PUSH_PYROSCOPE, NULL, &source, p, NULL, 0, &r, &n, &e), 0); /* no limits: its own */
	ck_assert_uint_eq(n, 1);
	push_requests_free(r, n);
	profile_free(p);
}
END_TEST

UNIT_SUITE(push_encode)
{
	Suite *s = suite_create("push_encode");
	TCase *t = tcase_create("push_encode");
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 300); /* a thread sanitizer takes half a minute where nobody else is */
	tcase_add_loop_test(t, test_splits, 0, N(splits));
	tcase_add_test(t, test_parts_say_so);
	tcase_add_loop_test(t, test_alone, 0, N(alone));
	tcase_add_test(t, the_parts_of_a_large_file_are_not_cut);
	tcase_add_loop_test(t, test_kinds, 0, N(kinds));
	tcase_add_test(t, test_names);
	tcase_add_test(t, test_cut);
	tcase_add_test(t, test_shared);
	tcase_add_test(t, test_some_without);
	tcase_add_loop_test(t, test_services, 0, N(services));
	tcase_add_test(t, test_hostile_labels);
	tcase_add_test(t, test_many_labels);
	tcase_add_test(t, test_many_shared_labels);
	tcase_add_test(t, test_long_shared_labels);
	tcase_add_test(t, test_otlp);
	tcase_add_test(t, test_otlp_zeros);
	tcase_add_test(t, test_otlp_zeros_in_front);
	tcase_add_test(t, test_empty);
	tcase_add_test(t, test_same_bytes);
	tcase_add_test(t, test_put);
	tcase_add_test(t, test_forms);
	suite_add_tcase(s, t);
	TCase *large = tcase_create("large");
	tcase_add_checked_fixture(large, setup, teardown);
	tcase_set_timeout(large, 300);
	tcase_set_tags(large, SUITE_LONG);
	if (full_bytes())
		tcase_add_test(large, test_shared_is_large);
	suite_add_tcase(s, large);
	return s;
}
