/* SPDX-License-Identifier: Apache-2.0 */
/* thread_name - the calling thread's name for a record. Async-signal-safe. */
#pragma once

#include "shim/libpillion/abi/shm_layout.h"

void thread_name_read(struct shm_more *ret); /* the name, and no registers */
