/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pillion-nri - a plugin of the Node Resource Interface (containerd 1.7 and later, CRI-O): profiles containers of Pods
 * by their annotations, with no hook in any configuration.
 *
 *	pillion-nri [--etc DIR] [--nri SOCKET] [options]
 *	pillion-nri [--nri SOCKET] --inject-hook [--hook PATH] [-- HOOK-ARGUMENT...]
 *
 * The second form only has the runtime call our hook.
 *
 * Where NRI_PLUGIN_SOCKET is set, the runtime started us as one of its own plugins (/opt/nri/plugins/50-pillion): that
 * connection is served, and its end is ours. Else we connect, and connect again, by ever longer pauses up to five
 * seconds, when the runtime is restarted.
 *
 * Two parts, and a child for each container that asks for a profile, which does the hook's work
 * (hooks/nri_starter.h):
 *
 *	starter	this process, root of the host: it connects, forks the others, writes the log, and parses nothing
 *	talker	a child for each connection, without any privilege: it speaks the protocol (hooks/nri_client.h)
 *
 * Promise: no container fails to start because of us, nor waits longer than the budget (500 ms), whichever part is
 * stopped, killed, or taken over. Running profiles do not end with us: pilliond has them.
 */
#include "hooks/nri_client.h"
#include "hooks/nri_messages.h"
#include "hooks/nri_starter.h"
#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "oci/base/log.h"
#include "oci/base/process/child_process.h"
#include "oci/base/unix_socket.h"
#include "shim/attach/config_inject.h"
#include "shim/attach/hook_settings.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define HOOK_PATH "/usr/libexec/oci/hooks.d/pillion-hook"
#define STARTS_MAX 64
#define PAUSE_MIN_MS 100
#define PAUSE_MAX_MS 5000
#define EXIT_USAGE 2

static struct plugin {
	struct talker_spec talk;
	struct nri_starter_spec start;
	const char *socket;
	int handed; /* a connection that the runtime gave us, or -1 */
	int pair;   /* to the talker */
	pid_t talker;
	bool worked;	/* this connection was configured */
	bool told_wait; /* that there is no runtime, once */
	struct {
		pid_t pid;
		uint64_t number;
	} starts[STARTS_MAX];
} p = {.socket = NRI_SOCKET, .handed = -1, .pair = -1};

static struct options options;
static volatile sig_atomic_t stopped;

static void on_signal(int signal)
{
	if (signal != SIGCHLD)
		stopped = 1;
}

/* --- containers --------------------------------------------------------------------------------------------- */

static void send_completion(uint64_t number)
{
	struct nri_told t = {.number = number};
	fd_send(p.pair, &t, sizeof(t), NULL, 0);
}

static _Noreturn void start_child(const struct nri_ask *ask)
{
	sigset_t none;
	signal(SIGCHLD, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	signal(SIGINT, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	p.start.pair = p.pair;
	nri_start(&p.start, ask);
}

static void fork_starter(const struct nri_ask *ask)
{
	size_t i = 0;
	while (i < STARTS_MAX && p.starts[i].pid)
		i++;
	if (container_check(&ask->container) < 0 || ask->container.verdict != DECISION_PROFILE) {
		log_line(LOG_ERR,
			"outcome=unprofiled reason=\"the part that speaks with the runtime returned nonsense\"");
		return send_completion(ask->number);
	}
	pid_t pid = i < STARTS_MAX ? fork() : -1;
	if (pid == 0)
		start_child(ask);
	if (pid < 0) {
		log_line(
			LOG_WARNING, "container=%s outcome=unprofiled reason=\"no process for it\"", ask->container.id);
		return send_completion(ask->number);
	}
	child_process_run_beside(pid);
	p.starts[i].pid = pid;
	p.starts[i].number = ask->number;
}

/* Answers the talker for each child that has ended. If the child has answered already, the talker ignores this. */
static void reap_children(void)
{
	pid_t pid;
	while ((pid = waitpid(-1, NULL, WNOHANG)) > 0) {
		if (pid == p.talker)
			p.talker = 0;
		for (size_t i = 0; i < STARTS_MAX; i++)
			if (p.starts[i].pid == pid) {
				p.starts[i].pid = 0;
				send_completion(p.starts[i].number);
			}
	}
}

/* --- the talker --------------------------------------------------------------------------------------------- */

/* false: it has ended */
static bool hear_talker(void)
{
	static struct nri_ask ask;
	size_t n;
	ssize_t got = fd_recv(p.pair, &ask, sizeof(ask), NULL, 0, &n);
	if (got == -EAGAIN)
		return true;
	if (got < (ssize_t)NRI_ASK_SHORT)
		return false;
	ask.text[sizeof(ask.text) - 1] = 0;
	if (ask.word == NRI_START && got == sizeof(ask))
		fork_starter(&ask);
	else if (ask.word == NRI_SAY)
		log_line(ask.level <= LOG_DEBUG ? (int)ask.level : LOG_ERR, "%s", ask.text);
	else if (ask.word == NRI_READY)
		p.worked = true;
	return true;
}

static int fork_talker(int trunk, struct err *e)
{
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return err_set(e, -errno, "no socket between our processes");
	p.talk.trunk = trunk;
	p.talk.pair = pair[1];
	p.talk.starter = getpid();
	p.talk.budget_ms = options.settings.budget_ms;
	p.pair = pair[0];
	p.talker = fork();
	int error = -errno;
	if (p.talker == 0)
		talker_run(&p.talk);
	fd_close(pair[1]);
	return p.talker < 0 ? err_set(e, error, "cannot fork") : 0;
}

/* Reads the settings anew. A file with a mistake changes nothing here: it is reported with each container. */
static void reload_options(void)
{
	static struct options anew;
	struct err e;
	if (hook_settings_settings(&anew, p.start.etc, p.start.argc, p.start.argv, &e) == 0)
		options = anew;
	log_open("pillion-nri", options.settings.paths.log[0] ? options.settings.paths.log : NULL);
	log_level(options.settings.log_level);
}

/* Serves until the connection ends, or a signal stops us. */
static void serve_connection(int trunk)
{
	struct err e = {0};
	sigset_t none;
	sigemptyset(&none);
	p.worked = false;
	for (size_t i = 0; i < STARTS_MAX; i++)
		p.starts[i].number = 0; /* of the talker before */
	reload_options();
	int r = fork_talker(trunk, &e);
	fd_close(trunk);
	if (r < 0)
		log_line(LOG_ERR, "state=failed reason=\"%s\"", e.text);
	while (r == 0 && !stopped) {
		struct pollfd f = {.fd = p.pair, .events = POLLIN};
		int n = ppoll(&f, 1, NULL, &none);
		reap_children();
		if (n > 0 && !hear_talker())
			break;
	}
	p.pair = fd_close(p.pair); /* the talker's end, too, when it looks */
	if (p.talker > 0) {
		kill(p.talker, SIGKILL);
		child_process_wait(p.talker, deadline_in(NSEC_PER_SEC));
	}
	p.talker = 0;
}

/* --- the runtime -------------------------------------------------------------------------------------------- */

static int connect_runtime(struct err *e)
{
	int fd = unix_socket_new(SOCK_STREAM);
	if (fd < 0)
		return err_set(e, fd, "no socket");
	fd = unix_socket_connect(fd, p.socket);
	return fd < 0 ? err_set(e, fd, "no runtime at %s (containerd 1.7 has NRI off by default: disable = false)",
				p.socket)
		      : fd;
}

static void wait_before_retry(int ms)
{
	struct timespec ts = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * NSEC_PER_MSEC};
	sigset_t none;
	sigemptyset(&none);
	int64_t until = deadline_in(ms * NSEC_PER_MSEC);
	while (!stopped && ppoll(NULL, 0, &ts, &none) < 0 && clock_now() < until)
		reap_children();
}

static void serve_runtimes(void)
{
	struct err e = {0};
	for (int pause = PAUSE_MIN_MS; !stopped; wait_before_retry(pause)) {
		int fd = connect_runtime(&e);
		if (fd >= 0) {
			serve_connection(fd);
			pause = p.worked ? PAUSE_MIN_MS : pause * 2;
			p.told_wait = p.told_wait && !p.worked;
		} else {
			log_line(p.told_wait ? LOG_DEBUG : LOG_WARNING, "state=waiting reason=\"%s\"", e.text);
			p.told_wait = true;
			pause *= 2;
		}
		pause = pause < PAUSE_MAX_MS ? pause : PAUSE_MAX_MS;
	}
}

/* --- arguments ---------------------------------------------------------------------------------------------- */

static const char *read_env_variable(const char *name, const char *otherwise)
{
	const char *value = getenv(name);
	return value && *value ? value : otherwise;
}

static _Noreturn void print_help(void)
{
	puts("pillion-nri [--etc DIR] [--nri SOCKET] [options]\n"
	     "pillion-nri [--nri SOCKET] --inject-hook [--hook PATH] [-- HOOK-ARGUMENT...]\n\n"
	     "Profiles containers of Pods by their annotations, through the Node Resource Interface of containerd and "
	     "CRI-O.\n\n"
	     "  --etc DIR      where pillion.conf, policy.conf and the kill switch are (" OPTIONS_ETC ")\n"
	     "  --nri SOCKET   where the runtime listens (" NRI_SOCKET ")\n"
	     "  --inject-hook  only have the runtime call the hook, which then does the same\n"
	     "  --hook PATH    that hook (" HOOK_PATH ")\n");
	options_help(stdout, OPTION_FLAG);
	exit(0);
}

/* Our own arguments, in front of the options that all programs have: the first that is not ours ends them. */
static int read_arguments(int *argc, char ***argv)
{
	static const char *no_args[] = {NULL};
	static const struct option ours[] = {{"inject-hook", no_argument, NULL, 1}, {"etc", required_argument, NULL, 1},
		{"nri", required_argument, NULL, 1}, {"hook", required_argument, NULL, 1}, {0}};
	const char **const values[] = {NULL, &p.start.etc, &p.socket, &p.talk.hook.path};
	int row, at = 1;
	p.start.etc = OPTIONS_ETC;
	p.talk.hook = (struct nri_hook){.path = HOOK_PATH, .args = no_args, .timeout_s = HOOK_TIMEOUT_S};
	if (*argc == 2 && !strcmp((*argv)[1], "--help"))
		print_help();
	opterr = 0;
	/* getopt_long(3) also takes the beginning of a name, which is a mistake here */
	while (getopt_long(*argc, *argv, "+", ours, &row) == 1 &&
		strcspn((*argv)[at], "=") == strlen("--") + strlen(ours[row].name)) {
		if (values[row])
			*values[row] = optarg;
		else
			p.talk.inject = true;
		at = optind;
	}
	*argc -= at - 1, *argv += at - 1;
	for (int i = 1; i < *argc; i++)
		if (!strcmp((*argv)[i], "--")) {
			p.talk.hook.args = (const char *const *)&(*argv)[i + 1];
			*argc = i;
		}
	p.start.argc = *argc;
	p.start.argv = *argv;
	if (strlen(p.socket) < UNIX_SOCKET_PATH_MAX && p.talk.hook.path[0] == '/')
		return 0;
	fprintf(stderr, "pillion-nri: --nri is the path of a socket (at most 107 bytes), --hook an absolute path\n");
	return -EINVAL;
}

static int take_handed(void)
{
	const char *fd = read_env_variable("NRI_PLUGIN_SOCKET", NULL);
	p.talk.name = read_env_variable("NRI_PLUGIN_NAME", "pillion");
	p.talk.index = read_env_variable("NRI_PLUGIN_IDX", "50");
	if (!fd)
		return 0;
	p.handed = atoi(fd);
	if (p.handed > 2 && fd_is(p.handed) && fcntl(p.handed, F_SETFD, FD_CLOEXEC) == 0)
		return 0;
	fprintf(stderr, "pillion-nri: NRI_PLUGIN_SOCKET=%.20s is no descriptor of ours\n", fd);
	return -EINVAL;
}

static void take_signals(void)
{
	struct sigaction sa = {.sa_handler = on_signal};
	sigset_t set;
	sigemptyset(&set);
	for (size_t i = 0; i < 3; i++) {
		int which[] = {SIGCHLD, SIGTERM, SIGINT};
		sigaction(which[i], &sa, NULL);
		sigaddset(&set, which[i]);
	}
	sigprocmask(SIG_BLOCK, &set, NULL); /* but while we wait */
	signal(SIGPIPE, SIG_IGN);
}

int main(int argc, char **argv)
{
	struct err e = {0};
	if (take_handed() < 0 || read_arguments(&argc, &argv) < 0)
		return EXIT_USAGE;
	int r = hook_settings_settings(&options, p.start.etc, argc, argv, &e);
	if (r == 0 && geteuid() != 0)
		r = err_say(&e, -EPERM, "not root: only root may look into containers before they start");
	if (r < 0)
		fprintf(stderr, "pillion-nri: %s\n", e.text);
	if (r < 0 && p.handed < 0)
		return EXIT_USAGE;
	fd_close_all_but(&p.handed, p.handed >= 0);
	fd_hold_stdio();
	log_open("pillion-nri", options.settings.paths.log[0] ? options.settings.paths.log : NULL);
	log_level(options.settings.log_level);
	if (r < 0) /* it may be mended while we run, and is looked at again with each container */
		log_line(LOG_ERR, "reason=\"%s\"", e.text);
	take_signals();
	if (p.handed >= 0)
		serve_connection(p.handed);
	else
		serve_runtimes();
	return 0;
}
