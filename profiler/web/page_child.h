/* SPDX-License-Identifier: Apache-2.0 */
/*
 * page_child - a page (pages.h) is made in a process of its own, forked by the exporter for it alone: what it reads is
 * large and came from targets. It has the spool and a socket, a seccomp role that opens nothing but to read,
 * PAGE_CHILD_MEMORY and PAGE_CHILD_S; what kills it costs that page, and whoever asked is told so. The exporter only
 * waits for its answer: a sealed memfd, or the file itself.
 *
 * A job whose asker has gone is forgotten and runs to its end, which is near; PAGEJOBS_MAX run at once, one of
 * them a heavy one: with the worker they share the memory of the service's cgroup.
 */
#pragma once

#include "oci/base/err.h"
#include "oci/base/event_loop.h"
#include "profiler/web/pages.h"

#define PAGEJOBS_MAX 2
#define PAGE_CHILD_MEMORY (96ul << 20)
#define PAGE_CHILD_S 20
#define PAGE_CHILD_ANSWER_MAX (64u << 20) /* bytes of one page */
#define PAGEJOBS_HELD_MAX (64ul << 20)	  /* of all that are being sent, in memory */

struct pagejobs;
struct page_child;

int pagejobs_new(struct event_loop *l, struct pagejobs **ret);
/*
 * `done` is called from the loop, once, unless it was forgotten before. -EAGAIN: so many run already, later. -ENOBUFS:
 * what is being sent is too much.
 */
int page_child_start(
	struct pagejobs *j, const struct page_question *q, void (*done)(void *arg), void *arg, struct page_child **ret);
/* Its answer, as long as the job is there: `fd` is borrowed. 0, -EINPROGRESS, or -EPIPE: it died. */
int page_child_answer(const struct page_child *job, struct page_answer *ret);
void page_child_forget(struct page_child *job); /* NULL is fine */
