/* dlclose, in front of libc's: addresses may be another module's afterwards (calltree_unloaded.h). */
#include "shim/libpillion/calltree/calltree_unloaded.h"
#include "shim/libpillion/core/dlsym_next.h"
#include "shim/libpillion/core/export.h"

#include <dlfcn.h>

PILLION_API int dlclose(void *handle)
{
	static void *kept;
	int (*next)(void *) = behind_kept(&kept, "dlclose");
	if (!next)
		return -1;
	void *before = tree_gone_before();
	int r = next(handle);
	tree_gone_after(before);
	return r;
}
