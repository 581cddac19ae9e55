/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/symbol/demangle.h"

#include <libiberty/demangle.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool demangle_wanted(const char *name)
{
	return (name[0] == '_' && (name[1] == 'Z' || name[1] == 'R' || (name[1] == '_' && name[2] == 'Z'))) ||
	       !strncmp(name, "_GLOBAL_", 8);
}

bool demangle_symbol(const char *name, char *buf, size_t size)
{
	if (!demangle_wanted(name))
		return false;
	int depth = strnlen(name, DEMANGLE_LONG + 1) > DEMANGLE_LONG ? 0 : DMGL_NO_RECURSE_LIMIT;
	char *text = rust_demangle(name, DMGL_PARAMS | DMGL_ANSI);
	if (!text)
		text = cplus_demangle_v3(name, DMGL_PARAMS | DMGL_ANSI | DMGL_VERBOSE | depth);
	if (!text)
		return false;
	snprintf(buf, size, "%s", text);
	free(text);
	return true;
}
