/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_client - requests of push_encode.h to a server, through libcurl: several at once, in one thread that waits for
 * all of them. The library is looked for when it is wanted (libcurl.so.4, or the flavour with GnuTLS): a `pillion`
 * without it does everything else.
 *
 * TLS 1.2 or later, and the server's certificate is checked; no redirect is followed, as a token would go with it. What
 * a server answers is a stranger's: its first 4 KiB are read for a sentence, and made safe to print. Every transfer has
 * an end (HTTP_CLIENT_CONNECT_S, HTTP_CLIENT_S).
 */
#pragma once

#include "oci/base/err.h"
#include "profiler/push/push_encode.h"
#include "profiler/push/push_endpoint.h"

#include <stdint.h>

#define HTTP_CLIENT_CONNECT_S 10
#define HTTP_CLIENT_S 60		/* without a byte; or for all of it, and what */
#define HTTP_CLIENT_SLOWEST (16u << 10) /* bytes a second need */
#define HTTP_CLIENT_LATER_MAX_S 300	/* of what a server asks for by Retry-After */

enum http_client_outcome {
	HTTP_CLIENT_DONE,
	HTTP_CLIENT_LATER,     /* the same once more: nobody there, 401, 403, 404, 408, 429, 5xx, a redirect, ... */
	HTTP_CLIENT_REFUSED,   /* never: 400, 422 and the like */
	HTTP_CLIENT_TOO_LARGE, /* 413 */
};

struct http_response {
	enum http_client_outcome outcome;
	unsigned status;  /* of HTTP, 0: there was none */
	uint32_t later_s; /* as the server asks, 0: it does not say */
	uint64_t refused; /* profiles of one that is done, which OTLP's server did not take */
	struct err why;	  /* of all but HTTP_CLIENT_DONE, and of refused ones */
};

struct transfers;

/* Before the seccomp role SECCOMP_PUSH is entered: what cannot be loaded later. -ENOENT: there is no libcurl. */
int transfers_open(const struct push_endpoint *p, struct transfers **ret, struct err *e); /* p: borrowed */
struct transfers *transfers_close(struct transfers *t); /* what is under way is let go */
/* `r` is borrowed until it is answered; `of` is given back with that. */
int transfers_start(struct transfers *t, const struct push_request *r, void *of);
/* Goes on with what is under way until one has an answer, or so long. 0, or -errno. */
int transfers_wait(struct transfers *t, int timeout_ms);
/* The answers that there are: false, there is none. */
bool transfers_next(struct transfers *t, void **ret_of, struct http_response *ret);
