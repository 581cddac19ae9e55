/* SPDX-License-Identifier: Apache-2.0 */
/*
 * symbolizer_link - the worker asks the symbolizer's server for names and has its readers open files, through sockets
 * of which the supervisor keeps a copy: for the worker's successor, and to have another server when this one has ended.
 */
#pragma once

#include "profiler/target/engine_state.h"

/* The supervisor's message to the worker, beside the sockets of another server: a mask. */
enum { SYMBOLIZER_THERE = 1, SYMBOLIZER_RENEWABLE = 2 };

int symbolizer_link_open(struct engine *g); /* symbolizer and readers, from g->symbolizer_sockets (taken) */
/* There is a new server, none for now, or none for ever: the mask above; n descriptors (taken). */
void symbolizer_link_update(struct engine *g, uint32_t state, const int *fds, size_t n);
bool symbolizer_link_works(const struct engine *g);   /* there is one, and it lives */
bool symbolizer_link_awaited(const struct engine *g); /* it has ended, and there will be another one */
