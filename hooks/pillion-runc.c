/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pillion-runc - an OCI runtime in front of another one: `pillion-runc RUNTIME-ARGUMENT...`.
 *
 * It becomes the real runtime (exec: pid, parent, stdio, descriptors, signals and exit status are that one's). Before
 * that, it acts for four commands alone, if a container's annotation asks for it:
 *
 *	start	its init is parked: the hook attaches, as at createRuntime, with the state that the real runtime reports
 *	run	its config.json gets the hook: there is no moment between create and start that we see
 *	create	its config.json gets libpillion, for alloc, calls and crash (run: that too)
 *	delete	of one that has ended: the hook tidies up, as at poststop
 *
 * A config.json is never written: crun takes another file (--config), runc a bundle that stands for it
 * (oci/runtime/bundle_overlay.h).
 *
 * Privileges: those of the engine, mostly root, and its environment. Promise: the real runtime starts, whatever becomes
 * of the profile, and prints its own output; a command line or config.json that we do not understand is passed on
 * untouched. stderr gets a line of ours where there is no real runtime (status 127), and the hook's one sentence where
 * it could not profile; only under the administrator's `strict` the start then fails (status 1).
 *
 * The real one is `runtime` in pillion.conf, else the first runc or crun in the usual places. PILLION_ETC: another
 * directory than /etc/pillion.
 */
#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "oci/base/log.h"
#include "oci/base/process/child_process.h"
#include "oci/config/user_dirs.h"
#include "oci/runtime/bundle_overlay.h"
#include "oci/runtime/hook_input.h"
#include "oci/runtime/runtime_argv.h"
#include "shim/attach/app_socket.h"
#include "shim/attach/config_inject.h"
#include "shim/attach/hook_settings.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define STATUS_MISSING 127
#define STATE_NS (2 * NSEC_PER_SEC) /* for the real runtime to say a container's state */
#define HOOK_MORE_NS (NSEC_PER_SEC) /* beyond its own budget */
#define DEPTH_MAX 3		    /* wrappers that lead to each other */
#define DEPTH "PILLION_RUNC_DEPTH"
#define HIGH_FD 900 /* where --preserve-fds and LISTEN_FDS do not reach */

static struct options options;
static const char *etc = OPTIONS_ETC;
static char self[PATH_MAX], real[PATH_MAX];
static struct runtime_argv asked;

/* --- the real runtime ------------------------------------------------------------------------------------------- */

static bool is_runtime(const char *path, const struct stat *me)
{
	struct stat st;
	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0 &&
	       (st.st_dev != me->st_dev || st.st_ino != me->st_ino);
}

static bool find_real(void)
{
	static const char *const usual[] = {"/usr/bin/runc", "/usr/sbin/runc", "/usr/local/bin/runc",
		"/usr/local/sbin/runc", "/usr/bin/crun", "/usr/sbin/crun", "/usr/local/bin/crun",
		"/usr/local/sbin/crun"};
	struct stat me = {0};
	stat("/proc/self/exe", &me);
	if (options.settings.paths.runtime[0]) {
		snprintf(real, sizeof(real), "%s", options.settings.paths.runtime);
		return is_runtime(real, &me);
	}
	for (size_t i = 0; i < sizeof(usual) / sizeof(usual[0]); i++)
		if (is_runtime(usual[i], &me)) {
			snprintf(real, sizeof(real), "%s", usual[i]);
			return true;
		}
	return false;
}

/* A runtime that is a script may lead back here. */
static bool is_too_deep(void)
{
	const char *had = getenv(DEPTH);
	char now[16];
	const int depth = had ? atoi(had) : 0;
	snprintf(now, sizeof(now), "%d", depth + 1);
	setenv(DEPTH, now, 1);
	return depth >= DEPTH_MAX;
}

/* As engines read it: the last line of the log that they gave, and stderr. */
static void log_error(const char *why)
{
	fd_auto file = asked.log ? fd_open(AT_FDCWD, asked.log, O_WRONLY | O_APPEND | O_CREAT, 0644) : -1;
	const bool json = asked.log_format && !strcmp(asked.log_format, "json");
	if (file >= 0)
		dprintf(file,
			json ? "{\"level\":\"error\",\"msg\":\"pillion-runc: %s\"}\n"
			     : "level=error msg=\"pillion-runc: %s\"\n",
			why);
	dprintf(2, "pillion-runc: %s\n", why);
}

static int report_missing(const char *why)
{
	log_error(why);
	return STATUS_MISSING;
}

static int exec_runtime(char **argv)
{
	char why[PATH_MAX + 64];
	argv[0] = real;
	execv(real, argv);
	snprintf(why, sizeof(why), "cannot run %s: %s", real, strerror(errno));
	return report_missing(why);
}

/* --- children ----------------------------------------------------------------------------------------------------- */

/* Starts a child with these as stdin, stdout and stderr, and no other descriptors; it ends when we do. */
static pid_t spawn_child(char *const argv[], int in, int out, int err)
{
	const pid_t parent = getpid(), child = fork();
	if (child)
		return child < 0 ? -errno : child;
	child_process_die_with(parent);
	if (dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0)
		_exit(STATUS_MISSING);
	fd_close_all_but(NULL, 0);
	execv(argv[0], argv);
	_exit(STATUS_MISSING);
}

/*
 * Asks the real runtime for the container's state, with the global options that came. 0 and a malloc'ed text; -ENOENT:
 * it knows no such container, and its own start will say so; else it has not answered.
 */
static int ask_state(char **argv, char **ret, size_t *ret_len)
{
	const int n = asked.at;
	const int64_t deadline = deadline_in(STATE_NS);
	char **words = calloc((size_t)n + 3, sizeof(*words)), *text = malloc(STATE_MAX);
	int pipe_fds[2];
	if (!words || !text || pipe2(pipe_fds, O_CLOEXEC) < 0) {
		free(words);
		free(text);
		return -ENOMEM;
	}
	memcpy(words, argv, (size_t)n * sizeof(*words));
	words[0] = real;
	words[n] = (char *)"state";
	words[n + 1] = (char *)(uintptr_t)asked.id;
	fd_auto null = fd_open(AT_FDCWD, "/dev/null", O_RDWR, 0);
	const pid_t child = null < 0 ? null : spawn_child(words, null, pipe_fds[1], null);
	fd_close(pipe_fds[1]);
	const size_t len = child > 0 ? fd_read_until(pipe_fds[0], text, STATE_MAX, deadline) : 0;
	fd_close(pipe_fds[0]);
	const int status =
		child > 0 ? child_process_wait(child, deadline) : child; /* one that is not read to its end is killed */
	free(words);
	if (status == 0 && len > 0) {
		*ret = text;
		*ret_len = len;
		return 0;
	}
	free(text);
	return status < 0 ? status : !WIFEXITED(status) || WEXITSTATUS(status) == STATUS_MISSING ? -EIO : -ENOENT;
}

/* Makes a file in memory for another process to read. */
static int create_memfd(const char *name, const char *text, size_t len, int flags)
{
	const int fd = memfd_create(name, (unsigned)flags);
	if (fd < 0 || fd_write_all(fd, text, len) < 0 || lseek(fd, 0, SEEK_SET) < 0) {
		fd_close(fd);
		return -EIO;
	}
	return fd;
}

/* Finds pillion-hook: beside us as in the build, or where both are installed. */
static bool find_hook(char hook[static PATH_MAX])
{
	static const char *const places[] = {"pillion-hook", "../oci/hooks.d/pillion-hook"};
	const char *slash = strrchr(self, '/');
	for (size_t i = 0; slash && i < sizeof(places) / sizeof(places[0]); i++) {
		char path[2 * PATH_MAX];
		snprintf(path, sizeof(path), "%.*s/%s", (int)(slash - self), self, places[i]);
		if (realpath(path, hook) && access(hook, X_OK) == 0)
			return true;
	}
	return false;
}

/* --- start, delete ------------------------------------------------------------------------------------------------ */

/* As runc has it (rootless_linux.go): the user's own, also for a user that is root only in a user namespace. */
static const char *run_dir(void)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR"), *user = getenv("USER");
	const bool is_user = geteuid() != 0 || (user_dirs_in_userns() && (!user || strcmp(user, "root") != 0));
	return is_user && runtime && *runtime ? runtime : "/run";
}

/* Absolute: the sweep of bundles runs in another directory. */
static void find_state_dir(char ret[static PATH_MAX])
{
	const char *name = dialect_of(real) == DIALECT_CRUN ? "crun" : "runc";
	char here[2000] = "";
	if (!asked.root)
		snprintf(ret, PATH_MAX, "%.2000s/%s/%.1000s", run_dir(), name, asked.id);
	else if (asked.root[0] == '/' || !getcwd(here, sizeof(here)))
		snprintf(ret, PATH_MAX, "%.2000s/%.1000s", asked.root, asked.id);
	else
		snprintf(ret, PATH_MAX, "%s/%.1000s/%.1000s", here, asked.root, asked.id);
}

/*
 * The file that the runtime wrote when it created the container has its annotations: without our switch there, all that
 * it costs is reading that file. Where there is no such file, the runtime is asked.
 */
static bool may_be_asked(void)
{
	static const char *const files[] = {"state.json", "config.json"};
	char dir[PATH_MAX], *text;
	size_t len;
	find_state_dir(dir);
	fd_auto at = fd_open_dir(AT_FDCWD, dir);
	for (size_t i = 0; at >= 0 && i < sizeof(files) / sizeof(files[0]); i++) {
		fd_auto file = fd_open(at, files[i], O_RDONLY, 0);
		if (file < 0 || fd_slurp(file, CONFIG_MAX, &text, &len) < 0)
			continue;
		const bool asked_for =
			memmem(text, len, ANNOTATION_PREFIX "profile", strlen(ANNOTATION_PREFIX "profile"));
		free(text);
		return asked_for;
	}
	return true;
}

/* "status": "created", as the runtime says it. Within a string the quotes would have backslashes. */
static bool has_status(const char *text, size_t len, const char *status)
{
	const char *at = memmem(text, len, "\"status\"", 8), *const end = text + len;
	if (!at)
		return false;
	for (at += 8; at < end && strchr(" \t\r\n:", *at); at++)
		;
	return (size_t)(end - at) >= strlen(status) && !memcmp(at, status, strlen(status));
}

/* Reports a failure that no other process reports. 1: under the administrator's `strict` the start has failed. */
static int report_unprofiled(const char *why)
{
	const bool refuses = options.settings.strict && asked.command == INVOKED_START;
	char text[200];
	log_line(LOG_WARNING, "container=%s outcome=%s reason=\"%s\"", asked.id, refuses ? "refused" : "unprofiled",
		why);
	snprintf(text, sizeof(text), "it is not started, for strict is set and it cannot be profiled: %s", why);
	if (refuses)
		log_error(text);
	return refuses;
}

/* The hook says why it could not. 1: see above. */
static int run_hook(const char *hook, const char *state, size_t len)
{
	const int64_t deadline = deadline_in(options.settings.budget_ms * NSEC_PER_MSEC + HOOK_MORE_NS);
	char *words[] = {(char *)(uintptr_t)hook, (char *)"--etc", (char *)(uintptr_t)etc, NULL};
	fd_auto in = create_memfd("state", state, len, MFD_CLOEXEC), null = fd_open(AT_FDCWD, "/dev/null", O_RDWR, 0);
	const pid_t child = in < 0 || null < 0 ? -EIO : spawn_child(words, in, null, 2);
	const int status = child > 0 ? child_process_wait(child, deadline) : -EIO;
	if (status < 0 || !WIFEXITED(status) || WEXITSTATUS(status) == STATUS_MISSING)
		return report_unprofiled(
			status == -ETIMEDOUT ? "the hook did not end in time" : "the hook could not run");
	return options.settings.strict && status != 0;
}

/* The hook, if it is asked for and the container's status is this one. 1: see above. */
static int at_status(char **argv, const char *status)
{
	char hook[PATH_MAX], *state = NULL;
	size_t len;
	if (!may_be_asked())
		return 0;
	if (!find_hook(hook))
		return report_unprofiled("there is no pillion-hook");
	int r = ask_state(argv, &state, &len);
	if (r < 0)
		return r == -ENOENT ? 0
				    : report_unprofiled(r == -ETIMEDOUT ? "the runtime takes long to say its state"
									: "the runtime cannot be asked for its state");
	if (has_status(state, len, status) &&
		memmem(state, len, ANNOTATION_PREFIX "profile", strlen(ANNOTATION_PREFIX "profile")))
		r = run_hook(hook, state, len);
	free(state);
	return r;
}

/* --- create and run --------------------------------------------------------------------------------------------- */

static int edit_config(struct json_edit *s, struct err *e)
{
	char hook[PATH_MAX], library[sizeof(((struct app_socket *)0)->library)];
	struct err why = {0};
	int changed = 0, r;
	if (asked.command == INVOKED_RUN) {
		r = find_hook(hook) ? config_inject_hook(s, hook, strcmp(etc, OPTIONS_ETC) != 0 ? etc : NULL, e)
				    : err_say(e, -ENOENT, "there is no pillion-hook");
		if (r < 0)
			return r;
		changed = 1;
	}
	r = config_inject_wants_library(s, &why);
	if (r == 1)
		r = app_socket_find_library(&options.settings, library, sizeof(library), &why);
	else if (r == 0)
		return changed;
	if (r == 0)
		r = config_inject_library(s, library, &why);
	if (r == 0)
		return 1;
	log_line(LOG_WARNING, "container=%s reason=\"without libpillion: %s\"", asked.id,
		why.text); /* the rest goes on */
	return changed;
}

/* The command line with another value in the word that ends with this one: "B", "-b=B". NULL: no memory. */
static char **with_value(int argc, char **argv, const char *had, const char *value)
{
	char **words = calloc((size_t)argc + 1, sizeof(*words));
	for (int i = 0; words && i < argc; i++) {
		const uintptr_t at = (uintptr_t)had, begins = (uintptr_t)argv[i];
		words[i] = argv[i];
		if (at >= begins && at <= begins + strlen(argv[i]) &&
			asprintf(&words[i], "%.*s%s", (int)(at - begins), argv[i], value) < 0)
			return NULL;
	}
	return words;
}

/*
 * The command line with this option: its value is replaced if it is there already (`had`: runc takes none twice), else
 * it comes before the id. NULL: no memory.
 */
static char **with_option(int argc, char **argv, const char *option, const char *had, const char *value)
{
	if (had)
		return with_value(argc, argv, had, value);
	char **words = calloc((size_t)argc + 3, sizeof(*words));
	if (!words)
		return NULL;
	const size_t n = (size_t)asked.id_at;
	memcpy(words, argv, n * sizeof(*words));
	words[n] = (char *)(uintptr_t)option;
	words[n + 1] = strdup(value);
	if (!words[n + 1])
		return NULL;
	memcpy(words + n + 2, argv + n, ((size_t)argc - n) * sizeof(*words));
	return words;
}

static char **by_config(int argc, char **argv, const struct json_edit *s, struct err *e)
{
	char path[64];
	const int fd = create_memfd("config.json", s->text, s->len, 0),
		  high = fd < 0 ? fd : fcntl(fd, F_DUPFD, HIGH_FD);
	fd_close(fd);
	if (high < 0) {
		err_say(e, -EIO, "no memory, or no descriptor from %d on, for its config.json", HIGH_FD);
		return NULL;
	}
	snprintf(path, sizeof(path), "/proc/self/fd/%d", high);
	return with_option(argc, argv, "--config", asked.config, path);
}

static char **by_shadow(int argc, char **argv, struct json_edit *s, const char *bundle, struct err *e)
{
	char place[PATH_MAX], state[PATH_MAX], shadow[PATH_MAX];
	if (config_inject_root(s, bundle, e) < 0)
		return NULL;
	snprintf(place, sizeof(place), "%.1000s/pillion/bundles", run_dir());
	find_state_dir(state);
	bundle_overlay_sweep(place);
	if (bundle_overlay_make(place, bundle, state, s->text, s->len, shadow, e) < 0)
		return NULL;
	return with_option(argc, argv, "--bundle", asked.bundle, shadow);
}

static char **splice_and_go(int argc, char **argv, const char *bundle, const char *text, size_t len, struct err *e)
{
	struct json_edit s = {0};
	char **words = NULL;
	int r = json_edit_open(&s, text, len, e);
	if (r == 0)
		r = edit_config(&s, e);
	if (r > 0)
		words = dialect_of(real) == DIALECT_CRUN ? by_config(argc, argv, &s, e)
							 : by_shadow(argc, argv, &s, bundle, e);
	json_edit_done(&s);
	return words ? words : argv;
}

/* The command line to go on with. */
static char **before_create(int argc, char **argv)
{
	char bundle[PATH_MAX], *text = NULL;
	size_t len;
	struct err e = {0};
	char **words = argv;
	if (!realpath(asked.bundle ? asked.bundle : ".", bundle))
		return argv; /* the real runtime reports that */
	fd_auto dir = fd_open_dir(AT_FDCWD, bundle);
	fd_auto file = dir < 0 ? dir : fd_open(dir, asked.config ? asked.config : "config.json", O_RDONLY, 0);
	if (file >= 0 && fd_slurp(file, CONFIG_MAX, &text, &len) == 0 && config_inject_is_asked(text, len))
		words = splice_and_go(argc, argv, bundle, text, len, &e);
	if (e.code)
		log_line(LOG_WARNING, "container=%s outcome=unprofiled reason=\"%s\"", asked.id, e.text);
	free(text);
	return words;
}

/* --- all of it -------------------------------------------------------------------------------------------------- */

/* The hook reports a mistake in a file; here it is as if the line were not there. */
static void read_settings(void)
{
	const char *other = getauxval(AT_SECURE) ? NULL : getenv("PILLION_ETC");
	etc = other && other[0] == '/' && strlen(other) < sizeof(options.settings.paths.etc) ? other : OPTIONS_ETC;
	hook_settings_settings(&options, etc, 0, NULL, NULL);
	log_open("pillion-runc", options.settings.paths.log[0] ? options.settings.paths.log : NULL);
	log_level(options.settings.log_level);
}

/* Sets SIGCHLD and SIGPIPE for our own children and pipes, and restores them for the runtime. */
static char **prepare_command(int argc, char **argv, bool *ret_refused)
{
	struct sigaction chld, pipe;
	sigaction(SIGCHLD, NULL, &chld);
	sigaction(SIGPIPE, NULL, &pipe);
	signal(SIGCHLD, SIG_DFL);
	signal(SIGPIPE, SIG_IGN);
	if (asked.command == INVOKED_START)
		*ret_refused = at_status(argv, "\"created\"") != 0;
	else if (asked.command == INVOKED_DELETE)
		at_status(argv, "\"stopped\"");
	else
		argv = before_create(argc, argv);
	sigaction(SIGCHLD, &chld, NULL);
	sigaction(SIGPIPE, &pipe, NULL);
	return argv;
}

int main(int argc, char **argv)
{
	bool refused = false;
	fd_hold_stdio();
	read_settings();
	const ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	self[n < 0 ? 0 : n] = 0;
	const bool found = find_real(), clear = runtime_argv_parse(dialect_of(real), argc, argv, &asked) == 0;
	if (!found)
		return report_missing(
			options.settings.paths.runtime[0]
				? "the runtime that pillion.conf names is not there, or no program, or "
				  "pillion-runc itself"
				: "there is no runc and no crun: name one in pillion.conf (runtime = /path)");
	if (is_too_deep())
		return report_missing("the runtime that pillion.conf names leads back to pillion-runc");
	if (clear && asked.command != INVOKED_OTHER && options.settings.enabled && options_off(etc) != 1)
		argv = prepare_command(argc, argv, &refused);
	log_close();
	if (refused)
		return 1; /* the reason has been reported */
	return exec_runtime(argv);
}
