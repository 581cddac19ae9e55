/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/daemon/exporter_manager.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "oci/base/log.h"
#include "oci/base/process/child_process.h"
#include "oci/base/process/oom_score.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>

#define PAUSE_MAX_NS (1 * NSEC_PER_SEC)
#define REAP_MS 5
#define REAP_NS (10 * NSEC_PER_SEC)    /* behind the next start: then it stays a zombie, and another one starts */
#define GRACE_NS (200 * NSEC_PER_MSEC) /* for its last writes, when we end */

static const struct restart_rule rule = {
	.steady = 10 * NSEC_PER_SEC, .pause = 50 * NSEC_PER_MSEC, .most = PAUSE_MAX_NS, .from_start = true};

/* The exporter is dead: its unfinished file has no owner any more. */
static void on_death(void *arg, uint32_t events)
{
	struct exporter_manager *x = arg;
	restart_ended(&x->restart, &rule, clock_now());
	x->source.fd = -1; /* closed, so the loop has forgotten it */
	x->pidfd = fd_close(x->pidfd);
	x->process.sock = fd_close(x->process.sock);
	log_line(LOG_WARNING, "outcome=exporter_restarted reason=\"it has ended\"");
}

int exporter_manager_start(struct exporter_manager *x, struct event_loop *l, struct err *e)
{
	restart_started(&x->restart, clock_now());
	x->source.fd = x->pidfd = -1;
	oom_score_before_fork(x->oom, 1);
	int r = exporter_start(&x->setup, &x->process, e);
	oom_score_after_fork(x->oom);
	if (r < 0) {
		x->process.sock = -1;
		return r;
	}
	x->pidfd = child_process_pidfd(x->process.pid);
	r = x->pidfd < 0 ? x->pidfd : event_loop_add(l, &x->source, x->pidfd, EPOLLIN, on_death, x);
	return r < 0 ? err_set(e, r, "cannot watch the exporter") : 0;
}

/*
 * True: the dead exporter is reaped, or does not become so in time. Before, its unfinished file would stay: its
 * successor would take the writer for a live process.
 */
static bool is_reaped(struct exporter_manager *x)
{
	if (x->process.pid > 0 && waitpid(x->process.pid, NULL, WNOHANG | __WALL) == 0 &&
		clock_now() < x->restart.due + REAP_NS)
		return false;
	x->process.pid = 0;
	return true;
}

int exporter_manager_watch(struct exporter_manager *x, struct event_loop *l, bool *ret_fresh)
{
	struct err e = {0};
	*ret_fresh = false;
	if (!x->restart.due)
		return -1;
	if (!restart_is_due(&x->restart, clock_now()))
		return deadline_left_ms(x->restart.due);
	if (!is_reaped(x))
		return REAP_MS;
	if (exporter_manager_start(x, l, &e) < 0) {
		x->restart.due = deadline_in(PAUSE_MAX_NS);
		log_line(LOG_ERR, "outcome=no_exporter reason=\"%s\"", e.text);
		return deadline_left_ms(x->restart.due);
	}
	*ret_fresh = true;
	return -1;
}

void exporter_manager_end(struct exporter_manager *x)
{
	if (x->pidfd >= 0)
		child_process_kill(x->pidfd);
}

void exporter_manager_abandon(struct exporter_manager *x)
{
	fd_close(x->pidfd);
	fd_close(x->setup.spool);
	fd_close(x->setup.http.fd);
	explicit_bzero(x->setup.http.token,
		sizeof(x->setup.http.token)); /* the worker, which parses the targets' data, does not need it */
}

void exporter_manager_close(struct exporter_manager *x, struct event_loop *l)
{
	event_loop_del(l, &x->source);
	x->process.sock = fd_close(x->process.sock); /* ends it, after its last writes */
	if (x->pidfd >= 0 && fd_wait(x->pidfd, POLLIN, deadline_in(GRACE_NS)) == 1)
		waitpid(x->process.pid, NULL, WNOHANG | __WALL);
	x->pidfd = fd_close(x->pidfd);
	x->setup.spool = fd_close(x->setup.spool);
	x->setup.http.fd = fd_close(x->setup.http.fd);
}
