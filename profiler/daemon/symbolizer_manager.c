/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/daemon/symbolizer_manager.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "oci/base/log.h"
#include "oci/base/process/child_process.h"
#include "profiler/target/symbolizer_link.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

#define FAILED_NS (1 * NSEC_PER_SEC) /* until the next try */

static const struct restart_rule rule = {.steady = 60 * NSEC_PER_SEC,
	.steady_counts = 1,
	.free = 2,
	.pause = 100 * NSEC_PER_MSEC,
	.most = 5 * NSEC_PER_SEC};

static void let_go(struct symbolizer_manager *x)
{
	if (x->loop)
		event_loop_del(x->loop, &x->source);
	if (x->pidfd >= 0)
		child_process_kill(x->pidfd); /* one that sends nonsense, or is stopped, is alive */
	x->pidfd = fd_close(x->pidfd);
	symbolizer_close(&x->sockets);
}

static void on_end(struct symbolizer_manager *x)
{
	const int64_t wait = restart_ended(&x->restart, &rule, clock_now());
	let_go(x);
	x->news = SYMBOLIZER_MANAGER_STATE;
	if (!forkserver_is_there(x->from))
		log_line(LOG_ERR, "outcome=no_symbolizer reason=\"the symbolizer has ended\"");
	else if (wait)
		log_line(LOG_ERR,
			"outcome=no_symbolizer reason=\"%u symbolizers have ended, one soon "
			"after "
			"the other\" again_ms=%d",
			x->restart.failures, (int)(wait / NSEC_PER_MSEC));
	else
		log_line(LOG_WARNING, "outcome=symbolizer_restarted reason=\"it has ended\"");
}

/* The server sends its pidfd once; the next event on the socket is its end. */
static void on_word(void *arg, uint32_t events)
{
	struct symbolizer_manager *x = arg;
	int r = symbolizer_process(x->sockets.questions);
	if (r == -EAGAIN || r == -EMFILE)
		return;
	if (r >= 0 && x->pidfd < 0) {
		x->pidfd = r;
		return;
	}
	fd_close(r);
	on_end(x);
}

static int watch_symbolizer(struct symbolizer_manager *x)
{
	restart_started(&x->restart, clock_now());
	return event_loop_add(x->loop, &x->source, x->sockets.questions, EPOLLIN, on_word, x);
}

/*
 * The fork server's end is logged by the process that watches it. A process that has only its socket learns of it here.
 */
static void end_for_good(struct symbolizer_manager *x)
{
	x->renewable = false;
	x->restart.due = 0;
	if (forkserver_is_there(x->from) && x->from->pidfd < 0)
		log_line(LOG_ERR, "outcome=no_symbolizer reason=\"who forks symbolizers has "
				  "ended\"");
}

static void start_symbolizer(struct symbolizer_manager *x)
{
	int r = forkserver_fork(x->from, &x->sockets);
	if (r == 0)
		r = watch_symbolizer(x);
	x->news = r == 0 ? SYMBOLIZER_MANAGER_SOCKETS : SYMBOLIZER_MANAGER_STATE;
	if (r == 0)
		return;
	symbolizer_close(&x->sockets);
	if (r == -EPIPE) {
		end_for_good(x);
		return;
	}
	x->restart.due = deadline_in(FAILED_NS);
	log_line(LOG_ERR, "outcome=no_symbolizer reason=\"no symbolizer: %s\"", strerror(-r));
}

void symbolizer_manager_adopt(struct symbolizer_manager *x, const struct symbolizer_sockets *theirs)
{
	x->sockets = *theirs;
}

void symbolizer_manager_start(struct symbolizer_manager *x, struct event_loop *l)
{
	x->loop = l;
	x->renewable = forkserver_is_there(x->from);
	if (x->sockets.questions < 0)
		start_symbolizer(x);
	else if (watch_symbolizer(x) < 0 || !x->renewable) /* a worker assumes that it is */
		x->news = SYMBOLIZER_MANAGER_STATE;
}

int symbolizer_manager_round(struct symbolizer_manager *x)
{
	if (x->renewable && !forkserver_is_there(x->from)) {
		x->renewable = false;
		x->news = x->news ? x->news : SYMBOLIZER_MANAGER_STATE;
	}
	if (!x->renewable)
		return -1;
	if (restart_is_due(&x->restart, clock_now()))
		start_symbolizer(x);
	return x->restart.due ? deadline_left_ms(x->restart.due) : -1;
}

uint32_t symbolizer_manager_state(const struct symbolizer_manager *x)
{
	return (x->sockets.questions >= 0 ? SYMBOLIZER_THERE : 0u) | (x->renewable ? SYMBOLIZER_RENEWABLE : 0u);
}

void symbolizer_manager_abandon(struct symbolizer_manager *x)
{
	x->pidfd = fd_close(x->pidfd);
}

void symbolizer_manager_close(struct symbolizer_manager *x)
{
	if (x->pidfd < 0 && x->sockets.questions >= 0)
		symbolizer_kill(x->sockets.questions);
	let_go(x);
}
