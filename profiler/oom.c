#include "profiler/oom.h"

#include "oci/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define ABOVE 400 /* of 1000: as if it had that part of the memory more */
#define MOST 1000

struct oom oom_open(void)
{
	char text[16];
	struct oom o = {.fd = -1};
	if (fd_read_text(AT_FDCWD, "/proc/self/oom_score_adj", text, sizeof(text)) < 0)
		return o;
	o.own = atoi(text);
	o.fd = fd_open(AT_FDCWD, "/proc/self/oom_score_adj", O_WRONLY, 0);
	return o;
}

void oom_expendable(const struct oom *o, unsigned how)
{
	char text[16];
	int adj = o->own + (int)how * ABOVE;
	int n = snprintf(text, sizeof(text), "%d", adj < MOST ? adj : MOST);
	if (o->fd >= 0 && write(o->fd, text, (size_t)n) < 0)
		return; /* then they are alike, as they were */
}

void oom_reserve(struct oom *o)
{
	if (o->fd < 0 || o->reserve)
		return;
	void *at = mmap(NULL, OOM_RESERVE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	o->reserve = at == MAP_FAILED ? NULL : at;
}

void oom_release(struct oom *o)
{
	if (o->reserve)
		munmap(o->reserve, OOM_RESERVE);
	o->reserve = NULL;
}
