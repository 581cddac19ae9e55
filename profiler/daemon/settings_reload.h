/* SPDX-License-Identifier: Apache-2.0 */
/*
 * settings_reload - other settings for a running service (SIGHUP). One table says which can change while it runs; the
 * others stay until a restart, and are named.
 */
#pragma once

#include "oci/config/options.h"
#include "profiler/target/engine_state.h"

struct reloaded {
	char changed[200]; /* "log_level, spool_size", "" = nothing */
	char waits[140];   /* "control needs a restart", "" = nothing */
};

/* Copies into `now` those settings of `fresh` that can change, and applies them. */
void settings_reload(struct settings *now, const struct settings *fresh, struct engine *g, struct reloaded *ret);
