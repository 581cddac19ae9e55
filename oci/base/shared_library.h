/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shared_library - loads a library when it is needed (dlopen(3)), with the functions that a table names. Only for
 * programs that are linked dynamically.
 */
#pragma once

struct shared_library_symbol {
	const char *name; /* NULL: the end of the table */
	void *pointer;	  /* the address of a pointer to the function */
};

/*
 * Opens the first of `sonames` that is there, with RTLD_LOCAL and `flags`, and sets all pointers; both lists end with
 * NULL. Returns its handle for dlclose(3), or NULL: *ret_missing is the symbol that it has not; NULL: it is not there.
 */
void *shared_library_open(
	const char *const sonames[], int flags, const struct shared_library_symbol *symbols, const char **ret_missing);
