/* SPDX-License-Identifier: Apache-2.0 */
/*
 * settings_reload - other settings for a service that runs (SIGHUP). One table says what can change under way; what
 * cannot stays as it is, and is named, until a restart.
 */
#pragma once

#include "oci/config/options.h"
#include "profiler/target/engine.h"

struct reloaded {
	char changed[200]; /* "log_level, spool_size", "" = nothing */
	char waits[140];   /* "control needs a restart", "" = nothing */
};

/* Takes over into `now`, and into what is in use, as much of `fresh` as can be. */
void settings_reload(struct settings *now, const struct settings *fresh, struct engine *g, struct reloaded *ret);
