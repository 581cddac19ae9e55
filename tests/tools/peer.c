/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peer - the other end of the control socket, misbehaving: what the tests of faults put in place of a service or hook.
 *
 *	peer serve SOCKET MODE	a service, until it is killed; prints "ready"
 *	peer older SOCKET SERVICE	the service at that other socket as one of the protocol's version 2 would be: it
 * says so, and refuses what is newer; prints "ready" peer session MODE	a session: what it serves is descriptor 3 deaf
 * (a service) never accepts, and its backlog is full
 *		FAULT-N		answers as it should, until the Nth message (1 when left out), at which it
 *			silent		answers no more
 *			garbage		answers with bytes that are no message
 *			version		answers in the next version of the protocol
 *			confused	answers as if it were the last message
 *			refuse		refuses
 *			hangup		hangs up (0: at once)
 *			die		is killed
 *			stop		stops
 *	peer call SOCKET MODE	a hook; prints the answer: "ok", "welcome", "refused: ...", "nothing", "end"
 *		half		half a greeting
 *		empty		a head that says it is all there is
 *		garbage		bytes that are no message
 *		version		a greeting in the next version
 *		unasked		events without a target
 *		files		a target whose events are ordinary files
 *		private		a target whose files an ordinary file is to open
 *		leave		greets, says all of a target's description, and hangs up
 *		linger		greets, says all of a target's description, and waits
 *		stranger	greets as user 65534
 *		gazer		asks for the list of targets and reads nothing until it is hung up on
 *	peer stop SOCKET ID HOW	says that this target is to be stopped; prints the answer
 *		unasked		as the first thing, as a runtime's poststop hook does
 *		greeted		behind a greeting
 *		claimed		behind a target of its own that it calls so
 *		armed		the same, of which it has an event
 *	peer targets SOCKET N	registers N targets, all itself; prints how many are armed; until it is killed
 *	peer flood SOCKET SECONDS	connects and hangs up
 *	peer crowd SOCKET N	N connections that say nothing; prints what each got, in sums; until it is killed
 *	peer inherit N COMMAND...	runs a command with N more descriptors open
 */
#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "oci/base/process/child_process.h"
#include "shim/event/perf_event.h"
#include "shim/protocol/messages.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define PATIENCE (5 * NSEC_PER_SEC)

static union msg m;

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "peer: %s: %s\n", what, strerror(errno));
	exit(2);
}

static struct sockaddr_un address(const char *path)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	if (strlen(path) >= sizeof(un.sun_path)) {
		errno = ENAMETOOLONG;
		die(path);
	}
	memcpy(un.sun_path, path, strlen(path) + 1);
	return un;
}

static int connect_to(const char *path, int flags)
{
	struct sockaddr_un un = address(path);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0);
	if (fd < 0)
		die("socket");
	if (connect(fd, (struct sockaddr *)&un, sizeof(un)) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

/* --- a service ------------------------------------------------------------------------------------------ */

static void take(int sock)
{
	int fds[FD_PASS_MAX];
	size_t n = 0;
	ssize_t got = fd_recv(sock, &m, sizeof(m), fds, FD_PASS_MAX, &n);
	while (n)
		fd_close(fds[--n]);
	if (got <= 0)
		m.head.type = 0;
}

static void answer(int sock)
{
	if (m.head.type == MSG_HELLO) {
		m.welcome = (struct msg_welcome){.batch_max = 1, .events_max = 8};
		msg_send(sock, &m, MSG_WELCOME, NULL, 0);
	} else if (m.head.type == MSG_EVENTS) {
		msg_send(sock, &m, MSG_OK, NULL, 0);
	}
}

static void answer_next_version(int sock)
{
	memset(&m, 0, sizeof(m));
	m.head = (struct msg_head){PROTOCOL_MAGIC, PROTOCOL_VERSION + 1, MSG_WELCOME, sizeof(struct msg_welcome), 0};
	fd_send(sock, &m, m.head.size, NULL, 0);
}

static void refuse(int sock)
{
	struct err e;
	err_say(&e, -EBUSY, "not today");
	msg_refuse(sock, &e);
}

static void say_garbage(int sock)
{
	fd_send(sock, "HTTP/1.1 400 Bad Request\r\n\r\n", 28, NULL, 0);
}

static void confuse(int sock)
{
	msg_send(sock, &m, MSG_OK, NULL, 0);
}

static void die_now(int sock)
{
	raise(SIGKILL);
}

static void stop_now(int sock)
{
	raise(SIGSTOP);
}

static void say_nothing(int sock)
{
	while (m.head.type)
		take(sock);
}

static const struct fault {
	const char *name;
	void (*strike)(int sock); /* NULL: hangs up */
} faults[] = {
	{"silent", say_nothing},
	{"garbage", say_garbage},
	{"version", answer_next_version},
	{"confused", confuse},
	{"refuse", refuse},
	{"hangup", NULL},
	{"die", die_now},
	{"stop", stop_now},
};

static void serve_one(int sock, const char *mode)
{
	const char *dash = strchr(mode, '-');
	size_t len = dash ? (size_t)(dash - mode) : strlen(mode), i = 0;
	int messages = dash ? atoi(dash + 1) : 1;
	while (i < sizeof(faults) / sizeof(faults[0]) && (strncmp(faults[i].name, mode, len) || faults[i].name[len]))
		i++;
	if (i == sizeof(faults) / sizeof(faults[0])) {
		errno = EINVAL;
		die(mode);
	}
	if (!messages)
		return;
	for (take(sock); m.head.type && --messages; take(sock))
		answer(sock);
	if (!faults[i].strike)
		return;
	faults[i].strike(sock);
	take(sock); /* until the other one has read it and goes */
}

static int serve(const char *path, const char *mode)
{
	struct sockaddr_un un = address(path);
	int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	bool deaf = !strcmp(mode, "deaf");
	if (listener < 0 || bind(listener, (struct sockaddr *)&un, sizeof(un)) < 0 ||
		listen(listener, deaf ? 0 : 16) < 0)
		die(path);
	while (deaf && connect_to(path, SOCK_NONBLOCK) >= 0)
		;
	puts("ready");
	fflush(stdout);
	while (deaf)
		pause();
	for (;;) {
		int sock = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (sock < 0)
			die("accept");
		serve_one(sock, mode);
		close(sock);
	}
}

/* One message of either side to the other. False: that has ended, or is refused. */
static bool relay(int from, int to, bool to_service)
{
	int fds[FD_PASS_MAX];
	size_t n = 0;
	struct err e;
	ssize_t got = fd_recv(from, &m, sizeof(m), fds, FD_PASS_MAX, &n);
	const bool newer = got > 0 && to_service && m.head.version > 2;
	if (newer) {
		err_say(&e, -EPROTO, "the peer speaks protocol version %u, we speak 2 to 2", m.head.version);
		msg_refuse(from, &e);
	}
	if (got > 0 && to_service && m.head.type == MSG_HELLO)
		m.hello.flags &= HELLO_NO_PERF;
	bool sent = got > 0 && !newer && fd_send(to, &m, (size_t)got, fds, n) == 0;
	while (n)
		fd_close(fds[--n]);
	return sent;
}

static _Noreturn void be_older(int client, const char *service)
{
	struct pollfd p[2] = {{.fd = client, .events = POLLIN}, {.fd = connect_to(service, 0), .events = POLLIN}};
	if (p[1].fd < 0)
		die(service);
	while (poll(p, 2, -1) > 0)
		for (int i = 0; i < 2; i++)
			if (p[i].revents && !relay(p[i].fd, p[!i].fd, i == 0))
				_exit(0);
	_exit(0);
}

static int serve_older(const char *path, const char *service)
{
	struct sockaddr_un un = address(path);
	int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (listener < 0 || bind(listener, (struct sockaddr *)&un, sizeof(un)) < 0 || listen(listener, 16) < 0)
		die(path);
	signal(SIGCHLD, SIG_IGN);
	puts("ready");
	fflush(stdout);
	for (;;) {
		int sock = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (sock < 0)
			die("accept");
		if (fork() == 0)
			be_older(sock, service);
		close(sock);
	}
}

/* --- a hook --------------------------------------------------------------------------------------------- */

static const char *heard(int sock, int64_t patience)
{
	static char text[400];
	struct err e = {0};
	size_t n;
	int none[1], r = msg_recv(sock, deadline_in(patience), &m, none, 0, &n, &e);
	if (r == -ETIMEDOUT)
		return "nothing";
	if (r == -EPIPE)
		return "end";
	if (r < 0)
		snprintf(text, sizeof(text), "%s", e.text);
	else if (m.head.type == MSG_REFUSE)
		snprintf(text, sizeof(text), "refused: %s", m.refuse.text);
	else
		snprintf(text, sizeof(text), "%s",
			m.head.type == MSG_OK	     ? "ok"
			: m.head.type == MSG_WELCOME ? "welcome"
						     : "?");
	return text;
}

static void greet(int sock)
{
	memset(&m, 0, sizeof(m));
	msg_send(sock, &m, MSG_HELLO, NULL, 0);
}

static void describe(int sock, const char *id, int files)
{
	uint64_t start = 0;
	fd_auto pidfd = child_process_pidfd(getpid());
	const int fds[] = {pidfd, files};
	proc_stat_start_time(getpid(), &start);
	memset(&m, 0, sizeof(m));
	m.target.desc = (struct target_desc){.fds = TARGET_PIDFD | (files >= 0 ? TARGET_FILES : 0),
		.strategy = STRATEGY_PROCESS,
		.init_pid = getpid(),
		.host_pid = getpid(),
		.start_time = start,
		.window_s = 60,
		.n_events = 1,
		.events = {{.kind = 0, .period = 1000000}}};
	snprintf(m.target.desc.id, sizeof(m.target.desc.id), "%s", id);
	msg_send(sock, &m, MSG_TARGET, fds, files >= 0 ? 2 : 1);
}

static void pass_files(int sock)
{
	fd_auto file = fd_open(AT_FDCWD, "/dev/null", O_RDONLY, 0);
	memset(&m, 0, sizeof(m));
	m.events.n = 1;
	m.events.total = 1;
	m.events.events[0].role = PERF_SIDEBAND;
	msg_send(sock, &m, MSG_EVENTS, &file, 1);
}

static void say(int sock, const char *mode)
{
	struct msg_head head = {PROTOCOL_MAGIC, PROTOCOL_VERSION, MSG_HELLO, sizeof(struct msg_hello), 0};
	memset(&m, 0, sizeof(m));
	m.head = head;
	if (!strcmp(mode, "half"))
		fd_send(sock, &m, sizeof(m.head) / 2, NULL, 0);
	else if (!strcmp(mode, "empty"))
		fd_send(sock, &m, sizeof(m.head), NULL, 0);
	else if (!strcmp(mode, "garbage"))
		fd_send(sock, "GET / HTTP/1.1\r\n\r\n", 18, NULL, 0);
	else if (!strcmp(mode, "version"))
		m.head.version++, fd_send(sock, &m, sizeof(m.hello), NULL, 0);
	else if (!strcmp(mode, "stranger"))
		greet(sock);
	else if (!strcmp(mode, "gazer"))
		msg_send(sock, &m, MSG_LIST, NULL, 0);
	else
		greet(sock), heard(sock, PATIENCE);
	if (!strcmp(mode, "files") || !strcmp(mode, "leave") || !strcmp(mode, "linger"))
		describe(sock, "peer", -1);
	fd_auto null = fd_open(AT_FDCWD, "/dev/null", O_RDONLY, 0);
	if (!strcmp(mode, "private"))
		describe(sock, "peer", null);
	if (!strcmp(mode, "files") || !strcmp(mode, "unasked"))
		pass_files(sock);
}

/* Hung up is one of the few things that can be seen without reading. */
static void gaze(int sock)
{
	struct pollfd p = {.fd = sock};
	int64_t began = clock_now();
	int r = poll(&p, 1, 60000);
	printf("%s after %d s\n", r == 1 && p.revents & POLLHUP ? "hung up" : "still there",
		(int)((clock_now() - began) / NSEC_PER_SEC));
}

static int call(const char *path, const char *mode)
{
	if (!strcmp(mode, "stranger") && setresuid(65534, 65534, 65534) < 0)
		die("setresuid");
	int sock = connect_to(path, 0);
	if (sock < 0)
		die(path);
	say(sock, mode);
	if (!strcmp(mode, "gazer"))
		gaze(sock);
	else if (!strcmp(mode, "linger"))
		pause();
	else if (strcmp(mode, "leave"))
		puts(heard(sock, PATIENCE));
	return 0;
}

/* Connections are served in their order: when the last one has its answer, the others had theirs. */
static int crowd(const char *path, int n)
{
	int in = 0, socks[1000];
	char why[400] = "";
	if (n < 1 || n > 1000)
		return 2;
	for (int i = 0; i < n; i++)
		if ((socks[i] = connect_to(path, 0)) < 0)
			die(path);
	for (int i = n; i-- > 0;) {
		const char *text = heard(socks[i], i == n - 1 ? PATIENCE : 0);
		if (!strcmp(text, "nothing"))
			in++;
		else
			snprintf(why, sizeof(why), "%s", text);
	}
	printf("%d accepted, %d %s\n", in, n - in, why);
	fflush(stdout);
	for (;;)
		pause();
}

/* An event that counts nothing, and hangs up when we end: so does the target. */
static bool arm(int sock)
{
	struct perf_want want = {.role = PERF_SIDEBAND};
	struct perf_event_attr attr;
	memset(&m, 0, sizeof(m));
	m.events.n = m.events.total = 1;
	m.events.events[0].role = PERF_SIDEBAND;
	perf_attr(&want, &attr, &m.events.events[0].layout);
	fd_auto event = perf_open(&attr, 0, 0, 0);
	if (event < 0) {
		errno = -event;
		die("perf event");
	}
	msg_send(sock, &m, MSG_EVENTS, &event, 1);
	return !strcmp(heard(sock, PATIENCE), "ok");
}

static int stop(const char *path, const char *id, const char *how)
{
	int sock = connect_to(path, 0);
	if (sock < 0)
		die(path);
	if (strcmp(how, "unasked")) {
		greet(sock);
		const char *answer = heard(sock, PATIENCE);
		if (strcmp(answer, "welcome"))
			return puts(answer), 0;
	}
	if (!strcmp(how, "claimed") || !strcmp(how, "armed"))
		describe(sock, id, -1);
	if (!strcmp(how, "armed") && !arm(sock))
		return puts("not armed"), 0;
	memset(&m, 0, sizeof(m));
	snprintf(m.stop.id, sizeof(m.stop.id), "%s", id);
	msg_send(sock, &m, MSG_STOP, NULL, 0);
	puts(heard(sock, PATIENCE));
	return 0;
}

static int targets(const char *path, int n)
{
	char id[32];
	int armed = 0;
	for (int i = 0; i < n; i++) {
		fd_auto sock = connect_to(path, 0);
		if (sock < 0)
			die(path);
		snprintf(id, sizeof(id), "peer-%04d", i);
		greet(sock);
		heard(sock, PATIENCE);
		describe(sock, id, -1);
		armed += arm(sock);
	}
	printf("%d armed\n", armed);
	fflush(stdout);
	for (;;)
		pause();
}

static int flood(const char *path, int seconds)
{
	for (int64_t end = clock_now() + seconds * NSEC_PER_SEC; clock_now() < end;) {
		int sock = connect_to(path, SOCK_NONBLOCK);
		if (sock >= 0)
			close(sock);
	}
	return 0;
}

static int inherit(int n, char **argv)
{
	struct rlimit l;
	if (getrlimit(RLIMIT_NOFILE, &l) == 0) {
		l.rlim_cur = l.rlim_max;
		setrlimit(RLIMIT_NOFILE, &l);
	}
	for (int i = 0; i < n; i++)
		if (open("/dev/null", O_RDONLY) < 0)
			die("open"); /* not close-on-exec: that is the point */
	execvp(argv[0], argv);
	die(argv[0]);
}

int main(int argc, char **argv)
{
	if (argc >= 4 && !strcmp(argv[1], "serve"))
		return serve(argv[2], argv[3]);
	if (argc >= 4 && !strcmp(argv[1], "older"))
		return serve_older(argv[2], argv[3]);
	if (argc >= 3 && !strcmp(argv[1], "session"))
		return serve_one(3, argv[2]), 0;
	if (argc >= 4 && !strcmp(argv[1], "call"))
		return call(argv[2], argv[3]);
	if (argc >= 5 && !strcmp(argv[1], "stop"))
		return stop(argv[2], argv[3], argv[4]);
	if (argc >= 4 && !strcmp(argv[1], "targets"))
		return targets(argv[2], atoi(argv[3]));
	if (argc >= 4 && !strcmp(argv[1], "flood"))
		return flood(argv[2], atoi(argv[3]));
	if (argc >= 4 && !strcmp(argv[1], "crowd"))
		return crowd(argv[2], atoi(argv[3]));
	if (argc >= 4 && !strcmp(argv[1], "inherit"))
		return inherit(atoi(argv[2]), argv + 3);
	fprintf(stderr, "usage: see the head of tests/tools/peer.c\n");
	return 2;
}
