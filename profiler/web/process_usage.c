/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/web/process_usage.h"

#include "oci/base/fd.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct found {
	pid_t pids[PROCESS_USAGE_MAX];
	unsigned n;
};

static void add_pid(struct found *f, pid_t pid)
{
	for (unsigned i = 0; i < f->n; i++)
		if (f->pids[i] == pid)
			return;
	if (pid > 0 && f->n < PROCESS_USAGE_MAX)
		f->pids[f->n++] = pid;
}

static void add_children(struct found *f, pid_t pid)
{
	char path[64], text[1024], *at = text, *end;
	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)pid);
	if (fd_read_text(AT_FDCWD, path, text, sizeof(text)) < 0)
		return;
	for (long child; (child = strtol(at, &end, 10)) > 0 && end != at; at = end)
		add_pid(f, (pid_t)child);
}

/* "PID (NAME) STATE ...": utime and stime are fields 14 and 15, rss is field 24. */
static bool read_process_stat(pid_t pid, struct process_use *ret)
{
	char path[64], text[1024];
	unsigned long long field[25] = {0};
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (fd_read_text(AT_FDCWD, path, text, sizeof(text)) < 0)
		return false;
	char *open = strchr(text, '('), *close = strrchr(text, ')');
	if (!open || !close || close < open || strlen(close) < 4)
		return false;
	*close = 0;
	snprintf(ret->name, sizeof(ret->name), "%.15s", open + 1);
	char *at = close + 4; /* behind the state */
	for (int i = 4; i < 25; i++)
		field[i] = strtoull(at, &at, 10);
	ret->n = 1;
	ret->cpu_us = (field[14] + field[15]) * (1000000 / (uint64_t)sysconf(_SC_CLK_TCK));
	ret->resident = field[24] * (uint64_t)sysconf(_SC_PAGESIZE);
	return true;
}

static unsigned sum_up(struct process_use *ret, unsigned n, const struct process_use *one)
{
	for (unsigned i = 0; i < n; i++)
		if (!strcmp(ret[i].name, one->name)) {
			ret[i].n++;
			ret[i].resident += one->resident;
			ret[i].cpu_us += one->cpu_us;
			return n;
		}
	ret[n] = *one;
	return n + 1;
}

unsigned process_usage_look(pid_t top, struct process_use ret[PROCESS_USAGE_MAX])
{
	struct found f = {0};
	unsigned n = 0;
	add_pid(&f, top);
	add_pid(&f, getpid());
	for (unsigned i = 0; i < f.n; i++)
		add_children(&f, f.pids[i]);
	for (unsigned i = 0; i < f.n; i++) {
		struct process_use one;
		if (read_process_stat(f.pids[i], &one))
			n = sum_up(ret, n, &one);
	}
	return n;
}
