/* SPDX-License-Identifier: Apache-2.0 */
/* api - the functions of pillion.h that programs call: public names for functions of the folders below. */
#include "shim/libpillion/calltree/calltree.h"
#include "shim/libpillion/calltree/calltree_dump.h"
#include "shim/libpillion/core/arena.h"
#include "shim/libpillion/core/export.h"
#include "shim/libpillion/core/labels.h"
#include "shim/libpillion/core/start.h"

#include <errno.h>
#include <string.h>

PILLION_API const char *pillion_version(void)
{
	return VERSION;
}

PILLION_API int pillion_label_set(const char *key, const char *value)
{
	return labels_set(key, value);
}

PILLION_API int pillion_start(const struct pillion_start_options *options, char *error, unsigned long size)
{
	static const struct pillion_start_options none;
	const struct pillion_start_options *o = options ? options : &none;
	const struct launch l = {o->events, o->output, o->window_s};
	struct start_reply s = {0};
	const int r = start_now(&l, &s);
	if (error && size) {
		const size_t n = strlen(s.text) < size ? strlen(s.text) : size - 1;
		memcpy(error, s.text, n);
		error[n] = 0;
	}
	return r;
}

PILLION_API int pillion_stop(void)
{
	return start_stop();
}

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
