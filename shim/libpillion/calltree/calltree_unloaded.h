/* SPDX-License-Identifier: Apache-2.0 */
/*
 * calltree_unloaded - modules that dlclose unmapped: other code may come to the same addresses. Nodes of theirs are
 * marked, so that no call finds them any more, and keep the mapping that they had. dlclose.c is where it is noticed:
 * not in a program that libpillion.a is linked into, where such addresses are those of whatever is there in the end.
 *
 * Another thread that maps code to the very addresses before dlclose has returned, and runs it, may have that counted
 * as the old module's.
 */
#pragma once

#include "shim/libpillion/core/text_writer.h"

/* Around dlclose. What is mapped before; NULL: nothing was counted, or there is no memory: then nothing is marked. */
void *calltree_unloaded_before(void);
void calltree_unloaded_after(void *before);
/* "gone NUMBER START-END PERMS ...", and "id" as in maps_format.h */
void calltree_unloaded_put(struct text_writer *o);
