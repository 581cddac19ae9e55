/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/protocol/connect.h"

#include "oci/base/fd.h"
#include "oci/base/process/child_process.h"
#include "shim/protocol/service_client.h"
#include "shim/protocol/session_start.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

int connect_output(struct settings *s, pid_t pid, struct err *e)
{
	char here[sizeof(s->paths.output)], given[sizeof(s->paths.output)];
	snprintf(given, sizeof(given), "%s", s->paths.output);
	if (!given[0])
		snprintf(given, sizeof(given), "pillion-%d", (int)pid);
	if (given[0] == '/')
		return snprintf(s->paths.spool, sizeof(s->paths.spool), "%s", given), 0;
	if (!getcwd(here, sizeof(here)))
		return err_set(e, -errno, "no directory to write to");
	if (snprintf(s->paths.spool, sizeof(s->paths.spool), "%s/%s", here, given) >= (int)sizeof(s->paths.spool))
		return err_set(e, -ENAMETOOLONG, "%s", given);
	return 0;
}

static int start_session(const struct settings *settings, const char *id, uint64_t start_time, uint32_t hello,
	int64_t deadline, struct reached *ret, struct err *e)
{
	struct session s = {.settings = settings,
		.id = id,
		.start_time = start_time,
		.share_cgroup = true,
		.keeper = child_process_inherits_orphans()};
	int sock = session_start(&s, deadline, e);
	snprintf(ret->note, sizeof(ret->note), "%s", s.note);
	int r = sock < 0 ? sock : service_client_greet(sock, settings, hello, e);
	return r < 0 ? fd_close(sock), r : sock;
}

/* No service, or none for us: the control socket is for root and the group pillion. */
static bool is_absent(int error)
{
	return error == -ENOENT || error == -ECONNREFUSED || error == -EACCES || error == -EPERM || error == -ENOTDIR;
}

int connect_profiler(const struct settings *s, const char *id, uint64_t start_time, uint32_t hello, int64_t deadline,
	struct reached *ret, struct err *e)
{
	ret->note[0] = 0;
	/* a service writes to its own spool alone */
	ret->sock = s->command.output_explicit ? -ENOENT : service_client_reach(s, hello, e);
	ret->in_service = ret->sock >= 0;
	if (is_absent(ret->sock))
		ret->sock = start_session(s, id, start_time, hello, deadline, ret, e);
	return ret->sock < 0 ? ret->sock : 0;
}
