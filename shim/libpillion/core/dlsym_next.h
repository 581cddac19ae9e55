/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dlsym_next - finds the function that a program would call without libpillion: the one of the next module behind ours
 * in the dynamic linker's order.
 *
 * By dlsym(3), RTLD_NEXT. Before 2.34 glibc had that in a library of its own, which a program may not have: then
 * searches the tables of the modules (dl_iterate_phdr(3), which every libc has). A function that is chosen at run time
 * (STT_GNU_IFUNC) is not found there.
 */
#pragma once

void *dlsym_next(const char *name); /* NULL: there is none */
/* The same, kept in *at. */
static inline void *dlsym_next_kept(void **at, const char *name)
{
	if (!*at)
		*at = dlsym_next(name);
	return *at;
}
