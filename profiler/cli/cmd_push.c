/* SPDX-License-Identifier: Apache-2.0 */
/* push: profiles to Pyroscope, an OTLP collector, a web server, a directory; once, or as they come. */
#include "profiler/cli/command.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "oci/base/log.h"
#include "oci/base/process/child_process.h"
#include "oci/base/process/restart.h"
#include "oci/config/cli_settings.h"
#include "oci/isolation/capabilities.h"
#include "profiler/push/push.h"
#include "profiler/push/push_encode_child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAUSE_NS NSEC_PER_SEC /* from the end of an endpoint's process to the next one */
#define STOP_S 8	      /* for requests under way: longer than push.c's own deadline */

static const struct restart_rule rule = {
	.steady = 60 * NSEC_PER_SEC, .steady_waits = true, .pause = PAUSE_NS, .most = 60 * NSEC_PER_SEC};

static volatile int stop;

static void on_stop(int signal)
{
	stop = 1;
}

static void listen_for_the_end(void)
{
	const struct sigaction a = {.sa_handler = on_stop}; /* which ends a wait */
	sigaction(SIGTERM, &a, NULL);
	sigaction(SIGINT, &a, NULL);
	signal(SIGPIPE, SIG_IGN);
}

/* --- one by one ------------------------------------------------------------------------------------------- */

struct once {
	struct push *push;
	const char *name;
	size_t sent;
};

static int push_one(void *arg, int dir, const char *file, const char *path)
{
	struct once *o = arg;
	struct err e = {0};
	int r = stop ? err_say(&e, -EINTR, "stopped before %s", path) : push_file(o->push, dir, file, path, &e);
	if (r == -EAGAIN && !o->sent)
		return command_fail(o->name, r, "%s; nothing was sent", e.text);
	if (r == -EAGAIN)
		return command_fail(o->name, r, "%s; %zu were sent before it, and are again when this is repeated",
			e.text, o->sent);
	if (r < 0 && r != -EBADMSG)
		return command_fail(o->name, r, "%s", e.text);
	if (r == -EBADMSG)
		command_fail(o->name, r, "not taken: %s", e.text);
	o->sent += r == 0;
	return 0;
}

/* Keeps other processes and core files from our memory. */
static void clear_dumpable(void)
{
	prctl(PR_SET_DUMPABLE, 0);
	setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
}

static int begin_once(
	struct once *o, struct push_endpoint *p, struct encoder_process *m, const char *node, struct err *e)
{
	uint64_t keep = CAP_BIT(CAP_DAC_READ_SEARCH); /* files of any owner of the spool */
	if (p->form == PUSH_DIRECTORY)
		keep |= CAP_BIT(CAP_DAC_OVERRIDE); /* and any directory: no network is used then */
	clear_dumpable();
	int r = encoder_start(p, 1, m, e);
	if (r == 0)
		r = push_open(p, m, node, &stop, &o->push, e);
	if (r == 0)
		r = capabilities_limit(keep, e);
	return r == 0 ? push_confine(o->push, e) : r;
}

static int push_files(const char *name, struct push_endpoint *p, const char *node, int n, char **paths)
{
	struct once o = {.name = name};
	struct encoder_process m = {.sock = -1};
	struct err e = {0};
	size_t files;
	log_open("pillion", "stderr");
	log_level(LOG_EMERG); /* this command reports the outcome itself */
	int code = begin_once(&o, p, &m, node, &e) < 0 ? command_fail(name, EXIT_FAILED, "%s", e.text)
						       : command_files(name, n, paths, push_one, &o, &files);
	if (code == EXIT_DONE) {
		printf("%zu of %zu to %s\n", o.sent, files, p->url);
		code = o.sent == files ? EXIT_DONE : EXIT_FAILED;
	}
	push_close(o.push);
	encoder_stop(&m);
	return code;
}

/* --- as they come ----------------------------------------------------------------------------------------- */

struct line { /* an endpoint and its process */
	struct push_endpoint *endpoint;
	pid_t pid; /* 0: there is none */
	struct restart restart;
};

struct following {
	int spool;
	bool backlog;
	const char *node;
	struct push_endpoint *endpoints;
	struct line *lines; /* one for each */
	size_t n;
};

/* Files of a certificate are read at each connection: reports a mistake now. */
static int check_files(const struct push_endpoint *p, struct err *e)
{
	const char *const paths[] = {p->ca, p->cert, p->key};
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
		if (paths[i][0] && access(paths[i], R_OK) < 0)
			return err_set(e, -errno, "user %u, who pushes, cannot read %s", (unsigned)geteuid(), paths[i]);
	return 0;
}

static int run_endpoint(const struct following *f, struct push_endpoint *p, struct err *e)
{
	struct push *h = NULL;
	struct encoder_process m = {.sock = -1};
	int r = encoder_start(f->endpoints, f->n, &m, e);
	for (size_t i = 0; i < f->n; i++)
		if (&f->endpoints[i] != p)
			push_endpoint_forget(&f->endpoints[i]);
	if (r == 0)
		r = push_open(p, &m, f->node, &stop, &h, e);
	if (r == 0)
		r = push_confine(h, e);
	if (r == 0)
		r = push_follow(h, f->spool, f->backlog, e);
	push_close(h);
	encoder_stop(&m);
	return r;
}

static _Noreturn void become_endpoint(const struct following *f, struct push_endpoint *p)
{
	struct err e = {0};
	prctl(PR_SET_NAME, "pillion-push");
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	int r = run_endpoint(f, p, &e);
	if (r < 0)
		log_line(LOG_ERR, "endpoint=\"%s\" outcome=ended reason=\"%s\"", p->name, e.text);
	exit(r < 0);
}

static void start_child(const struct following *f, struct line *l)
{
	restart_started(&l->restart, clock_now());
	pid_t pid = fork();
	if (pid == 0)
		become_endpoint(f, l->endpoint);
	l->pid = pid > 0 ? pid : 0;
	if (pid < 0)
		l->restart.due = deadline_in(PAUSE_NS);
}

static void on_end(struct line *l)
{
	const int64_t pause = restart_ended(&l->restart, &rule, clock_now());
	l->pid = 0;
	if (!stop)
		log_line(LOG_WARNING, "endpoint=\"%s\" outcome=push_process_ended again_s=%lld", l->endpoint->name,
			(long long)(pause / NSEC_PER_SEC));
}

static void reap_children(struct following *f)
{
	pid_t pid;
	while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
		for (size_t i = 0; i < f->n; i++)
			if (f->lines[i].pid == pid)
				on_end(&f->lines[i]);
}

static bool all_gone(const struct following *f)
{
	for (size_t i = 0; i < f->n; i++)
		if (f->lines[i].pid)
			return false;
	return true;
}

static void tell_all(const struct following *f, int signal)
{
	for (size_t i = 0; i < f->n; i++)
		if (f->lines[i].pid)
			kill(f->lines[i].pid, signal);
}

static void watch_children(struct following *f)
{
	const struct timespec moment = {1, 0}; /* a signal ends it */
	while (!stop) {
		for (size_t i = 0; i < f->n; i++)
			if (!f->lines[i].pid && clock_now() >= f->lines[i].restart.due)
				start_child(f, &f->lines[i]);
		nanosleep(&moment, NULL);
		reap_children(f);
	}
	const int64_t deadline = deadline_in(STOP_S * NSEC_PER_SEC);
	tell_all(f, SIGTERM);
	for (reap_children(f); !all_gone(f) && deadline_left_ms(deadline) > 0; reap_children(f))
		nanosleep(&(struct timespec){0, 10 * 1000000}, NULL);
	tell_all(f, SIGKILL);
}

/* The owner of the spool may read its files, and note beside them which were sent. */
static int drop_privileges(int spool, struct err *e)
{
	struct stat st;
	if (fstat(spool, &st) < 0)
		return err_set(e, -errno, "cannot look at the spool");
	int r = geteuid() == 0 ? capabilities_become(st.st_uid, st.st_gid, 0, e) : capabilities_limit(0, e);
	clear_dumpable(); /* a change of the user has undone it */
	return r;
}

static int follow_spool(const char *name, struct following *f, const char *path, const char *log)
{
	struct err e = {0};
	f->spool = fd_open_dir(AT_FDCWD, path);
	if (f->spool < 0)
		return command_fail(name, EXIT_FAILED,
			"cannot open the spool %s: %s; give the directory that has the profiles", path,
			strerror(-f->spool));
	clear_dumpable();
	f->lines = calloc(f->n, sizeof(*f->lines));
	log_open("pillion-push", *log ? log : isatty(STDERR_FILENO) ? "stderr" : NULL);
	log_line(LOG_WARNING, "outcome=begins endpoints=%zu spool=\"%s\"", f->n, path);
	int r = f->lines ? drop_privileges(f->spool, &e) : err_set(&e, -ENOMEM, "cannot push");
	for (size_t i = 0; r == 0 && i < f->n; i++) {
		f->lines[i].endpoint = &f->endpoints[i];
		r = check_files(&f->endpoints[i], &e);
	}
	if (r == 0)
		watch_children(f);
	fd_close(f->spool);
	free(f->lines);
	return r < 0 ? command_fail(name, EXIT_FAILED, "%s", e.text) : EXIT_DONE;
}

/* --- the command ------------------------------------------------------------------------------------------ */

struct asked {
	const char *values[PUSH_ENDPOINT_KEYS]; /* of the endpoint's keys, of which the first is --to */
	const char *directory;			/* of endpoints */
	bool follow, backlog;
	int n;
};

static int read_arguments(int argc, char **argv, struct asked *a)
{
	struct command_option options[PUSH_ENDPOINT_KEYS + 4] = {{.name = "--follow", .on = &a->follow},
		{.name = "--backlog", .on = &a->backlog}, {.name = "--endpoints", .value = &a->directory}};
	const char *flag;
	size_t n = 3;
	for (size_t i = 0; (flag = push_endpoint_flag(i)); i++)
		options[n++] = (struct command_option){.name = flag, .value = &a->values[i]};
	a->n = command_options(argc, argv, options);
	return a->n < 0 ? -EINVAL : 0;
}

static int of_flags(const struct asked *a, struct push_endpoint **ret, size_t *ret_n, struct err *e)
{
	struct push_endpoint *p = calloc(1, sizeof(*p));
	int r = p ? 0 : err_set(e, -ENOMEM, "cannot push");
	if (p)
		push_endpoint_default(p, "");
	for (size_t i = 0; r == 0 && push_endpoint_flag(i); i++)
		if (a->values[i])
			r = push_endpoint_set(p, push_endpoint_flag(i), a->values[i], e);
	if (r == 0)
		r = push_endpoint_check(p, e);
	if (r < 0) {
		endpoints_free(p, p ? 1 : 0);
		return r;
	}
	*ret = p;
	*ret_n = 1;
	return 0;
}

static int check_options(const char *name, const struct asked *a)
{
	for (size_t i = 1; push_endpoint_flag(i); i++)
		if (a->values[i] && !a->values[0])
			return command_fail(
				name, EXIT_USAGE, "%s is of no use without --to URL", push_endpoint_flag(i));
	if (a->directory && (a->values[0] || !a->follow))
		return command_fail(name, EXIT_USAGE, "--endpoints goes with --follow, and not with --to");
	if (!a->follow && !a->values[0])
		return command_fail(name, EXIT_USAGE,
			"where to? Give --to URL, as --to pyroscope+http://localhost:4040; see 'pillion help push'");
	if (a->backlog && !a->follow)
		return command_fail(
			name, EXIT_USAGE, "--backlog goes with --follow: without, all that is named is sent");
	if (a->follow && a->n > 1)
		return command_fail(name, EXIT_USAGE, "--follow takes one directory, so there is one too many");
	return EXIT_DONE;
}

static int run(int argc, char **argv)
{
	static struct options o;
	struct asked a = {0};
	struct err e = {0};
	struct push_endpoint *p = NULL;
	size_t n = 0;
	if (read_arguments(argc, argv, &a) < 0)
		return EXIT_USAGE;
	int code = check_options(argv[0], &a);
	if (code == EXIT_DONE && !a.follow)
		code = command_find_targets(argv[0], a.n, argv + 1);
	if (code != EXIT_DONE)
		return code;
	cli_settings_read(&o, 1, argv, &e);
	if (e.code)
		return command_fail(argv[0], EXIT_USAGE, "%s", e.text);
	if ((a.values[0] ? of_flags(&a, &p, &n, &e)
			 : endpoints_read(a.directory ? a.directory : PUSH_ENDPOINT_DIR, &p, &n, &e)) < 0)
		return command_fail(argv[0], EXIT_USAGE, "%s", e.text);
	listen_for_the_end();
	if (!n)
		code = command_fail(argv[0], EXIT_NOTHING,
			"there is nobody to push to: put a NAME.conf with a line 'url = ...' into %s, or give --to URL",
			a.directory ? a.directory : PUSH_ENDPOINT_DIR);
	else if (a.follow)
		code = follow_spool(argv[0],
			&(struct following){.endpoints = p, .n = n, .backlog = a.backlog, .node = o.settings.node},
			a.n ? argv[1] : o.settings.paths.spool, o.settings.paths.log);
	else
		code = push_files(argv[0], p, o.settings.node, a.n, argv + 1);
	endpoints_free(p, n);
	return code;
}

const struct command cmd_push = {
	.name = "push",
	.line = "send profiles to Pyroscope, an OTLP collector, a server, a directory",
	.help = "usage: pillion push --to URL [OPTION]... FILE|DIR...\n"
		"       pillion push --follow [--to URL [OPTION]...] [--backlog] [DIR]\n"
		"\n"
		"Sends files and all profiles of directories, and says how many were taken. With --follow it goes on:\n"
		"each profile that comes into the spool DIR (default: the service's) is sent, in order; what cannot "
		"be\n"
		"sent waits there, also over a restart. Without --to it serves each NAME.conf of /etc/pillion/push.d,\n"
		"which has the options below as 'key = value' (url, token_file, ...). The spool stays as it "
		"is.\n" COMMAND_TARGET_HELP "\n"
		"  --to URL             pyroscope+https://HOST (push.v1), ingest+https://HOST (Pyroscope's older "
		"/ingest),\n"
		"                       otlp+https://HOST:4318 (OpenTelemetry profiles, v1development),\n"
		"                       put+https://HOST/PATH (HTTP PUT), file:///DIRECTORY; or http in place of "
		"https\n"
		"  --token-file FILE    a token, sent as 'Authorization: Bearer'\n"
		"  --user NAME          send the token as the password of this user\n"
		"  --headers-file FILE  further headers, a line 'Name: value' each, as 'X-Scope-OrgID: team'\n"
		"  --proxy http://HOST:PORT\n"
		"                       the way to it; the environment's http_proxy is not looked at\n"
		"  --ca-file FILE       who the server's certificate may be from (default: the system's)\n"
		"  --cert-file FILE, --key-file FILE\n"
		"                       a certificate of our own\n"
		"  --events LIST        of these alone: cpu,offcpu\n"
		"  --max-bytes N, --max-samples N\n"
		"                       of a request; what has more is sent in parts (default: 2031616, 16000)\n"
		"  --endpoints DIR      in place of /etc/pillion/push.d\n"
		"  --backlog            with what is in the spool already when this endpoint is new\n"
		"\n"
		"example: pillion push --to pyroscope+http://localhost:4040 /var/lib/pillion/profiles/checkout\n",
	.run = run,
};
