/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pages - the pages for a person's browser: the targets, live and from before; the windows of a target, as flame graphs
 * (the last one, a time range, two ranges compared), as tables, and for download; reports of crashes.
 *
 *	/					targets
 *	/target/NAME/				its windows, forms for ranges
 *	/target/NAME/FILE.pb.gz			one, as it lies in the spool
 *	/target/NAME/window?file=FILE		one in words: totals, losses, notes, functions
 *	/target/NAME/live?event=E		the last one as a flame graph that follows
 *	/target/NAME/flame?event=E&from=&to=	a range; with before_from, before_to compared; with svg=1 without script
 *	/target/NAME/diff?...			two ranges as the table of `pillion diff`
 *	/crashes/, /crashes/report?file=FILE.json in words, /crashes/FILE.json
 *
 * NAME is the target's directory in the spool (spool_target.h): of a container of Kubernetes NAMESPACE/POD/CONTAINER.
 * Times are UTC, as forms have them (2026-01-01T00:00[:00]); a window is in a range when it begins there. All links are
 * relative, so that the page may stand anywhere. Everything but the interactive graph works without a script. Names
 * come from targets and programs: they are text wherever they stand. No name of a request is opened (spool_query.h).
 *
 * A page is made in a process of its own (page_child.h), which may die of the files that it reads.
 */
#pragma once

#include "profiler/view/target_table.h"

#include <stdbool.h>
#include <stddef.h>

#define PAGE_PATH_MAX 512
#define PAGE_ARGUMENT_MAX 160
#define PAGE_NONCE 33

enum page_argument {
	PAGE_EVENT,
	PAGE_FROM,
	PAGE_TO,
	PAGE_BEFORE_FROM,
	PAGE_BEFORE_TO,
	PAGE_TYPE,
	PAGE_FILE,
	PAGE_SVG,
	PAGE_ARGUMENTS
};
extern const char *const page_arguments[PAGE_ARGUMENTS]; /* as they stand in an address */

struct page_question {
	char path[PAGE_PATH_MAX];			   /* decoded */
	char arguments[PAGE_ARGUMENTS][PAGE_ARGUMENT_MAX]; /* "": not given */
	char nonce[PAGE_NONCE];
	int spool;			   /* borrowed */
	const struct target_table *listed; /* NULL: the worker does not answer */
};

enum page_kind { PAGE_IS_HTML, PAGE_IS_FLAME, PAGE_IS_PICTURE, PAGE_IS_PROFILE, PAGE_IS_REPORT, PAGE_KINDS };

struct page_answer {
	unsigned status; /* of HTTP */
	enum page_kind kind;
	char file[256]; /* saved under this name; "": displayed */
	char *text;	/* malloc'ed; NULL: `fd` is the answer */
	size_t len;
	int fd; /* owned, -1: none */
};

/* True if the page reads profiles, which takes memory. */
bool page_is_heavy(const struct page_question *q);
/* Makes a page: always an answer, except for -ENOMEM. */
int page_answer(const struct page_question *q, struct page_answer *ret);
