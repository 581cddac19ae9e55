/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pilliond - the profiler. As a service: `pilliond [--etc DIR] [options]`. Targets register on the control socket,
 * which it makes or gets from a service manager (sd_notify.h); SIGHUP reads the settings anew (settings_reload.h),
 * SIGUSR2 leaves everything to the next pilliond. For one target: `pilliond --session ID [options]`, started by the
 * hook with a connected socket as descriptor 3. For a process that asks for itself: library_mode.h.
 *
 *	1. settings				2. open all that needs privilege (startup.h)
 *	3. drop every privilege			4. fork the worker (supervisor.h)
 *	5. serve until told to stop; a session: until its target has ended
 */
#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "oci/base/log.h"
#include "oci/config/user_dirs.h"
#include "profiler/daemon/control_server.h"
#include "profiler/daemon/library_mode.h"
#include "profiler/daemon/sd_notify.h"
#include "profiler/daemon/settings_reload.h"
#include "profiler/daemon/startup.h"
#include "profiler/daemon/worker_handover.h"
#include "shim/protocol/messages.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define SESSION_SOCKET 3
#define LEAVE_NS (2 * NSEC_PER_SEC) /* for peers that have begun to register a target */
#define LEAVE_LOOK_MS 5

static struct options options;
static struct engine engine;
static struct startup startup;
static struct sd_notify manager = {.sock = -1};
static struct control_server *control;
static struct supervisor supervisor;
static bool session;
static bool of_user;	 /* a user started us; a process that root started becomes an unprivileged user, too */
static int64_t leave_by; /* 0: nothing to leave */
static const char *etc = OPTIONS_ETC;
static char **flags; /* [0] is no flag */
static int n_flags;

static int read_file(struct options *o, enum option_source source, const char *name, struct err *e)
{
	char path[512];
	snprintf(path, sizeof(path), "%.480s/%s", etc, name);
	return options_read_file(o, source, path, e);
}

static int read_settings(struct options *ret, struct err *e)
{
	int rest;
	options_default(ret);
	snprintf(ret->settings.paths.etc, sizeof(ret->settings.paths.etc), "%s", etc);
	const bool system = !strcmp(etc, OPTIONS_ETC);
	if (of_user && !system)
		user_dirs_use(ret);
	int r = read_file(ret, OPTION_FILE, "pillion.conf", e);
	if (of_user && system)
		user_dirs_use(ret); /* the directories in the system's file are root's */
	if (r == 0 && of_user)
		r = user_dirs_read_user(ret, e);
	return r < 0 ? r : options_read_flags(ret, n_flags, flags, &rest, e);
}

/*
 * Reads policy.conf to report a mistake early: hooks read it anew at every start, pilliond does not use it. Where it is
 * readable for root alone, the hooks report the mistake.
 */
static int check_policy(struct err *e)
{
	struct options unused;
	options_default(&unused);
	int r = read_file(&unused, OPTION_POLICY, "policy.conf", e);
	return r == -EACCES ? 0 : r;
}

static void warn_of_policy(void)
{
	struct err e = {0};
	if (check_policy(&e) < 0)
		log_line(LOG_WARNING, "outcome=policy_unreadable reason=\"%s\"", e.text);
}

static const char *way_out(int error)
{
	return error == -EACCES ? " (pilliond reads it as user pillion: chgrp pillion, chmod 640)" : "";
}

/*
 * SIGHUP. The files are opened by path, so a replaced file is found, and without privilege, so a file that is readable
 * for root alone is not. All of them or none: with a mistake all settings stay.
 */
static void read_anew(void)
{
	struct options fresh;
	struct reloaded did = {0};
	struct err e = {0};
	sd_notify_say(&manager, "RELOADING=1\nMONOTONIC_USEC=%lld", (long long)(clock_now() / 1000));
	int r = read_settings(&fresh, &e);
	if (r == 0)
		r = check_policy(&e);
	if (r == 0)
		settings_reload(&options.settings, &fresh.settings, &engine, &did);
	if (r == 0 && did.changed[0]) {
		supervisor_settings(&supervisor, &options.settings);
		user_services_settings(&startup.users, &options.settings);
	}
	if (r < 0)
		log_line(LOG_ERR, "outcome=settings_kept reason=\"%s%s\"", e.text, way_out(r));
	else
		log_line(did.waits[0] ? LOG_WARNING : LOG_INFO, "outcome=reloaded changed=\"%s\" note=\"%s\"",
			did.changed, did.waits);
	sd_notify_say(&manager, "READY=1\nSTATUS=%s%s", r < 0 ? "Settings kept: " : "Settings read anew",
		r < 0 ? e.text : "");
}

/* SIGUSR2: an upgrade. Leaves everything to the next pilliond, which is about to be started. */
static void start_handover(void)
{
	sd_notify_say(&manager, "STOPPING=1\nSTATUS=Leaving all to the next one");
	control_server_refuse(control);
	user_services_quit(&startup.users);
	leave_by = deadline_in(LEAVE_NS);
}

/* Waits while a peer is registering a target: that would be turned away. */
static int leave_when_calm(void)
{
	if (!leave_by)
		return -1;
	if (control_server_registering(control) && clock_now() < leave_by)
		return LEAVE_LOOK_MS;
	leave_by = 0;
	supervisor_leave(&supervisor);
	return 0;
}

static void start_shutdown(void)
{
	leave_by = 0;
	sd_notify_say(&manager, "STOPPING=1\nSTATUS=Writing the last windows");
	sd_notify_close(&manager);
	control_server_refuse(control);
	user_services_quit(&startup.users);
	supervisor_quit(&supervisor);
}

static void on_signal(void *arg, uint32_t events)
{
	struct signalfd_siginfo info;
	if (fd_read_all(startup.signals, &info, sizeof(info)) <= 0)
		return;
	if (info.ssi_signo == SIGHUP)
		read_anew();
	else if (info.ssi_signo == SIGUSR2)
		start_handover();
	else
		start_shutdown();
}

static int on_daemon_round(void *arg)
{
	int wait = event_loop_sooner(control_server_round(control), leave_when_calm());
	wait = event_loop_sooner(wait, supervisor_round(&supervisor));
	wait = event_loop_sooner(wait, sd_notify_round(&manager, supervisor.n_targets));
	/* a session is over when its one target has ended, or none came */
	if (session && !supervisor.targets && control_server_connections(control) == 0)
		supervisor_quit(&supervisor);
	return wait;
}

static void notify_ready(void)
{
	if (engine.perf.rings_note[0])
		log_line(LOG_WARNING, "note=\"%s\"", engine.perf.rings_note);
	log_line(LOG_INFO, "state=ready cpus=%u", cpu_rings_count(engine.perf.rings));
	sd_notify_say(&manager, "READY=1\nSTATUS=Ready, %u CPUs", cpu_rings_count(engine.perf.rings));
}

/* In a child: closes the descriptors that are the parent's. */
static void let_go(void *arg)
{
	control_server_abandon(control);
	user_services_abandon(&startup.users);
	fd_close(startup.signals);
	fd_close(startup.parked);
	fd_close(startup.left);
	forkserver_abandon(&startup.forkserver);
	fd_close(startup.oom.fd); /* it is the supervisor's own */
	fd_close(manager.sock);
	spool_lock_close_directory(&startup.spool_lock);
}

/*
 * Takes over from a service that was killed, or has left; a part that cannot be had is begun anew. False: its worker
 * may still be alive.
 */
static bool take_estate(void)
{
	struct err e = {0};
	const bool kept = fd_store_has_journal(&startup.handed);
	int r = startup.left < 0 ? 0 : handover_receive(&supervisor, startup.left, kept, &e);
	if (r == -EOWNERDEAD)
		log_line(LOG_WARNING, "outcome=worker_killed reason=\"%s\"", e.text);
	else if (r < 0)
		log_line(LOG_WARNING, "outcome=restarted_empty reason=\"%s\"", e.text);
	else if (startup.left >= 0)
		log_line(LOG_WARNING, "outcome=adopted worker=%d targets=%u", (int)supervisor.current.pid,
			supervisor.n_targets);
	startup.left = fd_close(startup.left);
	return r == 0 || r == -EOWNERDEAD;
}

/* Takes back the targets of a service that was killed with its worker; targets that are here already stay. */
static void take_kept(bool journal)
{
	const size_t had = startup.handed.n_kept;
	const unsigned n = fd_store_restore(&supervisor, &startup.handed, journal);
	if (n)
		log_line(LOG_WARNING, "outcome=restored targets=%u kept=%zu", n, had);
}

static int run_daemon(struct err *e)
{
	struct event_loop_source signals;
	int r = supervisor_new(&supervisor, e);
	if (r == 0)
		take_kept(take_estate());
	if (r == 0)
		r = event_loop_add(supervisor.loop, &signals, startup.signals, EPOLLIN, on_signal, NULL);
	if (r == 0)
		r = forkserver_watch(&startup.forkserver, supervisor.loop);
	if (r == 0)
		r = user_services_watch(&startup.users, supervisor.loop);
	if (r == 0)
		r = control_server_new(&supervisor, startup.listener, startup.memory, startup.started_by,
			CONTROL_SERVER_ROOT, &control, e);
	if (r == 0)
		control_server_tree(control, startup.tree);
	if (r == 0)
		r = supervisor_start(&supervisor, e);
	if (r == 0 && session)
		r = control_server_serve(control, SESSION_SOCKET);
	if (r < 0)
		return r;
	notify_ready();
	r = event_loop_run(supervisor.loop, on_daemon_round, NULL);
	if (supervisor.leaving) {
		user_services_end(&startup.users);
		_exit(0); /* without cleaning up: the next one has it all */
	}
	return r < 0 ? err_set(e, r, "the event loop") : 0;
}

/* Releases the supervisor's copies; those of the worker went with it. */
static void free_resources(void)
{
	control_server_free(control);
	user_services_end(&startup.users);
	supervisor_done(&supervisor);
	forkserver_end(&startup.forkserver);
	fd_close(engine.symbols.root);
	fd_close(engine.symbols.kallsyms_fd);
	sample_rate_close_account(&engine.rates);
	cpu_rings_close(engine.perf.rings);
	event_loop_free(supervisor.loop);
	spool_lock_release(&startup.spool_lock);
}

static int run(struct err *e)
{
	if (!session)
		warn_of_policy();
	supervisor.engine = &engine;
	supervisor.settings = &options.settings;
	supervisor.oom = &startup.oom;
	supervisor.manager = &manager;
	supervisor.in_worker = let_go;
	supervisor.symbolizer = (struct symbolizer_manager)SYMBOLIZER_MANAGER_NONE;
	supervisor.symbolizer.from = &startup.forkserver;
	int r = startup_open(&options.settings, session, &engine, &supervisor.exporter.setup, &startup, e);
	if (r == 0)
		r = startup_drop(&startup, &engine, e);
	if (r == 0)
		r = run_daemon(e);
	if (r == 0)
		free_resources();
	else
		spool_lock_release(&startup.spool_lock);
	return r;
}

/* A manager that cannot be reached will end us for that; until then we serve. */
static void open_manager(void)
{
	struct err e = {0};
	if (!session && sd_notify_open(&manager, &e) < 0)
		log_line(LOG_WARNING, "outcome=no_sd_notify reason=\"%s\"", e.text);
}

static int print_usage(void)
{
	printf("usage: pilliond [--etc DIR] [options]	(SIGHUP: reads DIR anew, /etc/pillion)\n"
	       "       pilliond --session ID [options]	(started by the hook)\n"
	       "       pilliond --version\n\n");
	options_help(stdout, OPTION_FLAG);
	printf("\nDIR/policy.conf, read by the hook at every start:\n");
	options_help(stdout, OPTION_POLICY);
	return 0;
}

static int print_version(void)
{
	printf("pilliond " VERSION "\n");
	return 0;
}

/* A session reports its failure to the hook, which logs it as the reason: one line, not two. */
static void say_why(const struct err *e)
{
	if (session && msg_refuse(SESSION_SOCKET, e) == 0)
		return;
	sd_notify_say(&manager, "STATUS=%s", e->text);
	log_line(LOG_ERR, "outcome=stopped reason=\"%s\"", e->text);
	fprintf(stderr, "pilliond: %s\n", e->text);
}

/*
 * Closes descriptors that were left open by mistake: we would hold them as long as we live, and our worker even longer.
 */
static void close_inherited(void)
{
	const char *handed = getenv("LISTEN_FDS"); /* sd_notify.h */
	const long given = session  ? 1
			   : handed ? strtol(handed, NULL, 10)
				    : 0,
		   n = given <= SD_NOTIFY_FDS_MAX ? given : 0;
	int *keep = n > 0 ? calloc((size_t)n, sizeof(int)) : NULL;
	for (int i = 0; keep && i < n; i++)
		keep[i] = SESSION_SOCKET + i;
	fd_close_all_but(keep, keep ? (size_t)n : 0);
	free(keep);
}

/*
 * Blocks SIGUSR2, as a manager may send it at any time and it ends a process that does not handle it: at the start an
 * estate would be lost.
 */
static void block_leave(void)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	sigprocmask(SIG_BLOCK, &set, NULL);
}

int main(int argc, char **argv)
{
	struct err e = {0};
	block_leave();
	fd_null_stdio(0);
	if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")))
		return print_usage();
	if (argc > 1 && !strcmp(argv[1], "--version"))
		return print_version();
	forkserver_main(argc, argv);
	if (argc > 1 && !strcmp(argv[1], "--library"))
		return library_mode_main(argc, argv);
	if (argc > 2 && (session = !strcmp(argv[1], "--session")))
		argc -= 2, argv += 2;
	if (argc > 2 && !strcmp(argv[1], "--etc")) {
		etc = argv[2];
		argc -= 2, argv += 2;
	}
	close_inherited();
	n_flags = argc, flags = argv;
	of_user = geteuid() != 0 || user_dirs_rootless();
	int r = read_settings(&options, &e);
	log_open("pilliond", options.settings.paths.log[0] ? options.settings.paths.log : NULL);
	log_level(options.settings.log_level);
	open_manager();
	if (r >= 0)
		r = run(&e);
	if (r < 0)
		say_why(&e);
	return r < 0;
}
