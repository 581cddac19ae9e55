/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine_config - how the container engines of a host come to know of us: which are there, and what each needs.
 *
 *	podman, CRI-O	hooks.d/50-pillion.json, in the directory that both read; CRI-O a drop-in where it does not
 *	containerd	the runtime handler "pillion", by a file where its configuration imports a directory
 *	Docker		the runtime "pillion" in daemon.json
 *	all		a CDI specification
 *
 * Nobody's own files are edited but Docker's daemon.json, which has no drop-ins. What an engine's own parser refuses,
 * or with which it would forget a setting that it had, does not come to its place. Engines are not restarted.
 */
#pragma once

#include "profiler/install/file_changes.h"

#include <stdio.h>

#define ENGINE_CONFIG_HOOK "/usr/libexec/oci/hooks.d/pillion-hook"
#define ENGINE_CONFIG_WRAPPER "/usr/libexec/pillion/pillion-runc"
#define ENGINE_CONFIG_LIBRARY "/usr/libexec/pillion/libpillion.so" /* a link where 'make install' put it */

struct engine_config {
	struct file_changes *files;
	bool dry, brought; /* brought: programs come with us, also where a dry run does not put them */
	FILE *out;	   /* a line for each file, a sentence for what is to be done by hand */
	unsigned engines;  /* that are there */
	unsigned written, refused, by_hand;
	bool hooksd; /* done, for whoever reads it */
};

/*
 * All of it; the counts tell what came of it. -ENOENT: there is no hook to register; or what file_changes_put returns
 * (no space, for example): then what is written is whole, and the rest is not.
 */
int engine_config_install(struct engine_config *r, struct err *e);

/* Which engines are there, for people: "podman, containerd", or "". */
const char *engine_config_engines(const struct file_changes *h, char *buf, size_t size);

/* --- of the engines' own files (registration_*.c) */
int engine_config_crio(struct engine_config *r, const char *program, struct err *e);
int engine_config_crio_dirs(struct engine_config *r, const char *program, struct err *e);
int engine_config_containerd(struct engine_config *r, const char *program, struct err *e);
int engine_config_docker(struct engine_config *r, const char *program, struct err *e);
bool engine_config_has(const struct engine_config *r, const char *program); /* of ours */
/* What file_changes_put returned, said and counted: is it new? */
bool engine_config_tell(struct engine_config *r, const char *path, int how);
/* 0, also where an engine refuses the file: that is said and counted. Sets *ret_written when it is new. */
int engine_config_put(struct engine_config *r, const struct file_change *c, bool *ret_written, struct err *e);
void engine_config_by_hand(struct engine_config *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* What a hostfile_check_fn returns when the engine does not want it. */
#define ENGINE_CONFIG_REFUSED (-EKEYREJECTED)
