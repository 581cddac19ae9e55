#include "profiler/daemon/exporter_manager.h"

#include "oci/base/child_process.h"
#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "oci/base/log.h"
#include "oci/base/oom_score.h"
#include "profiler/process/supervisor_link.h"
#include "profiler/target/engine.h"
#include "profiler/target/target_list.h"
#include "profiler/target/window.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>

#define PAUSE_NS (50 * NSEC_PER_MSEC) /* from one start to the next, doubled each time */
#define PAUSE_MAX_NS (1 * NSEC_PER_SEC)
#define LONG_NS (10 * NSEC_PER_SEC) /* what lived so long did not die of its start */
#define REAP_MS 5
#define GRACE_NS (200 * NSEC_PER_MSEC) /* at our end, for it to end */

/* --- the supervisor's side ------------------------------------------------------------------------------ */

/* It is dead: its unfinished file is nobody's any more. */
static void on_death(void *arg, uint32_t events)
{
	struct exporter_manager *x = arg;
	int64_t now = clock_now(), pause = PAUSE_NS << (x->hasty < 5 ? x->hasty : 5);
	x->hasty = now - x->started > LONG_NS ? 0 : x->hasty + 1;
	x->again = x->hasty ? x->started + (pause < PAUSE_MAX_NS ? pause : PAUSE_MAX_NS) : now;
	x->source.fd = -1; /* closed, so the loop has forgotten it */
	x->pidfd = fd_close(x->pidfd);
	x->process.sock = fd_close(x->process.sock);
	log_line(LOG_WARNING, "outcome=\"another exporter\" reason=\"it has ended\"");
}

int exporter_manager_start(struct exporter_manager *x, struct event_loop *l, struct err *e)
{
	x->started = clock_now();
	x->source.fd = x->pidfd = -1;
	oom_score_before_fork(x->oom, 1);
	int r = exporter_start(&x->setup, &x->process, e);
	oom_score_after_fork(x->oom);
	if (r < 0) {
		x->process.sock = -1;
		return r;
	}
	x->again = 0;
	x->pidfd = child_process_pidfd(x->process.pid);
	r = x->pidfd < 0 ? x->pidfd : event_loop_add(l, &x->source, x->pidfd, EPOLLIN, on_death, x);
	return r < 0 ? err_set(e, r, "cannot watch the exporter") : 0;
}

/* Of one that is not reaped its unfinished file would stay: to its successor it is somebody at work. */
static bool is_reaped(struct exporter_manager *x)
{
	if (x->process.pid > 0 && waitpid(x->process.pid, NULL, WNOHANG | __WALL) == 0 &&
		clock_now() < x->again + LONG_NS)
		return false;
	x->process.pid = 0;
	return true;
}

int exporter_manager_watch(struct exporter_manager *x, struct event_loop *l, bool *ret_fresh)
{
	struct err e = {0};
	*ret_fresh = false;
	if (!x->again)
		return -1;
	if (clock_now() < x->again)
		return deadline_left_ms(x->again);
	if (!is_reaped(x))
		return REAP_MS;
	if (exporter_manager_start(x, l, &e) < 0) {
		x->again = deadline_in(PAUSE_MAX_NS);
		log_line(LOG_ERR, "outcome=\"nothing is written\" reason=\"%s\"", e.text);
		return deadline_left_ms(x->again);
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
	explicit_bzero(
		x->setup.http.token, sizeof(x->setup.http.token)); /* who parses what targets say has no use for it */
}

void exporter_manager_close(struct exporter_manager *x, struct event_loop *l)
{
	event_loop_del(l, &x->source);
	x->process.sock = fd_close(x->process.sock); /* which ends it, behind what it has to write */
	if (x->pidfd >= 0 && fd_wait(x->pidfd, POLLIN, deadline_in(GRACE_NS)) == 1)
		waitpid(x->process.pid, NULL, WNOHANG | __WALL);
	x->pidfd = fd_close(x->pidfd);
	x->setup.spool = fd_close(x->setup.spool);
	x->setup.http.fd = fd_close(x->setup.http.fd);
}

/* --- the worker's side ---------------------------------------------------------------------------------- */

/* Whether it has died, or talks nonsense and lives: the supervisor knows, or is told. */
static void on_lost(void *arg)
{
	const struct engine *g = arg;
	supervisor_request(g->channel, &(struct worker_request){REQUEST_EXPORTER, 0, 0}, -1);
}

static void on_state(void *arg, struct export_state *ret)
{
	const struct engine *g = arg;
	ret->symbolizer = symbolizer_manager_works(g);
	ret->renewable = g->symbolizing.renewable;
	ret->readers = g->files && !target_files_broken(g->files);
	ret->outcomes = g->outcomes;
}

static void on_listing(void *arg, uint64_t before, struct msg_listing *ret)
{
	target_list_fill(arg, before, ret);
}

int exporter_manager_open(struct engine *g, struct err *e)
{
	struct exporter_manager *x = &g->exporting;
	const struct exporter_owner owner = {g, window_written, on_lost, on_state, on_listing};
	int r = exporter_client_new(
		g->loop, g->modest ? EXPORT_HELD_BYTES_SESSION : EXPORT_HELD_BYTES, &owner, &x->client);
	if (r == 0)
		r = exporter_manager_connect(g, x->process.sock);
	x->process.sock = -1;
	return r < 0 ? err_set(e, r, "cannot speak to the exporter") : 0;
}

int exporter_manager_connect(struct engine *g, int sock)
{
	return exporter_client_connect(g->exporting.client, sock);
}

int exporter_manager_round(struct engine *g, int64_t now)
{
	struct exporter_client *c = g->exporting.client;
	return c && exporter_client_connected(c) ? exporter_client_round(c, now) : -1;
}

void exporter_client_flush(struct engine *g)
{
	if (g->exporting.client)
		g->exporting.client = exporter_client_free(g->exporting.client);
}

void exporter_manager_limit(struct engine *g, uint64_t spool_bytes, uint32_t spool_age_s)
{
	g->exporting.setup.spool_bytes = spool_bytes; /* of the next one */
	g->exporting.setup.spool_age_s = spool_age_s;
	if (g->exporting.client)
		exporter_client_limit(g->exporting.client, spool_bytes, spool_age_s);
}
