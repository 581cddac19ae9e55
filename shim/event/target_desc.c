/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/event/target_desc.h"

#include "oci/base/err.h"

#include <stdio.h>
#include <string.h>

void target_note(struct target_desc *d, const char *text)
{
	size_t at = strlen(d->notes);
	snprintf(d->notes + at, sizeof(d->notes) - at, "%s%s", at ? "; " : "", text);
}

void target_note_left_out(struct target_desc *d, const char *why)
{
	char text[sizeof("left out: ") + sizeof(((struct err *)0)->text)];
	snprintf(text, sizeof(text), "left out: %s", why);
	target_note(d, text);
}

void target_leave_out(struct target_desc *d, uint32_t event, const char *why)
{
	target_note_left_out(d, why);
	d->n_events--;
	memmove(&d->events[event], &d->events[event + 1], (d->n_events - event) * sizeof(d->events[0]));
}
