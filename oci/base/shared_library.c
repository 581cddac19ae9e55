/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/base/shared_library.h"

#include <dlfcn.h>
#include <string.h>

void *shared_library_open(
	const char *const sonames[], int flags, const struct shared_library_symbol *symbols, const char **ret_missing)
{
	void *library = NULL;
	*ret_missing = NULL;
	for (; !library && *sonames; sonames++)
		library = dlopen(*sonames, flags | RTLD_LOCAL);
	for (; library && symbols->name; symbols++) {
		void *function = dlsym(library, symbols->name);
		if (!function) {
			*ret_missing = symbols->name;
			dlclose(library);
			return NULL;
		}
		memcpy(symbols->pointer, &function, sizeof(function));
	}
	return library;
}
