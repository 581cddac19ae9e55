/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/push/push.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "oci/base/json/json_write.h"
#include "oci/base/log.h"
#include "oci/isolation/seccomp.h"
#include "profiler/push/http_client.h"
#include "profiler/push/push_encode_child.h"
#include "profiler/push/push_queue.h"
#include "profiler/spool/spool.h"
#include "profiler/spool/spool_index.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SCAN_NS (2 * NSEC_PER_SEC)
#define SCAN_SHARE 50 /* scans get 1/50 of the time: a spool keeps a directory for each past Pod */
#define STATUS_NS (1 * NSEC_PER_SEC)
#define TOLD_NS (30 * NSEC_PER_SEC) /* a status is no older, so that its reader knows that we live */
#define DRAIN_NS (5 * NSEC_PER_SEC)
#define LEARNED_MIN 16
#define PAUSE_S 1 /* after the first failure; doubled with each */

struct status {
	uint64_t sent, sent_bytes; /* files, bytes of their requests; since the process began */
	uint64_t refused;	   /* given up */
	uint64_t lost;		   /* removed by the spool's caps before they were sent */
	uint64_t failures;	   /* tries that were answered by "later" or not at all */
	uint64_t waiting;
	int64_t oldest_s;	 /* start of the one that waits longest, since the epoch; 0: none */
	int64_t failing_since_s; /* 0: the last try went well, or there was none */
	char why[320];		 /* reason of the last failure or refusal */
};

struct push {
	const struct push_endpoint *endpoint;
	const struct encoder_process *maker;
	const volatile int *stop;
	struct transfers *transfers; /* NULL: it is a directory */
	struct push_queue *queue;    /* NULL: push_file() */
	char node[256];
	struct push_limits limits; /* the endpoint's, lowered to sizes that the server took */
	unsigned flights;
	uint64_t bytes;		     /* of their requests */
	unsigned failures;	     /* in a row */
	unsigned generation;	     /* failures in all: an older flight does not tell whether the last is over */
	unsigned said;		     /* HTTP status of the last answer */
	int64_t again;		     /* no try before */
	struct push_progress resume; /* of push_file()'s file */
	bool broken;		     /* the maker has ended */
	int64_t scan_due, status_due, told_by;
	bool status_wanted;
	struct status status;
};

struct flight {			/* a file that is under way */
	struct push_file *file; /* NULL: of push_file() */
	struct push_batch batch;
	size_t next;
	struct push_progress sent;
	struct push_limits limits;
	unsigned generation;
	char path[SPOOL_TARGET_MAX + 256];
	int fd;
};

/* --- life ------------------------------------------------------------------------------------------------- */

int push_open(const struct push_endpoint *p, const struct encoder_process *m, const char *node,
	const volatile int *stop, struct push **ret, struct err *e)
{
	struct push *h = calloc(1, sizeof(*h));
	if (!h)
		return err_set(e, -ENOMEM, "cannot push");
	h->endpoint = p;
	h->maker = m;
	h->stop = stop;
	h->limits = p->limits;
	snprintf(h->node, sizeof(h->node), "%s", node);
	if (!*node && gethostname(h->node, sizeof(h->node) - 1) < 0)
		h->node[0] = 0;
	int r = p->form == PUSH_DIRECTORY ? 0 : transfers_open(p, &h->transfers, e);
	if (r < 0) {
		push_close(h);
		return r;
	}
	*ret = h;
	return 0;
}

struct push *push_close(struct push *h)
{
	if (!h)
		return NULL;
	h->transfers = transfers_close(h->transfers);
	queue_close(h->queue);
	free(h);
	return NULL;
}

/* Copies the host of "http://host:4040/path". */
static void host_of(const char *url, char *buf, size_t size)
{
	const char *at = strstr(url, "://");
	at = at ? at + 3 : url;
	const bool bracket = *at == '[';
	at += bracket;
	snprintf(buf, size, "%.*s", (int)strcspn(at, bracket ? "]" : ":/"), at);
}

/* Looks up the host before entering the role: name services load their libraries at the first lookup, and none can
 * be loaded afterwards. */
int push_confine(const struct push *h, struct err *e)
{
	const char *const url = h->endpoint->proxy[0] ? h->endpoint->proxy : h->endpoint->base;
	char host[256];
	struct addrinfo *found = NULL;
	host_of(url, host, sizeof(host));
	if (h->transfers && getaddrinfo(host, "80", NULL, &found) == 0)
		freeaddrinfo(found);
	return seccomp_enter(SECCOMP_PUSH, e);
}

/* --- how it is going -------------------------------------------------------------------------------------- */

static int write_status(const struct push *h, FILE *out)
{
	const struct status *s = &h->status;
	struct jsonout *doc = json_write_object();
	int r = json_write_add(doc, "to", json_write_text(h->endpoint->url));
	const struct {
		const char *key;
		int64_t value;
	} numbers[] = {{"sent", (int64_t)s->sent}, {"sent_bytes", (int64_t)s->sent_bytes},
		{"refused", (int64_t)s->refused}, {"lost", (int64_t)s->lost}, {"failures", (int64_t)s->failures},
		{"waiting", (int64_t)s->waiting}, {"oldest", s->oldest_s}, {"failing_since", s->failing_since_s},
		{"written", (int64_t)time(NULL)}};
	for (size_t i = 0; r == 0 && i < sizeof(numbers) / sizeof(numbers[0]); i++)
		r = json_write_add(doc, numbers[i].key, json_write_number(numbers[i].value));
	if (r == 0)
		r = json_write_add(doc, "why", json_write_text(s->failing_since_s ? s->why : ""));
	if (r == 0)
		r = json_write_out_line(doc, out);
	json_write_free(doc);
	return r;
}

static int replace_status(struct push *h, const char *text, size_t len)
{
	char name[96], fresh[100];
	const int dir = queue_dir(h->queue);
	snprintf(name, sizeof(name), "%s.json", h->endpoint->name);
	snprintf(fresh, sizeof(fresh), "%s.new", name);
	fd_auto fd = fd_open(dir, fresh, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0640);
	int r = fd < 0 ? fd : fd_write_all(fd, text, len);
	if (r == 0 && renameat(dir, fresh, dir, name) < 0)
		r = -errno;
	if (r < 0)
		unlinkat(dir, fresh, 0);
	return r;
}

static void tell_status(struct push *h)
{
	char *text = NULL;
	size_t len;
	FILE *out = h->queue ? open_memstream(&text, &len) : NULL;
	h->status_wanted = false;
	h->status_due = deadline_in(STATUS_NS);
	h->told_by = deadline_in(TOLD_NS);
	if (!out)
		return;
	h->status.waiting = queue_waiting(h->queue);
	h->status.oldest_s = queue_oldest(h->queue);
	h->status.lost = queue_lost(h->queue);
	int r = write_status(h, out);
	if (fclose(out) == 0 && r == 0)
		replace_status(h, text, len);
	free(text);
}

/* --- failures --------------------------------------------------------------------------------------------- */

/* Returns 3/4 to 5/4 of `ns`, at random: so many nodes do not come back in the same moment. */
static int64_t add_jitter(int64_t ns)
{
	uint32_t n = 0;
	if (getrandom(&n, sizeof(n), GRND_NONBLOCK) != sizeof(n))
		n = 0;
	return ns / 4 * 3 + (int64_t)(n % 1024) * (ns / 2048);
}

static void begin_to_fail(struct push *h, uint32_t later_s)
{
	const unsigned shift = h->failures < 6 ? h->failures : 6;
	int64_t pause = (int64_t)PAUSE_S << shift;
	if (pause > PUSH_PAUSE_MAX_S)
		pause = PUSH_PAUSE_MAX_S;
	h->again = deadline_in(later_s > pause ? later_s * NSEC_PER_SEC : add_jitter(pause * NSEC_PER_SEC));
	if (!h->failures++)
		h->status.failing_since_s = time(NULL);
	h->generation++;
}

/* Of flights that began together, the first failure speaks for all: only it causes a pause and a log line. */
static void record_failure(struct push *h, unsigned generation, const char *why, uint32_t later_s)
{
	struct status *s = &h->status;
	const bool fresh = generation == h->generation;
	s->failures++;
	if (fresh)
		begin_to_fail(h, later_s);
	if (fresh && (h->failures == 1 || strcmp(s->why, why) != 0))
		log_line(LOG_WARNING, "endpoint=\"%s\" outcome=later waiting=%zu reason=\"%s\"", h->endpoint->name,
			h->queue ? queue_waiting(h->queue) : 1, why);
	if (fresh)
		snprintf(s->why, sizeof(s->why), "%s", why);
	h->status_wanted = true;
}

static void record_success(struct push *h, unsigned generation)
{
	h->status_wanted = true;
	if (generation != h->generation)
		return;
	if (h->failures)
		log_line(LOG_WARNING, "endpoint=\"%s\" outcome=resumed waiting=%zu after_s=%lld", h->endpoint->name,
			h->queue ? queue_waiting(h->queue) : 1, (long long)(time(NULL) - h->status.failing_since_s));
	h->failures = 0;
	h->again = 0;
	h->status.failing_since_s = 0;
}

/* --- a file ----------------------------------------------------------------------------------------------- */

static struct flight *new_flight(struct push *h, struct push_file *file, int fd, const char *path)
{
	struct flight *f = calloc(1, sizeof(*f));
	if (!f)
		return NULL;
	f->file = file;
	f->fd = fd;
	f->sent = file ? queue_progress(file) : h->resume;
	f->limits = h->limits;
	f->generation = h->generation;
	snprintf(f->path, sizeof(f->path), "%s", path);
	h->flights++;
	return f;
}

static void let_go_batch(struct push *h, struct flight *f)
{
	h->bytes -= f->batch.len;
	push_encode_child_done(&f->batch);
	f->next = 0;
}

static void end_flight(struct push *h, struct flight *f)
{
	let_go_batch(h, f);
	fd_close(f->fd);
	free(f);
	h->flights--;
}

/* Ends a flight; its file is not to be sent any more. */
static void finish_file(struct push *h, struct flight *f)
{
	int r = f->file ? queue_done(h->queue, f->file) : 0;
	if (r < 0)
		log_line(LOG_ERR, "endpoint=\"%s\" file=\"%s\" outcome=maybe_sent_twice reason=\"%s\"",
			h->endpoint->name, f->path, strerror(-r));
	end_flight(h, f);
}

static void take_back(struct push *h, struct flight *f)
{
	if (f->file)
		queue_back(h->queue, f->file, f->sent);
	else
		h->resume = f->sent;
	end_flight(h, f);
}

static void say_given_up(struct push *h, const char *path, const char *why)
{
	h->status.refused++;
	snprintf(h->status.why, sizeof(h->status.why), "%s", why);
	log_line(LOG_ERR, "endpoint=\"%s\" file=\"%s\" outcome=given_up reason=\"%s\"", h->endpoint->name, path, why);
	h->status_wanted = true;
}

static void give_up(struct push *h, struct flight *f, const char *why)
{
	say_given_up(h, f->path, why);
	finish_file(h, f);
}

/* Splits "TARGET/FILE"; the event is from the file's name, if it has one. */
static void source_of(const struct push *h, const struct flight *f, char target[SPOOL_TARGET_MAX + 1], char kind[64],
	struct push_source *ret)
{
	size_t len;
	const char *slash = strrchr(f->path, '/'), *event = spool_event(slash ? slash : f->path, &len);
	snprintf(target, SPOOL_TARGET_MAX + 1, "%.*s", slash ? (int)(slash - f->path) : 0, f->path);
	snprintf(kind, 64, "%.*s", (int)len, event ? event : "");
	*ret = (struct push_source){.target = target, .file = f->path, .kind = kind, .node = h->node};
}

static int make_requests(struct push *h, struct flight *f, struct err *e)
{
	char target[SPOOL_TARGET_MAX + 1], kind[64];
	struct push_question q = {.form = h->endpoint->form, .limits = f->limits, .sent = f->sent};
	source_of(h, f, target, kind, &q.of);
	if (lseek(f->fd, 0, SEEK_SET) < 0)
		return err_set(e, -EBADMSG, "cannot read it");
	int r = push_encode_child_run(h->maker, f->fd, &q, h->stop, &f->batch, e);
	if (r == 0)
		h->bytes += f->batch.len;
	h->broken = h->broken || r == -ECONNRESET;
	return r;
}

/* --- a directory ------------------------------------------------------------------------------------------ */

static int copy_bytes(int from, int to)
{
	char buf[65536];
	ssize_t n;
	int r = 0;
	while (r == 0 && (n = read(from, buf, sizeof(buf))) != 0)
		r = n < 0 ? -EBADMSG : fd_write_all(to, buf, (size_t)n); /* unreadable now and later */
	return r == 0 && fsync(to) < 0 ? -errno : r;
}

static int copy_into(int dir, const char *file, int fd)
{
	char fresh[SPOOL_TARGET_MAX + 264];
	snprintf(fresh, sizeof(fresh), ".%s.new", file);
	fd_auto to = fd_open(dir, fresh, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0640);
	int r = to < 0 ? to : copy_bytes(fd, to);
	if (r == 0 && renameat(dir, fresh, dir, file) < 0)
		r = -errno;
	if (r < 0)
		unlinkat(dir, fresh, 0);
	return r;
}

/* Opens a directory below `base`, made if need be; a target has as many levels as in the spool. */
static int make_node_directory(int base, const char *node)
{
	char safe[SPOOL_NAME_MAX + 1];
	size_t made;
	spool_safe_name(node, safe, sizeof(safe));
	return spool_target_make(base, safe, &made);
}

static int make_target_directory(int base, const char *target)
{
	char path[SPOOL_TARGET_MAX + 1];
	size_t made;
	spool_target_safe_path(target, path);
	return spool_target_make(base, path, &made);
}

/* Copies to NODE/TARGET/FILE, as put_path() of push_encode.c has it. */
static int copy_file(struct push *h, struct flight *f, struct err *e)
{
	char target[SPOOL_TARGET_MAX + 1], kind[64];
	struct push_source of;
	const char *slash = strrchr(f->path, '/');
	source_of(h, f, target, kind, &of);
	fd_auto base = fd_open_dir(AT_FDCWD, h->endpoint->base);
	if (base < 0)
		return err_set(e, base, "cannot open %s", h->endpoint->base);
	fd_auto node = h->node[0] ? make_node_directory(base, h->node) : -1;
	fd_auto dir = h->node[0] && node < 0 ? node : make_target_directory(node < 0 ? base : node, target);
	int r = dir < 0				? dir
		: lseek(f->fd, 0, SEEK_SET) < 0 ? -errno
						: copy_into(dir, slash ? slash + 1 : f->path, f->fd);
	return r < 0 ? err_set(e, r, "cannot write into %s/%s/%s", h->endpoint->base, h->node, target) : 0;
}

/* --- sending ---------------------------------------------------------------------------------------------- */

/* Starts the next request; after the last one the file is sent. Returns false if the flight has ended. */
static bool go_on(struct push *h, struct flight *f)
{
	if (f->next == f->batch.n) {
		h->status.sent++;
		finish_file(h, f);
		return false;
	}
	int r = transfers_start(h->transfers, &f->batch.requests[f->next], f);
	if (r == 0)
		return true;
	if (r == -ENOMEM) {
		record_failure(h, f->generation, strerror(-r), 0);
		take_back(h, f);
	} else {
		give_up(h, f, r == -ENAMETOOLONG ? "its labels are longer than an address may be" : strerror(-r));
	}
	return false;
}

/* True for an error of this file that would stay the same later. */
static bool is_final(int code)
{
	return code == -EBADMSG || code == -ETIME || code == -EPIPE;
}

static void on_copied(struct push *h, struct flight *f)
{
	struct stat st;
	h->status.sent++;
	h->status.sent_bytes += fstat(f->fd, &st) == 0 ? (uint64_t)st.st_size : 0;
	record_success(h, f->generation);
	finish_file(h, f);
}

/* The file's content may kill its job (-EPIPE): so it gets PUSH_TRIES tries, not endless ones. */
static bool start_flight(struct push *h, struct flight *f)
{
	struct err e = {0};
	int r = h->transfers ? make_requests(h, f, &e) : copy_file(h, f, &e);
	for (unsigned tries = 1; r == -EPIPE && tries < PUSH_TRIES; tries++)
		r = make_requests(h, f, &e);
	if (r == 0 && h->transfers)
		return go_on(h, f);
	if (r == 0) {
		on_copied(h, f);
	} else if (is_final(r)) {
		give_up(h, f, e.text);
	} else {
		if (r != -EINTR && r != -ECONNRESET)
			record_failure(h, f->generation, e.text, 0);
		take_back(h, f);
	}
	return false;
}

/* Halves the samples of a request; the limit holds for all files once the server takes one of that size. */
static bool shrink_requests(struct push *h, struct flight *f, const struct http_response *t)
{
	const uint64_t samples = f->batch.requests[f->next].samples;
	if (samples < 2) {
		give_up(h, f, t->why.text);
		return false;
	}
	f->limits.samples = samples / 2;
	log_line(LOG_WARNING, "endpoint=\"%s\" file=\"%s\" outcome=smaller_requests samples=%zu reason=\"%s\"",
		h->endpoint->name, f->path, f->limits.samples, t->why.text);
	let_go_batch(h, f);
	return start_flight(h, f);
}

/* Keeps a minimum: with fewer samples a large file would need more parts than there may be. */
static void lower_sample_limit(struct push *h, const struct flight *f)
{
	const size_t samples = f->limits.samples > LEARNED_MIN ? f->limits.samples : LEARNED_MIN;
	if (f->limits.samples && (!h->limits.samples || samples < h->limits.samples))
		h->limits.samples = samples;
}

static void on_done(struct push *h, struct flight *f, const struct http_response *t)
{
	const struct push_request *r = &f->batch.requests[f->next++];
	f->sent.samples += r->samples;
	f->sent.requests++;
	h->status.sent_bytes += r->len;
	record_success(h, f->generation);
	lower_sample_limit(h, f);
	if (t->refused) {
		h->status.refused += t->refused;
		snprintf(h->status.why, sizeof(h->status.why), "%s", t->why.text);
		log_line(LOG_ERR, "endpoint=\"%s\" file=\"%s\" outcome=refused samples=%llu reason=\"%s\"",
			h->endpoint->name, f->path, (unsigned long long)t->refused, t->why.text);
	}
	go_on(h, f);
}

static void on_result(struct push *h, struct flight *f, const struct http_response *t)
{
	h->said = t->status;
	switch (t->outcome) {
	case HTTP_CLIENT_DONE:
		on_done(h, f, t);
		break;
	case HTTP_CLIENT_TOO_LARGE:
		shrink_requests(h, f, t);
		break;
	case HTTP_CLIENT_REFUSED:
		record_success(h, f->generation); /* the server is up and reads requests */
		give_up(h, f, t->why.text);
		break;
	case HTTP_CLIENT_LATER:
		record_failure(h, f->generation, t->why.text, t->later_s);
		take_back(h, f);
		break;
	}
}

/* --- all that come ---------------------------------------------------------------------------------------- */

static bool may_start(const struct push *h)
{
	return clock_now() >= h->again && h->flights < (h->failures ? 1 : PUSH_PARALLEL) && h->bytes < PUSH_BYTES_MAX;
}

/* True for an error that concerns the whole process, and not this file alone. */
static bool is_shortage(int code)
{
	return code == -EMFILE || code == -ENFILE || code == -ENOMEM;
}

static void not_started(struct push *h, struct push_file *file, const char *path, int r)
{
	if (r == -ENOENT) { /* the spool's caps have removed it */
		queue_gone(h->queue, file);
	} else if (is_shortage(r)) {
		queue_back(h->queue, file, queue_progress(file));
		record_failure(h, h->generation, strerror(-r), 0);
	} else {
		say_given_up(h, path, strerror(-r));
		queue_done(h->queue, file);
	}
}

static void start_file(struct push *h, int spool, struct push_file *file)
{
	char path[SPOOL_TARGET_MAX + 256];
	snprintf(path, sizeof(path), "%s/%s", queue_target(file), queue_name(file));
	fd_auto dir = spool_target_open(spool, queue_target(file));
	int fd = dir < 0 ? dir : fd_open(dir, queue_name(file), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0);
	struct flight *f = fd < 0 ? NULL : new_flight(h, file, fd, path);
	if (f) {
		start_flight(h, f);
		return;
	}
	not_started(h, file, path, fd < 0 ? fd : -ENOMEM);
	fd_close(fd);
}

static void scan_spool(struct push *h)
{
	struct err e = {0};
	const size_t before = queue_waiting(h->queue);
	const uint64_t lost = queue_lost(h->queue);
	const int64_t began = clock_now();
	queue_scan(h->queue, &e);
	const int64_t rest = SCAN_SHARE * (clock_now() - began);
	h->scan_due = began + (rest > SCAN_NS ? rest : SCAN_NS);
	if (e.code)
		log_line(LOG_WARNING, "endpoint=\"%s\" reason=\"%s\"", h->endpoint->name, e.text);
	if (queue_lost(h->queue) > lost)
		log_line(LOG_ERR,
			"endpoint=\"%s\" outcome=lost files=%llu reason=\"the spool's caps removed them first\"",
			h->endpoint->name, (unsigned long long)(queue_lost(h->queue) - lost));
	if (queue_waiting(h->queue) != before || queue_lost(h->queue) > lost)
		h->status_wanted = true;
}

static bool is_due(const struct push *h)
{
	const int64_t now = clock_now();
	return now >= h->scan_due || now >= h->told_by || (h->status_wanted && now >= h->status_due);
}

static int wait_ms(const struct push *h)
{
	int64_t until = h->scan_due;
	if (h->again > clock_now() && h->again < until)
		until = h->again;
	if (h->status_wanted && h->status_due < until)
		until = h->status_due;
	return deadline_left_ms(until);
}

static int go_round(struct push *h, int timeout_ms, struct err *e)
{
	struct http_response result;
	void *of;
	if (!h->transfers) {
		struct timespec pause = {timeout_ms / 1000, timeout_ms % 1000 * 1000000};
		nanosleep(&pause, NULL);
		return 0;
	}
	if (transfers_wait(h->transfers, timeout_ms) < 0)
		return err_say(e, -EIO, "libcurl does not go on");
	while (transfers_next(h->transfers, &of, &result))
		on_result(h, of, &result);
	return 0;
}

static int drain_flights(struct push *h, struct err *e)
{
	const int64_t deadline = deadline_in(DRAIN_NS);
	int r = 0;
	while (r == 0 && h->flights && deadline_left_ms(deadline) > 0)
		r = go_round(h, deadline_left_ms(deadline), e);
	tell_status(h);
	return r;
}

static bool is_wanted_event(const void *arg, const char *event)
{
	return push_endpoint_wants(arg, event);
}

static void look_after(struct push *h)
{
	if (clock_now() >= h->scan_due)
		scan_spool(h);
	if ((h->status_wanted && clock_now() >= h->status_due) || clock_now() >= h->told_by)
		tell_status(h);
}

static bool goes_on(const struct push *h)
{
	return !*h->stop && !h->broken;
}

int push_follow(struct push *h, int spool, bool backlog, struct err *e)
{
	struct push_file *file;
	int r = queue_open(spool, h->endpoint->name, is_wanted_event, h->endpoint, backlog, &h->queue, e);
	if (r < 0)
		return r;
	if (e->code)
		log_line(LOG_WARNING, "endpoint=\"%s\" reason=\"%s\"", h->endpoint->name, e->text);
	tell_status(h);
	while (r == 0 && goes_on(h)) {
		look_after(h);
		while (goes_on(h) && may_start(h) && !is_due(h) && (file = queue_next(h->queue)))
			start_file(h, spool, file);
		r = goes_on(h) ? go_round(h, wait_ms(h), e) : 0;
	}
	if (r == 0)
		r = drain_flights(h, e);
	return r == 0 && h->broken ? err_say(e, -ECONNRESET, "the process that makes requests has ended") : r;
}

/* --- one by one ------------------------------------------------------------------------------------------- */

/* Returns the last `n` parts of a path; NULL: there are fewer. */
static const char *last_parts(const char *path, unsigned n)
{
	const char *at = path + strlen(path);
	for (; at > path; at--)
		if (at[-1] == '/' && --n == 0)
			return at;
	return n == 1 ? path : NULL;
}

/* True if the directory `above` ("../", ...), seen from the file's, is a spool: a spool has an index. */
static bool is_spool(int dir, const char *file, const char *above)
{
	const char *slash = strrchr(file, '/');
	char path[4096];
	struct stat st;
	const int n = snprintf(
		path, sizeof(path), "%.*s%s" SPOOL_INDEX_FILE, slash ? (int)(slash + 1 - file) : 0, file, above);
	return n < (int)sizeof(path) && fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode);
}

/*
 * Writes TARGET/FILE, the path below the spool. A path alone does not tell how many levels the target has (/home/me/web
 * is no container of Kubernetes), so look for the spool. The target of a bare file name is the name up to its first
 * dot.
 */
static void tail_of(int dir, const char *file, const char *path, char *buf, size_t size)
{
	const char *slash = strrchr(path, '/'), *nested = last_parts(path, SPOOL_LEVELS + 1),
		   *two = last_parts(path, 2);
	char target[SPOOL_TARGET_MAX + 1] = "";
	if (nested && slash - nested <= SPOOL_TARGET_MAX)
		snprintf(target, sizeof(target), "%.*s", (int)(slash - nested), nested);
	if (spool_target_is_nested(target) && !is_spool(dir, file, "../") && is_spool(dir, file, "../../../"))
		snprintf(buf, size, "%s", nested);
	else if (slash && slash > path)
		snprintf(buf, size, "%s", two);
	else
		snprintf(buf, size, "%.*s/%s", (int)strcspn(path + !!slash, "."), path + !!slash, path + !!slash);
}

static int try_file(struct push *h, int dir, const char *file, const char *path, struct err *e)
{
	const struct status before = h->status;
	char tail[SPOOL_TARGET_MAX + 256];
	tail_of(dir, file, path, tail, sizeof(tail));
	int fd = fd_open(dir, file, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0), r = 0;
	struct flight *f = fd < 0 ? NULL : new_flight(h, NULL, fd, tail);
	if (!f) {
		fd_close(fd);
		return err_set(e, fd < 0 ? fd : -ENOMEM, "cannot read %s", path);
	}
	start_flight(h, f);
	while (r == 0 && h->flights && !*h->stop)
		r = go_round(h, 1000, e);
	if (r == 0 && *h->stop)
		r = err_say(e, -EINTR, "stopped at %s", path);
	if (r == 0 && h->broken)
		r = err_say(e, -ECONNRESET, "the process that makes requests has ended");
	if (r < 0 || (h->status.sent > before.sent && h->status.refused == before.refused))
		return r;
	return err_say(e, h->status.refused > before.refused ? -EBADMSG : -EAGAIN, "%s: %s", path, h->status.why);
}

/* True for errors that pass by themselves in seconds. The user fixes the others: no connection, a wrong token or
 * address. */
static bool may_pass(unsigned status)
{
	return status == 408 || status == 425 || status == 429 || status >= 500;
}

static void sleep_until(const struct push *h, int64_t when)
{
	int64_t left;
	while (!*h->stop && (left = when - clock_now()) > 0)
		nanosleep(&(struct timespec){left / NSEC_PER_SEC, left % NSEC_PER_SEC}, NULL);
}

int push_file(struct push *h, int dir, const char *file, const char *path, struct err *e)
{
	int r = -EAGAIN;
	h->resume = (struct push_progress){0};
	for (unsigned tries = 0; r == -EAGAIN && tries < PUSH_TRIES && (!tries || may_pass(h->said)); tries++) {
		const int64_t latest = deadline_in(PUSH_PAUSE_MAX_S * NSEC_PER_SEC);
		sleep_until(h, h->again < latest ? h->again : latest);
		r = *h->stop ? err_say(e, -EINTR, "stopped at %s", path) : try_file(h, dir, file, path, e);
	}
	return r;
}
