/* SPDX-License-Identifier: Apache-2.0 */
/*
 * maps_send - sends the mappings of code of this process to its profiler, as records (SHM_MAPS) that come before those
 * that need them. Async-signal-safe; the caller is the only user of the struct code and its buffers.
 */
#pragma once

#include "shim/libpillion/core/connection.h"
#include "shim/libpillion/maps/code_ranges.h"

/* Sets `c` to the ranges that it sent. */
void maps_send_tell(struct connection *p, struct code *c);
