/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/daemon/supervisor.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "oci/base/log.h"
#include "oci/base/process/child_process.h"
#include "profiler/process/supervisor_link.h"
#include "profiler/spool/spool_lock.h"
#include "profiler/target/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define AGAIN "profiling it has ended the profiler again and again"
#define ANEW "the profiler had to start anew: try again"
#define REAP_NS (200 * NSEC_PER_MSEC) /* for its exit status, which says whether it died by its own fault */
#define BACKOFF_MAX_NS (5 * NSEC_PER_SEC)
#define TELL_AGAIN_MS 50
#define SWITCHED_OFF "switched off on this host: 'pillion on' ends that"
#define LEAVE_NS (5 * NSEC_PER_SEC) /* for the last windows of targets that end with us */
#define REMAPS_MAX 2		    /* attempts for one target: a worker may die meanwhile */
#define HASTY 2			    /* deaths in a row, each soon after the start: the journal is cleared */

/* Its descriptors are counted by the caller, when it has all of them. */
static void add_target(struct supervisor *s, struct registered_target *r, uint32_t number)
{
	r->supervisor = s;
	r->number = number;
	s->last_number = number > s->last_number ? number : s->last_number;
	r->next = s->targets;
	s->targets = r;
	s->n_targets++;
}

static void remove_target(struct supervisor *s, struct registered_target *r)
{
	fd_store_forget(s, r);
	for (struct registered_target **at = &s->targets; *at; at = &(*at)->next)
		if (*at == r) {
			*at = r->next;
			s->n_targets--;
			s->n_fds -= registered_fds(r);
			break;
		}
	event_loop_del(s->loop, &r->link.source);
	registered_free(r);
}

static void kill_worker(struct supervisor *s)
{
	if (s->current.pidfd >= 0)
		child_process_kill(s->current.pidfd);
	else if (!s->current.adopted && s->current.pid > 0) /* between two of them there is none */
		kill(s->current.pid, SIGKILL);
}

static void call_answer_callback(struct registered_target *r, const union msg *m)
{
	if (r->link.answer)
		r->link.answer(r->link.arg, m);
}

/* --- the worker's answers ------------------------------------------------------------------------------ */

static void on_relay(void *arg, uint32_t events)
{
	struct registered_target *r = arg;
	struct supervisor *s = r->supervisor;
	union msg *m = &s->msg;
	int fds[1];
	size_t n = 0;
	struct err e;
	ssize_t got = fd_recv(r->link.sock, m, sizeof(*m), fds, 0, &n);
	if (got == -EAGAIN)
		return;
	if (got <= 0) { /* the worker has died: on_channel() sees that */
		event_loop_del(s->loop, &r->link.source);
		return;
	}
	bool is_word = msg_check(m, (size_t)got, 0, &e) == 0;
	bool is_last = is_word && (m->head.type == MSG_REFUSE || m->head.type == MSG_ENDED);
	if (!is_word || (m->head.type != MSG_OK && !is_last)) {
		log_line(LOG_ERR, "outcome=worker_killed reason=\"it said what it should not\"");
		kill_worker(s);
		return;
	}
	r->owed = false;
	r->detached &= m->head.type != MSG_OK;
	r->armed |= m->head.type == MSG_OK && registered_is_complete(r);
	if (r->armed && r->store.kept == KEPT_YET)
		fd_store_round(s); /* before the peer has its OK */
	call_answer_callback(r, m);
	if (is_last)
		remove_target(s, r);
}

static int connect_relay(struct supervisor *s, struct registered_target *r)
{
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	event_loop_del(s->loop, &r->link.source);
	fd_close(r->link.sock);
	r->link.sock = pair[0];
	r->link.far = pair[1];
	fcntl(r->link.sock, F_SETFL, O_NONBLOCK);
	return event_loop_add(s->loop, &r->link.source, r->link.sock, EPOLLIN, on_relay, r);
}

/* --- requests of the worker ---------------------------------------------------------------------------- */

struct registered_target *supervisor_find(struct supervisor *s, uint32_t number)
{
	struct registered_target *r = s->targets;
	while (r && r->number != number)
		r = r->next;
	return r;
}

static void close_event(struct supervisor *s, uint32_t number, uint32_t index)
{
	struct registered_target *r = supervisor_find(s, number);
	if (r && r->armed && index < r->n_events)
		r->event_fds[index] = fd_close(r->event_fds[index]);
}

static void keep_memory_fd(struct supervisor *s, const struct worker_request *q, int fd)
{
	struct registered_target *r = supervisor_find(s, q->number);
	if (!r) {
		fd_close(fd);
		return;
	}
	s->n_fds -= registered_fds(r);
	registered_remember(r, q->index, fd);
	s->n_fds += registered_fds(r);
}

static size_t list_processes(int cgroup, char *text, size_t size)
{
	char procs[PROCESS_LIST_MAX], name[64], *save = NULL;
	size_t at = 0;
	if (cgroup < 0 || fd_read_text(cgroup, "cgroup.procs", procs, sizeof(procs)) < 0)
		return 0;
	if (strlen(procs) == sizeof(procs) - 1) { /* the last number may be a part of one */
		char *end = strrchr(procs, '\n');
		*(end ? end : procs) = 0;
	}
	for (char *line = strtok_r(procs, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		pid_t host = atoi(line), pid;
		if (host <= 0 || proc_status_nspid(host, &pid) < 0 ||
			proc_status_field(host, "Name", name, sizeof(name)) < 0)
			continue;
		int n = snprintf(text + at, size - at, "%d %s\n", (int)pid, name);
		if (n < 0 || (size_t)n >= size - at)
			break;
		at += (size_t)n;
	}
	return at;
}

static void tell_who(struct supervisor *s, uint32_t number, int sock)
{
	char text[PROCESS_LIST_MAX];
	struct registered_target *r = supervisor_find(s, number);
	fcntl(sock, F_SETFL, O_NONBLOCK);
	fd_send(sock, text, r ? list_processes(registered_cgroup(r), text, sizeof(text)) : 0, NULL, 0);
}

/* --- the worker's life --------------------------------------------------------------------------------- */

static void on_channel(void *arg, uint32_t events);

static void unwind_start(struct supervisor *s, int *channel)
{
	fd_close(channel[0]);
	fd_close(channel[1]);
	for (struct registered_target *r = s->targets; r; r = r->next)
		r->link.far = fd_close(r->link.far);
}

static int register_worker(struct supervisor *s, pid_t pid, int pidfd, int channel)
{
	s->worker_kept = false;
	s->current.pid = pid;
	s->current.pidfd = pidfd;
	s->current.channel = channel;
	restart_started(&s->current.restart, clock_now());
	fcntl(s->current.channel, F_SETFL, O_NONBLOCK);
	return event_loop_add(s->loop, &s->current.source, s->current.channel, EPOLLIN, on_channel, s);
}

/* In the child: closes all that is not the worker's. */
static void be_worker(struct supervisor *s)
{
	fd_close(s->current.channel);
	fd_close(s->current.pidfd);
	kill_switch_close(&s->killswitch, NULL);
	for (struct registered_target *r = s->targets; r; r = r->next)
		fd_close(r->link.sock);
	s->engine->spool.exporter_sock = s->exporter.process.sock;
	s->engine->symbols.symbolizer_sockets = s->symbolizer.sockets;
	s->engine->symbols.symbolizer_renewable = s->symbolizer.renewable;
	exporter_manager_abandon(&s->exporter);
	symbolizer_manager_abandon(&s->symbolizer);
	s->in_worker(s->arg);
	event_loop_free(s->loop);
}

/* Waits for the supervisor's first, empty message: then it is no longer as expendable as its worker (oom_score.h). */
static void await_go(int channel)
{
	char go;
	if (recv(channel, &go, sizeof(go), 0) != sizeof(go))
		_exit(1);
}

static int start_worker(struct supervisor *s)
{
	int channel[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, channel) < 0)
		return -errno;
	int r = 0;
	for (struct registered_target *t = s->targets; t && r == 0; t = t->next)
		r = connect_relay(s, t);
	s->engine->host.at->target = s->engine->host.at->reading = 0;
	if (s->engine->role.modest)
		cpu_rings_unmap(s->engine->perf.rings);
	oom_score_before_fork(s->oom, 1);
	pid_t pid = r == 0 ? fork() : -1;
	if (pid == 0) {
		s->current.channel = channel[0];
		await_go(channel[1]);
		be_worker(s);
		_exit(worker_main(s->engine, s->settings, channel[1], s->targets));
	}
	int error = -errno;
	oom_score_after_fork(s->oom);
	if (pid < 0) {
		r = r < 0 ? r : error;
		unwind_start(s, channel);
		return r;
	}
	fd_send(channel[0], "", 1, NULL, 0);
	fd_close(channel[1]);
	for (struct registered_target *t = s->targets; t; t = t->next)
		t->link.far = fd_close(t->link.far);
	s->current.adopted = false;
	s->symbolizer.news = SYMBOLIZER_MANAGER_TOLD;
	return register_worker(s, pid, child_process_pidfd(pid), channel[0]);
}

static void start_again(struct supervisor *s)
{
	int r = start_worker(s);
	if (r < 0) {
		s->current.restart.due = deadline_in(BACKOFF_MAX_NS);
		log_line(LOG_ERR, "outcome=no_worker reason=\"%s\"", strerror(-r));
		return;
	}
	s->current.restarts++;
	log_line(LOG_WARNING, "worker=%d state=started targets=%u restarts=%llu", (int)s->current.pid, s->n_targets,
		(unsigned long long)s->current.restarts);
}

/*
 * Lets go of a target: it kills workers, or its messages were lost with a worker and no peer can repeat them, or
 * profiling was switched off before it was armed.
 */
static void let_go(struct supervisor *s, struct registered_target *r, const char *why)
{
	union msg m = {.refuse = {.code = -ECONNRESET}};
	snprintf(m.refuse.text, sizeof(m.refuse.text), "%s", why);
	m.refuse.head = (struct msg_head){PROTOCOL_MAGIC, PROTOCOL_VERSION, MSG_REFUSE, sizeof(m.refuse), 0};
	log_line(LOG_ERR, "target=%s outcome=dropped reason=\"%s\"", r->desc.id, why);
	call_answer_callback(r, &m);
	remove_target(s, r);
}

/* Finds the cause when a worker died by its own fault. True: the file that it was reading; false: the target. */
static bool blame_file(struct supervisor *s)
{
	const struct crash_marker at = *s->engine->host.at; /* a copy, as workers write to this memory */
	struct registered_target *r = supervisor_find(s, at.target);
	struct quarantine_file f;
	enum crash_verdict v =
		r ? quarantine_judge(&s->engine->host.quarantine, &at, &r->blame, clock_now(), &f) : VERDICT_TARGET;
	if (v == VERDICT_QUARANTINE)
		log_line(LOG_ERR,
			"target=%s module=\"%.500s\" outcome=quarantined reason=\"reading it has ended the profiler "
			"again and again: its functions are addresses only\"",
			r->desc.id, f.path);
	return v != VERDICT_TARGET;
}

static void quarantine_target(struct registered_target *r)
{
	log_line(LOG_ERR, "target=%s outcome=quarantined reason=\"" AGAIN "\"", r->desc.id);
	r->plain = true;
	r->blame.own.n = 0;
}

static void sort_out(struct supervisor *s)
{
	for (struct registered_target *r = s->targets, *next; r; r = next) {
		next = r->next;
		if (r->blame.own.n >= QUARANTINE_DEATHS && (r->plain || !r->armed))
			let_go(s, r, AGAIN);
		else if (r->blame.own.n >= QUARANTINE_DEATHS)
			quarantine_target(r);
		else if (r->described && (r->owed || !r->whole))
			let_go(s, r, ANEW);
	}
}

static void clear_journal(struct supervisor *s);

/* of a worker that was killed, and of one that died by itself */
static const struct restart_rule rules[] = {
	{.steady = 100 * NSEC_PER_MSEC, .free = 8, .pause = 100 * NSEC_PER_MSEC, .most = BACKOFF_MAX_NS},
	{.steady = 5 * NSEC_PER_SEC, .free = 8, .pause = 100 * NSEC_PER_MSEC, .most = BACKOFF_MAX_NS}};

static void on_death(struct supervisor *s)
{
	char fate[64];
	event_loop_del(s->loop, &s->current.source);
	s->current.channel = fd_close(s->current.channel);
	kill_worker(s); /* it may still live, with its channel closed or broken */
	if (s->current.adopted)
		fd_wait(s->current.pidfd, POLLIN, clock_now() + REAP_NS);
	int status = child_process_wait(s->current.pid, clock_now() + REAP_NS);
	s->current.pidfd = fd_close(s->current.pidfd);
	bool by_itself = status > 0 && !(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	s->current.pid = -1;
	if (s->quitting || s->leaving) {
		event_loop_stop(s->loop);
		return;
	}
	if (s->current.replaces) {
		log_line(LOG_INFO, "outcome=worker_replaced targets=%u", s->n_targets);
		s->current.replaces = false;
		s->current.restart.due = clock_now();
		sort_out(s);
		return;
	}
	log_line(LOG_ERR, "outcome=worker_died reason=\"%s\"",
		status == -ECHILD ? "it was another supervisor's" : child_process_fate(status, fate, sizeof(fate)));
	restart_ended(&s->current.restart, &rules[by_itself], clock_now());
	if (by_itself && !blame_file(s) && s->current.restart.failures >= HASTY)
		clear_journal(s);
	sort_out(s);
}

static void on_channel(void *arg, uint32_t events)
{
	struct supervisor *s = arg;
	struct worker_request q;
	int fd = -1;
	size_t n = 0;
	ssize_t got = fd_recv(s->current.channel, &q, sizeof(q), &fd, 1, &n);
	if (got == -EAGAIN || (got == -EMFILE && !(events & EPOLLHUP)))
		return;
	if (got != sizeof(q))
		on_death(s);
	else if (q.kind == REQUEST_EXPORTER)
		exporter_manager_end(&s->exporter);
	else if (q.kind == REQUEST_CLOSE_EVENT)
		close_event(s, q.number, q.index);
	else if (q.kind == REQUEST_KEEP_MEMORY)
		keep_memory_fd(s, &q, n ? fd : -1), n = 0;
	else if (n)
		tell_who(s, q.number, fd);
	fd_close(n ? fd : -1);
}

/* --- orders -------------------------------------------------------------------------------------------- */

static int order_with(struct supervisor *s, const struct supervisor_order *o, const int *fds, size_t n)
{
	return s->current.channel < 0 ? -ENOTCONN : fd_send(s->current.channel, o, order_size(o), fds, n);
}

static int send_order(struct supervisor *s, const struct supervisor_order *o, int fd)
{
	return order_with(s, o, &fd, fd >= 0);
}

static int not_there(int r, struct err *e)
{
	return r < 0 ? err_say(e, r, "pilliond's worker cannot be spoken to (%s): try again", strerror(-r)) : 0;
}

uint32_t supervisor_room(const struct supervisor *s)
{
	return limits_fds(s->engine, cpu_rings_count(s->engine->perf.rings) + s->n_fds);
}

static bool admit_target(struct supervisor *s, struct err *e)
{
	if (s->killswitch.off) {
		err_say(e, -EPERM, SWITCHED_OFF);
		return false;
	}
	if (limits_check_new_target(s->engine, s->n_targets, e) == 0)
		return true;
	s->engine->refused++; /* the next worker begins with this count */
	send_order(s, &(struct supervisor_order){.kind = ORDER_REFUSED}, -1);
	return false;
}

struct registered_target *supervisor_register(
	struct supervisor *s, const struct target_desc *d, const int *fds, struct err *e)
{
	struct registered_target *r = registered_new(d, fds);
	if (!r)
		return err_set(e, -ENOMEM, "no memory for a target"), NULL;
	if (!admit_target(s, e)) {
		registered_free(r);
		return NULL;
	}
	add_target(s, r, s->last_number + 1);
	s->n_fds += registered_fds(r);
	int error = connect_relay(s, r);
	if (error == 0)
		error = send_order(
			s, &(struct supervisor_order){.kind = ORDER_SERVE, .number = r->number}, r->link.far);
	r->link.far = fd_close(r->link.far);
	union msg *m = &s->msg;
	int passed[TARGET_FDS_ALL];
	size_t n = registered_list(r, passed);
	m->target.desc = r->desc;
	if (error == 0)
		error = msg_send(r->link.sock, m, MSG_TARGET, passed, n);
	if (error < 0) {
		not_there(error, e);
		remove_target(s, r);
		return NULL;
	}
	r->owed = registered_is_complete(r);
	spool_lock_describe(s->engine->spool.lock, r->desc.host_pid, r->desc.start_time);
	return r;
}

int supervisor_pass(
	struct supervisor *s, struct registered_target *r, union msg *m, const int *fds, size_t n, struct err *e)
{
	enum msg_type type = (enum msg_type)m->head.type;
	int error = r->owed ? err_say(e, -EPROTO, "more before the answer") : 0;
	if (type == MSG_TASKS && s->current.pid < 0) /* the next worker would not know them */
		error = err_say(e, -ECONNRESET, ANEW);
	if (error == 0)
		error = msg_send(r->link.sock, m, type, fds, n);
	/* the worker has hung up: its last answer is under way, or it has died and the next one will answer */
	error = error == -EPIPE || error == -ECONNRESET ? 0 : error;
	if (!e->code)
		not_there(error, e);
	if (type == MSG_EVENTS) {
		s->n_fds -= registered_fds(r);
		int kept = registered_add(r, &m->events, fds);
		s->n_fds += registered_fds(r);
		return error < 0 ? error : kept < 0 ? err_set(e, kept, "events of a target") : (r->owed = true, 0);
	}
	fd_close_each(fds, n);
	r->described = r->desc.running;
	r->owed |= error == 0;
	return error;
}

struct registered_target *supervisor_unmapped(struct supervisor *s, bool *ret_later)
{
	*ret_later = false;
	for (struct registered_target *r = s->targets; r; r = r->next) {
		bool wants = r->unmapped && !r->link.answer && r->offered < REMAPS_MAX;
		if (wants && !r->owed && s->current.pid >= 0)
			return r;
		*ret_later |= wants;
	}
	return NULL;
}

void supervisor_stop(struct supervisor *s, struct registered_target *r)
{
	if (r->armed && !r->stopping) {
		r->stopping = true;
		s->msg.stop = (struct msg_stop){0};
		msg_send(r->link.sock, &s->msg, MSG_STOP, NULL, 0); /* without a worker: the next one is told */
	} else if (!r->armed) {
		remove_target(s, r);
	}
}

void supervisor_look(struct supervisor *s, const char *id)
{
	struct supervisor_order o = {.kind = ORDER_CHECK_END};
	snprintf(o.id, sizeof(o.id), "%s", id);
	send_order(s, &o, -1);
}

int supervisor_list(struct supervisor *s, int sock, struct err *e)
{
	int r = not_there(send_order(s, &(struct supervisor_order){.kind = ORDER_SERVE}, sock), e);
	if (r == 0)
		fd_close(sock);
	return r;
}

void supervisor_outcome(struct supervisor *s, const struct msg_outcome *m)
{
	hook_stats_add(&s->engine->outcomes, m); /* the next worker begins with these counts */
	send_order(s, &(struct supervisor_order){.kind = ORDER_OUTCOME, .outcome = *m}, -1);
}

void supervisor_settings(struct supervisor *s, const struct settings *fresh)
{
	struct supervisor_order o = {.kind = ORDER_SETTINGS, .settings = *fresh};
	s->exporter.setup.spool_bytes = fresh->spool_bytes; /* of the next one */
	s->exporter.setup.spool_age_s = fresh->spool_age_s;
	send_order(s, &o, -1);
}

void supervisor_quit(struct supervisor *s)
{
	if (s->quitting)
		return;
	s->quitting = true;
	s->leaving = false;
	s->quit_by = deadline_in(SUPERVISOR_QUIT_MS * NSEC_PER_MSEC);
	if (s->current.pid < 0)
		event_loop_stop(s->loop);
	int r = send_order(s, &(struct supervisor_order){.kind = ORDER_QUIT}, -1);
	if (r < 0 && s->current.pid >= 0) {
		log_line(LOG_ERR, "outcome=worker_killed reason=\"it cannot be told to end: %s\"", strerror(-r));
		kill_worker(s);
	}
}

void supervisor_leave(struct supervisor *s)
{
	if (s->quitting || s->leaving)
		return;
	s->leaving = true;
	s->quit_by = deadline_in(LEAVE_NS);
	for (struct registered_target *r = s->targets; r; r = r->next)
		if (r->desc.running && r->armed)
			supervisor_stop(s, r);
}

/* True while a target is here that ends with us, or is being registered: its peer shall not have to begin anew. */
static bool any_of_ours(const struct supervisor *s)
{
	const struct registered_target *r = s->targets;
	while (r && r->armed && !r->desc.running)
		r = r->next;
	return r;
}

/* Tells the worker that we leave, and ends the loop: the worker waits for the next supervisor (worker_handover.h). */
static int watch_leaving(struct supervisor *s)
{
	if (!s->leaving)
		return -1;
	if (any_of_ours(s) && clock_now() < s->quit_by)
		return deadline_left_ms(s->quit_by);
	if (send_order(s, &(struct supervisor_order){.kind = ORDER_HAND_OVER}, -1) < 0)
		log_line(LOG_WARNING, "outcome=worker_kept reason=\"it cannot be told\"");
	event_loop_stop(s->loop);
	return -1;
}

static void on_switch(void *arg)
{
	struct supervisor *s = arg;
	log_line(LOG_WARNING, "outcome=switched_%s targets=%u file=%s/off", s->killswitch.off ? "off" : "on",
		s->n_targets, s->killswitch.dir);
	for (struct registered_target *r = s->targets, *next; s->killswitch.off && r; r = next) {
		next = r->next;
		if (r->armed)
			supervisor_stop(s, r);
		else /* its peer gets a REFUSE */
			let_go(s, r, SWITCHED_OFF);
	}
}

static int watch_exporter(struct supervisor *s)
{
	bool fresh;
	int wait = exporter_manager_watch(&s->exporter, s->loop, &fresh);
	if (fresh)
		send_order(s, &(struct supervisor_order){.kind = ORDER_EXPORTER}, s->exporter.process.sock);
	return wait;
}

/* Tells the worker of news; when its channel is full, a little later. */
static int watch_symbolizer(struct supervisor *s)
{
	struct symbolizer_manager *x = &s->symbolizer;
	int wait = symbolizer_manager_round(x);
	struct supervisor_order o = {.kind = ORDER_SYMBOLIZER, .number = symbolizer_manager_state(x)};
	int fds[] = {x->sockets.questions, x->sockets.readers};
	if (!x->news)
		return wait;
	if (order_with(s, &o, fds, x->news == SYMBOLIZER_MANAGER_SOCKETS ? 2 : 0) == -EAGAIN)
		return event_loop_sooner(wait, TELL_AGAIN_MS);
	x->news = SYMBOLIZER_MANAGER_TOLD; /* without a worker: the next one is forked with all of it */
	return wait;
}

static int watch_worker(struct supervisor *s)
{
	int64_t now = clock_now(), next = s->quitting || s->current.replaces ? s->quit_by : s->current.restart.due;
	if (!next)
		return -1;
	if (now < next)
		return deadline_left_ms(next);
	if (s->quitting) {
		log_line(LOG_ERR, "outcome=worker_killed reason=\"it does not end\"");
		kill_worker(s);
		event_loop_stop(s->loop);
		return -1;
	}
	if (s->current.replaces) {
		log_line(LOG_ERR, "outcome=worker_killed reason=\"it does not make room\"");
		kill_worker(s);
		s->quit_by = deadline_in(SUPERVISOR_QUIT_MS * NSEC_PER_MSEC);
		return -1;
	}
	start_again(s);
	return s->current.restart.due ? deadline_left_ms(s->current.restart.due) : -1;
}

/* --- a worker that is there already ---------------------------------------------------------------------- */

struct registered_target *supervisor_adopt(
	struct supervisor *s, const struct target_desc *d, uint32_t number, int relay, const int *fds)
{
	struct registered_target *r = registered_new(d, fds);
	if (!r) {
		fd_close(relay);
		return NULL;
	}
	add_target(s, r, number);
	r->link.sock = relay;
	r->armed = true;
	return r;
}

int supervisor_inherit(struct supervisor *s, pid_t worker, int pidfd, int channel)
{
	for (struct registered_target *r = s->targets; r; r = r->next) {
		r->total = r->n_events;
		s->n_fds += registered_fds(r);
		fcntl(r->link.sock, F_SETFL, O_NONBLOCK);
		event_loop_add(s->loop, &r->link.source, r->link.sock, EPOLLIN, on_relay, r);
	}
	s->current.adopted = true;
	int r = register_worker(s, worker, pidfd, channel);
	if (s->killswitch.off)
		on_switch(s);
	return r < 0 ? r
		     : send_order(
			       s, &(struct supervisor_order){.kind = ORDER_HANDOVER_SOCKET}, s->engine->host.handover);
}

void supervisor_restore(struct supervisor *s, struct registered_target *r, uint32_t number)
{
	add_target(s, r, number);
	r->armed = r->owed = true; /* owed: its events are to write again */
	s->n_fds += registered_fds(r);
}

void supervisor_disown(struct supervisor *s)
{
	for (struct registered_target *r = s->targets; r; r = r->next)
		s->n_fds += registered_fds(r); /* which remove_target() takes off */
	while (s->targets)
		remove_target(s, s->targets);
}

static int cannot_start(int r, struct err *e)
{
	return r == -EMFILE ? err_say(e, r, "pilliond is out of file descriptors: raise its LimitNOFILE")
	       : r < 0	    ? err_set(e, r, "cannot start the worker")
			    : 0;
}

int supervisor_new(struct supervisor *s, struct err *e)
{
	s->current.pid = s->current.channel = s->current.pidfd = s->current.source.fd = -1;
	s->engine->host.at =
		mmap(NULL, sizeof(*s->engine->host.at), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (s->engine->host.at == MAP_FAILED)
		return err_set(e, -errno, "cannot start the worker");
	for (unsigned i = 0; i < 2; i++)
		s->engine->host.journal[i] = memfd_create("pillion-journal", MFD_CLOEXEC);
	int r = close_possibly_blocking_prepare(); /* now, while there is room for a descriptor */
	if (r == 0)
		r = event_loop_new(&s->loop);
	s->killswitch.turned = on_switch;
	s->killswitch.arg = s;
	s->killswitch.fd = -1;
	if (r == 0)
		kill_switch_open(&s->killswitch, s->settings->paths.etc, s->loop);
	return cannot_start(r, e);
}

/* The worker may have died of the journal, which it reads as it starts. */
static void clear_journal(struct supervisor *s)
{
	for (unsigned i = 0; i < 2; i++)
		if (ftruncate(s->engine->host.journal[i], 0) < 0)
			log_line(LOG_ERR, "outcome=journal_kept reason=\"%s\"", strerror(errno));
}

int supervisor_round(struct supervisor *s)
{
	int wait = watch_worker(s);
	registered_reap();
	wait = event_loop_sooner(wait, watch_symbolizer(s));
	wait = event_loop_sooner(wait, kill_switch_round(&s->killswitch));
	wait = event_loop_sooner(wait, fd_store_round(s));
	wait = event_loop_sooner(wait, watch_leaving(s));
	return event_loop_sooner(wait, watch_exporter(s));
}

int supervisor_start(struct supervisor *s, struct err *e)
{
	s->exporter.oom = s->oom;
	int r = exporter_manager_start(&s->exporter, s->loop, e);
	if (r < 0)
		return r == -EMFILE ? cannot_start(r, e) : r;
	symbolizer_manager_start(&s->symbolizer, s->loop);
	if (s->current.pid >= 0) /* it was another supervisor's, and so is its exporter */
		send_order(s, &(struct supervisor_order){.kind = ORDER_EXPORTER}, s->exporter.process.sock);
	if (s->current.replaces) {
		send_order(s, &(struct supervisor_order){.kind = ORDER_FLUSH_AND_EXIT}, -1);
		s->quit_by = deadline_in(SUPERVISOR_QUIT_MS * NSEC_PER_MSEC);
	}
	r = s->current.pid < 0 ? start_worker(s) : 0;
	return cannot_start(r, e);
}

void supervisor_done(struct supervisor *s)
{
	while (s->targets)
		remove_target(s, s->targets);
	kill_switch_close(&s->killswitch, s->loop);
	event_loop_del(s->loop, &s->current.source);
	s->current.channel = fd_close(s->current.channel);
	s->current.pidfd = fd_close(s->current.pidfd);
	exporter_manager_close(&s->exporter, s->loop);
	symbolizer_manager_close(&s->symbolizer);
	fd_close(s->engine->host.journal[0]);
	fd_close(s->engine->host.journal[1]);
	close_possibly_blocking_done();
	munmap(s->engine->host.at, sizeof(*s->engine->host.at));
	free(s->drops);
}
