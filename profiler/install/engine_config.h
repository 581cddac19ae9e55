/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine_config - registers us with the container engines of a host: finds those that are there, and adds:
 *
 *	podman, CRI-O	hooks.d/50-pillion.json, in the directory that both read; CRI-O a drop-in where it does not
 *	containerd	the runtime handler "pillion", by a file where its configuration imports a directory
 *	Docker		the runtime "pillion" in daemon.json
 *	all		a CDI specification
 *
 * No file of an administrator is edited but Docker's daemon.json, as Docker has no drop-ins. A file is not installed if
 * the engine's own parser refuses it, or would forget a setting that it had. Engines are not restarted.
 */
#pragma once

#include "profiler/install/file_changes.h"

#include <stdio.h>

#define ENGINE_CONFIG_HOOK "/usr/libexec/oci/hooks.d/pillion-hook"
#define ENGINE_CONFIG_WRAPPER "/usr/libexec/pillion/pillion-runc"
#define ENGINE_CONFIG_LIBRARY "/usr/libexec/pillion/libpillion.so" /* a link where 'make install' put it */

struct engine_config {
	struct file_changes *files;
	bool dry, brought; /* brought: programs come with us, also where a dry run does not install them */
	FILE *out;	   /* a line for each file, a sentence for each step that is left to the user */
	unsigned engines;  /* found on this host */
	unsigned written, refused, by_hand;
	bool hooksd; /* hooks.d is done, for all its readers */
};

/*
 * Registers us with all engines; the counts tell the result. -ENOENT: there is no hook to register; or an error of
 * file_changes_put (no space, for example): then the files that were written are whole, and the rest is missing.
 */
int engine_config_install(struct engine_config *r, struct err *e);

/* Names the engines that are there, for people: "podman, containerd", or "". */
const char *engine_config_engines(const struct file_changes *h, char *buf, size_t size);

/* --- the engines' own files (engine_config_*.c) --- */
int engine_config_crio(struct engine_config *r, const char *program, struct err *e);
int engine_config_crio_dirs(struct engine_config *r, const char *program, struct err *e);
int engine_config_containerd(struct engine_config *r, const char *program, struct err *e);
int engine_config_docker(struct engine_config *r, const char *program, struct err *e);
bool engine_config_has(const struct engine_config *r, const char *program); /* of our programs */
/* Prints and counts the result of file_changes_put. True: the file is new. */
bool engine_config_tell(struct engine_config *r, const char *path, int how);
/* Puts a file. 0, also where an engine refuses it: that is printed and counted. Sets *ret_written when it is new. */
int engine_config_put(struct engine_config *r, const struct file_change *c, bool *ret_written, struct err *e);
void engine_config_by_hand(struct engine_config *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A hostfile_check_fn returns this when the engine refuses the file. */
#define ENGINE_CONFIG_REFUSED (-EKEYREJECTED)
