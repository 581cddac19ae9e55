/* SPDX-License-Identifier: Apache-2.0 */
/*
 * event_request - what a target gets of a list of events that somebody has asked for (shim/event/event_spec.h). What of
 * it cannot be is left out, with a note of why, and the others run.
 */
#pragma once

#include "oci/base/err.h"
#include "oci/config/options.h"
#include "shim/event/target_desc.h"

/*
 * Sets d's events, and adds to its notes. policy: the administrator's, of what an annotation may ask for and how often;
 * NULL: whoever asks may have what the kernel gives him. Reads tracefs. -errno with a sentence when no event is left.
 */
int event_request_make(const char *list, const struct settings *policy, struct target_desc *d, struct err *e);
