/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kallsyms - kernel address -> name (proc(5), /proc/kallsyms).
 *
 * The file is opened while privileged (addresses are checked at open) and read later without privilege.
 * Addresses never leave this module: profiles carry names only.
 */
#pragma once

#include "oci/base/err.h"

#include <stdint.h>

struct kallsyms;

/* Reads text symbols (t, T, w, W) from `fd` (borrowed, read from offset 0). -EACCES: all addresses are zero. -EBADMSG:
 * none at all. */
int kallsyms_read(int fd, struct kallsyms **ret, struct err *e);
/*
 * The same in slices of about a millisecond, for a caller that has rings to drain meanwhile. 1: call again with the
 * same `k` (NULL at first); 0: the table is complete; on an error, as above, it is freed and *k is NULL. Do not search
 * it before it is complete.
 */
int kallsyms_read_some(int fd, struct kallsyms **k, struct err *e);
/*
 * "do_syscall_64" or NULL. The file tells no sizes: a function reaches to the next one of the same module, the last one
 * of a module 4 KiB at most. Module symbols carry " [module]" behind the name. Valid as long as the table.
 */
const char *kallsyms_find(const struct kallsyms *k, uint64_t address);
struct kallsyms *kallsyms_free(struct kallsyms *k);
