/* SPDX-License-Identifier: Apache-2.0 */
/*
 * starts - how long the programs take that run while a container starts. Prints a table, in milliseconds.
 *
 *	starts [-n ROUNDS] [-w MS] [-s] [-f GLOB] [-c CGROUP -r ROOTFS] {-- LABEL STDIN PROGRAM ARG...}...
 *
 * In each round every program runs once, in turns of who goes first, MS after the one before; its time is that from
 * before its spawn until it is reaped. STDIN is a file whose text it gets on stdin, or "-". In that text and in
 * its arguments @ID@ becomes a name of its own and @PID@ the round's container. Rows:
 *
 *	LABEL			the program
 *	LABEL, more		pair by pair, how much longer it took than the first program of its round
 *
 *	-s	the program prints the CLOCK_MONOTONIC of its end in ns (tests/bench/stamp.c): two rows each
 *	-f	the program leaves one file more that GLOB matches: the table has the time from its end to that
 *		(to 200 us)
 *	-c -r	each round has a container for its programs: a process that waits, as a runtime's init does
 *		at createRuntime: own pid and mount namespace, mounts below ROOTFS, own v2 cgroup below CGROUP
 *
 * A program that fails, or prints no time, is counted in the last column; its time is among the others.
 */
#include "oci/base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROGRAMS_MAX 8
#define ARGS_MAX 64
#define TEXT_MAX 32768 /* of stdin: fits into a pipe */
#define FILE_TURN_US 200
#define FILE_TURNS (10 * 1000000 / FILE_TURN_US) /* later it failed */

extern char **environ;

enum span { WHOLE, UNTIL = 0, AFTER, SPANS };

struct program {
	const char *label;
	char *text;  /* for stdin, or NULL */
	char **argv; /* ended by NULL */
	int64_t *ns[SPANS];
	unsigned failed;
};

static struct {
	unsigned n, pause_ms, n_programs;
	bool stamped;
	const char *cgroup, *rootfs, *files;
	struct program programs[PROGRAMS_MAX];
} set = {.n = 100};

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "starts: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void *some(void *memory)
{
	if (!memory)
		die("memory");
	return memory;
}

/* --- the container ------------------------------------------------------------------------------------------ */

struct container {
	pid_t pid;
	int sock; /* it ends when this is closed */
	char cgroup[512];
};

/* What runtimes mount, as far as it needs no other namespace: a dozen mounts below the root. */
static const struct mount_row {
	const char *at, *type, *source; /* no type: bind */
} mounts[] = {
	{"proc", "proc", "proc"},
	{"dev", "tmpfs", "tmpfs"},
	{"dev/pts", "devpts", "devpts"},
	{"dev/shm", "tmpfs", "shm"},
	{"sys", NULL, "/sys"},
	{"etc/hosts", NULL, "/dev/null"},
	{"etc/hostname", NULL, "/dev/null"},
	{"etc/resolv.conf", NULL, "/dev/null"},
	{"proc/meminfo", NULL, "/dev/null"},
	{"proc/stat", NULL, "/dev/null"},
	{"proc/irq", NULL, "/proc/irq"},
	{"proc/sys", NULL, "/proc/sys"},
};

static void mount_all(void)
{
	char at[512];
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		mount(set.rootfs, set.rootfs, NULL, MS_BIND, NULL) < 0)
		die(set.rootfs);
	for (size_t i = 0; i < sizeof(mounts) / sizeof(mounts[0]); i++) {
		const struct mount_row *m = &mounts[i];
		snprintf(at, sizeof(at), "%s/%s", set.rootfs, m->at);
		if (!strncmp(m->at, "dev/", 4))
			mkdir(at, 0755); /* in the new tmpfs; all else is there */
		if (mount(m->source, at, m->type, m->type ? 0 : MS_BIND, NULL) < 0)
			die(at);
	}
}

static _Noreturn void wait_as_init(int sock)
{
	char byte = 0;
	mount_all();
	if (write(sock, &byte, 1) == 1)
		while (read(sock, &byte, 1) > 0)
			;
	_exit(0);
}

static void enter_cgroup(struct container *c, unsigned round)
{
	char path[600];
	snprintf(c->cgroup, sizeof(c->cgroup), "%s/start-%u", set.cgroup, round);
	if (mkdir(c->cgroup, 0755) < 0)
		die(c->cgroup);
	snprintf(path, sizeof(path), "%s/cgroup.procs", c->cgroup);
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || dprintf(fd, "%d", (int)c->pid) < 0)
		die(path);
	close(fd);
}

static void container_start(struct container *c, unsigned round)
{
	int pair[2];
	char byte;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		die("socketpair");
	c->pid = (pid_t)syscall(SYS_clone, CLONE_NEWPID | CLONE_NEWNS | SIGCHLD, NULL, NULL, NULL, NULL);
	if (c->pid < 0)
		die("clone");
	if (c->pid == 0) {
		close(pair[0]);
		wait_as_init(pair[1]);
	}
	close(pair[1]);
	c->sock = pair[0];
	if (read(c->sock, &byte, 1) != 1)
		exit(1); /* it has said why */
	enter_cgroup(c, round);
}

static void container_end(struct container *c)
{
	close(c->sock);
	waitpid(c->pid, NULL, 0);
	if (rmdir(c->cgroup) < 0)
		die(c->cgroup);
}

/* --- one program, one time ---------------------------------------------------------------------------------- */

/* A copy of `text` with @ID@ and @PID@ replaced; the caller's to free. */
static char *fill(const char *text, unsigned round, unsigned program, pid_t pid)
{
	char *out = NULL;
	size_t len;
	FILE *f = some(open_memstream(&out, &len));
	while (*text) {
		bool is_id = !strncmp(text, "@ID@", 4), is_pid = !strncmp(text, "@PID@", 5);
		if (is_id)
			fprintf(f, "bench-%d-%u-%u", (int)getpid(), round, program);
		else if (is_pid)
			fprintf(f, "%d", (int)pid);
		else
			fputc(*text, f);
		text += is_id ? 4 : is_pid ? 5 : 1;
	}
	if (fclose(f) != 0)
		die("memory");
	return out;
}

/* Read end of a pipe that holds all of the program's input. */
static int input_of(const struct program *p, unsigned round, pid_t pid)
{
	int ends[2];
	if (!p->text)
		return open("/dev/null", O_RDONLY | O_CLOEXEC);
	char *text = fill(p->text, round, (unsigned)(p - set.programs), pid);
	if (pipe2(ends, O_CLOEXEC) < 0 || write(ends[1], text, strlen(text)) < 0)
		die("pipe");
	close(ends[1]);
	free(text);
	return ends[0];
}

/* The stamp in what it printed. All of it is there by now: a writer that lives on is not waited for. */
static int64_t stamp_in(int fd)
{
	char text[64];
	ssize_t n = read(fd, text, sizeof(text) - 1);
	text[n > 0 ? n : 0] = 0;
	return atoll(text);
}

static size_t count_files(void)
{
	glob_t found;
	size_t n;
	if (!set.files || glob(set.files, GLOB_NOSORT | GLOB_BRACE, NULL, &found) != 0)
		return 0;
	n = found.gl_pathc;
	globfree(&found);
	return n;
}

/* When there is one more than `before`; 0: none came. */
static int64_t file_came(size_t before)
{
	for (unsigned turn = 0; turn < FILE_TURNS; turn++) {
		if (count_files() > before)
			return clock_now();
		usleep(FILE_TURN_US);
	}
	return 0;
}

static void measure(struct program *p, unsigned round, pid_t pid)
{
	char *argv[ARGS_MAX + 1] = {NULL};
	int in = input_of(p, round, pid), out[2], status;
	posix_spawn_file_actions_t actions;
	for (unsigned i = 0; p->argv[i]; i++)
		argv[i] = fill(p->argv[i], round, (unsigned)(p - set.programs), pid);
	if (in < 0 || pipe2(out, O_CLOEXEC | O_NONBLOCK) < 0)
		die("pipe");
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, in, 0);
	if (set.stamped)
		posix_spawn_file_actions_adddup2(&actions, out[1], 1);

	const size_t files = count_files();
	int64_t start = clock_now();
	pid_t child;
	errno = posix_spawnp(&child, argv[0], &actions, NULL, argv, environ);
	if (errno)
		die(argv[0]);
	waitpid(child, &status, 0);
	const int64_t end = clock_now(), came = set.files ? file_came(files) : end;
	int64_t stamp = set.stamped ? stamp_in(out[0]) : end;

	bool failed = status != 0 || stamp < start || stamp > came;
	p->failed += failed;
	if (failed)
		stamp = end;
	p->ns[UNTIL][round] = stamp - start;
	p->ns[AFTER][round] = came ? came - stamp : 0;
	posix_spawn_file_actions_destroy(&actions);
	close(in);
	close(out[0]);
	close(out[1]);
	for (unsigned i = 0; argv[i]; i++)
		free(argv[i]);
}

static void run_round(unsigned round)
{
	struct container c = {0};
	if (set.cgroup)
		container_start(&c, round);
	for (unsigned i = 0; i < set.n_programs; i++) {
		usleep(set.pause_ms * 1000);
		measure(&set.programs[(round + i) % set.n_programs], round, c.pid);
	}
	if (set.cgroup)
		container_end(&c);
}

/* --- the table ---------------------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return x < y ? -1 : x > y;
}

static void print_row(const char *label, const char *more, int64_t *ns, const char *failed)
{
	static const unsigned ranks[] = {0, 25, 50, 75, 90, 99, 100};
	printf("%-20s %-24s %6u", label, more, set.n);
	qsort(ns, set.n, sizeof(*ns), compare);
	for (size_t i = 0; i < sizeof(ranks) / sizeof(ranks[0]); i++)
		printf(" %8.2f", (double)ns[((set.n - 1) * ranks[i] + 50) / 100] / NSEC_PER_MSEC);
	printf(" %6s\n", failed);
}

static void print_span(enum span span, const char *more)
{
	int64_t *ns = some(malloc(set.n * sizeof(*ns)));
	char failed[16], text[64];
	for (unsigned i = 0; i < set.n_programs; i++) {
		memcpy(ns, set.programs[i].ns[span], set.n * sizeof(*ns));
		snprintf(failed, sizeof(failed), "%u", set.programs[i].failed);
		print_row(set.programs[i].label, more, ns, failed);
	}
	for (unsigned i = 1; i < set.n_programs; i++) {
		for (unsigned k = 0; k < set.n; k++)
			ns[k] = set.programs[i].ns[span][k] - set.programs[0].ns[span][k];
		snprintf(text, sizeof(text), "%s%smore", more, more[0] ? ", " : "");
		print_row(set.programs[i].label, text, ns, "");
	}
	free(ns);
}

static void print_table(void)
{
	printf("%-45s %6s %8s %8s %8s %8s %8s %8s %8s %6s\n", "ms", "n", "min", "p25", "p50", "p75", "p90", "p99",
		"max", "failed");
	if (!set.files)
		print_span(WHOLE, set.stamped ? "to the program's end" : "");
	if (set.stamped || set.files)
		print_span(AFTER, set.files ? "" : "from there on");
}

/* --- arguments ---------------------------------------------------------------------------------------------- */

static char *read_file(const char *path)
{
	char *text = some(calloc(1, TEXT_MAX));
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, text, TEXT_MAX - 1) < 0)
		die(path);
	close(fd);
	return text;
}

static void add_program(char **args, unsigned n)
{
	struct program *p = &set.programs[set.n_programs++];
	errno = EINVAL;
	if (set.n_programs > PROGRAMS_MAX || n < 3 || n - 2 > ARGS_MAX)
		die("program");
	p->label = args[0];
	p->text = strcmp(args[1], "-") ? read_file(args[1]) : NULL;
	p->argv = some(calloc(n - 1, sizeof(*p->argv)));
	memcpy(p->argv, args + 2, (n - 2) * sizeof(*args));
	for (unsigned span = 0; span < SPANS; span++)
		p->ns[span] = some(calloc(set.n, sizeof(int64_t)));
}

static void read_options(int argc, char **argv)
{
	int o;
	while ((o = getopt(argc, argv, "+n:w:sf:c:r:")) != -1)
		switch (o) {
		case 'n':
			set.n = (unsigned)atoi(optarg);
			break;
		case 'w':
			set.pause_ms = (unsigned)atoi(optarg);
			break;
		case 's':
			set.stamped = true;
			break;
		case 'f':
			set.files = optarg;
			break;
		case 'c':
			set.cgroup = optarg;
			break;
		case 'r':
			set.rootfs = optarg;
			break;
		default:
			exit(2);
		}
	if (set.n < 1 || !set.cgroup != !set.rootfs) {
		fprintf(stderr, "starts: -n is at least 1, -c and -r go together\n");
		exit(2);
	}
}

static void read_programs(int argc, char **argv)
{
	for (int at = optind, next; at < argc; at = next + 1) {
		for (next = at; next < argc && strcmp(argv[next], "--") != 0; next++)
			;
		add_program(argv + at, (unsigned)(next - at));
	}
}

int main(int argc, char **argv)
{
	read_options(argc, argv);
	read_programs(argc, argv);
	for (unsigned round = 0; round < set.n; round++)
		run_round(round);
	print_table();
	return 0;
}
