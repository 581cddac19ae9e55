/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/daemon/user_services.h"

#include "oci/base/clock.h"
#include "oci/base/event_loop.h"
#include "oci/base/fd.h"
#include "oci/base/log.h"
#include "oci/base/process/child_process.h"
#include "oci/isolation/seccomp.h"
#include "profiler/daemon/user_service.h"
#include "profiler/daemon/user_spool_cleanup.h"
#include "shim/protocol/messages.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define NICE 10
#define PROCESSES 160		    /* of the 256 of our user: the rest is for the service itself */
#define QUIT_NS (15 * NSEC_PER_SEC) /* for a tenant, after the end of its channel (SUPERVISOR_QUIT_MS and a little) */
#define LAST_NS (2 * NSEC_PER_SEC)  /* for tenants that were killed then */
#define PAUSE_MS 100
#define GRACE_NS (3 * NSEC_PER_SEC) /* for all of them, at the service's end */

/* --- the supervisor's side ------------------------------------------------------------------------------- */

static void on_end(void *arg, uint32_t events)
{
	struct user_services *u = arg;
	event_loop_del(u->loop, &u->source);
	waitpid(u->pid, NULL, WNOHANG | __WALL);
	u->channel = fd_close(u->channel);
	u->pidfd = fd_close(u->pidfd);
	u->pid = 0;
	log_line(LOG_ERR, "outcome=root_only reason=\"the users' process has ended: restart the service\"");
}

int user_services_watch(struct user_services *u, struct event_loop *l)
{
	u->loop = l;
	u->source.fd = -1;
	return u->pid ? event_loop_add(l, &u->source, u->pidfd, EPOLLIN, on_end, u) : 0;
}

void user_services_settings(struct user_services *u, const struct settings *fresh)
{
	if (u->pid)
		fd_send(u->channel, fresh, sizeof(*fresh), NULL, 0);
}

void user_services_quit(struct user_services *u)
{
	if (u->pid)
		u->channel = fd_close(u->channel);
}

void user_services_abandon(const struct user_services *u)
{
	if (!u->pid)
		return;
	fd_close(u->channel);
	fd_close(u->pidfd);
}

void user_services_end(struct user_services *u)
{
	if (!u->pid)
		return;
	user_services_quit(u);
	event_loop_del(u->loop, &u->source);
	if (u->pidfd >= 0 && fd_wait(u->pidfd, POLLIN, deadline_in(GRACE_NS)) == 1)
		waitpid(u->pid, NULL, WNOHANG | __WALL);
	u->pidfd = fd_close(u->pidfd);
	u->pid = 0;
}

/* --- the process ----------------------------------------------------------------------------------------- */

struct broker;
struct user {
	struct broker *broker;
	uid_t uid;
	pid_t pid; /* 0: it has ended */
	int pidfd;
	int channel; /* -1: it has been told to end */
	/*
	 * A pipe that the process and its worker hold open: the next user gets its rings only when no process maps them
	 * any more, or these would still contain records of this user's events.
	 */
	int held;
	struct event_loop_source source, death, release;
	uint64_t passed; /* connections */
	int waiting;	 /* a connection that came while it ends; -1: none */
	int64_t kill_at;
	struct cpu_rings *rings;
};

static struct broker {
	const struct user_services_setup *setup;
	struct settings settings;
	struct forkserver forkserver;
	struct event_loop *loop;
	int channel;
	struct event_loop_source source, calls;
	struct user users[USERS_MAX];
	unsigned n;
	struct spool_cleanup tending;
	bool quitting;
	int64_t quit_by;
} broker;

static void stop_user_service(struct user *u)
{
	event_loop_del(u->broker->loop, &u->source);
	u->channel = fd_close(u->channel);
	u->kill_at = deadline_in(QUIT_NS);
}

static bool is_free(const struct user *u)
{
	return !u->pid && u->held < 0;
}

static bool is_empty(const struct broker *b)
{
	for (unsigned i = 0; i < b->n; i++)
		if (!is_free(&b->users[i]))
			return false;
	return true;
}

static void stop_if_empty(struct broker *b)
{
	if (b->quitting && is_empty(b))
		event_loop_stop(b->loop);
}

static void take_waiting(struct user *u);

static void on_death(void *arg, uint32_t events)
{
	struct user *u = arg;
	char fate[64];
	int status = child_process_wait(u->pid, clock_now() + NSEC_PER_SEC);
	if (status != 0)
		log_line(LOG_ERR, "user=%u outcome=user_service_died reason=\"%s\"", (unsigned)u->uid,
			child_process_fate(status, fate, sizeof(fate)));
	event_loop_del(u->broker->loop, &u->death);
	stop_user_service(u);
	u->pidfd = fd_close(u->pidfd);
	u->pid = 0;
	take_waiting(u);
	stop_if_empty(u->broker);
}

static void on_release(void *arg, uint32_t events)
{
	struct user *u = arg;
	event_loop_del(u->broker->loop, &u->release);
	u->held = fd_close(u->held);
	take_waiting(u);
	stop_if_empty(u->broker);
}

/* The process is idle and has had so many connections: it is told to end, unless another one is on its way. */
static void on_idle(void *arg, uint32_t events)
{
	struct user *u = arg;
	uint64_t served;
	size_t n = 0;
	ssize_t got = fd_recv(u->channel, &served, sizeof(served), NULL, 0, &n);
	if (got != -EAGAIN && (got != sizeof(served) || served == u->passed))
		stop_user_service(u);
}

/* In the child: closes all but its own descriptors. */
static _Noreturn void become_tenant(struct user *u, int channel, int holds, int sock)
{
	const struct broker *b = u->broker;
	static int keep[CPU_RINGS_CPUS_MAX + 8];
	size_t n = 0;
	const struct user_service_setup mine = {
		&b->settings, u->uid, b->setup->spool, b->setup->root, b->forkserver.sock, channel, sock, u->rings};
	for (unsigned i = 0; i < cpu_rings_count(u->rings); i++)
		keep[n++] = cpu_rings_fd(u->rings, i);
	keep[n++] = mine.spool;
	keep[n++] = mine.root;
	keep[n++] = mine.forkserver;
	keep[n++] = channel;
	keep[n++] = holds;
	keep[n++] = sock;
	keep[n++] = log_fd();
	fd_close_all_but(keep, n);
	user_service_run(&mine);
}

static int watch_user_service(struct user *u)
{
	struct event_loop *l = u->broker->loop;
	u->pidfd = child_process_pidfd(u->pid);
	int r = u->pidfd < 0 ? u->pidfd : event_loop_add(l, &u->death, u->pidfd, EPOLLIN, on_death, u);
	if (r == 0)
		r = event_loop_add(l, &u->release, u->held, EPOLLIN, on_release, u);
	if (r == 0)
		r = event_loop_add(l, &u->source, u->channel, EPOLLIN, on_idle, u);
	return r;
}

static void kill_user_service(struct user *u)
{
	kill(u->pid, SIGKILL);
	child_process_wait(u->pid, clock_now());
	event_loop_del(u->broker->loop, &u->death);
	event_loop_del(u->broker->loop, &u->release);
	u->channel = fd_close(u->channel);
	u->pidfd = fd_close(u->pidfd);
	u->held = fd_close(u->held);
	u->pid = 0;
}

static int start_user_service(struct user *u, uid_t uid, int sock)
{
	int pair[2], held[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	pid_t pid = -1;
	int error = pipe2(held, O_CLOEXEC) < 0 ? -errno : 0;
	u->uid = uid;
	if (error == 0 && (pid = fork()) < 0) {
		error = -errno;
		fd_close(held[0]);
		fd_close(held[1]);
	}
	if (pid == 0)
		become_tenant(u, pair[1], held[1], sock);
	fd_close(pair[1]);
	if (error < 0)
		return fd_close(pair[0]), error;
	fd_close(held[1]);
	u->pid = pid;
	u->held = held[0];
	u->channel = pair[0];
	u->passed = 1;
	fcntl(u->channel, F_SETFL, O_NONBLOCK);
	int r = watch_user_service(u);
	if (r < 0)
		kill_user_service(u);
	return r;
}

/* Starts a new process for a connection that came while the old one was ending, as soon as that has ended. */
static void take_waiting(struct user *u)
{
	struct err e = {0};
	if (!is_free(u) || u->waiting < 0)
		return;
	int sock = u->waiting, r = fd_is_hung_up(sock) ? 0 : start_user_service(u, u->uid, sock);
	u->waiting = -1;
	if (r < 0) {
		err_set(&e, r, "pilliond cannot begin for user %u", (unsigned)u->uid);
		msg_refuse(sock, &e);
	}
	fd_close(sock);
}

/* Returns this user's place, or a free one, or NULL. */
static struct user *find_user_slot(struct broker *b, uid_t uid)
{
	struct user *room = NULL;
	for (unsigned i = 0; i < b->n; i++) {
		struct user *u = &b->users[i];
		if (!is_free(u) && u->uid == uid)
			return u;
		room = is_free(u) && !room ? u : room;
	}
	return room;
}

static int pass_connection(struct broker *b, uid_t uid, int sock, struct err *e)
{
	char nothing = 0;
	struct user *u = find_user_slot(b, uid);
	if (!u)
		return err_say(e, -EBUSY, "pilliond profiles for %u users already: raise users_max", b->n);
	if (is_free(u)) {
		int r = start_user_service(u, uid, sock);
		return r < 0 ? err_set(e, r, "pilliond cannot begin for user %u", (unsigned)uid) : 0;
	}
	if (u->waiting >= 0 && fd_is_hung_up(u->waiting))
		u->waiting = fd_close(u->waiting);
	if (u->channel < 0 && u->waiting < 0) {
		u->waiting = fcntl(sock, F_DUPFD_CLOEXEC, 3);
		return u->waiting < 0 ? err_set(e, -errno, "pilliond cannot begin for user %u", (unsigned)uid) : 0;
	}
	int r = u->channel < 0 ? -EAGAIN : fd_send(u->channel, &nothing, sizeof(nothing), &sock, 1);
	if (r < 0)
		return err_say(e, r, "pilliond is busy or ending for user %u: try again", (unsigned)uid);
	u->passed++;
	return 0;
}

static int who_calls(int sock, uid_t *ret, struct err *e)
{
	struct ucred who;
	socklen_t len = sizeof(who);
	if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &who, &len) < 0)
		return err_set(e, -errno, "cannot tell who is calling");
	*ret = who.uid;
	return who.uid ? 0 : err_say(e, -EPERM, "this socket is for users: root has the control socket");
}

static void on_connect(void *arg, uint32_t events)
{
	struct broker *b = arg;
	struct err e = {0};
	uid_t uid;
	fd_auto sock = accept4(b->setup->listener, NULL, NULL, SOCK_CLOEXEC);
	if (sock < 0 && fd_is_short(errno))
		event_loop_pause(b->loop, &b->calls, PAUSE_MS);
	if (sock < 0)
		return;
	int r = who_calls(sock, &uid, &e);
	if (r == 0)
		r = pass_connection(b, uid, sock, &e);
	if (r < 0) {
		log_line(LOG_INFO, "user=%u outcome=refused reason=\"%s\"", (unsigned)uid, e.text);
		msg_refuse(sock, &e);
	}
}

static void stop_broker(struct broker *b)
{
	event_loop_del(b->loop, &b->source);
	event_loop_del(b->loop, &b->calls);
	fd_close(b->setup->listener); /* the next service has a listener of its own */
	b->quitting = true;
	b->quit_by = deadline_in(QUIT_NS + LAST_NS);
	for (unsigned i = 0; i < b->n; i++) {
		b->users[i].waiting = fd_close(b->users[i].waiting);
		if (b->users[i].pid && b->users[i].channel >= 0)
			stop_user_service(&b->users[i]);
	}
	stop_if_empty(b);
}

static void on_channel(void *arg, uint32_t events)
{
	struct broker *b = arg;
	static struct settings fresh;
	size_t n = 0;
	ssize_t got = fd_recv(b->channel, &fresh, sizeof(fresh), NULL, 0, &n);
	if (got == sizeof(fresh))
		b->settings = fresh;
	else if (got != -EAGAIN)
		stop_broker(b);
}

/*
 * Leaves behind processes that cannot be ended (their last close waits for a file system that is gone), with all
 * descriptors that they hold.
 */
static void give_up(struct broker *b)
{
	for (unsigned i = 0; i < b->n; i++)
		if (!is_free(&b->users[i]))
			log_line(LOG_WARNING, "user=%u outcome=left_behind reason=\"a process of its does not end\"",
				(unsigned)b->users[i].uid);
	event_loop_stop(b->loop);
}

static int watch_users(struct broker *b, int64_t now)
{
	int wait = -1;
	for (unsigned i = 0; i < b->n; i++) {
		struct user *u = &b->users[i];
		if (!u->pid || u->channel >= 0)
			continue;
		if (now >= u->kill_at) {
			child_process_kill(u->pidfd);
			u->kill_at = deadline_in(QUIT_NS);
		}
		wait = event_loop_sooner(wait, deadline_left_ms(u->kill_at));
	}
	return wait;
}

static int on_broker_round(void *arg)
{
	struct broker *b = arg;
	int64_t now = clock_now();
	int wait = watch_users(b, now);
	if (b->quitting && now >= b->quit_by)
		give_up(b);
	return event_loop_sooner(
		wait, b->quitting ? deadline_left_ms(b->quit_by) : user_spool_cleanup_round(&b->tending));
}

static void keep_own(const struct user_services_setup *setup, int channel, const struct forkserver *f)
{
	static int keep[USERS_MAX * CPU_RINGS_CPUS_MAX + 8];
	size_t n = 0;
	for (unsigned i = 0; i < setup->n; i++)
		for (unsigned k = 0; k < cpu_rings_count(setup->rings[i]); k++)
			keep[n++] = cpu_rings_fd(setup->rings[i], k);
	keep[n++] = f->sock;
	keep[n++] = f->pidfd;
	keep[n++] = setup->listener;
	keep[n++] = setup->spool;
	keep[n++] = setup->root;
	keep[n++] = channel;
	keep[n++] = log_fd();
	fd_close_all_but(keep, n);
}

static bool is_there(void *arg, uid_t uid)
{
	const struct broker *b = arg;
	for (unsigned i = 0; i < b->n; i++)
		if (!is_free(&b->users[i]) && b->users[i].uid == uid)
			return true;
	return false;
}

static int set_up(struct broker *b, const struct user_services_setup *setup, int channel, struct err *e)
{
	struct rlimit l = {PROCESSES, PROCESSES};
	b->setup = setup;
	b->settings = *setup->settings;
	b->channel = channel;
	b->n = setup->n;
	b->tending =
		(struct spool_cleanup){.spool = setup->spool, .settings = &b->settings, .is_there = is_there, .arg = b};
	for (unsigned i = 0; i < b->n; i++) {
		b->users[i] = (struct user){
			.broker = b, .channel = -1, .pidfd = -1, .held = -1, .waiting = -1, .rings = setup->rings[i]};
		b->users[i].source.fd = b->users[i].death.fd = b->users[i].release.fd = -1;
	}
	setpriority(PRIO_PROCESS, 0, NICE); /* users may choose any rates */
	setrlimit(RLIMIT_NPROC, &l);	    /* before the fork server, as its servers and their jobs count as well */
	int r = setup->drop(setup->arg, &b->forkserver, e);
	keep_own(setup, channel, &b->forkserver);
	if (r == 0)
		r = seccomp_enter(SECCOMP_SUPERVISOR, e);
	if (r == 0)
		r = event_loop_new(&b->loop);
	if (r == 0)
		r = event_loop_add(b->loop, &b->source, channel, EPOLLIN, on_channel, b);
	if (r == 0)
		r = event_loop_add(b->loop, &b->calls, setup->listener, EPOLLIN, on_connect, b);
	if (r == 0)
		forkserver_watch(&b->forkserver, b->loop);
	return r < 0 && !e->code ? err_set(e, r, "cannot serve users") : r;
}

static _Noreturn void become_broker(const struct user_services_setup *setup, int channel)
{
	struct err e = {0};
	prctl(PR_SET_NAME, "pilliond-users");
	int r = set_up(&broker, setup, channel, &e);
	if (r < 0)
		log_line(LOG_ERR, "outcome=root_only reason=\"%s\"", e.text);
	else
		r = event_loop_run(broker.loop, on_broker_round, &broker);
	forkserver_end(&broker.forkserver);
	_exit(r < 0);
}

int user_services_start(struct user_services *u, const struct user_services_setup *setup, struct err *e)
{
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_set(e, -errno, "no socket to the users' process");
	pid_t pid = child_process_fork_quiet();
	int error = -errno;
	if (pid == 0)
		become_broker(setup, pair[1]);
	fd_close(pair[1]);
	u->pidfd = pid < 0 ? error : child_process_pidfd(pid);
	if (u->pidfd < 0) { /* the child ends by itself, with its channel */
		fd_close(pair[0]);
		return err_set(e, u->pidfd, "cannot fork the users' process");
	}
	u->pid = pid;
	u->channel = pair[0];
	fcntl(u->channel, F_SETFL, O_NONBLOCK);
	return 0;
}
