/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/daemon/user_service.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "oci/base/log.h"
#include "profiler/daemon/control_server.h"
#include "profiler/spool/user_spool.h"
#include "profiler/target/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <unistd.h>

static struct user_service {
	struct settings settings;
	struct engine engine;
	struct supervisor supervisor;
	struct oom_score oom;
	struct forkserver forkserver;
	struct control_server *control;
	int channel;
	struct event_loop_source source;
	uint64_t served; /* connections */
	int64_t idle_at; /* time at which it has been idle for long; 0: it is busy */
	bool ending;
} tenant;

static void stop_service(struct user_service *t)
{
	t->ending = true;
	event_loop_del(t->supervisor.loop, &t->source);
	supervisor_quit(&t->supervisor);
}

static void on_channel(void *arg, uint32_t events)
{
	struct user_service *t = arg;
	char nothing;
	int sock = -1;
	size_t n = 0;
	ssize_t got = fd_recv(t->channel, &nothing, sizeof(nothing), &sock, 1, &n);
	if (got == -EAGAIN)
		return;
	if (got <= 0 && got != -EMFILE) {
		stop_service(t);
		return;
	}
	t->served++;
	t->idle_at = 0;
	if (n)
		control_server_serve(t->control, sock);
}

/* Reports how many connections we have had: `pilliond-users` knows from that whether another one is under way. */
static int watch_idle(struct user_service *t)
{
	if (t->ending || t->supervisor.targets || control_server_connections(t->control)) {
		t->idle_at = 0;
		return -1;
	}
	if (t->idle_at && clock_now() >= t->idle_at) {
		fd_send(t->channel, &t->served, sizeof(t->served), NULL, 0);
		t->idle_at = 0;
	}
	if (!t->idle_at)
		t->idle_at = deadline_in(USER_SERVICE_IDLE_MS * NSEC_PER_MSEC);
	return deadline_left_ms(t->idle_at);
}

static int on_service_round(void *arg)
{
	struct user_service *t = arg;
	int wait = control_server_round(t->control);
	wait = event_loop_sooner(wait, supervisor_round(&t->supervisor));
	return event_loop_sooner(wait, watch_idle(t));
}

/* In a child: closes the descriptors that are the parent's. */
static void let_go(void *arg)
{
	struct user_service *t = arg;
	control_server_abandon(t->control);
	fd_close(t->channel);
	fd_close(t->forkserver.sock);
}

static void init_service(struct user_service *t, const struct user_service_setup *setup)
{
	struct engine *g = &t->engine;
	char name[32];
	t->settings = *setup->settings;
	t->channel = setup->channel;
	t->oom.fd = -1;
	g->role.modest = true;
	g->perf.rings = setup->rings;
	g->symbols.root = setup->root;
	g->symbols.kallsyms_fd = g->host.channel = g->host.statm = g->host.handover = g->host.journal[0] =
		g->host.journal[1] = -1;
	g->role.trusted = setup->uid;
	t->forkserver = (struct forkserver)FORKSERVER_NONE;
	t->forkserver.sock = setup->forkserver;
	t->supervisor.symbolizer = (struct symbolizer_manager)SYMBOLIZER_MANAGER_NONE;
	t->supervisor.symbolizer.from = &t->forkserver;
	user_spool_name(setup->uid, name, sizeof(name));
	snprintf(g->spool.path, sizeof(g->spool.path), "%.900s/%s", t->settings.paths.spool, name);
	t->supervisor.exporter.setup = (struct exporter_setup){.spool = setup->spool,
		.user = setup->uid,
		.spool_bytes = t->settings.users.spool_bytes,
		.spool_age_s = t->settings.spool_age_s,
		.http.fd = -1};
	g->rates.account = -1;
	limits_apply(g, &t->settings);
	snprintf(g->role.node, sizeof(g->role.node), "%s", t->settings.node);
	t->supervisor.engine = g;
	t->supervisor.settings = &t->settings;
	t->supervisor.oom = &t->oom;
	t->supervisor.in_worker = let_go;
	t->supervisor.arg = t;
}

static int start_service(struct user_service *t, const struct user_service_setup *setup, struct err *e)
{
	struct engine *g = &t->engine;
	init_service(t, setup);
	fcntl(t->channel, F_SETFL, O_NONBLOCK);
	int r = cpu_rings_fit(g->perf.rings, g->perf.rings_note, sizeof(g->perf.rings_note), e);
	if (r == 0)
		r = supervisor_new(&t->supervisor, e);
	if (r == 0)
		r = control_server_new(&t->supervisor, -1, -1, setup->uid, CONTROL_SERVER_USER, &t->control, e);
	if (r == 0)
		r = supervisor_start(&t->supervisor, e);
	if (r < 0)
		return r;
	r = event_loop_add(t->supervisor.loop, &t->source, t->channel, EPOLLIN, on_channel, t);
	return r < 0 ? err_set(e, r, "the event loop") : 0;
}

static void free_service(struct user_service *t)
{
	control_server_free(t->control);
	supervisor_done(&t->supervisor);
	cpu_rings_close(t->engine.perf.rings);
	event_loop_free(t->supervisor.loop);
}

_Noreturn void user_service_run(const struct user_service_setup *setup)
{
	static char program[32];
	struct user_service *t = &tenant;
	struct err e = {0};
	prctl(PR_SET_NAME, "pilliond-user");
	snprintf(program, sizeof(program), "pilliond-user-%u", (unsigned)setup->uid);
	log_program(program);
	int r = start_service(t, setup, &e);
	if (r < 0) {
		log_line(LOG_ERR, "user=%u outcome=refused reason=\"%s\"", (unsigned)setup->uid, e.text);
		msg_refuse(setup->first, &e);
		_exit(1);
	}
	if (t->engine.perf.rings_note[0])
		log_line(LOG_WARNING, "note=\"%s\"", t->engine.perf.rings_note);
	log_line(LOG_INFO, "user=%u state=ready", (unsigned)setup->uid);
	t->served = 1;
	control_server_serve(t->control, setup->first);
	r = event_loop_run(t->supervisor.loop, on_service_round, t);
	free_service(t);
	_exit(r < 0);
}
