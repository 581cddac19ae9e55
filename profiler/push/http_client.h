/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_client - sends requests of push_encode.h to a server through libcurl: several at once, in one thread that waits
 * for all of them. It loads the library (libcurl.so.4, or the flavour with GnuTLS) only when needed: a `pillion`
 * without libcurl does everything else.
 *
 * TLS 1.2 or later; the server's certificate is checked. Redirects are not followed, because the token would go along.
 * A server's answer is not trusted: its first 4 KiB are read for a message and made safe to print. Every transfer has a
 * time limit (HTTP_CLIENT_CONNECT_S, HTTP_CLIENT_S).
 */
#pragma once

#include "oci/base/err.h"
#include "profiler/push/push_encode.h"
#include "profiler/push/push_endpoint.h"

#include <stdint.h>

#define HTTP_CLIENT_CONNECT_S 10
#define HTTP_CLIENT_S 60		/* without a byte; or for a whole transfer, plus its body at */
#define HTTP_CLIENT_SLOWEST (16u << 10) /* this rate, in bytes per second */
#define HTTP_CLIENT_LATER_MAX_S 300	/* upper bound of a server's Retry-After */

enum http_client_outcome {
	HTTP_CLIENT_DONE,
	HTTP_CLIENT_LATER,     /* send it again: no connection, 401, 403, 404, 408, 429, 5xx, a redirect, ... */
	HTTP_CLIENT_REFUSED,   /* never send it again: 400, 422 and the like */
	HTTP_CLIENT_TOO_LARGE, /* 413 */
};

struct http_response {
	enum http_client_outcome outcome;
	unsigned status;  /* of HTTP; 0: no answer */
	uint32_t later_s; /* from Retry-After; 0: none */
	uint64_t refused; /* profiles that an OTLP server rejected in a request that is done */
	struct err why;	  /* of all but HTTP_CLIENT_DONE, and of rejected profiles */
};

struct transfers;

/* Loads libcurl: call it before entering the seccomp role SECCOMP_PUSH. -ENOENT: there is no libcurl. */
int transfers_open(const struct push_endpoint *p, struct transfers **ret, struct err *e); /* p: borrowed */
struct transfers *transfers_close(struct transfers *t); /* aborts transfers under way */
/* Starts a request. `r` is borrowed until its answer is there; transfers_next() returns `of` with the answer. */
int transfers_start(struct transfers *t, const struct push_request *r, void *of);
/* Drives the transfers; waits at most `timeout_ms` for activity. 0, or -errno. */
int transfers_wait(struct transfers *t, int timeout_ms);
/* Takes the next answer; false: there is none. */
bool transfers_next(struct transfers *t, void **ret_of, struct http_response *ret);
