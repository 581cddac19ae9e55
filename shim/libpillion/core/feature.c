/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/libpillion/core/feature.h"

#include <stddef.h>

static struct feature *features;

void feature_register(struct feature *f)
{
	f->next = features;
	features = f;
}

void feature_tell_connected(struct connection *p)
{
	for (const struct feature *f = features; f; f = f->next)
		if (f->connected)
			f->connected(p);
}

void feature_tell_welcome(struct connection *p, const struct shm_welcome *w)
{
	for (const struct feature *f = features; f; f = f->next)
		if (f->welcome)
			f->welcome(p, w);
}

void feature_tell_unanswered(void)
{
	for (const struct feature *f = features; f; f = f->next)
		if (f->unanswered)
			f->unanswered();
}

void feature_tell_left(void)
{
	for (const struct feature *f = features; f; f = f->next)
		if (f->left)
			f->left();
}

void feature_tell_quiet(void)
{
	for (const struct feature *f = features; f; f = f->next)
		if (f->quiet)
			f->quiet();
}

void feature_tell_in_child(void)
{
	for (const struct feature *f = features; f; f = f->next)
		if (f->in_child)
			f->in_child();
}
