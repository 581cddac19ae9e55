/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/daemon/exporter.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "oci/base/log.h"
#include "oci/base/process/child_process.h"
#include "oci/base/utf8.h"
#include "oci/isolation/seccomp.h"
#include "profiler/spool/crash_dir.h"
#include "profiler/spool/spool_index.h"
#include "profiler/spool/user_spool.h"
#include "profiler/web/http_server.h"
#include "profiler/web/metrics.h"
#include "profiler/web/page_child.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define TIDY_NS (60 * NSEC_PER_SEC)   /* ages of profiles, lines of removed ones, while nothing is written */
#define FRESH_NS (1 * NSEC_PER_SEC)   /* a listing is good for so long */
#define STALE_LINES(n) (64 + (n) / 4) /* of removed profiles: then the index is made anew at once */
#define SEALS (F_SEAL_SHRINK | F_SEAL_WRITE)

/* A written profile and its path: a worker that makes it once more gets the same answer. */
struct written {
	int64_t start_ns;
	uint32_t seq;
	char id[256], event[EVENT_NAME_MAX], path[400];
};

struct exporter {
	const struct exporter_setup *setup;
	struct event_loop *loop;
	struct event_loop_source source;
	int sock;
	struct spool *spool; /* NULL: it could not be listed yet */
	struct export_limits limits;
	uint64_t removed;  /* of spool_removed(), when the index was right */
	bool lines_wanted; /* the index lacks some */
	int64_t tidy_due;
	struct written written[EXPORT_WRITTEN]; /* the last ones, in a ring */
	uint64_t n_written;			/* in all */
	struct metrics metrics;
	struct http *http;
	struct pagejobs *jobs;
	/* the worker's last listing and state */
	struct target_table listed, coming;
	struct export_state state;
	bool listing; /* pages come: their state has come before them */
	bool has_listed, asked;
	int64_t asked_at, listed_at;
	union {
		struct export_head head;
		struct export_profile profile;
		struct export_limits limits;
		struct export_state state;
		union msg page;
	} in;
};

/* --- the spool ------------------------------------------------------------------------------------------ */

static void match_index(struct exporter *x)
{
	x->removed = spool_removed(x->spool);
	x->lines_wanted = spool_index_match(x->spool, NULL) < 0;
}

static int open_dir(const struct exporter_setup *setup)
{
	return setup->user ? user_spool_open(setup->spool, setup->user) : fd_open_dir(setup->spool, ".");
}

/* On failure the next profile tries again. */
static int open_spool(struct exporter *x, struct err *e)
{
	int dir = x->spool ? -1 : open_dir(x->setup);
	if (x->spool)
		return 0;
	if (dir < 0)
		return err_set(e, dir, "cannot open the spool");
	int r = spool_open_take(dir, x->limits.spool_bytes, x->limits.spool_age_s, &x->spool, e);
	if (r == 0) {
		spool_tidy(x->spool);
		match_index(x);
	}
	return r;
}

static void clean_spool(struct exporter *x)
{
	struct err e;
	x->tidy_due = deadline_in(TIDY_NS);
	if (open_spool(x, &e) < 0)
		return;
	spool_tidy(x->spool);
	if (x->lines_wanted || spool_removed(x->spool) != x->removed)
		match_index(x);
}

static void note_written(struct exporter *x, const struct export_profile *p, const char *path, bool was_there)
{
	int r = spool_index_append(spool_dir(x->spool), p, path, p->bytes);
	x->metrics.written++;
	x->metrics.written_bytes += p->bytes;
	if (r < 0)
		x->lines_wanted = true;
	if (r < 0 && r != -ENOSPC && r != -EDQUOT)
		log_line(LOG_WARNING, "file=\"%s\" outcome=not_indexed reason=\"%s\"", path, strerror(-r));
	/* a file that was there may have a line as well, by the exporter that wrote it */
	if (was_there || spool_removed(x->spool) - x->removed > STALE_LINES(spool_files(x->spool)))
		match_index(x);
}

static const struct written *find_written(const struct exporter *x, const struct export_profile *p)
{
	uint64_t n = x->n_written < EXPORT_WRITTEN ? x->n_written : EXPORT_WRITTEN;
	for (const struct written *w = x->written; w < x->written + n; w++)
		if (w->start_ns == p->start_ns && w->seq == p->seq && !strcmp(w->id, p->id) &&
			!strcmp(w->event, p->event))
			return w;
	return NULL;
}

static void add_written_profile(struct exporter *x, const struct export_profile *p, const char *path)
{
	struct written *w = &x->written[x->n_written++ % EXPORT_WRITTEN];
	w->start_ns = p->start_ns;
	w->seq = p->seq;
	snprintf(w->id, sizeof(w->id), "%s", p->id);
	snprintf(w->event, sizeof(w->event), "%s", p->event);
	snprintf(w->path, sizeof(w->path), "%s", path);
}

/* Maps a profile, only if it has the announced size and is sealed; else NULL. */
static const void *map_sealed_memfd(int fd, uint64_t bytes)
{
	struct stat st;
	if (!fd_is_sealed(fd, SEALS) || fstat(fd, &st) < 0 || (uint64_t)st.st_size != bytes)
		return NULL;
	void *data = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
	return data == MAP_FAILED ? NULL : data;
}

static int write_profile(
	struct exporter *x, const struct export_profile *p, int fd, char *path, size_t size, struct err *e)
{
	char target[SPOOL_TARGET_MAX + 1];
	const struct written *before = find_written(x, p);
	if (before) {
		snprintf(path, size, "%s", before->path);
		return 0;
	}
	int r = open_spool(x, e);
	const void *data = r < 0 ? NULL : map_sealed_memfd(fd, p->bytes);
	if (r < 0)
		return r;
	if (!data)
		return err_say(e, -EBADMSG, "its bytes are not what was said of them");
	if (p->head.type == EXPORT_CRASH) {
		r = crash_dir_write(spool_dir(x->spool), p->name[0] ? p->name : p->id, p->start_ns, p->seq, data,
			p->bytes, path, size, e);
		munmap((void *)data, p->bytes);
		x->metrics.crashes += r == 0;
		return r;
	}
	spool_target_path(p->id, p->name, p->pod, p->pod_namespace, target);
	r = spool_write(x->spool, target, p->start_ns, p->seq, p->event, data, p->bytes, path, size, e);
	munmap((void *)data, p->bytes);
	if (r < 0)
		return r;
	add_written_profile(x, p, path);
	note_written(x, p, path, r == 1);
	return 0;
}

static void on_profile(struct exporter *x, int fd)
{
	struct export_profile *p = &x->in.profile;
	struct export_done d = {.head = {EXPORT_MAGIC, EXPORT_DONE, p->head.id}};
	struct err e = {0};
	char *texts[] = {p->event, p->id, p->name, p->pod, p->pod_namespace};
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		utf8_clean(texts[i]);
	d.code = write_profile(x, p, fd, d.path, sizeof(d.path), &e);
	fd_close(fd);
	if (d.code < 0) {
		d.path[0] = 0;
		x->metrics.failed++;
		snprintf(d.text, sizeof(d.text), "%s", e.text);
	}
	fd_send(x->sock, &d, sizeof(d), NULL, 0); /* a worker that does not get it asks again */
}

/* --- messages of the worker ----------------------------------------------------------------------------- */

static void end_listing(struct exporter *x, bool whole)
{
	if (whole) {
		target_table_done(&x->listed);
		x->listed = x->coming;
		x->coming = (struct target_table){0};
		x->has_listed = true;
		x->listed_at = clock_now();
	}
	target_table_done(&x->coming);
	x->listing = x->asked = false;
	http_ready(x->http);
}

/*
 * A listing of a slow or dead worker may come after a second question, or when no request waits any more: it is as good
 * as any. A page without its state belongs to a listing that is over. False: it is no page.
 */
static bool on_page(struct exporter *x, size_t size)
{
	struct err e;
	union msg *m = &x->in.page;
	if (msg_check(m, size, 0, &e) < 0 || m->head.type != MSG_LISTING)
		return false;
	int r = x->listing ? target_table_add(&x->coming, &m->listing) : 0;
	if (r)
		end_listing(x, r == 1);
	return true;
}

static void on_limits(struct exporter *x)
{
	x->limits = x->in.limits;
	if (x->spool)
		spool_limit(x->spool, x->limits.spool_bytes, x->limits.spool_age_s);
}

static void begin_listing(struct exporter *x)
{
	target_table_done(&x->coming); /* its worker has died */
	x->state = x->in.state;
	x->listing = true;
}

/* Handles a message. False: no worker sends such a message. Takes the descriptor. */
static bool handle_worker_message(struct exporter *x, size_t size, int fd, size_t n)
{
	if (export_check(&x->in, size, n, EXPORT_PROFILE) || export_check(&x->in, size, n, EXPORT_CRASH)) {
		on_profile(x, fd);
		return true;
	}
	if (n)
		fd_close(fd);
	if (export_check(&x->in, size, n, EXPORT_LIMITS)) {
		on_limits(x);
		return true;
	}
	if (!x->http || n)
		return false;
	if (!export_check(&x->in, size, n, EXPORT_STATE))
		return on_page(x, size);
	begin_listing(x);
	return true;
}

static void on_socket(void *arg, uint32_t events)
{
	struct exporter *x = arg;
	int fd = -1;
	size_t n;
	ssize_t got = fd_recv(x->sock, &x->in, sizeof(x->in), &fd, 1, &n);
	if (got == -EAGAIN)
		return;
	if (got > 0 && handle_worker_message(x, (size_t)got, fd, n))
		return;
	if (got < 0) /* a profile that did not arrive goes to a successor */
		log_line(LOG_ERR, "outcome=exporter_ended reason=\"cannot hear the worker: %s\"", strerror((int)-got));
	if (got > 0)
		log_line(LOG_ERR, "outcome=exporter_ended reason=\"the worker said what no worker says\"");
	event_loop_stop(x->loop);
}

/* --- pages ---------------------------------------------------------------------------------------------- */

/* Asks the worker for a listing. 1: there is a fresh one, or the worker cannot be asked; 0: it is under way. */
static int want_listing(struct exporter *x)
{
	struct export_ask ask = {{EXPORT_MAGIC, EXPORT_ASK, 0}};
	int64_t now = clock_now();
	if (x->has_listed && now - x->listed_at < FRESH_NS)
		return 1;
	/* a listing that never came is asked for again: its worker may have died */
	if (x->asked && now - x->asked_at < HTTP_PATIENCE_MS * NSEC_PER_MSEC)
		return 0;
	x->asked = fd_send(x->sock, &ask, sizeof(ask), NULL, 0) == 0;
	x->asked_at = now;
	return !x->asked;
}

static bool is_fresh(const struct exporter *x)
{
	return x->has_listed && clock_now() - x->listed_at < FRESH_NS + HTTP_PATIENCE_MS * NSEC_PER_MSEC;
}

static void print_metrics(struct exporter *x, FILE *out)
{
	struct process_use processes[PROCESS_USAGE_MAX];
	struct push_status pushed[PUSH_STATUS_MAX];
	struct metrics *m = &x->metrics;
	m->scrapes++;
	m->listed = is_fresh(x) ? &x->listed : NULL;
	m->state = is_fresh(x) ? &x->state : NULL;
	m->spool_bytes = x->spool ? spool_bytes(x->spool) : 0;
	m->spool_files = x->spool ? spool_files(x->spool) : 0;
	m->spool_removed = x->spool ? spool_removed(x->spool) : 0;
	m->spool_max = x->limits.spool_bytes;
	m->processes = processes;
	m->n_processes = process_usage_look(getppid(), processes);
	m->pushed = pushed;
	m->n_pushed = x->spool ? push_status_read(spool_dir(x->spool), pushed) : 0;
	metrics_write(m, out);
}

static char *make_text(struct exporter *x, enum http_page page, size_t *ret_len)
{
	char *text = NULL;
	FILE *out = open_memstream(&text, ret_len);
	if (!out)
		return NULL;
	if (page == HTTP_METRICS)
		print_metrics(x, out);
	else
		fputs(is_fresh(x) ? "ok\n" : "the worker does not answer\n", out);
	if (fclose(out) == 0)
		return text;
	free(text);
	return NULL;
}

/* --- pages for people, each made by a process (page_child.h) ------------------------------------------------ */

struct wanted { /* a page that is asked for */
	struct exporter *x;
	struct page_child *job;
	int64_t listing_by; /* the page is begun without a listing then */
	int refused;
};

static void on_page_made(void *arg)
{
	struct wanted *w = arg;
	http_ready(w->x->http);
}

static struct page_question question_of(const struct exporter *x, const struct http_asked *asked)
{
	struct page_question q = {.spool = x->setup->spool, .listed = is_fresh(x) ? &x->listed : NULL};
	snprintf(q.path, sizeof(q.path), "%s", asked->path);
	snprintf(q.nonce, sizeof(q.nonce), "%s", asked->nonce);
	for (size_t i = 0; i < PAGE_ARGUMENTS; i++)
		snprintf(q.arguments[i], sizeof(q.arguments[i]), "%s", http_argument(asked, page_arguments[i]));
	return q;
}

static int want_page(struct exporter *x, struct http_asked *asked)
{
	struct wanted *w = asked->of;
	struct page_answer a;
	if (!w)
		asked->of = w = calloc(1, sizeof(*w));
	if (!w)
		return 1;
	if (!w->x)
		*w = (struct wanted){.x = x, .listing_by = deadline_in(HTTP_PATIENCE_MS * NSEC_PER_MSEC)};
	if (w->job)
		return page_child_answer(w->job, &a) != -EINPROGRESS;
	if (!want_listing(x) && clock_now() < w->listing_by)
		return 0;
	const struct page_question q = question_of(x, asked);
	w->refused = page_child_start(x->jobs, &q, on_page_made, w, &w->job);
	return w->refused < 0 && w->refused != -EAGAIN;
}

static int say_no_page(struct http_answer *ret, const char *text)
{
	*ret = (struct http_answer){
		.status = 503, .kind = HTTP_TEXT, .text = strdup(text), .len = strlen(text), .fd = -1};
	return ret->text ? 0 : -ENOMEM;
}

static int make_page(struct http_asked *asked, struct http_answer *ret)
{
	static const enum http_kind kinds[PAGE_KINDS] = {[PAGE_IS_HTML] = HTTP_HTML,
		[PAGE_IS_FLAME] = HTTP_GRAPH,
		[PAGE_IS_PICTURE] = HTTP_PICTURE,
		[PAGE_IS_PROFILE] = HTTP_PROFILE,
		[PAGE_IS_REPORT] = HTTP_JSON};
	static struct page_answer a; /* its name is used until the answer is queued */
	struct wanted *w = asked->of;
	int r = w && w->job ? page_child_answer(w->job, &a) : -EAGAIN;
	if (r == -EPIPE)
		return say_no_page(ret, "what was to make this page took too much time or memory, or died: ask for a "
					"shorter range, or again\n");
	if (r < 0)
		return say_no_page(ret, "there are other pages to be made: try again in a moment\n");
	*ret = (struct http_answer){.status = a.status, .kind = kinds[a.kind], .file = a.file};
	ret->fd = fcntl(a.fd, F_DUPFD_CLOEXEC, 3);
	return ret->fd < 0 ? -errno : 0;
}

static int prepare_page(void *arg, struct http_asked *asked)
{
	return asked->page == HTTP_BROWSER_PAGE ? want_page(arg, asked) : want_listing(arg);
}

static int make_answer(void *arg, struct http_asked *asked, struct http_answer *ret)
{
	struct exporter *x = arg;
	if (asked->page == HTTP_BROWSER_PAGE)
		return make_page(asked, ret);
	*ret = (struct http_answer){.status = asked->page == HTTP_METRICS || is_fresh(x) ? 200 : 503,
		.kind = asked->page == HTTP_METRICS ? HTTP_EXPOSITION : HTTP_TEXT,
		.fd = -1};
	ret->text = make_text(x, asked->page, &ret->len);
	return ret->text ? 0 : -ENOMEM;
}

static void release_request(void *arg, struct http_asked *asked)
{
	struct wanted *w = asked->of;
	if (w)
		page_child_forget(w->job);
	free(w);
	asked->of = NULL;
}

/* --- the process ---------------------------------------------------------------------------------------- */

static int on_exporter_round(void *arg)
{
	struct exporter *x = arg;
	int64_t now = clock_now();
	if (now >= x->tidy_due)
		clean_spool(x);
	int wait = deadline_left_ms(x->tidy_due), http = x->http ? http_round(x->http, now) : -1;
	return http >= 0 && http < wait ? http : wait;
}

static int init_exporter(struct exporter *x, struct err *e)
{
	const struct exporter_setup *setup = x->setup;
	const struct http_pages pages = {x, prepare_page, make_answer, release_request};
	struct err why = {0};
	int r = event_loop_new(&x->loop);
	if (r == 0)
		r = event_loop_add(x->loop, &x->source, x->sock, EPOLLIN, on_socket, x);
	if (r < 0)
		return err_set(e, r, "the exporter's loop");
	if (setup->http.fd >= 0 && pagejobs_new(x->loop, &x->jobs) == 0 &&
		http_new(x->loop, setup->http.fd, setup->http.port, setup->http.token, &pages, &x->http, &why) < 0)
		log_line(LOG_WARNING, "outcome=no_metrics reason=\"%s\"", why.text);
	return seccomp_enter(SECCOMP_EXPORTER, e);
}

_Noreturn void exporter_run(const struct exporter_setup *setup, int sock)
{
	static struct exporter x; /* large */
	struct err e = {0};
	x.setup = setup;
	x.sock = sock;
	x.limits.spool_bytes = setup->spool_bytes;
	x.limits.spool_age_s = setup->spool_age_s;
	int r = init_exporter(&x, &e);
	if (r == 0)
		r = event_loop_run(x.loop, on_exporter_round, &x); /* its first act is to look at the spool */
	if (r < 0)
		log_line(LOG_ERR, "outcome=exporter_ended reason=\"%s\"", e.text[0] ? e.text : strerror(-r));
	_exit(r < 0);
}

int exporter_load(struct err *e)
{
	return http_load(e);
}

/* Blocks the signals: they end the service, but the exporter still writes the last profiles, until its socket ends. */
static _Noreturn void become_exporter(const struct exporter_setup *setup, int sock)
{
	sigset_t all;
	const int keep[] = {sock, setup->spool, setup->http.fd, log_fd()};
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	prctl(PR_SET_NAME, "pilliond-export");
	fd_close_all_but(keep, sizeof(keep) / sizeof(keep[0]));
	exporter_run(setup, sock);
}

int exporter_start(const struct exporter_setup *setup, struct exporter_process *ret, struct err *e)
{
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_set(e, -errno, "no socket to the exporter");
	pid_t pid = child_process_fork_quiet();
	int error = -errno;
	if (pid == 0)
		become_exporter(setup, pair[1]);
	fd_close(pair[1]);
	if (pid < 0) {
		fd_close(pair[0]);
		return err_set(e, error, "cannot fork the exporter");
	}
	*ret = (struct exporter_process){.pid = pid, .sock = pair[0]};
	return 0;
}
