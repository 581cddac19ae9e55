/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/install/templates.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EMBED(name, file)                                                                                              \
	__asm__(".section .rodata\n.hidden " #name "\n" #name ":\n.incbin \"hooks/engines/" file                       \
		"\"\n.byte 0\n.previous\n");                                                                           \
	extern const char name[]

EMBED(template_hooksd, "50-pillion.json.in");
EMBED(template_containerd, "containerd.toml.in");
EMBED(template_containerd_runc, "containerd-runc.toml.in");
EMBED(template_crio, "crio.conf.in");
EMBED(template_cdi, "cdi.json.in");
EMBED(template_runtimeclass, "runtimeclass.yaml");

static const char *text_of(enum template which)
{
	const char *const texts[] = {[TEMPLATE_HOOKSD] = template_hooksd,
		[TEMPLATE_CONTAINERD] = template_containerd,
		[TEMPLATE_CONTAINERD_RUNC] = template_containerd_runc,
		[TEMPLATE_CRIO] = template_crio,
		[TEMPLATE_CDI] = template_cdi,
		[TEMPLATE_RUNTIMECLASS] = template_runtimeclass};
	return texts[which];
}

static const struct template_word *find_word(const char *at, const struct template_word *words)
{
	for (; words && words->mark; words++)
		if (!strncmp(at, words->mark, strlen(words->mark)))
			return words;
	return NULL;
}

char *template_fill(enum template which, const struct template_word *words)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);
	for (const char *at = text_of(which); f && *at; at++) {
		const struct template_word *w = *at == '@' ? find_word(at, words) : NULL;
		if (w)
			fputs(w->value, f);
		else
			putc(*at, f);
		at += w ? strlen(w->mark) - 1 : 0;
	}
	if (f && fclose(f) == 0)
		return text;
	free(text);
	return NULL;
}
