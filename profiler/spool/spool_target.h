/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spool_target - where the targets of a spool have their windows: one directory each.
 *
 *	<spool>/NAMESPACE/POD/CONTAINER		a container of Kubernetes: two Pods may have a container of one name
 *	<spool>/NAME				any other: its name, else its id, made safe
 *
 * Three levels are only where Kubernetes allows all three names (DNS labels, the Pod's a DNS subdomain: lower case,
 * digits, '-', for the Pod '.', none of these first or last) and they fit SPOOL_TARGET_MAX together; so no part of them
 * is hidden or leads out. Older versions wrote one level: such a directory may lie beside a namespace's, or be one at
 * the same time.
 *
 * Nothing here follows a symbolic link: directories are opened level by level.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define SPOOL_NAME_MAX 128   /* of a directory that is one level */
#define SPOOL_TARGET_MAX 300 /* of all levels with their '/'; a file below it is a path of less than 400 bytes */
#define SPOOL_LEVELS 3

/* Writes any text as one name of [A-Za-z0-9_.-], not hidden, cut to the buffer. */
void spool_safe_name(const char *text, char *buf, size_t size);
/* Writes the directory of a target, below the spool. Texts are not NULL; "" is unknown. */
void spool_target_path(const char *id, const char *name, const char *pod, const char *pod_namespace,
	char ret[static SPOOL_TARGET_MAX + 1]);
/* Returns whether the path is NAMESPACE/POD/CONTAINER, as above. */
bool spool_target_is_nested(const char *path);

/* The same from a path: NAMESPACE/POD/CONTAINER stays, any other text becomes one safe name. */
void spool_target_safe_path(const char *text, char ret[static SPOOL_TARGET_MAX + 1]);

/* Opens a target's directory: fd or -errno. -ENOENT: there is none, or a target cannot have this `path`. */
int spool_target_open(int spool, const char *path);
/* The same for a safe path; makes missing levels, mode 0750. *ret_made: how many, also if a further one failed. */
int spool_target_make(int spool, const char *path, size_t *ret_made);

/*
 * Calls `fn` for each directory of the spool that may be a target's, in no order: those of one level and of three.
 * `dir` is open and borrowed; or -errno, where a directory (of a target, or above targets) cannot be opened or listed:
 * files known in it and below it may still be there. Directories that go meanwhile are skipped.
 *
 * `fn` returns 0; SPOOL_NO_DIRECTORIES, for a directory of one level that it has listed and that has none below it: it
 * is not listed again; or less, which ends the walk and is returned. -errno also where the spool itself cannot be
 * listed.
 */
#define SPOOL_NO_DIRECTORIES 1
typedef int spool_target_fn(void *arg, int dir, const char *path);
int spool_each_target(int spool, spool_target_fn *fn, void *arg);
