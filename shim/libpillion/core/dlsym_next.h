/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dlsym_next - the function of a name that would have been called, had libpillion not stood in front of it: that of the
 * next module behind us in the dynamic linker's order.
 *
 * By dlsym(3), RTLD_NEXT. Before 2.34 glibc had that in a library of its own, which a program may not have: then the
 * tables of the modules are looked through here (dl_iterate_phdr(3), which every libc has). A function that is chosen
 * at run time (STT_GNU_IFUNC) is not found there.
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
