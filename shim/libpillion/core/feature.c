/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/libpillion/core/feature.h"

#include <stddef.h>

static struct feature *features;

void feature_register(struct feature *f)
{
	f->next = features;
	features = f;
}

#define TELL_ALL(what, ...)                                                                                            \
	for (const struct feature *f = features; f; f = f->next) {                                                     \
		if (f->what)                                                                                           \
			f->what(__VA_ARGS__);                                                                          \
	}

void feature_tell_connected(struct connection *p)
{
	TELL_ALL(connected, p);
}

void feature_tell_welcome(struct connection *p, const struct shm_welcome *w)
{
	TELL_ALL(welcome, p, w);
}

void feature_tell_unanswered(void)
{
	TELL_ALL(unanswered);
}

void feature_tell_left(void)
{
	TELL_ALL(left);
}

void feature_tell_quiet(void)
{
	TELL_ALL(quiet);
}

void feature_tell_in_child(void)
{
	TELL_ALL(in_child);
}
