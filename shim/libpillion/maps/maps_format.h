/* SPDX-License-Identifier: Apache-2.0 */
/*
 * maps_format - the executable mappings of this process, as lines "map START-END PERMS OFFSET DEV INODE PATH" as in
 * proc_pid_maps(5), each with a line "id BUILD-ID" behind it if the file has one.
 */
#pragma once

#include "shim/libpillion/core/text_writer.h"

void maps_format_put(struct text_writer *o);
