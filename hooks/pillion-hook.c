/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pillion-hook - the OCI hook: `pillion-hook [--etc DIR] [options]`, state JSON on stdin. One registration serves two
 * stages: at createRuntime (or prestart) it attaches, at poststop, when the state says "stopped", it tidies up.
 * pillion-runc calls it, too, between create and start: then the init has the container's own root already.
 *
 * Privileges: root, in the runtime's namespaces, between a container's creation and its start. Promise: exit 0 whatever
 * becomes of the profile (1 only under the administrator's `strict`), within the budget.
 *
 *	1. kill switch, settings, policy			(this process)
 *	2. state and config.json -> one struct			(a child without capabilities:
 *								 oci/runtime/hook_input_child.h)
 *	3. reach pilliond, open events and pass them		(two short-lived children: shim/attach/opener.h)
 *	4. where no service listens: start a session		(this process: shim/protocol/session_start.h)
 *	5. one line to the log
 *
 * This process parses nothing that a tenant wrote and opens no perf event. Its children die with it.
 */
#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "oci/base/log.h"
#include "oci/base/process/child_process.h"
#include "oci/runtime/hook_input_child.h"
#include "shim/attach/hook_settings.h"
#include "shim/attach/opener.h"
#include "shim/protocol/messages.h"
#include "shim/protocol/service_client.h"
#include "shim/protocol/session_start.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define POSTSTOP_WAIT_MS 400
#define STATE_NS (500 * NSEC_PER_MSEC) /* for a runtime to write a state that is not needed */
#define STATE_MORE_NS (20 * NSEC_PER_MSEC)

static struct options options;
static struct hook_input_child intake;
static struct opener opener;

/* A notice, best effort: pilliond sees the end of a target by itself. */
static int stop_session(const char *id, int64_t start, struct err *e)
{
	int sock = service_client_connect(options.settings.paths.control, e);
	if (sock >= 0) {
		union msg m;
		m.stop = (struct msg_stop){0};
		snprintf(m.stop.id, sizeof(m.stop.id), "%s", id);
		msg_send(sock, &m, MSG_STOP, NULL, 0);
		fd_close(sock);
	}
	session_clean(id, start + POSTSTOP_WAIT_MS * NSEC_PER_MSEC);
	return 0;
}

/* The log's text for a policy of "one container of N", "" without such a policy. */
static const char *format_sampling(char *buf, size_t size)
{
	buf[0] = 0;
	if (options.settings.policy.sample > 1)
		snprintf(buf, size, " sampled=\"one container of %u\"", options.settings.policy.sample);
	return buf;
}

static int run(int64_t start, struct err *e)
{
	char notes[640], sampled[48];
	int r = opener_start(
		&opener, &intake, &options.settings, start + options.settings.budget_ms * NSEC_PER_MSEC, e);
	if (r < 0)
		return r;
	const struct container *c = &opener.container;
	switch (opener_wait(&opener, notes, sizeof(notes), e)) {
	case OPENER_ARMED:
		log_line(notes[0] ? LOG_WARNING : LOG_INFO, "container=%s pid=%d outcome=armed ms=%.1f%s notes=\"%s\"",
			c->id, c->pid, (double)(clock_now() - start) / NSEC_PER_MSEC,
			format_sampling(sampled, sizeof(sampled)), notes);
		return 0;
	case OPENER_UNSAMPLED:
		hook_settings_outcome(&options.settings, HOOK_UNSAMPLED, start);
		log_line(LOG_INFO,
			"container=%s pid=%d outcome=unsampled reason=\"policy: one container of %u is profiled\"",
			c->id, c->pid, options.settings.policy.sample);
		return 0;
	case OPENER_FORBIDDEN: /* also under strict: the administrator has it so */
		hook_settings_outcome(&options.settings, HOOK_UNPROFILED, start);
		log_line(LOG_WARNING, "container=%s pid=%d outcome=forbidden reason=\"%s\"", c->id, c->pid, e->text);
		return 0;
	case OPENER_STOPPED:
		return c->id[0] && container_sampled(c->id, options.settings.policy.sample)
			       ? stop_session(c->id, start, e)
			       : 0;
	case OPENER_FAILED:
		return e->code == -EALREADY ? 0 : e->code < 0 ? e->code : -EIO; /* old runtimes call hooks twice */
	default:
		return 0;
	}
}

/* The one place where a failure may become the container's: under `strict`, which only the administrator sets. */
static int report_result(int r, int64_t start, const struct err *e)
{
	const struct container *c = &opener.container;
	char text[sizeof(e->text)];
	if (r == 0 || options_off(options.settings.paths.etc) == 1) /* switched off meanwhile */
		return 0;
	log_line(LOG_WARNING, "container=%s pid=%d outcome=%s reason=\"%s\"", c->id[0] ? c->id : "?", c->pid,
		options.settings.strict ? "refused" : "unprofiled", e->text);
	if (fd_wait(2, POLLOUT, 0) == 1) /* a runtime that reads no stderr must not hold us up */
		dprintf(2, "pillion-hook: %s%s\n", err_clean(text, e),
			options.settings.strict ? " (policy: strict)" : "; the container starts without a profile");
	hook_settings_outcome(&options.settings, options.settings.strict ? HOOK_REFUSED : HOOK_UNPROFILED, start);
	return options.settings.strict ? 1 : 0;
}

/*
 * Reads the state even if it is not needed: a runtime that cannot write it to its end fails the start (crun: EPIPE).
 * Some runtimes keep the pipe open behind it.
 */
static void swallow_state(int64_t start)
{
	char bytes[4096];
	int64_t deadline = start + STATE_NS;
	while (fd_wait(0, POLLIN, deadline) == 1 && read(0, bytes, sizeof(bytes)) > 0) {
		int64_t more = deadline_in(STATE_MORE_NS);
		deadline = more < deadline ? more : deadline;
	}
}

int main(int argc, char **argv)
{
	int64_t start = clock_now();
	struct err e = {0};
	const char *etc = OPTIONS_ETC;

	signal(SIGPIPE, SIG_IGN);
	signal(SIGCHLD, SIG_DFL); /* an ignored SIGCHLD would reap our children before we could ask how they ended */
	fd_close_all_but(NULL, 0);
	fd_null_stdio(0);
	if (argc > 2 && !strcmp(argv[1], "--etc")) {
		etc = argv[2];
		argc -= 2, argv += 2;
	}
	if (options_off(etc) == 1) {
		swallow_state(start);
		return 0;
	}
	struct err no_reader = {0};
	int reads = hook_input_child_start(&intake, 0, &no_reader); /* it needs none of our settings */
	int r = hook_settings_settings(&options, etc, argc, argv, &e);
	log_open("pillion-hook", options.settings.paths.log[0] ? options.settings.paths.log : NULL);
	log_level(options.settings.log_level);
	if (r == 0 && options.settings.enabled)
		r = reads < 0 ? err_say(&e, reads, "%s", no_reader.text) : run(start, &e);
	opener_done(&opener);
	hook_input_child_done(&intake); /* no zombie for the runtime to find */
	swallow_state(start);
	return report_result(r, start, &e);
}
