/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine - drives the targets of a pilliond: drains the rings, hands each record to its target, writes windows that are
 * due, frees targets that ended.
 */
#pragma once

#include "profiler/target/engine_state.h"

/* loop, rings, the exporter's setup and kallsyms_fd are given; the rest is made here. */
int engine_init(struct engine *g, struct err *e);
void engine_drain_rings(struct engine *g, bool all); /* what engine_drain (engine_state.h) does, once there are rings */
/* Ends every armed target and waits until its last window is written; others belong to connections. */
void engine_end(struct engine *g);
/*
 * For a successor of another program, which may not read our journal: ends windows and writes them, as far as possible
 * in a few seconds. Targets go on; their later counts are in the journal.
 */
void engine_flush_for_handover(struct engine *g);
void engine_done(struct engine *g); /* no target is left */
/* Does one round. Returns milliseconds until the next one, -1: when an event comes. */
int engine_round(struct engine *g);
