/*
 * identity FILE - writes to FILE what a process is to itself and to others: what must be the same with and without a
 * profiler. Pids and inode numbers that differ from run to run are left out.
 * identity --subreaper COMMAND... - becomes a child subreaper and runs the command.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static void copy(FILE *out, const char *path)
{
	char line[4096];
	FILE *f = fopen(path, "re");

	fprintf(out, "--- %s\n", path);
	while (f && fgets(line, sizeof(line), f))
		fputs(line, out);
	if (f)
		fclose(f);
}

static void status(FILE *out)
{
	static const char *const lines[] = {"Umask", "TracerPid", "Uid", "Gid", "Groups", "Threads", "SigQ", "SigPnd",
		"ShdPnd", "SigBlk", "SigIgn", "SigCgt", "Cap", "NoNewPrivs", "Seccomp", "Cpus_allowed", "THP_enabled"};
	char line[4096];
	FILE *f = fopen("/proc/self/status", "re");

	while (f && fgets(line, sizeof(line), f))
		for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
			if (!strncmp(line, lines[i], strlen(lines[i])) && strncmp(line, "SigQ", 4))
				fputs(line, out);
	if (f)
		fclose(f);
}

static void descriptors(FILE *out)
{
	char path[64], target[512];

	for (int fd = 0; fd < 256; fd++) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		ssize_t n = fd == fileno(out) ? -1 : readlink(path, target, sizeof(target) - 1);
		if (n >= 0)
			fprintf(out, "fd %d %.*s\n", fd, (int)strcspn(target, ":["), (target[n] = 0, target));
	}
}

static void environment(FILE *out)
{
	extern char **environ;

	for (char **e = environ; *e; e++)
		if (strncmp(*e, "OUT=", 4))
			fprintf(out, "%s\n", *e);
}

int main(int argc, char **argv)
{
	static const char *const files[] = {"/proc/self/limits", "/proc/self/cgroup", "/proc/self/oom_score_adj",
		"/proc/self/mountinfo", "/proc/self/timerslack_ns", "/proc/self/coredump_filter", "/proc/self/comm"};

	if (argc > 2 && !strcmp(argv[1], "--subreaper")) {
		prctl(PR_SET_CHILD_SUBREAPER, 1);
		execvp(argv[2], argv + 2);
		return 127;
	}
	FILE *out = argc > 1 ? fopen(argv[1], "we") : NULL;
	if (!out)
		return 2;
	descriptors(out);
	environment(out);
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		copy(out, files[i]);
	status(out);
	fprintf(out, "nice %d, session of its own: %d, group of its own: %d\n", nice(0), getsid(0) == getpid(),
		getpgrp() == getpid());
	return fclose(out) != 0;
}
