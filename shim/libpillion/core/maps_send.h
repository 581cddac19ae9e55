/* SPDX-License-Identifier: Apache-2.0 */
/*
 * maps_send - what this process has mapped of code, to its profiler, as records (SHM_MAPS) that come before those that
 * need it. Async-signal-safe; of the struct code and the buffers that come with it whoever calls is the only one.
 */
#pragma once

#include "shim/libpillion/core/code_ranges.h"
#include "shim/libpillion/core/connection.h"

/* The ranges that it told of are in `c` then. */
void maps_send_tell(struct connection *p, struct code *c);
