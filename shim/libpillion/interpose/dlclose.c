/* SPDX-License-Identifier: Apache-2.0 */
/* dlclose, in front of libc's: addresses may be another module's afterwards (calltree_unloaded.h). */
#include "shim/libpillion/calltree/calltree_unloaded.h"
#include "shim/libpillion/core/dlsym_next.h"
#include "shim/libpillion/core/export.h"

#include <dlfcn.h>

PILLION_API int dlclose(void *handle)
{
	static void *kept;
	int (*next)(void *) = dlsym_next_kept(&kept, "dlclose");
	if (!next)
		return -1;
	void *before = calltree_unloaded_before();
	int r = next(handle);
	calltree_unloaded_after(before);
	return r;
}
