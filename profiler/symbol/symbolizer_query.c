/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/symbol/symbolizer_query.h"

#include "oci/base/clock.h"
#include "oci/base/event_loop.h"
#include "oci/base/fd.h"
#include "profiler/symbol/forkserver.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SECONDS 60
#define GRACE 5		   /* further seconds for the server to end a job: it may have been stopped */
#define MEMORY (2ul << 30) /* debug information is often compressed, and a browser's has gigabytes */

struct symbolizer_query {
	struct event_loop *loop;
	struct forkserver forkserver;
	struct symbolizer_sockets sockets; /* `symbolizer` owns the first */
	struct symbolizer *symbolizer;
	struct name_cache *names;
	int64_t deadline;
	enum symbolizer_outcome outcome;
	bool done;
	int failed; /* -errno of keeping an answer */
};

static int start_symbolizer(struct symbolizer_query *q, struct err *e)
{
	static const struct symbolizer_limits limits = {.jobs = 1, .memory = MEMORY, .seconds = SECONDS};
	int r = forkserver_start(&limits, &q->forkserver, e);
	if (r < 0)
		return r;
	r = forkserver_fork(&q->forkserver, &q->sockets);
	if (r == 0)
		r = symbolizer_new(q->sockets.questions, &q->symbolizer);
	if (r == 0)
		r = event_loop_new(&q->loop);
	return r < 0 ? err_set(e, r, "cannot start the symbolizer") : 0;
}

int symbolizer_query_open(struct symbolizer_query **ret, struct err *e)
{
	struct symbolizer_query *q = calloc(1, sizeof(*q));
	if (!q)
		return err_set(e, -ENOMEM, "cannot start the symbolizer");
	q->forkserver = (struct forkserver)FORKSERVER_NONE;
	q->sockets = (struct symbolizer_sockets){-1, -1};
	int r = start_symbolizer(q, e);
	if (r < 0)
		symbolizer_query_close(q);
	else
		*ret = q;
	return r;
}

struct symbolizer_query *symbolizer_query_close(struct symbolizer_query *q)
{
	if (q) {
		if (q->symbolizer)
			symbolizer_kill(q->sockets.questions);
		symbolizer_free(q->symbolizer);
		fd_close(q->sockets.readers);
		forkserver_end(&q->forkserver);
		event_loop_free(q->loop);
	}
	free(q);
	return NULL;
}

static void on_answer(void *arg, uint64_t vaddr, const struct symbol_line *lines, size_t n)
{
	struct symbolizer_query *q = arg;
	int r = name_cache_put(q->names, vaddr, lines, n);
	if (r < 0)
		q->failed = r;
}

static void on_done(void *arg, enum symbolizer_outcome outcome)
{
	struct symbolizer_query *q = arg;
	q->outcome = outcome;
	q->done = true;
}

static int on_query_round(void *arg)
{
	struct symbolizer_query *q = arg;
	int left = deadline_left_ms(q->deadline);
	if (q->done || !left)
		event_loop_stop(q->loop);
	return left;
}

static int run_query(
	struct symbolizer_query *q, const struct symbolizer_request *question, size_t *ret_taken, struct err *e)
{
	struct symbolizer_callbacks a = {on_answer, on_done, q};
	struct job *job;
	q->done = false;
	q->failed = 0;
	q->deadline = deadline_in((SECONDS + GRACE) * NSEC_PER_SEC);
	int r = symbolizer_ask(q->symbolizer, q->loop, question, &a, ret_taken, &job);
	if (r < 0)
		return err_set(e, r, "cannot ask the symbolizer");
	r = event_loop_run(q->loop, on_query_round, q);
	if (!q->done)
		symbolizer_cancel(job);
	if (r < 0 || q->failed)
		return err_set(e, r < 0 ? r : q->failed, "cannot hear the symbolizer");
	if (q->done && (q->outcome == SYMBOLIZER_UNHEARD || q->outcome == SYMBOLIZER_GONE))
		return err_say(e, -EPIPE, "the symbolizer has ended");
	return q->done && q->outcome == SYMBOLIZER_COMPLETE
		       ? 0
		       : err_say(e, -ENODATA, "it is damaged, or more than %d s or %lu MiB can do", SECONDS,
				 MEMORY >> 20);
}

int symbolizer_query_facts(struct symbolizer_query *q, int fd, struct debug_facts *ret, struct err *e)
{
	struct file f;
	struct symbolizer_request question = {.vaddrs = &(uint64_t){0}, .debug = &f, .facts = ret};
	size_t taken;
	memset(ret, 0, sizeof(*ret));
	int r = file_on(fd, &f);
	if (r < 0)
		return 0;
	r = run_query(q, &question, &taken, e);
	return r == -ENODATA ? 0 : r;
}

int symbolizer_query_names(struct symbolizer_query *q, const struct symbolizer_query_files *f, const uint64_t *vaddrs,
	size_t n, struct name_cache *to, struct err *e)
{
	const char **names = calloc(n + 1, sizeof(*names)); /* all NULL: the file's own symbols have them */
	struct file debug, alt;
	bool has_debug = file_on(f->debug, &debug) == 0, has_alt = file_on(f->alt, &alt) == 0;
	size_t taken = 0;
	int r = names ? 0 : err_set(e, -ENOMEM, "cannot ask the symbolizer");
	q->names = to;
	for (size_t at = 0; r == 0 && at < n; at += taken) {
		struct symbolizer_request question = {.n = n - at,
			.vaddrs = vaddrs + at,
			.names = names,
			.debug = has_debug ? &debug : NULL,
			.alt = has_alt ? &alt : NULL,
			.separate = f->separate};
		r = run_query(q, &question, &taken, e);
	}
	free(names);
	return r;
}
