/*
 * http - a few pages on a socket that listens already, by libmicrohttpd: GET and HEAD, bounded in connections, memory
 * and time, in the caller's loop. The only file that knows the library.
 *
 * The library is loaded when it is needed (dlopen(3)): it brings a TLS library along, of which nothing is used, and
 * which would cost every start of a session. It must be loaded before a seccomp role is entered.
 *
 * On a Unix socket its mode says who may ask. With a port anybody on the machine could, and so could a web page by way
 * of a browser: who asks must name the machine itself (Host: 127.0.0.1:PORT or localhost:PORT), and know a token
 * (Authorization: Bearer TOKEN).
 */
#pragma once

#include "oci/base/err.h"
#include "profiler/loop.h"

#include <stddef.h>
#include <stdint.h>

#define HTTP_CONNECTIONS_MAX 16
#define HTTP_MEMORY_MAX (16u << 10) /* of a connection: its request, and what stands before its answer */
#define HTTP_IDLE_S 5
#define HTTP_WHOLE_S 10	      /* from its beginning to its end, for one request */
#define HTTP_PATIENCE_MS 2000 /* for an answer that is not there yet */

enum http_page { HTTP_NONE, HTTP_METRICS, HTTP_HEALTH };

struct http_pages {
	void *arg;
	/* Wanted. 1: it can be made at once, else http_ready() will be called, or the patience ends. */
	int (*want)(void *arg, enum http_page page);
	/* Made: the text, malloc'ed, its length and status (200, 503); NULL: no memory. */
	char *(*make)(void *arg, enum http_page page, size_t *ret_len, unsigned *ret_status);
};

struct http;
int http_load(struct err *e); /* once; -ENOENT: the library is not there, `e` names the package */
/* listener: borrowed. port, token: see above; 0, "": a Unix socket. */
int http_new(struct loop *l, int listener, uint16_t port, const char *token, const struct http_pages *pages,
	struct http **ret, struct err *e);
struct http *http_free(struct http *h);
void http_ready(struct http *h); /* what was wanted can be made */
/* Milliseconds until there is something to do, -1: when something happens. */
int http_round(struct http *h, int64_t now);
