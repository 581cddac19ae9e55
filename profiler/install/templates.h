/* SPDX-License-Identifier: Apache-2.0 */
/* templates - the files of hooks/ by which engines come to know of us, with the values of this host put in. */
#pragma once

enum template {
	TEMPLATE_HOOKSD,
	TEMPLATE_CONTAINERD,
	TEMPLATE_CONTAINERD_RUNC,
	TEMPLATE_CRIO,
	TEMPLATE_CDI,
	TEMPLATE_RUNTIMECLASS
};

struct template_word {
	const char *mark, *value; /* "@HOOK@" */
};

/* Fills in a template: malloc'ed, or NULL: no memory. `words` ends with a row without mark, or is NULL. */
char *template_fill(enum template which, const struct template_word *words);
