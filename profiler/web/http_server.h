/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_server - a few pages on a socket that listens already, by libmicrohttpd: GET and HEAD, bounded in connections,
 * memory and time, in the caller's loop. The only file that knows the library.
 *
 * The library is loaded when it is needed (dlopen(3)): it brings a TLS library along, of which nothing is used, and
 * which would cost every start of a session. It must be loaded before a seccomp role is entered.
 *
 * On a Unix socket its mode says who may ask. With a port anybody on the machine could, and so could a web page by way
 * of a browser: who asks must name the machine itself (Host: 127.0.0.1:PORT or localhost:PORT), and know a token
 * (Authorization: Bearer TOKEN).
 *
 * A browser says no token of its own. A person opens /login?token=TOKEN once, and is sent on to a way of his own, whose
 * cookie the browser keeps to itself: HttpOnly, SameSite=Strict, and for that way alone, because cookies know no ports:
 * whoever else listens on this machine is sent no cookie of a way that he does not know. Both are new at each start.
 *
 * HTTP_BROWSER_PAGE is for people: it is refused to whoever calls us by a name that is not this machine's, also on a
 * Unix socket, which somebody may have made a port of (ssh -L), and to what another web site asks for. Its answers let
 * the browser run and load nothing but what its kind says.
 */
#pragma once

#include "oci/base/err.h"
#include "oci/base/event_loop.h"

#include <stddef.h>
#include <stdint.h>

#define HTTP_CONNECTIONS_MAX 16
#define HTTP_MEMORY_MAX (16u << 10) /* of a connection: its request, and what stands before its answer */
#define HTTP_IDLE_S 5
#define HTTP_WHOLE_S 10	      /* from its beginning to its end, for one request */
#define HTTP_PATIENCE_MS 2000 /* for an answer that is not there yet */
/* Of what is for people, which takes longer: so many at once, that others find a place still. */
#define HTTP_OTHER_MAX 8
#define HTTP_OTHER_WHOLE_S 60
#define HTTP_OTHER_PATIENCE_MS 25000
#define HTTP_NONCE 33

enum http_page { HTTP_BROWSER_PAGE, HTTP_METRICS, HTTP_HEALTH };
enum http_kind { HTTP_TEXT, HTTP_EXPOSITION, HTTP_HTML, HTTP_GRAPH, HTTP_PICTURE, HTTP_PROFILE, HTTP_JSON };

struct http_asked {
	enum http_page page;
	const char *path; /* HTTP_BROWSER_PAGE: decoded, below the way */
	char nonce[HTTP_NONCE];
	void *of; /* the owner's; NULL at first */
	void *connection;
};

struct http_answer {
	unsigned status;
	enum http_kind kind;
	char *text; /* malloc'ed, taken; NULL: */
	size_t len;
	int fd;		  /* a regular file, taken */
	const char *file; /* it is to be saved under this name; NULL or "": it is to be seen */
};

struct http_pages {
	void *arg;
	/* Wanted. 1: it can be made at once, else http_ready() will be called, and this again, or the patience ends. */
	int (*want)(void *arg, struct http_asked *asked);
	/* Made, also when the patience has ended. 0, -ENOMEM. */
	int (*make)(void *arg, struct http_asked *asked, struct http_answer *ret);
	void (*forget)(void *arg, struct http_asked *asked); /* it is over */
};

struct http;
int http_load(struct err *e); /* once; -ENOENT: the library is not there, `e` names the package */
/* listener: borrowed. port, token: see above; 0, "": a Unix socket. */
int http_new(struct event_loop *l, int listener, uint16_t port, const char *token, const struct http_pages *pages,
	struct http **ret, struct err *e);
struct http *http_free(struct http *h);
void http_ready(struct http *h); /* what was wanted can be made, some of it */
const char *http_argument(const struct http_asked *asked, const char *name); /* "" = it has none */
/* Milliseconds until there is something to do, -1: when something happens. */
int http_round(struct http *h, int64_t now);
