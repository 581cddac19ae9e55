/* SPDX-License-Identifier: Apache-2.0 */
/*
 * herd - containers without a runtime, thousands of them: what the hook finds at createRuntime, in 2 ms apiece.
 *
 *	herd [OPTION...] -g CGROUP -u BUNDLE N -- HOOK ARG...
 *
 * A container is a process in pid and mount namespaces and a v2 cgroup of its own (below CGROUP, a directory). It is
 * parked while the hook runs with the state on stdin, then becomes its program, an init. At its end its cgroup is
 * removed and the hook is called once more, as at poststop. N of them are started, one after the other.
 *
 *	-x PROGRAM -a ARG	what each becomes (default: it ends at once)
 *	-n NAME			their ids are NAME-0, NAME-1, ... ("herd")
 *	-e EVENTS		the annotation io.pillion.profile ("cpu")
 *	-j JOBS			so many at a time (1)
 *	-k			all stay until SIGTERM; prints "ready" when the last has started
 *	-f SEED			one fault in every start, at random; SEED repeats them (their moments but roughly)
 *	-b MS			the hook's budget: a call that takes SLACK_MS more is late (500);
 *			what the hook and herd waited for a CPU does not count
 *	-o FILE			a line each: id, ms of the hook from spawn to exit, its status, the program's, fault
 *
 * Prints a table, a line for each fault: starts, those that failed (the hook's exit status is not 0, or the program's
 * is not that of a program that ran, though nobody killed it), those that were late, and p50, p90, p99 and max of the
 * hook's time in ms. Exit status 1 when any start failed or was late. SIGTERM ends it after the start under way.
 */
#include "tests/tools/fault.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SLACK_MS 100 /* for the end of the children that the hook kills */
#define LIVE_MAX 4096

struct member {
	unsigned number;
	pid_t pid;
	int gate; /* released by a byte */
	enum fault fault;
	int hook_status;
	double ms, starved; /* starved: of these, without a CPU */
	char told[160];	    /* what was done to it */
};

struct tally {
	unsigned starts, failed, late;
	double *ms;
};

static struct {
	const char *cgroup, *bundle, *program, *argument, *name, *events;
	char **hook;
	unsigned n, jobs, budget_ms, seed;
	bool keep, faults;
	FILE *out;
} set = {.name = "herd", .events = "cpu", .jobs = 1, .budget_ms = 500};

static struct member live[LIVE_MAX];
static unsigned n_live;
static struct tally tally[FAULTS];
static volatile sig_atomic_t stop;

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "herd: %s: %s\n", what, strerror(errno));
	exit(2);
}

static double now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* --- a container ---------------------------------------------------------------------------------------- */

static void cgroup_path(char *buf, size_t size, unsigned number)
{
	snprintf(buf, size, "%s/%s-%u", set.cgroup, set.name, number);
}

static _Noreturn void wait_as_init(int gate)
{
	char byte;
	mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
	if (read(gate, &byte, 1) != 1 || !set.program)
		_exit(0);
	/* what herd leaves to a child: nothing but its own signals */
	signal(SIGTERM, SIG_DFL);
	signal(SIGPIPE, SIG_DFL);
	int null = open("/dev/null", O_RDWR);
	for (int fd = 0; fd < 3; fd++)
		dup2(null, fd);
	execl(set.program, set.program, set.argument, (char *)NULL);
	_exit(127);
}

static void park(struct member *m)
{
	char path[512];
	int gate[2];
	cgroup_path(path, sizeof(path), m->number);
	if (mkdir(path, 0755) < 0)
		die(path);
	int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0 || pipe2(gate, O_CLOEXEC) < 0)
		die(path);
	struct clone_args args = {.flags = CLONE_NEWPID | CLONE_NEWNS | CLONE_INTO_CGROUP,
		.exit_signal = SIGCHLD,
		.cgroup = (uint64_t)dir};
	m->pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
	if (m->pid < 0)
		die("clone3");
	if (m->pid == 0) {
		close(gate[1]);
		wait_as_init(gate[0]);
	}
	close(dir);
	close(gate[0]);
	m->gate = gate[1];
}

/* --- the hook ------------------------------------------------------------------------------------------- */

static size_t state(char *buf, size_t size, const struct member *m, bool stopped)
{
	int n = snprintf(buf, size,
		"{\"ociVersion\": \"1.0.2\", \"id\": \"%s-%u\", \"status\": \"%s\", \"pid\": %d, \"bundle\": \"%s\", "
		"\"annotations\": {\"io.pillion.profile\": \"%s\"}}\n",
		set.name, m->number, stopped ? "stopped" : "creating", stopped ? 0 : (int)m->pid, set.bundle,
		set.events);
	return n < 0 ? 0 : (size_t)n < size ? (size_t)n : size - 1;
}

static int call_hook(struct member *m, bool stopped)
{
	char text[4096];
	int in[2];
	size_t len = state(text, sizeof(text), m, stopped);
	enum fault fault = stopped ? FAULT_NONE : m->fault;
	fault_text(fault, text, &len);
	if (pipe2(in, O_CLOEXEC) < 0 || write(in[1], text, len) != (ssize_t)len)
		die("pipe");
	close(in[1]);
	double start = now_ms();
	int status = fault_run(fault, set.hook, in[0], m->pid);
	if (!stopped) {
		m->ms = now_ms() - start;
		m->starved = fault_starved();
		snprintf(m->told, sizeof(m->told), "%s", fault_tell(fault));
	}
	close(in[0]);
	return status;
}

/* --- what came of it ------------------------------------------------------------------------------------ */

static void account(const struct member *m, int program)
{
	struct tally *t = &tally[m->fault];
	bool killed = m->fault == FAULT_INIT && WIFSIGNALED(program) && WTERMSIG(program) == SIGKILL;
	bool ran = killed || (WIFEXITED(program) && WEXITSTATUS(program) == 0) ||
		   (set.keep && WIFSIGNALED(program) && WTERMSIG(program) == SIGKILL);
	bool late = m->ms - m->starved > set.budget_ms + SLACK_MS, failed = m->hook_status != 0 || !ran;
	t->ms = realloc(t->ms, (t->starts + 1) * sizeof(t->ms[0]));
	if (!t->ms)
		die("memory");
	t->ms[t->starts++] = m->ms;
	t->failed += failed;
	t->late += late;
	if (failed || late)
		fprintf(stderr,
			"herd: %s-%u: %s (%s), hook status %#x, program %#x, %.1f ms, %.1f of them without a CPU\n",
			set.name, m->number, failed ? "failed" : "late", m->told, m->hook_status, program, m->ms,
			m->starved);
	if (set.out)
		fprintf(set.out, "%s-%u %.3f %d %d %s\n", set.name, m->number, m->ms, m->hook_status, program,
			fault_name(m->fault));
}

static void remove_cgroup(const struct member *m)
{
	char path[512];
	struct timespec moment = {0, 1000000};
	cgroup_path(path, sizeof(path), m->number);
	for (int i = 0; rmdir(path) < 0; i++) {
		if (errno != EBUSY || i == 5000)
			die(path);
		nanosleep(&moment, NULL);
	}
}

static void bury(unsigned at, int program)
{
	struct member m = live[at];
	live[at] = live[--n_live];
	if (m.gate >= 0)
		close(m.gate);
	remove_cgroup(&m);
	int status = call_hook(&m, true);
	if (status != 0)
		m.hook_status = status;
	account(&m, program);
}

static void reap_one(void)
{
	int status;
	pid_t pid = waitpid(-1, &status, 0);
	if (pid < 0 && errno == EINTR)
		return;
	if (pid < 0)
		die("wait");
	for (unsigned i = 0; i < n_live; i++)
		if (live[i].pid == pid) {
			bury(i, status);
			return;
		}
}

static void start(unsigned number)
{
	struct member *m = &live[n_live];
	*m = (struct member){.number = number, .gate = -1, .fault = set.faults ? fault_draw() : FAULT_NONE};
	park(m);
	n_live++;
	m->hook_status = call_hook(m, false);
	if (m->hook_status != 0 || write(m->gate, "", 1) < 0)
		kill(m->pid, SIGKILL); /* a runtime starts nothing then */
	close(m->gate);
	m->gate = -1;
}

/* --- the table ------------------------------------------------------------------------------------------ */

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

static bool print_table(void)
{
	static const unsigned ranks[] = {50, 90, 99, 100};
	bool bad = false;
	printf("%-24s %8s %8s %8s %8s %8s %8s %8s\n", "", "starts", "failed", "late", "p50 ms", "p90", "p99", "max");
	for (unsigned i = 0; i < FAULTS; i++) {
		struct tally *t = &tally[i];
		if (!t->starts)
			continue;
		qsort(t->ms, t->starts, sizeof(t->ms[0]), by_size);
		printf("%-24s %8u %8u %8u", fault_name(i), t->starts, t->failed, t->late);
		for (size_t r = 0; r < sizeof(ranks) / sizeof(ranks[0]); r++)
			printf(" %8.2f", t->ms[((t->starts - 1) * ranks[r] + 50) / 100]);
		printf("\n");
		bad |= t->failed || t->late;
	}
	return bad;
}

/* --- arguments ------------------------------------------------------------------------------------------ */

static void read_option(int o)
{
	switch (o) {
	case 'g':
		set.cgroup = optarg;
		return;
	case 'u':
		set.bundle = optarg;
		return;
	case 'x':
		set.program = optarg;
		return;
	case 'a':
		set.argument = optarg;
		return;
	case 'n':
		set.name = optarg;
		return;
	case 'e':
		set.events = optarg;
		return;
	case 'j':
		set.jobs = (unsigned)atoi(optarg);
		return;
	case 'k':
		set.keep = true;
		return;
	case 'f':
		set.faults = true;
		set.seed = (unsigned)strtoul(optarg, NULL, 0);
		return;
	case 'b':
		set.budget_ms = (unsigned)atoi(optarg);
		return;
	case 'o':
		if (!(set.out = fopen(optarg, "we")))
			die(optarg);
		return;
	default:
		exit(2);
	}
}

static void read_arguments(int argc, char **argv)
{
	int o;
	while ((o = getopt(argc, argv, "+g:u:x:a:n:e:j:kf:b:o:")) != -1)
		read_option(o);
	set.n = optind < argc ? (unsigned)atoi(argv[optind]) : 0;
	if (!set.cgroup || !set.bundle || !set.n || optind + 2 >= argc || strcmp(argv[optind + 1], "--") != 0 ||
		!set.jobs || set.jobs > LIVE_MAX || (set.keep && set.n > LIVE_MAX)) {
		fprintf(stderr, "usage: see the head of tests/tools/herd.c\n");
		exit(2);
	}
	set.hook = argv + optind + 2;
	if (set.keep)
		set.jobs = set.n;
}

static void on_term(int signo)
{
	stop = 1;
}

int main(int argc, char **argv)
{
	struct sigaction term = {.sa_handler = on_term};
	read_arguments(argc, argv);
	fault_seed(set.seed);
	sigaction(SIGTERM, &term, NULL);
	signal(SIGPIPE, SIG_IGN);
	for (unsigned i = 0; i < set.n && !stop; i++) {
		while (n_live >= set.jobs)
			reap_one();
		start(i);
	}
	if (set.keep) {
		struct timespec moment = {0, 20000000};
		puts("ready");
		fflush(stdout);
		while (!stop)
			nanosleep(&moment, NULL);
		for (unsigned i = 0; i < n_live; i++)
			kill(live[i].pid, SIGKILL);
	}
	while (n_live)
		reap_one();
	if (set.out)
		fclose(set.out);
	return print_table();
}
