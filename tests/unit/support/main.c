/* SPDX-License-Identifier: Apache-2.0 */
/*
 * units [-l] [NAME...] - the unit tests in one program: every suite, or those named. -l: lists their names.
 *
 * Each suite runs in a process of its own, one more than there are CPUs at a time, and what it prints comes when it is
 * over. Check's environment works: CK_RUN_CASE, CK_VERBOSITY, CK_FORK. The last lines name the suites that failed. Exit
 * status 1 when one did, 2 when there is none of that name.
 */
#include "tests/unit/support/suites.h"

#include "oci/base/clock.h"
#include "profiler/symbol/forkserver.h"

#include <err.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct run {
	const struct unit_suite *suite;
	pid_t pid; /* 0: it has not begun, or is over */
	int output;
	int64_t began;
	bool failed;
};

static struct counts { /* shared with the suites' processes, which add to it */
	_Atomic int checks, failed;
} * counts;

static int run_suite(const struct unit_suite *suite)
{
	SRunner *runner = srunner_create(suite->make());
	srunner_run_all(runner, getenv("CK_VERBOSITY") ? CK_ENV : CK_NORMAL);
	int failed = srunner_ntests_failed(runner);
	counts->checks += srunner_ntests_run(runner);
	counts->failed += failed;
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

static void start_run(struct run *r)
{
	r->output = memfd_create("output", MFD_CLOEXEC);
	if (r->output < 0)
		err(2, "memfd_create");
	fflush(NULL);
	r->began = clock_now();
	r->pid = fork();
	if (r->pid < 0)
		err(2, "fork");
	if (r->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		int output = r->output;
		dup2(output, STDOUT_FILENO);
		dup2(output, STDERR_FILENO);
		close(output);
		exit(run_suite(r->suite));
	}
}

static void print_skips(const char *suite, const char *line, int times)
{
	if (times)
		printf("%s: %.*s%s", suite, (int)strcspn(line, "\n"), line, times == 1 ? "\n" : "");
	if (times > 1)
		printf(" (%d times)\n", times);
}

/* All of it, or the lines that tell of skipped checks, one for several alike; returns how many checks those are. */
static int print_output(const struct run *r, bool all)
{
	char *line = NULL, last[512] = "";
	size_t size = 0;
	int skips = 0, alike = 0;
	FILE *f = fdopen(r->output, "r");

	if (!f)
		err(2, "fdopen");
	rewind(f);
	while (getline(&line, &size, f) > 0) {
		bool skip = strncmp(line, "skipped:", 8) == 0;
		skips += skip;
		if (all)
			fputs(line, stdout);
		else if (skip && strncmp(line, last, sizeof(last) - 1) != 0) {
			print_skips(r->suite->name, last, alike);
			snprintf(last, sizeof(last), "%s", line);
			alike = 1;
		} else {
			alike += skip;
		}
	}
	print_skips(r->suite->name, last, alike);
	free(line);
	fclose(f);
	return skips;
}

static int skipped; /* checks */

static void end_run(struct run *r, int status)
{
	r->pid = 0;
	r->failed = status != 0;
	skipped += print_output(r, r->failed);
	if (WIFSIGNALED(status)) {
		printf("%s: ended by signal %d\n", r->suite->name, WTERMSIG(status));
		counts->failed++;
	}
	if (getenv("UNIT_TIMES"))
		printf("%s: %lld ms\n", r->suite->name, (long long)((clock_now() - r->began) / NSEC_PER_MSEC));
	fflush(stdout);
}

/* One of those that go on ends. */
static void wait_run(struct run *runs, unsigned n)
{
	int status;
	pid_t pid = waitpid(-1, &status, 0);
	if (pid < 0)
		err(2, "waitpid");
	for (unsigned i = 0; i < n; i++)
		if (runs[i].pid == pid)
			end_run(&runs[i], status);
}

static const struct unit_suite *find_suite(const char *name)
{
	for (const struct unit_suite *s = unit_suites; s->name; s++)
		if (strcmp(s->name, name) == 0)
			return s;
	fprintf(stderr, "units: there is no suite '%s'; units -l lists them\n", name);
	exit(2);
}

static int run_all(struct run *runs, unsigned n)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	unsigned at_a_time = (unsigned)(cpus > 0 ? cpus : 1) + 1, running = 0;

	for (unsigned i = 0; i < n; i++) {
		if (running == at_a_time) {
			wait_run(runs, n);
			running--;
		}
		start_run(&runs[i]);
		running++;
	}
	for (; running; running--)
		wait_run(runs, n);
	int status = EXIT_SUCCESS;
	for (unsigned i = 0; i < n; i++)
		if (runs[i].failed) {
			printf("failed: %s\n", runs[i].suite->name);
			status = EXIT_FAILURE;
		}
	int passed = counts->checks - counts->failed;
	printf("%d passed, %d failed, %d skipped\n", passed > skipped ? passed - skipped : 0, counts->failed, skipped);
	return status;
}

int main(int argc, char **argv)
{
	static struct run runs[UNIT_SUITES_MAX];
	unsigned n = 0;

	forkserver_main(argc, argv);
	setenv("CK_DEFAULT_TIMEOUT", "60", 0);	 /* seconds: what hangs, and not what has no CPU for a while */
	setenv("CK_TIMEOUT_MULTIPLIER", "8", 0); /* of those that a suite has for itself, too */
	counts = mmap(NULL, sizeof(*counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (counts == MAP_FAILED)
		err(2, "mmap");
	if (argc == 2 && strcmp(argv[1], "-l") == 0) {
		for (const struct unit_suite *s = unit_suites; s->name; s++)
			puts(s->name);
		return EXIT_SUCCESS;
	}
	if (argc == 2)
		exit(run_suite(find_suite(argv[1]))); /* no tail call: some tests look for main() in their own stack */
	for (int i = 1; i < argc && n < UNIT_SUITES_MAX; i++)
		runs[n++].suite = find_suite(argv[i]);
	if (argc == 1)
		for (const struct unit_suite *s = unit_suites; s->name && n < UNIT_SUITES_MAX; s++)
			runs[n++].suite = s;
	return run_all(runs, n);
}
