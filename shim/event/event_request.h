/* SPDX-License-Identifier: Apache-2.0 */
/*
 * event_request - makes a target's events from a requested list (shim/event/event_spec.h). Events that are not possible
 * are left out, with a note of why, and the others run.
 */
#pragma once

#include "oci/base/err.h"
#include "oci/config/options.h"
#include "shim/event/target_desc.h"

/*
 * Sets d's events, and adds to its notes. policy: the administrator's, for the events and rates that an annotation may
 * ask for; NULL: all that the kernel grants the caller. Reads tracefs. -errno with a sentence when no event is left.
 */
int event_request_make(const char *list, const struct policy_settings *policy, struct target_desc *d, struct err *e);
