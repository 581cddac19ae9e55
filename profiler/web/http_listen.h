/*
 * http_listen - the socket where metrics are served, opened while we are privileged: `metrics` of pillion.conf.
 *
 *	(nothing)	http.sock beside the control socket, which is /run/pillion/http.sock
 *	/PATH		a Unix socket there, 0660, root and the group of the service
 *	127.0.0.1:PORT	and a token (below)
 *	off		nowhere
 *
 * The token is in http.token beside the control socket (0640, the same owners). One that is there already is kept:
 * whoever scrapes was told it.
 */
#pragma once

#include "oci/config/options.h"
#include "profiler/daemon/exporter.h"

#include <sys/types.h>

/*
 * Fills in http, port, token of `ret`; -1 where it is off. Also on failure, which is no reason to end. `instead`: who
 * listens there still is the exporter of a supervisor that was killed.
 */
int http_listen(const struct settings *set, gid_t gid, bool instead, struct exporter_setup *ret, struct err *e);
