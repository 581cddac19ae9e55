/* SPDX-License-Identifier: Apache-2.0 */
/*
 * page_child - makes a page (pages.h) in a process of its own, which the exporter forks for it alone: the page's input
 * is large and came from targets. The process has the spool and a socket, a seccomp role that opens files only to read,
 * PAGE_CHILD_MEMORY and PAGE_CHILD_S. Its death costs that page alone, and the client is told. The exporter only waits
 * for its answer: a sealed memfd, or the file itself.
 *
 * A job without its client is forgotten and runs to its end, which is near; PAGEJOBS_MAX run at once, at most one of
 * them heavy: with the worker they share the memory of the service's cgroup.
 */
#pragma once

#include "oci/base/err.h"
#include "oci/base/event_loop.h"
#include "profiler/web/pages.h"

#define PAGEJOBS_MAX 2
#define PAGE_CHILD_MEMORY (96ul << 20)
#define PAGE_CHILD_S 20
#define PAGE_CHILD_ANSWER_MAX (64u << 20) /* bytes of one page */
#define PAGEJOBS_HELD_MAX (64ul << 20)	  /* of all answers that are being sent, in memory */

struct pagejobs;
struct page_child;

int pagejobs_new(struct event_loop *l, struct pagejobs **ret);
/*
 * Starts a job. `done` is called from the loop, once, unless the job was forgotten before. -EAGAIN: so many run
 * already, try later. -ENOBUFS: answers that are being sent take too much memory.
 */
int page_child_start(
	struct pagejobs *j, const struct page_question *q, void (*done)(void *arg), void *arg, struct page_child **ret);
/* Returns a job's answer; `fd` is borrowed, as long as the job is there. 0, -EINPROGRESS, or -EPIPE: the process
 * died. */
int page_child_answer(const struct page_child *job, struct page_answer *ret);
void page_child_forget(struct page_child *job); /* NULL is fine */
