/* SPDX-License-Identifier: Apache-2.0 */
/*
 * labels - what the program calls its threads' work (pillion_label_set(3)).
 *
 * A set of labels is a number, as there are few; a thread has one of them (thread_state.h). Sets and who has which are
 * kept here from the first call on, profiler or not. Where there is one it reads them in the area (shm_layout.h): sets
 * in a table, a copy of ours as far as they are used, and each change with its time and thread, so that samples which
 * others take (perf events) have their labels, too. What was set before it came is told when it has come
 * (labels_tell_all).
 *
 * A worker that was started again has the area of its predecessor, and so knows them. A profiler that was started again
 * hears of them when the process comes back to it: at its next sample of its own, or when a label changes. Until then
 * the samples of others have none.
 *
 * No locks: who dies in the middle loses a place in a table.
 */
#pragma once

#include "shim/libpillion/core/connection.h"

int labels_set(const char *key, const char *value); /* of the calling thread */
/* Of the calling thread, and in the area: for a record of its own. */
uint32_t labels_in(const struct shm *a, uint32_t set);
void labels_tell_all(struct connection *p); /* it has just been connected */
