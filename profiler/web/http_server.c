/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/web/http_server.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "oci/base/shared_library.h"

#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define LIBRARY "libmicrohttpd.so.12"
#define HTTP_PATH_MAX 512
#define ASK_AGAIN_NS (200 * NSEC_PER_MSEC)
#define SECRET 33 /* 16 bytes as text */

/* A request that waits for its page. */
struct waiting {
	struct waiting *next;
	struct MHD_Connection *connection;
	struct http_asked asked;
	char path[HTTP_PATH_MAX];
	bool waits, answered;
	int64_t deadline;
};

struct place {
	struct MHD_Connection *connection; /* NULL: it is free */
	int64_t until;
};

struct http {
	struct event_loop *loop;
	struct event_loop_source source;
	struct MHD_Daemon *daemon;
	struct http_pages pages;
	struct waiting *waiting;
	struct place places[HTTP_CONNECTIONS_MAX];
	uint16_t port;
	bool freed; /* a connection ended in this run, so that another one may have its place */
	char token[64];
	char way[SECRET], cookie[SECRET]; /* of a person with the token */
};

static struct {
	void *library;
	__typeof__(&MHD_start_daemon) start_daemon;
	__typeof__(&MHD_quiesce_daemon) quiesce_daemon;
	__typeof__(&MHD_stop_daemon) stop_daemon;
	__typeof__(&MHD_run) run;
	__typeof__(&MHD_get_timeout) get_timeout;
	__typeof__(&MHD_get_daemon_info) get_daemon_info;
	__typeof__(&MHD_get_connection_info) get_connection_info;
	__typeof__(&MHD_suspend_connection) suspend_connection;
	__typeof__(&MHD_resume_connection) resume_connection;
	__typeof__(&MHD_lookup_connection_value) lookup_connection_value;
	__typeof__(&MHD_create_response_from_buffer) create_response_from_buffer;
	__typeof__(&MHD_create_response_from_fd64) create_response_from_fd64;
	__typeof__(&MHD_add_response_header) add_response_header;
	__typeof__(&MHD_queue_response) queue_response;
	__typeof__(&MHD_destroy_response) destroy_response;
} mhd;

int http_load(struct err *e)
{
	const char *missing;
	const struct shared_library_symbol symbols[] = {
		{"MHD_start_daemon", &mhd.start_daemon},
		{"MHD_quiesce_daemon", &mhd.quiesce_daemon},
		{"MHD_stop_daemon", &mhd.stop_daemon},
		{"MHD_run", &mhd.run},
		{"MHD_get_timeout", &mhd.get_timeout},
		{"MHD_get_daemon_info", &mhd.get_daemon_info},
		{"MHD_get_connection_info", &mhd.get_connection_info},
		{"MHD_suspend_connection", &mhd.suspend_connection},
		{"MHD_resume_connection", &mhd.resume_connection},
		{"MHD_lookup_connection_value", &mhd.lookup_connection_value},
		{"MHD_create_response_from_buffer", &mhd.create_response_from_buffer},
		{"MHD_create_response_from_fd64", &mhd.create_response_from_fd64},
		{"MHD_add_response_header", &mhd.add_response_header},
		{"MHD_queue_response", &mhd.queue_response},
		{"MHD_destroy_response", &mhd.destroy_response},
		{0},
	};
	if (mhd.library)
		return 0;
	setenv("GNUTLS_NO_IMPLICIT_INIT", "1", 1); /* it is not used: no memory, no files */
	mhd.library = shared_library_open((const char *[]){LIBRARY, NULL}, RTLD_LAZY, symbols, &missing);
	if (missing)
		return err_say(e, -ENOENT, LIBRARY " is too old: it has no %s", missing);
	return mhd.library ? 0 : err_say(e, -ENOENT, LIBRARY " is not there; install the package libmicrohttpd12");
}

/* --- connections ---------------------------------------------------------------------------------------- */

/*
 * With all places taken the library listens no more, and looks for a free one at the beginning of a run. A peer that
 * connects and hangs up without end would keep us here: after HTTP_CONNECTIONS_MAX runs the loop has its turn
 * (http_round).
 */
static void run(struct http *h)
{
	unsigned n = 0;
	do {
		h->freed = false;
		mhd.run(h->daemon);
	} while (h->freed && ++n < HTTP_CONNECTIONS_MAX);
}

static void on_connection(void *arg, struct MHD_Connection *c, void **mine, enum MHD_ConnectionNotificationCode code)
{
	struct http *h = arg;
	bool begins = code == MHD_CONNECTION_NOTIFY_STARTED;
	struct place *p = h->places;
	while (p < h->places + HTTP_CONNECTIONS_MAX && p->connection != (begins ? NULL : c))
		p++;
	if (p < h->places + HTTP_CONNECTIONS_MAX)
		*p = (struct place){begins ? c : NULL, begins ? deadline_in(HTTP_WHOLE_S * NSEC_PER_SEC) : 0};
	h->freed |= !begins;
}

/* The library limits only idle time: a peer that sends a byte now and then would keep its place for good. The
 * library closes connections that we shut down. */
static int64_t cut_late(struct http *h, int64_t now)
{
	int64_t first = INT64_MAX;
	for (struct place *p = h->places; p < h->places + HTTP_CONNECTIONS_MAX; p++) {
		if (p->connection && p->until <= now) {
			shutdown(mhd.get_connection_info(p->connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd,
				SHUT_RDWR);
			p->until = INT64_MAX;
		}
		if (p->connection && p->until < first)
			first = p->until;
	}
	return first;
}

/* --- answering ------------------------------------------------------------------------------------------ */

/* The browser's policy for an answer: nothing comes from elsewhere, and no script runs but the graph's own. */
#define POLICY "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; "
static const struct {
	const char *type, *policy; /* %s: the nonce */
} kinds[] = {
	[HTTP_TEXT] = {"text/plain; charset=utf-8", POLICY},
	[HTTP_EXPOSITION] = {"text/plain; version=0.0.4; charset=utf-8", POLICY},
	[HTTP_HTML] = {"text/html; charset=utf-8", POLICY "form-action 'self'; style-src 'nonce-%s'"},
	[HTTP_GRAPH] = {"text/html; charset=utf-8",
		POLICY "form-action 'none'; style-src 'nonce-%s'; script-src 'nonce-%s'"},
	[HTTP_PICTURE] = {"image/svg+xml; charset=utf-8", POLICY "style-src 'unsafe-inline'"},
	[HTTP_PROFILE] = {"application/octet-stream", POLICY},
	[HTTP_JSON] = {"application/json", POLICY},
};

struct header {
	const char *name, *value;
};

static void add_headers(struct MHD_Response *r, enum http_kind kind, const char *nonce)
{
	char policy[256];
	const struct header headers[] = {
		{"Connection", "close"}, /* else cut_late() might end it within a later request */
		{"Content-Type", kinds[kind].type},
		{"Content-Security-Policy", policy},
		{"Cache-Control", "no-store"},
		{"X-Content-Type-Options", "nosniff"},
		{"Referrer-Policy", "no-referrer"},
		{"Cross-Origin-Resource-Policy", "same-origin"},
	};
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	snprintf(policy, sizeof(policy), kinds[kind].policy, nonce, nonce);
#pragma GCC diagnostic pop
	for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++)
		mhd.add_response_header(r, headers[i].name, headers[i].value);
}

static enum MHD_Result send_response(struct MHD_Connection *c, unsigned status, struct MHD_Response *r)
{
	enum MHD_Result sent = mhd.queue_response(c, status, r);
	mhd.destroy_response(r);
	return sent;
}

/* Answers with a sentence. */
static enum MHD_Result send_error(
	struct MHD_Connection *c, unsigned status, const char *text, const char *header, const char *value)
{
	struct MHD_Response *r =
		mhd.create_response_from_buffer(strlen(text), (char *)(uintptr_t)text, MHD_RESPMEM_PERSISTENT);
	if (!r)
		return MHD_NO;
	add_headers(r, HTTP_TEXT, "");
	if (header)
		mhd.add_response_header(r, header, value);
	return send_response(c, status, r);
}

/* Names come from the spool: characters that may end the header are replaced. */
static void add_file_name(struct MHD_Response *r, const char *file)
{
	char text[320];
	int n = snprintf(text, sizeof(text), "attachment; filename=\"%s", file);
	n = n < (int)sizeof(text) - 2 ? n : (int)sizeof(text) - 2;
	for (char *c = text + strlen("attachment; filename=\""); c < text + n; c++)
		if (!isalnum((unsigned char)*c) && !strchr("_.-", *c))
			*c = '_';
	memcpy(text + n, "\"", 2);
	mhd.add_response_header(r, "Content-Disposition", text);
}

/* The library takes the text or the descriptor if it makes a response; else they are freed here. */
static struct MHD_Response *response_of(const struct http_answer *a)
{
	struct stat st;
	struct MHD_Response *r = a->text ? mhd.create_response_from_buffer(a->len, a->text, MHD_RESPMEM_MUST_FREE)
				 : fstat(a->fd, &st) == 0 ? mhd.create_response_from_fd64((uint64_t)st.st_size, a->fd)
							  : NULL;
	if (!r && a->text)
		free(a->text);
	else if (!r)
		fd_close(a->fd);
	return r;
}

static enum MHD_Result send_page(struct http *h, struct waiting *w)
{
	struct http_answer a = {.status = 500, .fd = -1};
	w->answered = true;
	if (h->pages.make(h->pages.arg, &w->asked, &a) < 0)
		return send_error(w->connection, 500, "out of memory\n", NULL, NULL);
	struct MHD_Response *r = response_of(&a);
	if (!r)
		return MHD_NO;
	add_headers(r, a.kind, w->asked.nonce);
	if (a.file && a.file[0])
		add_file_name(r, a.file);
	return send_response(w->connection, a.status, r);
}

const char *http_argument(const struct http_asked *asked, const char *name)
{
	const char *value = mhd.lookup_connection_value(asked->connection, MHD_GET_ARGUMENT_KIND, name);
	return value ? value : "";
}

/* --- access --------------------------------------------------------------------------------------------- */

/* "127.0.0.1:9100", also without the port, as some clients say it; port 0: with any */
static bool names_us(const char *host, uint16_t port)
{
	static const char *const names[] = {"127.0.0.1", "localhost"};
	char ours[16];
	snprintf(ours, sizeof(ours), ":%u", port);
	for (size_t i = 0; host && i < sizeof(names) / sizeof(names[0]); i++) {
		const char *rest = host + strlen(names[i]);
		if (!strncasecmp(host, names[i], strlen(names[i])) &&
			(!*rest || !strcmp(rest, ours) || (!port && *rest == ':')))
			return true;
	}
	return false;
}

/* Compares in a time that does not tell where the texts differ. */
static bool is_secret(const char *said, const char *secret)
{
	unsigned char differ = 0;
	size_t len = strlen(secret);
	if (!said || strlen(said) != len)
		return false;
	for (size_t i = 0; i < len; i++)
		differ |= (unsigned char)(said[i] ^ secret[i]);
	return len && !differ;
}

static bool has_token(const char *said, const char *token)
{
	static const char kind[] = "Bearer ";
	return said && !strncasecmp(said, kind, sizeof(kind) - 1) && is_secret(said + sizeof(kind) - 1, token);
}

/* Returns the path below the way, if the request has its cookie; NULL: it is no such request. */
static const char *below_way(const struct http *h, struct MHD_Connection *c, const char *url)
{
	const size_t len = strlen(h->way);
	if (!h->port || url[0] != '/' || strncmp(url + 1, h->way, len) != 0 || url[1 + len] != '/')
		return NULL;
	return is_secret(mhd.lookup_connection_value(c, MHD_COOKIE_KIND, "pillion"), h->cookie) ? url + 1 + len : NULL;
}

static enum MHD_Result log_in(const struct http *h, struct MHD_Connection *c)
{
	char cookie[160], to[SECRET + 4];
	if (!is_secret(mhd.lookup_connection_value(c, MHD_GET_ARGUMENT_KIND, "token"), h->token))
		return send_error(c, 401, "this is not the token: it is in http.token beside the control socket\n",
			"WWW-Authenticate", "Bearer");
	snprintf(cookie, sizeof(cookie), "pillion=%s; Path=/%s/; HttpOnly; SameSite=Strict", h->cookie, h->way);
	snprintf(to, sizeof(to), "/%s/", h->way);
	struct MHD_Response *r = mhd.create_response_from_buffer(0, (char *)(uintptr_t) "", MHD_RESPMEM_PERSISTENT);
	if (!r)
		return MHD_NO;
	add_headers(r, HTTP_TEXT, "");
	mhd.add_response_header(r, "Set-Cookie", cookie);
	mhd.add_response_header(r, "Location", to);
	return send_response(c, 303, r);
}

static enum http_page page_of(const char *path)
{
	return !strcmp(path, "/metrics") ? HTTP_METRICS : !strcmp(path, "/health") ? HTTP_HEALTH : HTTP_BROWSER_PAGE;
}

/* True if a browser says that another site's page, or a mail, caused the request. */
static bool is_foreign(struct MHD_Connection *c)
{
	const char *site = mhd.lookup_connection_value(c, MHD_HEADER_KIND, "Sec-Fetch-Site");
	return site && strcmp(site, "same-origin") != 0 && strcmp(site, "none") != 0;
}

static unsigned count_browser_pages(const struct http *h)
{
	unsigned n = 0;
	for (const struct waiting *w = h->waiting; w; w = w->next)
		n += w->asked.page == HTTP_BROWSER_PAGE;
	return n;
}

/* Returns 1 if it has answered, with *ret. */
static int refuse_other(struct http *h, struct MHD_Connection *c, const char *path, enum MHD_Result *ret)
{
	if (!names_us(mhd.lookup_connection_value(c, MHD_HEADER_KIND, "Host"), h->port))
		*ret = send_error(c, 403, "not this host: pages are there for localhost and 127.0.0.1\n", NULL, NULL);
	else if (is_foreign(c))
		*ret = send_error(c, 403, "asked for by another site: type the address\n", NULL, NULL);
	else if (strlen(path) >= HTTP_PATH_MAX)
		*ret = send_error(c, 414, "the address is too long\n", NULL, NULL);
	else if (count_browser_pages(h) >= HTTP_OTHER_MAX)
		*ret = send_error(
			c, 503, "too many pages are asked for at once: try again in a moment\n", "Retry-After", "5");
	else
		return 0;
	return 1;
}

/* Returns the path of the page; NULL: it has answered, with *ret. */
static const char *let_in(
	struct http *h, struct MHD_Connection *c, const char *url, const char *method, enum MHD_Result *ret)
{
	const char *path = below_way(h, c, url);
	if (h->port && !names_us(mhd.lookup_connection_value(c, MHD_HEADER_KIND, "Host"), h->port))
		*ret = send_error(c, 403, "not this host\n", NULL, NULL);
	else if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
		*ret = send_error(c, 405, "GET and HEAD only\n", "Allow", "GET, HEAD");
	else if (h->port && !strcmp(url, "/login"))
		*ret = log_in(h, c);
	else if (h->port && !path &&
		 !has_token(mhd.lookup_connection_value(c, MHD_HEADER_KIND, "Authorization"), h->token))
		*ret = send_error(
			c, 401, "a token is needed; in a browser: /login?token=TOKEN\n", "WWW-Authenticate", "Bearer");
	else
		return path ? path : url;
	return NULL;
}

/* --- a request ------------------------------------------------------------------------------------------ */

static int make_secret(char buf[static SECRET])
{
	uint8_t bytes[(SECRET - 1) / 2];
	if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
		return -errno;
	for (size_t i = 0; i < sizeof(bytes); i++)
		snprintf(buf + 2 * i, SECRET - 2 * i, "%02x", bytes[i]);
	return 0;
}

/* Pages for people take longer, and so does their transfer through a tunnel. */
static void give_time(struct http *h, struct MHD_Connection *c)
{
	for (struct place *p = h->places; p < h->places + HTTP_CONNECTIONS_MAX; p++)
		if (p->connection == c)
			p->until = deadline_in(HTTP_OTHER_WHOLE_S * NSEC_PER_SEC);
}

static struct waiting *new_waiting(struct http *h, struct MHD_Connection *c, const char *path)
{
	struct waiting *w = calloc(1, sizeof(*w));
	const bool other = page_of(path) == HTTP_BROWSER_PAGE;
	if (!w || make_secret(w->asked.nonce) < 0) {
		free(w);
		return NULL;
	}
	snprintf(w->path, sizeof(w->path), "%s", path);
	w->next = h->waiting;
	w->connection = w->asked.connection = c;
	w->asked.page = page_of(path);
	w->asked.path = w->path;
	w->deadline = deadline_in((other ? HTTP_OTHER_PATIENCE_MS : HTTP_PATIENCE_MS) * NSEC_PER_MSEC);
	if (other)
		give_time(h, c);
	h->waiting = w;
	return w;
}

static enum MHD_Result on_request(void *arg, struct MHD_Connection *c, const char *url, const char *method,
	const char *version, const char *data, size_t *size, void **mine)
{
	struct http *h = arg;
	struct waiting *w = *mine;
	enum MHD_Result r = MHD_NO;
	if (w && w->answered) { /* the body of a request is not read */
		*size = 0;
		return MHD_YES;
	}
	if (w && !w->waits)
		return send_page(h, w);
	if (w)
		return MHD_YES;
	const char *path = let_in(h, c, url, method, &r);
	if (!path || (page_of(path) == HTTP_BROWSER_PAGE && refuse_other(h, c, path, &r)))
		return r;
	*mine = w = new_waiting(h, c, path);
	if (!w)
		return MHD_NO;
	if (h->pages.want(h->pages.arg, &w->asked))
		return send_page(h, w);
	w->waits = true;
	mhd.suspend_connection(c);
	return MHD_YES;
}

static void on_completed(void *arg, struct MHD_Connection *c, void **mine, enum MHD_RequestTerminationCode code)
{
	struct http *h = arg;
	struct waiting *w = *mine;
	for (struct waiting **at = &h->waiting; w && *at; at = &(*at)->next)
		if (*at == w) {
			*at = w->next;
			break;
		}
	if (w)
		h->pages.forget(h->pages.arg, &w->asked);
	free(w);
	*mine = NULL;
}

static void checkpoint_read(struct waiting *w)
{
	if (!w->waits)
		return;
	w->waits = false;
	mhd.resume_connection(w->connection);
}

void http_ready(struct http *h)
{
	for (struct waiting *w = h->waiting; w; w = w->next)
		if (w->waits && h->pages.want(h->pages.arg, &w->asked))
			checkpoint_read(w);
	run(h);
}

/* --- the daemon ----------------------------------------------------------------------------------------- */

static void on_epoll(void *arg, uint32_t events)
{
	struct http *h = arg;
	run(h);
}

static void say_nothing(void *arg, const char *fmt, va_list ap) {}

int http_new(struct event_loop *l, int listener, uint16_t port, const char *token, const struct http_pages *pages,
	struct http **ret, struct err *e)
{
	struct http *h = mhd.library ? calloc(1, sizeof(*h)) : NULL;
	if (!h)
		return err_set(e, mhd.library ? -ENOMEM : -ENOENT, "cannot serve metrics");
	*h = (struct http){.loop = l, .source.fd = -1, .pages = *pages, .port = port};
	snprintf(h->token, sizeof(h->token), "%s", token);
	int r = make_secret(h->way);
	if (r == 0)
		r = make_secret(h->cookie);
	if (r < 0) {
		free(h);
		return err_set(e, r, "cannot serve metrics");
	}
	h->daemon = mhd.start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, on_request, h,
		MHD_OPTION_EXTERNAL_LOGGER, say_nothing, NULL, MHD_OPTION_LISTEN_SOCKET, listener,
		MHD_OPTION_CONNECTION_LIMIT, (unsigned)HTTP_CONNECTIONS_MAX, MHD_OPTION_CONNECTION_TIMEOUT,
		(unsigned)HTTP_IDLE_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HTTP_MEMORY_MAX,
		MHD_OPTION_NOTIFY_COMPLETED, on_completed, h, MHD_OPTION_NOTIFY_CONNECTION, on_connection, h,
		MHD_OPTION_END);
	const union MHD_DaemonInfo *info = h->daemon ? mhd.get_daemon_info(h->daemon, MHD_DAEMON_INFO_EPOLL_FD) : NULL;
	r = info ? event_loop_add(l, &h->source, info->epoll_fd, EPOLLIN, on_epoll, h) : -EIO;
	if (r < 0) {
		http_free(h);
		return err_set(e, r, "cannot serve metrics");
	}
	*ret = h;
	return 0;
}

struct http *http_free(struct http *h)
{
	if (!h)
		return NULL;
	event_loop_del(h->loop, &h->source);
	for (struct waiting *w = h->waiting; w; w = w->next)
		checkpoint_read(w);
	if (h->daemon) {
		mhd.quiesce_daemon(h->daemon); /* else it would close the listener, which is not ours */
		mhd.stop_daemon(h->daemon);
	}
	free(h);
	return NULL;
}

/* A page may be due without http_ready(): a job's place became free, or a listing comes no more. */
static bool is_due(struct http *h, struct waiting *w, int64_t now)
{
	return w->deadline <= now || (w->asked.page == HTTP_BROWSER_PAGE && h->pages.want(h->pages.arg, &w->asked));
}

static int64_t resume_late(struct http *h, int64_t now)
{
	int64_t first = INT64_MAX;
	bool late = false;
	for (struct waiting *w = h->waiting; w; w = w->next) {
		if (!w->waits)
			continue;
		if (is_due(h, w, now)) {
			late = true;
			checkpoint_read(w);
			continue;
		}
		int64_t next = w->asked.page == HTTP_BROWSER_PAGE ? now + ASK_AGAIN_NS : w->deadline;
		first = next < first ? next : first;
	}
	if (late)
		run(h);
	return first;
}

int http_round(struct http *h, int64_t now)
{
	MHD_UNSIGNED_LONG_LONG ms;
	int64_t first = resume_late(h, now), cut = cut_late(h, now);
	first = cut < first ? cut : first;
	if (h->freed)
		run(h);
	int left = first == INT64_MAX ? -1 : deadline_left_ms(first);
	if (mhd.get_timeout(h->daemon, &ms) == MHD_YES) {
		if (ms == 0)
			run(h);
		left = event_loop_sooner(left, ms == 0 ? 1 : ms < INT_MAX ? (int)ms : INT_MAX);
	}
	return h->freed ? 0 : left;
}
