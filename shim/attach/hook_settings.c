/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/attach/hook_settings.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "oci/config/user_dirs.h"
#include "shim/protocol/service_client.h"

#include <stdio.h>
#include <string.h>

int hook_settings_settings(struct options *o, const char *etc, int argc, char **argv, struct err *e)
{
	char path[512];
	struct err later;
	const bool rootless = user_dirs_rootless(), system = !strcmp(etc, OPTIONS_ETC);
	options_default(o);
	snprintf(o->settings.paths.etc, sizeof(o->settings.paths.etc), "%s", etc);
	snprintf(path, sizeof(path), "%.480s/policy.conf", etc);
	int r = options_read_file(o, OPTION_POLICY, path, e);
	snprintf(path, sizeof(path), "%.480s/pillion.conf", etc);
	if (rootless && !system)
		user_dirs_use(o);
	int file = options_read_file(o, OPTION_FILE, path, r < 0 ? &later : e);
	r = r < 0 ? r : file;
	if (rootless && system)
		user_dirs_use(o); /* the places named in the system's file are root's */
	int user = rootless ? user_dirs_read_user(o, r < 0 ? &later : e) : 0;
	r = r < 0 ? r : user;
	int rest, flags = options_read_flags(o, argc, argv, &rest, r < 0 ? &later : e);
	return r < 0 ? r : flags;
}

void hook_settings_outcome(const struct settings *s, enum hook_outcome outcome, int64_t start)
{
	struct err unheard;
	int sock = service_client_connect(s->paths.control, &unheard);
	if (sock < 0)
		return;
	union msg m;
	m.outcome = (struct msg_outcome){.outcome = outcome, .us = (uint32_t)((clock_now() - start) / 1000)};
	msg_send(sock, &m, MSG_OUTCOME, NULL, 0);
	fd_close(sock);
}
