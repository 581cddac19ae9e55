/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flame_html - a profile as a flame graph: a page that needs nothing but a browser (flame.html and the data in one
 * file, no network), or a plain SVG.
 *
 * Frames are functions, every inlined one its own; stacks that differ in addresses alone are one. The page has all
 * sample types and labels, so that it can be asked for others; the picture has one type. Names are a tenant's: they go
 * into a JSON string in which no '<' stands, or are escaped (SVG), and the page shows them as text, never as markup.
 */
#pragma once

#include "profiler/pprof/profile.h"

#include <stdbool.h>
#include <stdio.h>

struct flame_html {
	const struct profile *of, *before; /* before: the profile to compare with, or NULL */
	unsigned type;			   /* the sample type, of both */
	const char *title;
	/* Of a page that pilliond serves (pages.h); all zero: a file. */
	const char *nonce;  /* of its script and style, for a Content-Security-Policy in the answer's head */
	bool served;	    /* the page has a way back */
	unsigned refresh_s; /* it reloads itself, and keeps its view */
};

/* 0, -EINVAL (no such type, or other types before), -ENOMEM, -EIO (`out` takes no more). */
int flame_html_page(const struct flame_html *f, FILE *out);
int flame_html_svg(const struct flame_html *f, FILE *out);
