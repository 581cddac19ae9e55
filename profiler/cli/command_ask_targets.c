/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/cli/command.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "profiler/view/target_table.h"
#include "shim/protocol/service_client.h"

#include <errno.h>

#define ASK_NS (10 * NSEC_PER_SEC)

static int cannot_ask(const char *self, const char *control, const char *daemon, int error, const struct err *e)
{
	if (error == -ENOENT || error == -ENOTDIR || error == -ECONNREFUSED)
		return command_fail(self, EXIT_FAILED,
			"no pilliond listens at %s: start one as root with '%s --control %s'", control, daemon,
			control);
	if (error == -EACCES || error == -EPERM)
		return command_fail(self, EXIT_FAILED,
			"only root and the members of users_group may list targets of pilliond: %s", e->text);
	return command_fail(self, EXIT_FAILED, "%s", e->text);
}

int command_ask_targets(const char *self, const char *control, const char *daemon, struct target_table *ret)
{
	struct err e = {0};
	fd_auto sock = service_client_connect_anyway(control, &e);
	if (sock < 0)
		return cannot_ask(self, control, daemon, sock, &e);
	return target_table_ask(sock, deadline_in(ASK_NS), ret, &e) < 0 ? command_fail(self, EXIT_FAILED, "%s", e.text)
									: EXIT_DONE;
}
