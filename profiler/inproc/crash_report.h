/* SPDX-License-Identifier: Apache-2.0 */
/*
 * crash_report - the report of a crash (profiler/target/crash_record.h): a JSON document, one file each, and a text for
 * people.
 *
 *	{"time", "target", "name", "pod", "namespace",
 *	 "process": {"pid", "name", "exe"}, "thread": {"tid", "name"},
 *	 "signal": {"number", "name", "code", "what", "address", "sender", "user"},
 *	 "frames": [{"function", "file", "line", "inlined", "module", "build_id", "offset"}], "truncated",
 *	 "calls": as frames, by the instrumented program's own account,
 *	 "registers": {"rip", ...}, "mappings": [{"start", "end", "offset", "file", "build_id"}]}
 *
 * Addresses are texts, "0x...": they are numbers of 64 bits. Unknown members are left out. Pids are those of the
 * container. All text from the target is without control characters.
 */
#pragma once

#include "oci/base/json/json_parse.h"
#include "profiler/sample/aggregate.h"
#include "profiler/unwind/unwind.h"
#include "shim/event/target_desc.h"
#include "shim/libpillion/abi/shm_layout.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define CRASH_REPORT_MAX (4u << 20) /* bytes of a document that is read */

struct crash_mapping {
	uint64_t start, end, pgoff;
	char *path, *build_id;
};

/* The facts. */
struct crash_report {
	const struct target_desc *desc;
	int64_t real; /* ns since the epoch */
	uint32_t pid, tid;
	char process[16], exe[64], thread[16];
	struct shm_crash says;
	struct unwind_regs regs;
	struct stack_frame frames[AGGREGATE_STACK_MAX], calls[SHM_CALLS_MAX];
	size_t n, n_calls;
	enum unwind_stop stop;
	bool nowhere;	    /* the first frame is in no code */
	bool stack_is_over; /* the faulting address lies where the stack would go on */
	struct crash_mapping *mappings;
	size_t n_mappings;
};

/*
 * Reads a file as such a document and, if `ret_text` is not NULL, as its bytes (malloc'ed). fd: open (borrowed), or
 * the -errno of opening it; `path` is for messages. -EBADMSG: it is no report.
 */
int crash_report_read(int fd, const char *path, struct json **ret, char **ret_text, size_t *ret_len, struct err *e);
int crash_report_json(const struct crash_report *c, FILE *out); /* 0 or -errno */
/* Prints a document of that form; a missing member is "?", or left out. */
void crash_report_text(const struct json *doc, FILE *out);
/* Print one line of a list, and its head. */
void crash_report_head(FILE *out);
void crash_report_line(const struct json *doc, const char *file, FILE *out);
