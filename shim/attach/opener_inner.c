/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/attach/opener_inner.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "oci/base/process/child_process.h"
#include "oci/config/user_dirs.h"
#include "oci/isolation/capabilities.h"
#include "oci/isolation/seccomp.h"
#include "shim/attach/event_open.h"
#include "shim/event/perf_event.h"
#include "shim/event/uprobe.h"
#include "shim/protocol/service_client.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define NOBODY 65534

struct work {
	const struct opener_inner *in;
	struct host_info host;
	struct event_open_request parcel;
	int target[TARGET_FDS_MAX];
	size_t n_target;
	int cgroup;
	int probes[EVENTS_MAX];
	int sock; /* to the profiler, greeted; or -errno: `no_sock` says why */
	struct err no_sock;
};

/*
 * The hook starts the session: our own children would be born into the container's pid namespace, without privileges.
 */
static int ask_for_session(struct work *w, struct err *e)
{
	size_t n = 0;
	char byte = 0;
	if (fd_send(w->in->line, &byte, 1, NULL, 0) < 0 || fd_wait(w->in->line, POLLIN, w->in->deadline) != 1 ||
		fd_recv(w->in->line, &byte, 1, &w->sock, 1, &n) != 1 || n != 1)
		return err_say(e, -ETIMEDOUT, "the handshake did not finish within its budget");
	return service_client_greet(w->sock, w->in->settings, 0, e);
}

static int ensure_connection(struct work *w, struct err *e)
{
	if (w->parcel.user_only)
		return service_client_greet(w->sock, w->in->settings, 0, e);
	if (w->sock == -ENOENT || w->sock == -ECONNREFUSED)
		return ask_for_session(w, e);
	w->in->report->in_service = true;
	return w->sock < 0 ? err_say(e, w->sock, "%s", w->no_sock.text) : 0;
}

static int open_target_events(struct work *w, struct err *e)
{
	int r = ensure_connection(w, e);
	if (r < 0)
		return r;
	const struct event_open p = {.host = &w->host,
		.request = &w->parcel,
		.target = w->target,
		.n_target = w->n_target,
		.cgroup = w->cgroup,
		.probes = w->probes,
		.sock = w->sock,
		.deadline = w->in->deadline};
	return event_open_events(&p, e);
}

/*
 * Sends the outcome to the service only: a session could not pass it on. The time lacks the little that the hook still
 * does.
 */
static void tell_outcome(const struct work *w)
{
	const struct settings *s = w->in->settings;
	int64_t start = w->in->deadline - s->budget_ms * NSEC_PER_MSEC;
	union msg m;
	m.outcome = (struct msg_outcome){.outcome = HOOK_ARMED,
		.strategy = w->parcel.desc.strategy,
		.us = (uint32_t)((clock_now() - start) / 1000)};
	if (w->in->report->in_service)
		msg_send(w->sock, &m, MSG_OUTCOME, NULL, 0);
}

void opener_report(struct opener_report *report, int code, const char *notes, const struct err *e)
{
	report->code = code;
	snprintf(report->text, sizeof(report->text), "%s", e->text);
	snprintf(report->notes, sizeof(report->notes), "%s", notes);
	report->outcome = code == 0 ? OPENER_ARMED : OPENER_FAILED;
}

/* false: outer gave up, and has reported why. */
static bool receive_parcel(struct work *w)
{
	int fds[PARCEL_FDS_MAX];
	size_t n = 0;
	if (fd_wait(w->in->parcel, POLLIN, w->in->deadline) != 1)
		return false;
	ssize_t got = fd_recv(w->in->parcel, &w->parcel, sizeof(w->parcel), fds, sizeof(fds) / sizeof(fds[0]), &n);
	w->n_target = (size_t)__builtin_popcount(w->parcel.desc.fds);
	bool has_cgroup = !w->parcel.no_cgroup[0];
	size_t n_probes = got == sizeof(w->parcel) ? probes_count(&w->parcel.desc) : 0;
	bool sidecar = w->parcel.user_only;
	if (got != sizeof(w->parcel) || n != w->n_target + has_cgroup + n_probes + sidecar)
		return false;
	if (sidecar) {
		fd_close(w->sock);
		w->sock = fds[n - 1];
	}
	memcpy(w->target, fds, w->n_target * sizeof(fds[0]));
	w->cgroup = has_cgroup ? fds[w->n_target] : -1;
	memcpy(w->probes, fds + w->n_target + has_cgroup, n_probes * sizeof(fds[0]));
	return true;
}

/* Becomes the service user, with only the capabilities that opening events takes. */
static int become_opener(bool uprobes, struct err *e)
{
	uid_t uid = NOBODY;
	gid_t gid = NOBODY;
	uint64_t caps = perf_caps(uprobes);
	passwd_user("pillion", &uid, &gid);
	/*
	 * in a user's own namespace no capability counts for perf events but CAP_SYS_PTRACE: with it we may look at an
	 * init that is not dumpable and runs as that user
	 */
	int r = user_dirs_in_userns() ? capabilities_limit(CAP_BIT(CAP_SYS_PTRACE), e)
				      : capabilities_become(uid, gid, caps, e);
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* cleared by the change of user */
	return r;
}

_Noreturn void inner_run(const struct opener_inner *start)
{
	/* set field by field: pages that stay zero are never touched */
	static struct work w;
	struct err e = {0};
	w.in = start;
	/* connect as root, as the kernel notes the peer now: pilliond accepts the layout of records from root */
	w.sock = service_client_reach(start->settings, 0, &w.no_sock);
	event_open_look(&w.host);
	event_open_raise_files();
	int r = become_opener(
		start->settings->policy.uprobes, &e); /* whether uprobes are requested is known only later */
	if (fd_wait(w.in->line, POLLIN, 0) == 1)
		_exit(0); /* the hook is gone: its pid is not visible from here, but EOF on its line is */
	if (r == 0)
		r = seccomp_enter(SECCOMP_OPENER, &e);
	if (!receive_parcel(&w))
		_exit(0);
	if (r == 0)
		r = open_target_events(&w, &e);
	opener_report(start->report, r, w.parcel.desc.notes, &e);
	fd_close(start->line); /* wakes the hook while our memory is being given back */
	if (r == 0)
		tell_outcome(&w);
	_exit(0);
}
