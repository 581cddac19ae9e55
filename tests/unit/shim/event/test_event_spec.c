/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/config/options.h"
#include "shim/event/event_spec.h"

#include "oci/base/fd.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))
#define NSEC 1000000000ull

static int fds;

static void count_fds(void)
{
	fds = fd_count();
}

enum { CPU, FAULTS, TRACEPOINT, OFFCPU = 18, UPROBE, KPROBE, RAW };

#define SPEC(k, p, c, n, m, i, w)                                                                                      \
	{                                                                                                              \
		.kind = (k), .period = (p), .config = (c), .name = (n), .min_us = (m), .idle = (i), .profiles = (w)    \
	}

static const struct {
	const char *text;
	uint32_t max_rate;
	bool clamped;
	size_t n;
	struct event_spec specs[2];
} good[] = {
	{"cpu", 0, false, 1, {SPEC(CPU, NSEC / 99, 0, "", 0, 0, 0)}},
	{"cpu@199", 0, false, 1, {SPEC(CPU, NSEC / 199, 0, "", 0, 0, 0)}},
	{"cpu@1", 0, false, 1, {SPEC(CPU, NSEC, 0, "", 0, 0, 0)}},
	{"cpu@100000", 0, false, 1, {SPEC(CPU, 10000, 0, "", 0, 0, 0)}},
	{"cpu@0099", 0, false, 1, {SPEC(CPU, NSEC / 99, 0, "", 0, 0, 0)}},
	{"cpu@999", 999, false, 1, {SPEC(CPU, NSEC / 999, 0, "", 0, 0, 0)}},
	{"cpu@1000", 999, true, 1, {SPEC(CPU, NSEC / 999, 0, "", 0, 0, 0)}},
	{"cpu@18446744073709551615", 999, true, 1, {SPEC(CPU, NSEC / 999, 0, "", 0, 0, 0)}},
	{"cpu", 10, true, 1, {SPEC(CPU, NSEC / 10, 0, "", 0, 0, 0)}},
	{"page-faults", 0, false, 1, {SPEC(FAULTS, 100, 0, "", 0, 0, 0)}},
	{"page-faults/1", 0, false, 1, {SPEC(FAULTS, 1, 0, "", 0, 0, 0)}},
	{"page-faults/5000", 10, false, 1, {SPEC(FAULTS, 5000, 0, "", 0, 0, 0)}}, /* a period is no rate */
	{"page-faults/9223372036854775807", 0, false, 1, {SPEC(FAULTS, INT64_MAX, 0, "", 0, 0, 0)}},
	{"cpu,page-faults", 0, false, 2, {SPEC(CPU, NSEC / 99, 0, "", 0, 0, 0), SPEC(FAULTS, 100, 0, "", 0, 0, 0)}},
	{"page-faults/7,cpu@50", 0, false, 2, {SPEC(FAULTS, 7, 0, "", 0, 0, 0), SPEC(CPU, NSEC / 50, 0, "", 0, 0, 0)}},
	{"tracepoint:sched:sched_switch", 0, false, 1, {SPEC(TRACEPOINT, 1, 0, "sched:sched_switch", 0, 0, 0)}},
	{"tracepoint:a-b:c_D9/50,cpu", 0, false, 2,
		{SPEC(TRACEPOINT, 50, 0, "a-b:c_D9", 0, 0, 0), SPEC(CPU, NSEC / 99, 0, "", 0, 0, 0)}},
	{"tracepoint:a:b,tracepoint:a:c", 0, false, 2,
		{SPEC(TRACEPOINT, 1, 0, "a:b", 0, 0, 0), SPEC(TRACEPOINT, 1, 0, "a:c", 0, 0, 0)}},
	{"uprobe:/usr/bin/x:work", 0, false, 1, {SPEC(UPROBE, 1, 0, "/usr/bin/x:work", 0, 0, 0)}},
	{"uprobe:/a/2/b:net/http.(*conn).serve/50,cpu", 0, false, 2,
		{SPEC(UPROBE, 50, 0, "/a/2/b:net/http.(*conn).serve", 0, 0, 0), SPEC(CPU, NSEC / 99, 0, "", 0, 0, 0)}},
	{"uprobe:/x@y:f/3,uprobe:/x@y:g", 0, false, 2,
		{SPEC(UPROBE, 3, 0, "/x@y:f", 0, 0, 0), SPEC(UPROBE, 1, 0, "/x@y:g", 0, 0, 0)}},
	{"offcpu", 0, false, 1, {SPEC(OFFCPU, NSEC / 99, 0, "", 1000, 0, 0)}},
	{"offcpu@5000", 999, true, 1, {SPEC(OFFCPU, NSEC / 999, 0, "", 1000, 0, 0)}},
	{"offcpu:min=0@199", 0, false, 1, {SPEC(OFFCPU, NSEC / 199, 0, "", 0, 0, 0)}},
	{"offcpu:min=50us", 0, false, 1, {SPEC(OFFCPU, NSEC / 99, 0, "", 50, 0, 0)}},
	{"offcpu:idle:min=2ms,cpu", 0, false, 2,
		{SPEC(OFFCPU, NSEC / 99, 0, "", 2000, 1, 0), SPEC(CPU, NSEC / 99, 0, "", 0, 0, 0)}},
	{"offcpu:min=60s", 0, false, 1, {SPEC(OFFCPU, NSEC / 99, 0, "", 60000000, 0, 0)}},
	{"page-faults/7,cpu@5000", 999, true, 2,
		{SPEC(FAULTS, 7, 0, "", 0, 0, 0), SPEC(CPU, NSEC / 999, 0, "", 0, 0, 0)}},
	{"latency", 0, false, 2, {SPEC(CPU, NSEC / 99, 0, "", 0, 0, 0), SPEC(OFFCPU, NSEC / 99, 0, "", 1000, 0, 0)}},
	{"latency,cpu@199", 0, false, 2,
		{SPEC(CPU, NSEC / 199, 0, "", 0, 0, 0), SPEC(OFFCPU, NSEC / 99, 0, "", 1000, 0, 0)}},
	{"cpu@199,latency", 0, false, 2,
		{SPEC(CPU, NSEC / 199, 0, "", 0, 0, 0), SPEC(OFFCPU, NSEC / 99, 0, "", 1000, 0, 0)}},
	{"latency", 50, true, 2, {SPEC(CPU, NSEC / 50, 0, "", 0, 0, 0), SPEC(OFFCPU, NSEC / 50, 0, "", 1000, 0, 0)}},
	{"wall", 0, false, 2,
		{SPEC(CPU, NSEC / 99, 0, "", 0, 0, PROFILES_WALL),
			SPEC(OFFCPU, NSEC / 99, 0, "", 1000, 0, PROFILES_WALL)}},
	{"offcpu:min=0,wall", 0, false, 2,
		{SPEC(OFFCPU, NSEC / 99, 0, "", 0, 0, PROFILES_OWN_AND_WALL),
			SPEC(CPU, NSEC / 99, 0, "", 0, 0, PROFILES_WALL)}},
	{"wall,cpu@50", 0, false, 2,
		{SPEC(CPU, NSEC / 50, 0, "", 0, 0, PROFILES_OWN_AND_WALL),
			SPEC(OFFCPU, NSEC / 99, 0, "", 1000, 0, PROFILES_WALL)}},
	{"tracepoint:block:block_rq_issue.bytes/3", 0, false, 1,
		{SPEC(TRACEPOINT, 3, 0, "block:block_rq_issue.bytes", 0, 0, 0)}},
	{"kprobe:vfs_read", 0, false, 1, {SPEC(KPROBE, 1, 0, "vfs_read", 0, 0, 0)}},
	{"kprobe:a.isra.0+0x10/7,cpu", 0, false, 2,
		{SPEC(KPROBE, 7, 16, "a.isra.0+0x10", 0, 0, 0), SPEC(CPU, NSEC / 99, 0, "", 0, 0, 0)}},
	{"kprobe:f+010", 0, false, 1, {SPEC(KPROBE, 1, 10, "f+010", 0, 0, 0)}},
	{"raw:r1C2", 0, false, 1, {SPEC(RAW, 1000000, 0x1c2, "r1C2", 0, 0, 0)}},
	{"raw:rffffffffffffffff/5", 0, false, 1, {SPEC(RAW, 5, UINT64_MAX, "rffffffffffffffff", 0, 0, 0)}},
	{"cpu:stacks=fp@9", 0, false, 1, {{.kind = CPU, .period = NSEC / 9, .stacks = STACKS_FP + 1}}},
	{"page-faults:user,cpu:stacks=none", 0, false, 2,
		{{.kind = FAULTS, .period = 100, .only = EVENT_ONLY_USER},
			{.kind = CPU, .period = NSEC / 99, .stacks = STACKS_NONE + 1}}},
	{"page-faults:stacks=dwarf:kernel/5", 0, false, 1,
		{{.kind = FAULTS, .period = 5, .only = EVENT_ONLY_KERNEL, .stacks = STACKS_DWARF + 1}}},
	{"uprobe:/a/2/b:x/y/1:stacks=auto/4", 0, false, 1,
		{{.kind = UPROBE, .period = 4, .name = "/a/2/b:x/y/1", .stacks = STACKS_AUTO + 1}}},
	{"offcpu:stacks=fp:idle", 0, false, 1,
		{{.kind = OFFCPU, .period = NSEC / 99, .min_us = 1000, .idle = 1, .stacks = STACKS_FP + 1}}},
	{"wall,latency", 0, false, 2,
		{SPEC(CPU, NSEC / 99, 0, "", 0, 0, PROFILES_OWN_AND_WALL),
			SPEC(OFFCPU, NSEC / 99, 0, "", 1000, 0, PROFILES_OWN_AND_WALL)}},
};

START_TEST(lists_that_mean_something)
{
	struct event_spec specs[EVENTS_MAX];
	struct err e = {0};
	size_t n = 99;
	bool clamped = !good[_i].clamped;

	int r = event_spec_parse(good[_i].text, good[_i].max_rate, specs, &n, &clamped, &e);
	ck_assert_msg(r == 0 && n == good[_i].n, "\"%s\": %s", good[_i].text, e.text);
	ck_assert_msg(clamped == good[_i].clamped, "\"%s\"", good[_i].text);
	for (size_t i = 0; i < n; i++)
		ck_assert_msg(specs[i].kind == good[_i].specs[i].kind && specs[i].period == good[_i].specs[i].period &&
				      !strcmp(specs[i].name, good[_i].specs[i].name) &&
				      specs[i].min_us == good[_i].specs[i].min_us &&
				      specs[i].idle == good[_i].specs[i].idle &&
				      specs[i].config == good[_i].specs[i].config &&
				      specs[i].stacks == good[_i].specs[i].stacks &&
				      specs[i].only == good[_i].specs[i].only &&
				      specs[i].profiles == good[_i].specs[i].profiles,
			"\"%s\": item %zu", good[_i].text, i);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

static const struct {
	struct event_spec spec;
	const char *text;
} texts[] = {
	{SPEC(CPU, NSEC / 99, 0, "", 0, 0, 0), "cpu@99"},
	{SPEC(CPU, NSEC / 999, 0, "", 0, 0, 0), "cpu@999"},
	{SPEC(CPU, NSEC / 30011, 0, "", 0, 0, 0), "cpu@30011"},
	{SPEC(FAULTS, 1, 0, "", 0, 0, 0), "page-faults/1"},
	{SPEC(FAULTS, UINT64_MAX, 0, "", 0, 0, 0), "page-faults/18446744073709551615"},
	{SPEC(TRACEPOINT, 10, 7, "sched:sched_switch", 0, 0, 0), "tracepoint:sched:sched_switch/10"},
	{SPEC(UPROBE, 10, 7, "/usr/bin/x:work", 0, 0, 0), "uprobe:/usr/bin/x:work/10"},
	{SPEC(TRACEPOINT, 10, 7, "a:b.c", 0, 0, 0), "tracepoint:a:b.c/10"},
	{SPEC(KPROBE, 1, 16, "f+0x10", 0, 0, 0), "kprobe:f+0x10/1"},
	{SPEC(RAW, 5, 0x1c2, "r1c2", 0, 0, 0), "raw:r1c2/5"},
	{{.kind = FAULTS, .period = 1, .stacks = STACKS_DWARF + 1, .only = EVENT_ONLY_KERNEL},
		"page-faults:stacks=dwarf:kernel/1"},
	{{.kind = UPROBE, .period = 1, .name = "/a:b", .stacks = STACKS_NONE + 1}, "uprobe:/a:b:stacks=none/1"},
	{SPEC(OFFCPU, NSEC / 99, 0, "", 1000, 0, 0), "offcpu@99"},
	{SPEC(OFFCPU, NSEC / 99, 0, "", 0, 1, 0), "offcpu:min=0us:idle@99"},
};

START_TEST(said_as_it_is_asked_for)
{
	char text[EVENT_TEXT_MAX];
	struct event_spec again[EVENTS_MAX];
	size_t n;
	bool clamped;
	ck_assert_str_eq(event_text(&texts[_i].spec, text), texts[_i].text);
	if (texts[_i].spec.period <= INT64_MAX) { /* nothing that could be asked for is more */
		ck_assert_int_eq(event_spec_parse(text, 0, again, &n, &clamped, NULL), 0);
		ck_assert_uint_eq(again[0].period, texts[_i].spec.period);
		ck_assert_uint_eq(again[0].stacks, texts[_i].spec.stacks);
		ck_assert_uint_eq(again[0].only, texts[_i].spec.only);
	}
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

static const struct {
	const char *asked, *said;
} lists[] = {
	{"cpu", "cpu@99"},
	{"wall", "wall"},
	{"memory", "page-faults/100,major-faults/1"},
	{"all", "cpu@99,offcpu@99,page-faults/100,major-faults/1,cpu-migrations/10"},
	{"wall,offcpu:min=0", "offcpu:min=0us@99,wall"},
	{"latency,wall", "cpu@99,offcpu@99,wall"},
};

START_TEST(a_list_is_said_as_one_that_means_the_same)
{
	char text[EVENTS_TEXT_MAX], again[EVENTS_TEXT_MAX];
	struct event_spec specs[EVENTS_MAX];
	size_t n;
	bool clamped;
	ck_assert_int_eq(event_spec_parse(lists[_i].asked, 0, specs, &n, &clamped, NULL), 0);
	ck_assert_str_eq(event_spec_text(specs, n, text), lists[_i].said);
	ck_assert_int_eq(event_spec_parse(text, 0, specs, &n, &clamped, NULL), 0);
	ck_assert_str_eq(event_spec_text(specs, n, again), lists[_i].said);
}
END_TEST

#define KNOWN "; 'pillion events' lists what there is"
#define WRITTEN                                                                                                        \
	": a tracepoint is written tracepoint:SYSTEM:NAME, or with .FIELD behind it, as in "                           \
	"tracepoint:sched:sched_switch"
#define KPROBES ": a kprobe is written kprobe:FUNCTION, or with +OFFSET behind it, as in kprobe:vfs_read/10"
#define RAWS ": a raw event is written raw:rHEX, as in raw:r1c2/100000"
#define PROBE ": a uprobe is written uprobe:FILE:FUNCTION, as in uprobe:/usr/bin/x:work/10"
#define STACKS "stacks=STACKS (auto, fp, dwarf, none), as in "
#define WAITS ": offcpu takes min=TIME (0 to 60s), idle and " STACKS "offcpu:min=100us:idle"
#define MODES " takes user or kernel, and " STACKS "page-faults:user:stacks=fp"
#define ALONE " takes " STACKS "cpu:stacks=fp"
#define LONG "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define WHOLE " needs a positive whole number behind "

static const struct {
	const char *text, *sentence;
} bad[] = {
	{"", "events, column 1: no event \"\"" KNOWN},
	{"wall@99", "events, column 1: wall has no rate of its own: list its events beside it, as in cpu@199,wall"},
	{"cpu,latency:idle",
		"events, column 5: latency has no rate of its own: list its events beside it, as in cpu@199,latency"},
	{"wall,cpu,wall", "events, column 10: wall is there twice"},
	{"latency,cpu,cpu", "events, column 13: cpu is there twice"},
	{"context-switches,all", "events, column 18: offcpu and context-switches cannot be sampled together: the "
				 "kernel garbles records of "
				 "two such events"},
	{"bicycles", "events, column 1: no event \"bicycles\"" KNOWN},
	{"cycles@99", "events, column 1: cycles takes a period, as in page-faults/50"},
	{"CPU", "events, column 1: no event \"CPU\"" KNOWN},
	{"cp", "events, column 1: no event \"cp\"" KNOWN},
	{"cpux", "events, column 1: no event \"cpux\"" KNOWN},
	{" cpu", "events, column 1: no event \" cpu\"" KNOWN},
	{"cpu ", "events, column 1: no event \"cpu \"" KNOWN},
	{"@99", "events, column 1: no event \"\"" KNOWN},
	{"cpu,", "events, column 5: no event \"\"" KNOWN},
	{",cpu", "events, column 1: no event \"\"" KNOWN},
	{"cpu,,page-faults", "events, column 5: no event \"\"" KNOWN},
	{"cpu@199,twigs", "events, column 9: no event \"twigs\"" KNOWN},
	{"aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeee",
		"events, column 1: no event \"aaaaaaaaaabbbbbbbbbbccccccccccdddddddddd\"" KNOWN},
	{"cpu@", "events, column 1: \"cpu@\"" WHOLE "'@'"},
	{"cpu@0", "events, column 1: \"cpu@0\"" WHOLE "'@'"},
	{"cpu@-1", "events, column 1: \"cpu@-1\"" WHOLE "'@'"},
	{"cpu@+1", "events, column 1: \"cpu@+1\"" WHOLE "'@'"},
	{"cpu@ 1", "events, column 1: \"cpu@ 1\"" WHOLE "'@'"},
	{"cpu@1 ", "events, column 1: \"cpu@1 \"" WHOLE "'@'"},
	{"cpu@1.5", "events, column 1: \"cpu@1.5\"" WHOLE "'@'"},
	{"cpu@0x10", "events, column 1: \"cpu@0x10\"" WHOLE "'@'"},
	{"cpu@99Hz", "events, column 1: \"cpu@99Hz\"" WHOLE "'@'"},
	{"cpu@9@9", "events, column 1: \"cpu@9@9\"" WHOLE "'@'"},
	{"cpu@18446744073709551616", "events, column 1: \"cpu@18446744073709551616\"" WHOLE "'@'"},
	{"page-faults/1,cpu@x", "events, column 15: \"cpu@x\"" WHOLE "'@'"},
	{"page-faults/9223372036854775808", "events, column 1: \"page-faults/9223372036854775808\"" WHOLE "'/'"},
	{"cpu@100001", "events, column 1: at most 100000 Hz"},
	{"cpu/100", "events, column 1: cpu takes a rate, as in cpu@199"},
	{"page-faults@100", "events, column 1: page-faults takes a period, as in page-faults/50"},
	{"crash/5", "events, column 1: crash takes no period: each is reported"},
	{"offcpu:", "events, column 1" WAITS},
	{"offcpu:min", "events, column 1" WAITS},
	{"offcpu:min=", "events, column 1" WAITS},
	{"offcpu:min=1", "events, column 1" WAITS},
	{"offcpu:min=-1ms", "events, column 1" WAITS},
	{"offcpu:min=1h", "events, column 1" WAITS},
	{"offcpu:min=61s", "events, column 1" WAITS},
	{"offcpu:min=99999999999999999999us", "events, column 1" WAITS},
	{"cpu,offcpu:idle:", "events, column 5" WAITS},
	{"offcpu:idler", "events, column 1" WAITS},
	{"offcpu/100", "events, column 1: offcpu takes a rate, as in cpu@199"},
	{"offcpu,offcpu:idle", "events, column 8: offcpu is there twice"},
	{"offcpu,context-switches",
		"events, column 8: context-switches and offcpu cannot be sampled together: the kernel garbles records "
		"of two such events"},
	{"cpu:x", "events, column 1: cpu" ALONE},
	{"cpu:", "events, column 1: cpu" ALONE},
	{"cpu:stacks=", "events, column 1: cpu" ALONE},
	{"cpu:stacks=fpp", "events, column 1: cpu" ALONE},
	{"cpu:user", "events, column 1: cpu" ALONE},
	{"cpu:min=1ms", "events, column 1: cpu" ALONE},
	{"cpu,page-faults:users", "events, column 5: page-faults" MODES},
	{"page-faults:user:kernel", "events, column 1: page-faults" MODES},
	{"page-faults:idle/5", "events, column 1: page-faults" MODES},
	{"context-switches:user", "events, column 1: context-switches" ALONE},
	{"tracepoint:a:b:kernel", "events, column 1: tracepoint" ALONE},
	{"page-faults:user,page-faults:kernel", "events, column 18: page-faults is there twice"},
	{"tracepoint:a:b,tracepoint:a:b.c",
		"events, column 16: a:b.c and a:b cannot be sampled together: the kernel garbles records of two such "
		"events"},
	{"tracepoint:a:b.", "events, column 1" WRITTEN},
	{"tracepoint:a:b.c.d", "events, column 1" WRITTEN},
	{"tracepoint:a:b.c-d", "events, column 1" WRITTEN},
	{"tracepoint:a.b:c", "events, column 1" WRITTEN},
	{"kprobe", "events, column 1" KPROBES},
	{"kprobe:", "events, column 1" KPROBES},
	{"kprobe:a b", "events, column 1" KPROBES},
	{"kprobe:f+", "events, column 1" KPROBES},
	{"kprobe:f+-1", "events, column 1" KPROBES},
	{"kprobe:f+8x", "events, column 1" KPROBES},
	{"kprobe:f+0xg", "events, column 1" KPROBES},
	{"kprobe:f+4294967296", "events, column 1" KPROBES},
	{"kprobe:f@9", "events, column 1: kprobe takes a period, as in page-faults/50"},
	{"raw", "events, column 1" RAWS},
	{"raw:1c2", "events, column 1" RAWS},
	{"raw:r", "events, column 1" RAWS},
	{"raw:r1g", "events, column 1" RAWS},
	{"cpu,raw:r11112222333344445", "events, column 5" RAWS},
	{"tracepoint", "events, column 1" WRITTEN},
	{"tracepoint:", "events, column 1" WRITTEN},
	{"tracepoint:sched", "events, column 1" WRITTEN},
	{"tracepoint:sched:", "events, column 1" WRITTEN},
	{"tracepoint::x", "events, column 1" WRITTEN},
	{"tracepoint:a:b:c", "events, column 1: tracepoint" ALONE},
	{"tracepoint:..:b", "events, column 1" WRITTEN},
	{"cpu,tracepoint:a b:c", "events, column 5" WRITTEN},
	{"tracepoint:a:b@9", "events, column 1: tracepoint takes a period, as in page-faults/50"},
	{"tracepoint:a:b,tracepoint:a:b/2", "events, column 16: a:b is there twice"},
	{"tracepoint:a:" LONG LONG LONG LONG, "events, column 1" WRITTEN},
	{"uprobe:/" LONG LONG LONG ":" LONG, "events, column 1" PROBE},
	{"uprobe", "events, column 1" PROBE},
	{"uprobe:", "events, column 1" PROBE},
	{"uprobe:/x", "events, column 1" PROBE},
	{"uprobe:x:f", "events, column 1" PROBE},
	{"uprobe:/x:", "events, column 1" PROBE},
	{"uprobe:/x/:f", "events, column 1" PROBE},
	{"uprobe:/:f", "events, column 1" PROBE},
	{"uprobe:/x:f:g", "events, column 1: uprobe" ALONE},
	{"uprobe:/x:f g", "events, column 1" PROBE},
	{"uprobe:/x:f@GLIBC_2.2.5", "events, column 1" PROBE},
	{"cpu,uprobe:/x:f@99", "events, column 5" PROBE},
	{"uprobe:/x:f/0", "events, column 1: \"uprobe:/x:f/0\"" WHOLE "'/'"},
	{"uprobe:/x:f,uprobe:/x:f/2", "events, column 13: x:f is there twice"},
	{"cpu,cpu", "events, column 5: cpu is there twice"},
	{"cpu@99,page-faults,cpu@100", "events, column 20: cpu is there twice"},
};

START_TEST(lists_that_mean_nothing)
{
	struct event_spec specs[EVENTS_MAX] = {{.kind = 77}};
	struct err e = {0};
	size_t n = 99;
	bool clamped = true;

	int r = event_spec_parse(bad[_i].text, 0, specs, &n, &clamped, &e);
	ck_assert_msg(r == -EINVAL && !strcmp(e.text, bad[_i].sentence), "\"%s\": %d, %s", bad[_i].text, r, e.text);
	ck_assert(n == 99 && clamped && specs[0].kind == 77); /* untouched */
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

static const struct {
	const char *text, *kept, *left; /* sentences, with a newline behind each */
	int code;
} parts[] = {
	{"cpu", "cpu@99", "", 0},
	{"cpu,moon,page-faults", "cpu@99,page-faults/100", "events, column 5: no event \"moon\"" KNOWN "\n", 0},
	{"moon,sun", "",
		"events, column 1: no event \"moon\"" KNOWN "\n"
		"events, column 6: no event \"sun\"" KNOWN "\n",
		-EINVAL},
	{"cpu@0,page-faults/1", "page-faults/1",
		"events, column 1: \"cpu@0\" needs a positive whole number behind '@'\n", 0},
	{"cpu@199,cpu", "cpu@199", "events, column 9: cpu is there twice\n", 0},
	{"cpu,", "cpu@99", "events, column 5: no event \"\"" KNOWN "\n", 0},
	{"", "", "events, column 1: no event \"\"" KNOWN "\n", -EINVAL},
	{"context-switches,latency", "context-switches/100,cpu@99",
		"events, column 18: offcpu and context-switches cannot be sampled together: the kernel garbles records "
		"of two such events\n",
		0},
	{"all,cycles,instructions,branches,raw:r1,cpu@7",
		"cpu@7,offcpu@99,page-faults/100,major-faults/1,cpu-migrations/10,cycles/10000000,"
		"instructions/10000000,branches/2000000",
		"events, column 34: r1 is one more than 8, which is the most\n", 0},
};

static void keep_sentence(void *arg, const char *why)
{
	fprintf(arg, "%s\n", why);
}

START_TEST(what_is_no_event_is_left_out)
{
	struct event_spec specs[EVENTS_MAX];
	char kept[EVENTS_TEXT_MAX], *left;
	struct err e = {0};
	size_t n = 0, size;
	bool clamped;
	FILE *f = open_memstream(&left, &size);
	int r = event_spec_parse_some(parts[_i].text, 0, specs, &n, &clamped, keep_sentence, f, &e);
	fclose(f);
	ck_assert_int_eq(r, parts[_i].code);
	ck_assert_str_eq(left, parts[_i].left);
	ck_assert_str_eq(event_spec_text(specs, n, kept), parts[_i].kept);
	ck_assert(r == 0 || strstr(left, e.text));
	free(left);
}
END_TEST

START_TEST(the_catalogue)
{
	for (uint32_t i = 0; i < event_kinds(); i++) {
		const struct event_kind *k = event_kind(i);
		ck_assert(k->name[0] && k->sample_type[0] && k->sample_unit[0] && k->help[0]);
		ck_assert_uint_gt(k->period, 0);
		ck_assert_ptr_null(strpbrk(k->name, "@/, "));
		for (uint32_t j = 0; j < i; j++)
			ck_assert_str_ne(k->name, event_kind(j)->name);
	}
	ck_assert_ptr_null(event_kind((uint32_t)event_kinds()));
	ck_assert_ptr_null(event_kind(UINT32_MAX));
	ck_assert_int_eq(event_kind(CPU)->config, PERF_COUNT_SW_CPU_CLOCK);
	ck_assert_int_eq(event_kind(FAULTS)->config, PERF_COUNT_SW_PAGE_FAULTS);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

UNIT_SUITE(event_spec)
{
	Suite *s = suite_create("event_spec");
	TCase *t = tcase_create("event_spec");

	tcase_add_checked_fixture(t, count_fds, NULL);
	tcase_add_loop_test(t, lists_that_mean_something, 0, LENGTH(good));
	tcase_add_loop_test(t, a_list_is_said_as_one_that_means_the_same, 0, sizeof(lists) / sizeof(lists[0]));
	tcase_add_loop_test(t, said_as_it_is_asked_for, 0, LENGTH(texts));
	tcase_add_loop_test(t, lists_that_mean_nothing, 0, LENGTH(bad));
	tcase_add_loop_test(t, what_is_no_event_is_left_out, 0, LENGTH(parts));
	tcase_add_test(t, the_catalogue);
	suite_add_tcase(s, t);
	return s;
}
