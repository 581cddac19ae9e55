#include "profiler/http.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define LIBRARY "libmicrohttpd.so.12"

/* A request that waits for its page. */
struct waiting {
	struct waiting *next;
	struct MHD_Connection *connection;
	enum http_page page;
	bool waits, answered;
	int64_t deadline;
};

struct place {
	struct MHD_Connection *connection; /* NULL: it is free */
	int64_t until;
};

struct http {
	struct loop *loop;
	struct loop_source source;
	struct MHD_Daemon *daemon;
	struct http_pages pages;
	struct waiting *waiting;
	struct place places[HTTP_CONNECTIONS_MAX];
	uint16_t port;
	bool freed; /* a connection ended in this run, so that another one may have its place */
	char token[64];
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
	__typeof__(&MHD_add_response_header) add_response_header;
	__typeof__(&MHD_queue_response) queue_response;
	__typeof__(&MHD_destroy_response) destroy_response;
} mhd;

int http_load(struct err *e)
{
	const struct {
		const char *name;
		void *to;
	} functions[] = {
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
		{"MHD_add_response_header", &mhd.add_response_header},
		{"MHD_queue_response", &mhd.queue_response},
		{"MHD_destroy_response", &mhd.destroy_response},
	};
	if (mhd.library)
		return 0;
	setenv("GNUTLS_NO_IMPLICIT_INIT", "1", 1); /* nothing of it is used: no memory, no files */
	void *library = dlopen(LIBRARY, RTLD_LAZY | RTLD_LOCAL);
	for (size_t i = 0; library && i < sizeof(functions) / sizeof(functions[0]); i++) {
		void *function = dlsym(library, functions[i].name);
		if (!function)
			return err_say(e, -ENOENT, LIBRARY " is too old: it has no %s", functions[i].name);
		memcpy(functions[i].to, &function, sizeof(function));
	}
	mhd.library = library;
	return library ? 0 : err_say(e, -ENOENT, LIBRARY " is not there; install the package libmicrohttpd12");
}

/* --- connections ---------------------------------------------------------------------------------------- */

/*
 * With all places taken the library listens no more, and looks for a free one at the beginning of a run. Who connects
 * and hangs up without end would keep us here: where so many runs were not enough, the loop has its turn (http_round).
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

/* The library knows idling alone: a byte now and then, and a place is taken for good. It closes what has ended. */
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

struct answer {
	unsigned status;
	const char *type, *header, *value; /* header NULL: none more */
};

static enum MHD_Result send_text(struct MHD_Connection *c, const struct answer *a, char *text, size_t len, bool ours)
{
	struct MHD_Response *r =
		mhd.create_response_from_buffer(len, text, ours ? MHD_RESPMEM_MUST_FREE : MHD_RESPMEM_PERSISTENT);
	if (!r) {
		if (ours)
			free(text);
		return MHD_NO;
	}
	mhd.add_response_header(r, "Connection", "close"); /* cut_late: better here than in a request */
	mhd.add_response_header(r, "Content-Type", a->type);
	mhd.add_response_header(r, "Cache-Control", "no-store");
	mhd.add_response_header(r, "X-Content-Type-Options", "nosniff");
	if (a->header)
		mhd.add_response_header(r, a->header, a->value);
	enum MHD_Result sent = mhd.queue_response(c, a->status, r);
	mhd.destroy_response(r);
	return sent;
}

static enum MHD_Result refuse(
	struct MHD_Connection *c, unsigned status, const char *text, const char *header, const char *value)
{
	struct answer a = {status, "text/plain; charset=utf-8", header, value};
	return send_text(c, &a, (char *)text, strlen(text), false);
}

static enum MHD_Result answer(struct http *h, struct waiting *w)
{
	size_t len = 0;
	unsigned status = 500;
	char *text = h->pages.make(h->pages.arg, w->page, &len, &status);
	struct answer a = {status,
		w->page == HTTP_METRICS ? "text/plain; version=0.0.4; charset=utf-8" : "text/plain; charset=utf-8",
		NULL, NULL};
	w->answered = true;
	return text ? send_text(w->connection, &a, text, len, true)
		    : refuse(w->connection, 500, "out of memory\n", NULL, NULL);
}

/* "127.0.0.1:9100", also without the port, as some say it */
static bool names_us(const char *host, uint16_t port)
{
	static const char *const names[] = {"127.0.0.1", "localhost"};
	char ours[32];
	for (size_t i = 0; host && i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(ours, sizeof(ours), "%s:%u", names[i], port);
		if (!strcasecmp(host, ours) || !strcasecmp(host, names[i]))
			return true;
	}
	return false;
}

/* In a time that says nothing of where they differ. */
static bool has_token(const char *said, const char *token)
{
	static const char kind[] = "Bearer ";
	unsigned char differ = 0;
	size_t len = strlen(token);
	if (!said || strncasecmp(said, kind, sizeof(kind) - 1) != 0 || strlen(said + sizeof(kind) - 1) != len)
		return false;
	for (size_t i = 0; i < len; i++)
		differ |= (unsigned char)(said[sizeof(kind) - 1 + i] ^ token[i]);
	return len && !differ;
}

static enum http_page page_of(const char *url)
{
	return !strcmp(url, "/metrics") ? HTTP_METRICS : !strcmp(url, "/health") ? HTTP_HEALTH : HTTP_NONE;
}

/* 0: there is a page for it. Else it was answered, *ret. */
static int refuse_others(
	struct http *h, struct MHD_Connection *c, const char *url, const char *method, enum MHD_Result *ret)
{
	if (h->port && !names_us(mhd.lookup_connection_value(c, MHD_HEADER_KIND, "Host"), h->port))
		*ret = refuse(c, 403, "not this host\n", NULL, NULL);
	else if (h->port && !has_token(mhd.lookup_connection_value(c, MHD_HEADER_KIND, "Authorization"), h->token))
		*ret = refuse(c, 401, "a token is needed\n", "WWW-Authenticate", "Bearer");
	else if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
		*ret = refuse(c, 405, "GET and HEAD only\n", "Allow", "GET, HEAD");
	else if (page_of(url) == HTTP_NONE)
		*ret = refuse(c, 404, "there are /metrics and /health\n", NULL, NULL);
	else
		return 0;
	return 1;
}

static enum MHD_Result on_request(void *arg, struct MHD_Connection *c, const char *url, const char *method,
	const char *version, const char *data, size_t *size, void **mine)
{
	struct http *h = arg;
	struct waiting *w = *mine;
	enum MHD_Result r;
	if (w && w->answered) { /* what comes behind the headers is not read */
		*size = 0;
		return MHD_YES;
	}
	if (w && !w->waits)
		return answer(h, w);
	if (w)
		return MHD_YES;
	if (refuse_others(h, c, url, method, &r))
		return r;
	w = calloc(1, sizeof(*w));
	if (!w)
		return MHD_NO;
	*w = (struct waiting){.next = h->waiting,
		.connection = c,
		.page = page_of(url),
		.deadline = deadline_in(HTTP_PATIENCE_MS * NSEC_PER_MSEC)};
	h->waiting = w;
	*mine = w;
	if (h->pages.want(h->pages.arg, w->page))
		return answer(h, w);
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
	free(w);
	*mine = NULL;
}

static void resume(struct waiting *w)
{
	if (!w->waits)
		return;
	w->waits = false;
	mhd.resume_connection(w->connection);
}

void http_ready(struct http *h)
{
	for (struct waiting *w = h->waiting; w; w = w->next)
		resume(w);
	run(h);
}

/* --- the daemon ----------------------------------------------------------------------------------------- */

static void on_epoll(void *arg, uint32_t events)
{
	struct http *h = arg;
	run(h);
}

static void say_nothing(void *arg, const char *fmt, va_list ap) {}

int http_new(struct loop *l, int listener, uint16_t port, const char *token, const struct http_pages *pages,
	struct http **ret, struct err *e)
{
	struct http *h = mhd.library ? calloc(1, sizeof(*h)) : NULL;
	if (!h)
		return err_set(e, mhd.library ? -ENOMEM : -ENOENT, "cannot serve metrics");
	*h = (struct http){.loop = l, .source.fd = -1, .pages = *pages, .port = port};
	snprintf(h->token, sizeof(h->token), "%s", token);
	h->daemon = mhd.start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, on_request, h,
		MHD_OPTION_EXTERNAL_LOGGER, say_nothing, NULL, MHD_OPTION_LISTEN_SOCKET, listener,
		MHD_OPTION_CONNECTION_LIMIT, (unsigned)HTTP_CONNECTIONS_MAX, MHD_OPTION_CONNECTION_TIMEOUT,
		(unsigned)HTTP_IDLE_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HTTP_MEMORY_MAX,
		MHD_OPTION_NOTIFY_COMPLETED, on_completed, h, MHD_OPTION_NOTIFY_CONNECTION, on_connection, h,
		MHD_OPTION_END);
	const union MHD_DaemonInfo *info = h->daemon ? mhd.get_daemon_info(h->daemon, MHD_DAEMON_INFO_EPOLL_FD) : NULL;
	int r = info ? loop_add(l, &h->source, info->epoll_fd, EPOLLIN, on_epoll, h) : -EIO;
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
	loop_del(h->loop, &h->source);
	for (struct waiting *w = h->waiting; w; w = w->next)
		resume(w);
	if (h->daemon) {
		mhd.quiesce_daemon(h->daemon); /* else it would close the listener, which is not ours */
		mhd.stop_daemon(h->daemon);
	}
	free(h);
	return NULL;
}

static int64_t resume_late(struct http *h, int64_t now)
{
	int64_t first = INT64_MAX;
	bool late = false;
	for (struct waiting *w = h->waiting; w; w = w->next)
		if (w->waits && w->deadline <= now) {
			late = true;
			resume(w);
		} else if (w->waits && w->deadline < first) {
			first = w->deadline;
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
		left = loop_sooner(left, ms == 0 ? 1 : ms < INT_MAX ? (int)ms : INT_MAX);
	}
	return h->freed ? 0 : left;
}
