/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hook_settings - what all of ours share that are called as a container starts (pillion-hook, pillion-runc,
 * pillion-nri): whose settings hold, and a word to the service of how it went.
 */
#pragma once

#include "oci/config/options.h"
#include "shim/protocol/messages.h"

/*
 * policy.conf and pillion.conf of `etc`, in a rootless engine's user namespace the user's own places and file, then
 * flags. All of them are read, whatever is wrong in one: they say whether a mistake fails the start, and where to log
 * it. 0, or -errno with the first mistake.
 */
int hook_settings_settings(struct options *o, const char *etc, int argc, char **argv, struct err *e);
/* A notice for the service's metrics, best effort; of what was armed the opener has told. `start`: when it began. */
void hook_settings_outcome(const struct settings *s, enum hook_outcome outcome, int64_t start);
