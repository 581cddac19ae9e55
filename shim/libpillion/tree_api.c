#include "shim/libpillion/calltree/calltree.h"
#include "shim/libpillion/calltree/calltree_dump.h"
#include "shim/libpillion/core/arena.h"
#include "shim/libpillion/core/export.h"

#include <errno.h>

PILLION_API int pillion_tree_start(unsigned flags)
{
	const struct calltree_memory memory = {.size = ARENA_SHARED, .own = ARENA_OWN};
	if (flags & ~PILLION_TREE_TIME)
		return -EINVAL;
	return calltree_start(flags & PILLION_TREE_TIME ? calltree_clock_best() : TREE_CLOCK_NONE, &memory);
}

PILLION_API void pillion_tree_stop(void)
{
	calltree_stop();
}

PILLION_API int pillion_tree_dump(const char *path)
{
	return tree_dump(path);
}
