/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/target/exporter_link.h"

#include "profiler/process/supervisor_link.h"
#include "profiler/target/symbolizer_link.h"
#include "profiler/target/target_list.h"
#include "profiler/target/window.h"

/* The exporter has died, or talks nonsense: tells the supervisor, which may know already. */
static void on_lost(void *arg)
{
	const struct engine *g = arg;
	supervisor_request(g->host.channel, &(struct worker_request){REQUEST_EXPORTER, 0, 0}, -1);
}

static void on_state(void *arg, struct export_state *ret)
{
	const struct engine *g = arg;
	ret->symbolizer = symbolizer_link_works(g);
	ret->renewable = g->symbols.symbolizer_renewable;
	ret->readers = g->symbols.files && !target_files_broken(g->symbols.files);
	ret->outcomes = g->outcomes;
}

static void on_listing(void *arg, uint64_t before, struct msg_listing *ret)
{
	target_list_fill(arg, before, ret);
}

int exporter_link_open(struct engine *g, struct err *e)
{
	const struct exporter_owner owner = {g, window_written, on_lost, on_state, on_listing};
	int r = exporter_client_new(
		g->loop, g->role.modest ? EXPORT_HELD_BYTES_SESSION : EXPORT_HELD_BYTES, &owner, &g->spool.exporter);
	if (r == 0)
		r = exporter_link_connect(g, g->spool.exporter_sock);
	g->spool.exporter_sock = -1;
	return r < 0 ? err_set(e, r, "cannot speak to the exporter") : 0;
}

int exporter_link_connect(struct engine *g, int sock)
{
	return exporter_client_connect(g->spool.exporter, sock);
}

int exporter_link_round(struct engine *g, int64_t now)
{
	struct exporter_client *c = g->spool.exporter;
	return c && exporter_client_connected(c) ? exporter_client_round(c, now) : -1;
}

void exporter_link_flush(struct engine *g)
{
	if (g->spool.exporter)
		g->spool.exporter = exporter_client_free(g->spool.exporter);
}

void exporter_link_limit(struct engine *g, uint64_t spool_bytes, uint32_t spool_age_s)
{
	if (g->spool.exporter)
		exporter_client_limit(g->spool.exporter, spool_bytes, spool_age_s);
}
