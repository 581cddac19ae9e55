/* SPDX-License-Identifier: Apache-2.0 */
/*
 * labels - the labels of the program's threads (pillion_label_set(3)).
 *
 * A set of labels is a number, as there are few; a thread has one of them (thread_state.h). This file keeps the sets
 * and each thread's set from the first call on, profiler or not. A profiler reads them in the area (shm_layout.h): a
 * table with a copy of the sets that are used, and each change with its time and thread. So samples by perf events have
 * their labels, too. A profiler that comes later is told the labels that were set before (feature.h).
 *
 * A restarted worker has the area of its predecessor, and so knows them. A restarted profiler hears of them when the
 * process comes back to it: at its next sample of its own, or when a label changes. Until then samples by perf events
 * have no labels.
 *
 * No locks: a thread that dies in the middle loses a place in a table.
 */
#pragma once

#include "shim/libpillion/core/connection.h"

int labels_set(const char *key, const char *value); /* of the calling thread */
/* Copies the set into the area, for a record of the calling thread. Returns `set`. */
uint32_t labels_in(const struct shm *a, uint32_t set);
