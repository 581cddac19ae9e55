/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/pprof/frame_drop.h"

#include "profiler/pprof/frame_regex.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEPS_MAX (1u << 30) /* some seconds; the profiles of a large program take a thousandth of it */

/* The whole name has to fit, but for what a pattern such as "a)|(b" does: it is put together as Go puts it together. */
static int compile_whole(const char *pattern, struct frame_regex **ret)
{
	char *text;
	if (asprintf(&text, "^(%s)$", pattern) < 0)
		return -ENOMEM;
	const int r = frame_regex_compile(text, ret);
	free(text);
	return r;
}

int frame_drop_open(struct frame_drop *f, const char *drop, const char *keep)
{
	*f = (struct frame_drop){.steps = STEPS_MAX};
	int r = compile_whole(drop, &f->drop);
	if (r == 0 && keep[0])
		r = compile_whole(keep, &f->keep);
	if (r < 0)
		frame_drop_done(f);
	return r;
}

/* Returns the length of a name without its arguments, which begin at the first other '(' (prune.go, simplifyFunc). */
static size_t simple_length(const char *name)
{
	static const char *const reserved[] = {"(anonymous namespace)", "operator()"};
	const char *at = name;
	while (*at) {
		size_t skip = *at != '(';
		for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++)
			if (!strncmp(at, reserved[i], strlen(reserved[i])))
				skip = strlen(reserved[i]);
		if (!skip)
			break;
		at += skip;
	}
	return (size_t)(at - name);
}

int frame_drop_hides(struct frame_drop *f, const char *name)
{
	if (!f->drop || !name[0])
		return 0;
	name += *name == '.'; /* of PowerPC's functions */
	char *simple = strndup(name, simple_length(name));
	if (!simple)
		return -ENOMEM;
	const bool hides = frame_regex_matches(f->drop, simple, &f->steps) &&
			   !(f->keep && frame_regex_matches(f->keep, simple, &f->steps));
	free(simple);
	return f->steps ? hides : -EFBIG;
}

void frame_drop_done(struct frame_drop *f)
{
	frame_regex_free(f->drop);
	frame_regex_free(f->keep);
	*f = (struct frame_drop){0};
}
