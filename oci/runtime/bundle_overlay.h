/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bundle_overlay - a bundle that stands for another: the same directory by symbolic links, with a config.json of its
 * own. For runc, which reads no other file than that: so nobody's config.json is touched, and what is not ours is found
 * where it was, by relative paths too.
 *
 * It has to be there as long as its container (`runc exec` reads it again), so nobody removes it who makes it: each
 * start sweeps those whose container is gone (its state directory is), and /run is empty after a reboot.
 */
#pragma once

#include "oci/base/err.h"

#include <limits.h>
#include <stddef.h>

/*
 * Below `place`, which is made if need be, mode 0700: for the bundle (an absolute path) of the container whose runtime
 * has its state in `state`. 0 or -errno with a sentence; nothing stays then.
 */
int bundle_overlay_make(const char *place, const char *bundle, const char *state, const char *config, size_t len,
	char ret[PATH_MAX], struct err *e);
void bundle_overlay_sweep(const char *place);
