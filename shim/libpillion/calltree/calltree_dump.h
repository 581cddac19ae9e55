/* SPDX-License-Identifier: Apache-2.0 */
/*
 * calltree_dump - a calling-context tree as a file, for `pillion tree`. Text, a line each, numbers decimal, addresses
 * hex:
 *
 *	pillion-tree 1
 *	pid 4711
 *	clock tsc				none, tsc, kernel: whether there are times, and by which clock
 *	unplaced 0				calls on threads for which there was no room
 *	map 55d0a1000000-55d0a1002000 r-xp 00001000 fd:01 1234 /usr/bin/cat	proc_pid_maps(5), of code
 *	id 0123456789abcdef			build-id of that file
 *	gone 1 7f...-7f... r-xp ...		the same, of a module that dlclose unmapped meanwhile; `id` as well
 *	node ID PARENT FUNCTION SITE CALLS NS GONE	a parent comes before its children; 0: a thread
 *	end 17					nodes
 *
 * FUNCTION and SITE (where the call returns to) are addresses; FUNCTION is "full" for calls of all functions for which
 * there was no room. NS is time in the function itself. GONE is not 0 if FUNCTION, SITE or both are addresses of an
 * unmapped module: they have TREE_FN_GONE.
 *
 * The program goes on meanwhile: each number was right at some moment.
 */
#pragma once

/*
 * Writes a temporary file beside `path`, which then replaces it. 0; -ENODATA: nothing was counted, there is no file;
 * -EINVAL: `path` is there and no regular file; -ENAMETOOLONG; -errno.
 */
int tree_dump(const char *path);
