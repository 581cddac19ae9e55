/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hook_settings - shared by the programs that are called as a container starts (pillion-hook, pillion-runc,
 * pillion-nri): they read their settings here, and tell the service the outcome.
 */
#pragma once

#include "oci/config/options.h"
#include "shim/protocol/messages.h"

/*
 * Reads policy.conf and pillion.conf of `etc`; in a rootless engine's user namespace the user's own places and file;
 * then flags. Reads all of them, even after a mistake in one: they say whether a mistake fails the start, and where to
 * log it. 0, or -errno with the first mistake.
 */
int hook_settings_settings(struct options *o, const char *etc, int argc, char **argv, struct err *e);
/*
 * Sends a notice for the service's metrics, best effort; of armed containers the opener sends it. `start`: the time at
 * which the caller began.
 */
void hook_settings_outcome(const struct settings *s, enum hook_outcome outcome, int64_t start);
