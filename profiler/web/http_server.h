/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_server - serves a few pages on a socket that listens already, by libmicrohttpd: GET and HEAD, bounded in
 * connections, memory and time, in the caller's loop. The only file that knows the library.
 *
 * The library is loaded when it is needed (dlopen(3)): it brings in a TLS library, which is not used and would cost
 * every start of a session. It must be loaded before a seccomp role is entered.
 *
 * The mode of a Unix socket says which users may ask. To a port every process on the machine could connect, and so
 * could a web page by way of a browser: a request must name the machine itself (Host: 127.0.0.1:PORT or
 * localhost:PORT), and have a token (Authorization: Bearer TOKEN).
 *
 * A browser sends no token of its own. A person opens /login?token=TOKEN once, and is sent on to a secret path, the
 * way. The way's cookie is HttpOnly, SameSite=Strict, and for the way alone, because cookies know no ports: another
 * server on this machine gets no cookie without knowing the way. Both are new at each start.
 *
 * HTTP_BROWSER_PAGE is for people. Requests for it are refused if they name another host than this machine, also on a
 * Unix socket, which may be forwarded to a port (ssh -L), and if another web site caused them. A policy for each kind
 * of answer limits the scripts and the content that a browser runs and loads.
 */
#pragma once

#include "oci/base/err.h"
#include "oci/base/event_loop.h"

#include <stddef.h>
#include <stdint.h>

#define HTTP_CONNECTIONS_MAX 16
#define HTTP_MEMORY_MAX (16u << 10) /* of a connection: its request, and the header of its answer */
#define HTTP_IDLE_S 5
#define HTTP_WHOLE_S 10	      /* from its beginning to its end, for one request */
#define HTTP_PATIENCE_MS 2000 /* a request waits no longer for its answer */
/* For HTTP_BROWSER_PAGE, which takes longer: at most so many at once that other requests find a place still. */
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
	char *text; /* malloc'ed, taken; NULL: `fd` is the answer */
	size_t len;
	int fd;		  /* a regular file, taken */
	const char *file; /* saved under this name; NULL or "": displayed */
};

struct http_pages {
	void *arg;
	/* Asks for a page. 1: it can be made at once; else the owner calls http_ready(), and this is called again,
	 * or the patience ends. */
	int (*want)(void *arg, struct http_asked *asked);
	/* Makes the page, also when the patience has ended. 0, -ENOMEM. */
	int (*make)(void *arg, struct http_asked *asked, struct http_answer *ret);
	void (*forget)(void *arg, struct http_asked *asked); /* the request is over */
};

struct http;
int http_load(struct err *e); /* once; -ENOENT: the library is not there, `e` names the package */
/* listener: borrowed. port, token: see above; 0, "": a Unix socket. */
int http_new(struct event_loop *l, int listener, uint16_t port, const char *token, const struct http_pages *pages,
	struct http **ret, struct err *e);
struct http *http_free(struct http *h);
void http_ready(struct http *h);					     /* some wanted pages can be made */
const char *http_argument(const struct http_asked *asked, const char *name); /* "" = it has none */
/* Returns the milliseconds until there is something to do; -1: only after an event. */
int http_round(struct http *h, int64_t now);
