/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/target/symbolizer_link.h"

int symbolizer_link_open(struct engine *g)
{
	struct symbolizer_sockets *s = &g->symbols.symbolizer_sockets;
	int r = s->questions < 0 ? 0 : symbolizer_new(s->questions, &g->symbols.symbolizer);
	if (r == 0)
		r = target_files_new(s->readers, &g->symbols.files);
	*s = (struct symbolizer_sockets){-1, -1};
	return r;
}

void symbolizer_link_update(struct engine *g, uint32_t state, const int *fds, size_t n)
{
	g->symbols.symbolizer_renewable = state & SYMBOLIZER_RENEWABLE;
	if (n == 2) {
		symbolizer_free(g->symbols.symbolizer); /* its open jobs end by themselves */
		if (symbolizer_new(fds[0], &g->symbols.symbolizer) < 0)
			g->symbols.symbolizer = NULL;
		target_files_connect(g->symbols.files, fds[1]);
	} else if (!(state & SYMBOLIZER_THERE)) {
		g->symbols.symbolizer = symbolizer_free(g->symbols.symbolizer);
	}
	g->round.look_again = 0; /* windows may wait for it */
}

bool symbolizer_link_works(const struct engine *g)
{
	return g->symbols.symbolizer && !symbolizer_has_ended(g->symbols.symbolizer);
}

bool symbolizer_link_awaited(const struct engine *g)
{
	return g->symbols.symbolizer && g->symbols.symbolizer_renewable && g->host.channel >= 0 &&
	       symbolizer_has_ended(g->symbols.symbolizer);
}
