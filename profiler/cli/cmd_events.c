/* SPDX-License-Identifier: Apache-2.0 */
/* events: the catalogue, and the events that this host has for the calling user. */
#include "profiler/cli/command.h"

#include "oci/base/fd.h"
#include "oci/base/json/json_write.h"
#include "shim/event/perf_event.h"
#include "shim/event/tracepoint.h"

#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

struct found {
	const char *works; /* "yes", "user code only", "approximate", "no" */
	struct err why;	   /* but for "yes" */
};

/* Returns the file offset of this program's entry point, where an instruction begins; 0: unknown. */
static uint64_t entry_offset(void)
{
	const Elf64_Phdr *p = (const Elf64_Phdr *)getauxval(AT_PHDR); // NOLINT(performance-no-int-to-ptr)
	const uint64_t n = getauxval(AT_PHNUM), there = (uintptr_t)p;
	uint64_t base = 0;
	for (uint64_t i = 0; i < n; i++)
		base = p[i].p_type == PT_PHDR ? there - p[i].p_vaddr : base;
	for (uint64_t i = 0; i < n; i++) {
		const uint64_t at = getauxval(AT_ENTRY) - base - p[i].p_vaddr;
		if (p[i].p_type == PT_LOAD && p[i].p_flags & PF_X && at < p[i].p_filesz)
			return p[i].p_offset + at;
	}
	return 0;
}

/* Opens an event on ourselves. */
static int check_perf_event(uint32_t kind, const struct event_spec *spec, bool kernel, struct err *e)
{
	const bool waits = event_kind(kind)->measure == MEASURES_OFFCPU;
	struct perf_want want = {.role = PERF_SAMPLES, .spec = *spec, .stacks = STACKS_NONE, .kernel = kernel};
	struct perf_event_attr attr;
	if (event_is(spec, NAMED_UPROBE)) {
		want.probe = "/proc/self/exe";
		want.spec.config = entry_offset();
	} else if (event_is(spec, NAMED_KPROBE)) {
		want.probe = spec->name;
	}
	want.probe_type = want.probe ? perf_probe_type(event_kind(kind)->type) : 0;
	if (want.probe && !want.probe_type)
		return err_say(e, -EOPNOTSUPP, "this kernel has no %ss (CONFIG_%s_EVENTS)", event_kind(kind)->name,
			event_is(spec, NAMED_UPROBE) ? "UPROBE" : "KPROBE");
	want.inherit = waits && !kernel; /* without the kernel's part it is another event (shim/event/perf_event.h) */
	struct perf_layout layout;
	perf_attr(&want, &attr, &layout);
	int fd = perf_open(&attr, 0, -1, 0);
	if (fd < 0)
		return perf_explain_event(fd, "perf_event_open", e);
	fd_close(fd);
	return 0;
}

/* One name that every kernel has stands for all named events; 0x3c, Intel's unhalted core cycles, for all raw ones. */
static int example_of(uint32_t kind, struct event_spec *ret, struct err *e)
{
	static const char *const examples[] = {[NAMED_NOT] = "",
		[NAMED_TRACEPOINT] = "sched:sched_switch",
		[NAMED_KPROBE] = "vfs_read",
		[NAMED_UPROBE] = "/proc/self/exe:_start",
		[NAMED_RAW] = "r3c"};
	const enum event_naming naming = event_kind(kind)->naming;
	*ret = (struct event_spec){.kind = kind, .period = 1000000000, .config = naming == NAMED_RAW ? 0x3c : 0};
	snprintf(ret->name, sizeof(ret->name), "%s", examples[naming]);
	return naming == NAMED_TRACEPOINT ? tracepoint_find(ret, e) : 0;
}

static void check_event_kind(uint32_t kind, struct found *ret)
{
	struct event_spec spec;
	struct err user;
	*ret = (struct found){.works = "no"};
	if (event_kind(kind)->type == EVENT_TYPE_APP) { /* measured by libpillion, in the program */
		ret->works = "yes";
		return;
	}
	if (example_of(kind, &spec, &ret->why) < 0)
		return;
	if (check_perf_event(kind, &spec, true, &ret->why) == 0) {
		ret->works = "yes";
	} else if (!event_kind(kind)->in_kernel || event_kind(kind)->measure == MEASURES_OFFCPU) {
		if (check_perf_event(kind, &spec, false, &user) == 0)
			ret->works = event_kind(kind)->in_kernel ? "approximate" : "user code only";
		else
			ret->why = user;
	}
}

/* Returns the number of a reason, from 1; most events have the same one. */
static unsigned add_reason(struct err *reasons, unsigned *n, const struct err *why)
{
	unsigned i = 0;
	while (i < *n && strcmp(reasons[i].text, why->text))
		i++;
	if (i == *n)
		reasons[(*n)++] = *why;
	return i + 1;
}

static int print_table(void)
{
	struct err *reasons = calloc(event_kinds(), sizeof(*reasons));
	unsigned n = 0;
	if (!reasons)
		return -ENOMEM;
	printf("%-22s %-10s %-19s %s\n", "EVENT", "DEFAULT", "HERE", "COUNTS");
	for (uint32_t i = 0; i < event_kinds(); i++) {
		const struct event_kind *k = event_kind(i);
		struct found found;
		char period[24], here[32];
		if (k->measure == MEASURES_LIVE_HEAP)
			continue;
		check_event_kind(i, &found);
		int at = snprintf(here, sizeof(here), "%s", found.works);
		if (found.why.code)
			snprintf(here + at, sizeof(here) - (size_t)at, " (%u)", add_reason(reasons, &n, &found.why));
		snprintf(period, sizeof(period),
			k->measure == MEASURES_CALLS || k->measure == MEASURES_CRASH ? "all" : "%c%" PRIu64,
			event_is_timed(k) ? '@' : '/', k->period);
		printf("%-22s %-10s %-19s %s\n", k->name, period, here, k->help);
	}
	printf("\n%-22s %-56s %s\n", "LIST", "IS", "SHOWS");
	for (size_t i = 0; event_preset(i); i++)
		printf("%-22s %-56s %s\n", event_preset(i)->name, event_preset(i)->list, event_preset(i)->help);
	for (unsigned i = 0; i < n; i++)
		printf("%s(%u) %s\n", i ? "" : "\n", i + 1, reasons[i].text);
	free(reasons);
	return 0;
}

static struct jsonout *make_event_json(uint32_t kind)
{
	const struct event_kind *k = event_kind(kind);
	struct jsonout *o = json_write_object();
	struct found found;
	check_event_kind(kind, &found);
	int r = json_write_add(o, "name", json_write_text(k->name));
	if (r == 0)
		r = json_write_add(
			o, event_is_timed(k) ? "default_hz" : "default_period", json_write_number((int64_t)k->period));
	if (r == 0)
		r = json_write_add(o, "sample_type", json_write_text(k->sample_type));
	if (r == 0)
		r = json_write_add(o, "unit", json_write_text(k->sample_unit));
	if (r == 0)
		r = json_write_add(o, "works", json_write_text(found.works));
	if (r == 0 && found.why.code)
		r = json_write_add(o, "why", json_write_text(found.why.text));
	if (r == 0)
		r = json_write_add(o, "counts", json_write_text(k->help));
	return r < 0 ? json_write_free(o) : o;
}

static int print_json(void)
{
	struct jsonout *list = json_write_array();
	int r = 0;
	for (uint32_t i = 0; r == 0 && i < event_kinds(); i++)
		if (event_kind(i)->measure != MEASURES_LIVE_HEAP)
			r = json_write_add(list, NULL, make_event_json(i));
	if (r == 0)
		r = json_write_out(list, stdout);
	json_write_free(list);
	return r;
}

static int run(int argc, char **argv)
{
	bool json = false;
	const struct command_option flags[] = {{.name = "--json", .on = &json}, {0}};
	int n = command_options(argc, argv, flags);
	if (n < 0)
		return EXIT_USAGE;
	if (n > 0)
		return command_fail(argv[0], EXIT_USAGE, "it takes no argument, so '%s' is one too many", argv[1]);
	int r = json ? print_json() : print_table();
	if (r < 0)
		return command_fail(argv[0], EXIT_FAILED, "cannot write the list: %s", strerror(-r));
	return EXIT_DONE;
}

const struct command cmd_events = {
	.name = "events",
	.line = "what can be sampled, and what of it works here",
	.help = "usage: pillion events [--json]\n"
		"\n"
		"The names that --events, PILLION_EVENTS and the annotation io.pillion.profile take, each tried by "
		"whoever\n"
		"asks on himself: what works for him here, and why the rest does not.\n"
		"\n"
		"  DEFAULT   @99: so many samples a second of the time; /100: every hundredth is a sample\n"
		"  LIST      a name for several, with their defaults; of wall there is one profile\n"
		"  HERE      yes, no, or \"user code only\": without what the kernel does for the program\n"
		"\n"
		"  --json    an array with an object for each instead\n"
		"\n"
		"Behind a name, in any order: stacks=auto|fp|dwarf|none, of this event alone; of what happens in user "
		"and in\n"
		"kernel code, user or kernel counts that alone, as in page-faults:user:stacks=fp/50.\n"
		"tracepoint:SYSTEM:NAME.FIELD sums up a field of its records: "
		"tracepoint:block:block_rq_issue.bytes.\n"
		"offcpu:min=0 shows also waits of less than a millisecond, offcpu:idle also threads that do nothing "
		"else.\n"
		"Approximate: by where a thread was seen on a CPU last, not by where it waits.\n"
		"\n"
		"A list is separated by commas, each with a rate or a period of its own where the default does not "
		"fit. What\n"
		"a profile was asked for and cannot have is left out, and the profile says so.\n"
		"\n"
		"example: pillion run --events cpu@199,page-faults/50,context-switches -- ./server\n",
	.run = run,
};
