/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bundle_overlay - a bundle that stands for another: symbolic links to the other's entries, with a config.json of its
 * own. For runc, which reads no other file than config.json of the bundle: so the original config.json stays as it is,
 * and all other files are found as before, by relative paths too.
 *
 * An overlay must exist as long as its container (`runc exec` reads it again), so its maker does not remove it: each
 * start sweeps the overlays of containers without a state directory (they are gone), and /run is empty after a reboot.
 */
#pragma once

#include "oci/base/err.h"

#include <limits.h>
#include <stddef.h>

/*
 * Makes an overlay of `bundle` (an absolute path) below `place`, which is made if need be, mode 0700. `state`: the
 * runtime's state directory of the container. 0 or -errno with a sentence; nothing is left then.
 */
int bundle_overlay_make(const char *place, const char *bundle, const char *state, const char *config, size_t len,
	char ret[PATH_MAX], struct err *e);
void bundle_overlay_sweep(const char *place);
