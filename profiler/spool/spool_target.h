/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spool_target - where the targets of a spool have their windows: one directory each.
 *
 *	<spool>/NAMESPACE/POD/CONTAINER		a container of Kubernetes: two Pods may have a container of one name
 *	<spool>/NAME				any other: its name, else its id, made safe
 *
 * Three levels are only where all three names are what Kubernetes allows (DNS labels, the Pod's a DNS subdomain: lower
 * case, digits, '-', for the Pod '.', none of these first or last) and fit SPOOL_TARGET_MAX together; so no part of
 * them is hidden or leads out. What older versions wrote is one level: such a directory may lie beside a namespace's,
 * or be one at the same time.
 *
 * Nothing here follows a symbolic link: directories are opened level by level.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define SPOOL_NAME_MAX 128   /* of a directory that is one level */
#define SPOOL_TARGET_MAX 300 /* of all levels with their '/'; a file below it is a path of less than 400 bytes */
#define SPOOL_LEVELS 3

/* Any text as one name of [A-Za-z0-9_.-], not hidden, cut to the buffer. */
void spool_safe_name(const char *text, char *buf, size_t size);
/* The directory of a target, below the spool. Texts are not NULL; "" is unknown. */
void spool_target_path(const char *id, const char *name, const char *pod, const char *pod_namespace,
	char ret[static SPOOL_TARGET_MAX + 1]);
/* NAMESPACE/POD/CONTAINER, as above? */
bool spool_target_is_nested(const char *path);

/* The same of a text that says what the directory is called: NAMESPACE/POD/CONTAINER stays, else it is one safe name.
 */
void spool_target_safe_path(const char *text, char ret[static SPOOL_TARGET_MAX + 1]);

/* An open directory, or -errno. -ENOENT: there is none, or `path` is none that a target can have. */
int spool_target_open(int spool, const char *path);
/*
 * The same of a safe path, with mode 0750 where a level is missing. *ret_made: how many levels were, also where a
 * further one failed.
 */
int spool_target_make(int spool, const char *path, size_t *ret_made);

/*
 * Calls `fn` for each directory of the spool that may be a target's, in no order: those of one level and of three.
 * `dir` is open and borrowed; or -errno, where a directory (of a target, or above targets) cannot be opened or listed:
 * what was known of it and below it may still be there. What goes meanwhile is passed over.
 *
 * `fn` returns 0; SPOOL_NO_DIRECTORIES, of one level, where it has listed the directory, which is not listed again
 * then; or less, which ends the walk and is returned. -errno also where the spool itself cannot be listed.
 */
#define SPOOL_NO_DIRECTORIES 1
typedef int spool_target_fn(void *arg, int dir, const char *path);
int spool_each_target(int spool, spool_target_fn *fn, void *arg);
