/* SPDX-License-Identifier: Apache-2.0 */
/*
 * calltree_unloaded - modules that dlclose unmapped: other code may come to the same addresses. Their nodes are marked,
 * so that no call finds them any more, and keep the mapping that they had. dlclose.c notices it: not in a program that
 * libpillion.a is linked into, where such addresses are those of the code that is there in the end.
 *
 * If another thread maps code to the same addresses before dlclose has returned, and runs it, its calls may count as
 * the old module's.
 */
#pragma once

#include "shim/libpillion/core/text_writer.h"

/*
 * To be called around dlclose. Returns the mappings before it; NULL: nothing was counted, or there is no memory: then
 * nothing is marked.
 */
void *calltree_unloaded_before(void);
void calltree_unloaded_after(void *before);
/* "gone NUMBER START-END PERMS ...", and "id" as in maps_format.h */
void calltree_unloaded_put(struct text_writer *o);
