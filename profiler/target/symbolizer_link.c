/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/target/symbolizer_link.h"

int symbolizer_link_open(struct engine *g)
{
	struct symbolizer_sockets *s = &g->symbolizer_sockets;
	int r = s->questions < 0 ? 0 : symbolizer_new(s->questions, &g->symbolizer);
	if (r == 0)
		r = target_files_new(s->readers, &g->files);
	*s = (struct symbolizer_sockets){-1, -1};
	return r;
}

void symbolizer_link_update(struct engine *g, uint32_t state, const int *fds, size_t n)
{
	g->symbolizer_renewable = state & SYMBOLIZER_RENEWABLE;
	if (n == 2) {
		symbolizer_free(g->symbolizer); /* its open jobs end by themselves */
		if (symbolizer_new(fds[0], &g->symbolizer) < 0)
			g->symbolizer = NULL;
		target_files_connect(g->files, fds[1]);
	} else if (!(state & SYMBOLIZER_THERE)) {
		g->symbolizer = symbolizer_free(g->symbolizer);
	}
	g->look_again = 0; /* windows may wait for it */
}

bool symbolizer_link_works(const struct engine *g)
{
	return g->symbolizer && !symbolizer_has_ended(g->symbolizer);
}

bool symbolizer_link_awaited(const struct engine *g)
{
	return g->symbolizer && g->symbolizer_renewable && g->channel >= 0 && symbolizer_has_ended(g->symbolizer);
}
