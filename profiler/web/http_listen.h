/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_listen - opens the socket for metrics, while we are privileged: `metrics` of pillion.conf.
 *
 *	(nothing)	http.sock beside the control socket, which is /run/pillion/http.sock
 *	/PATH		a Unix socket there, 0660, root and the group of the service
 *	127.0.0.1:PORT	and a token (below)
 *	off		nowhere
 *
 * The token is in http.token beside the control socket (0640, the same owners). A token that is there already is kept:
 * scrapers were configured with it.
 */
#pragma once

#include "oci/config/options.h"

#include <stdint.h>
#include <sys/types.h>

struct http_listener {
	int fd;		/* -1: metrics are not served */
	uint16_t port;	/* 0: a Unix socket. With a port, a client needs the token, and no foreign Host: */
	char token[40]; /* "" = none */
};

/*
 * Opens the socket. Fills in all of `ret`, also on failure, which is no reason to end: 0, or -errno with a sentence.
 * `instead`: the exporter of a supervisor that was killed may listen there still.
 */
int http_listen(const struct settings *set, gid_t gid, bool instead, struct http_listener *ret, struct err *e);
