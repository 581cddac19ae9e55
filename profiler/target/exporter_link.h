/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exporter_link - the worker hands profiles to the exporter (profiler/spool/exporter_client.h), which the supervisor
 * has started, and starts anew when it has ended.
 */
#pragma once

#include "profiler/target/engine_state.h"

int exporter_link_open(struct engine *g, struct err *e); /* g->exporter_sock (taken) */
int exporter_link_connect(struct engine *g, int sock);	 /* of another exporter (taken) */
int exporter_link_round(struct engine *g, int64_t now);	 /* returns milliseconds until the next time, or -1 */
void exporter_link_flush(struct engine *g);		 /* sends the remaining profiles, at the end */
void exporter_link_limit(struct engine *g, uint64_t spool_bytes, uint32_t spool_age_s);
