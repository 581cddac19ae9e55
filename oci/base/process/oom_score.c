/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/base/process/oom_score.h"

#include "oci/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define MOST 1000
/* Of 1000: counts as that share of the memory more. In a small cgroup the supervisor is the largest process. */
static const int above[] = {0, 800, 900};

struct oom_score oom_score_open(void)
{
	char text[16];
	struct oom_score o = {.fd = -1};
	if (fd_read_text(AT_FDCWD, "/proc/self/oom_score_adj", text, sizeof(text)) < 0)
		return o;
	o.own = atoi(text);
	o.fd = fd_open(AT_FDCWD, "/proc/self/oom_score_adj", O_WRONLY, 0);
	return o;
}

static void write_score_adj(const struct oom_score *o, unsigned how)
{
	char text[16];
	if (o->fd < 0)
		return;
	int adj = o->own + above[how];
	int n = snprintf(text, sizeof(text), "%d", adj < MOST ? adj : MOST);
	if (write(o->fd, text, (size_t)n) < 0)
		return; /* then parent and child have the same score, as before */
}

static void map_reserve(struct oom_score *o)
{
	if (o->fd < 0 || o->reserve)
		return;
	void *at = mmap(
		NULL, OOM_SCORE_RESERVE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	o->reserve = at == MAP_FAILED ? NULL : at;
}

static void unmap_reserve(struct oom_score *o)
{
	if (o->reserve)
		munmap(o->reserve, OOM_SCORE_RESERVE);
	o->reserve = NULL;
}

void oom_score_before_fork(struct oom_score *o, unsigned how)
{
	if (!o)
		return;
	unmap_reserve(o);
	write_score_adj(o, how);
}

void oom_score_after_fork(struct oom_score *o)
{
	if (!o)
		return;
	write_score_adj(o, 0);
	map_reserve(o);
}
