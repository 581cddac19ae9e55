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

#define REGISTRATION_HOOK "/usr/libexec/oci/hooks.d/pillion-hook"
#define REGISTRATION_WRAPPER "/usr/libexec/pillion/pillion-runc"
#define REGISTRATION_LIBRARY "/usr/libexec/pillion/libpillion.so" /* a link where 'make install' put it */

struct registration {
	struct hostfiles *files;
	bool dry, brought; /* brought: programs come with us, also where a dry run does not put them */
	FILE *out;	   /* a line for each file, a sentence for what is to be done by hand */
	unsigned engines;  /* that are there */
	unsigned written, refused, by_hand;
	bool hooksd; /* done, for whoever reads it */
};

/*
 * All of it; the counts tell what came of it. -ENOENT: there is no hook to register; or what hostfiles_put returns
 * (no space, for example): then what is written is whole, and the rest is not.
 */
int registration_install(struct registration *r, struct err *e);

/* Which engines are there, for people: "podman, containerd", or "". */
const char *registration_engines(const struct hostfiles *h, char *buf, size_t size);

/* --- of the engines' own files (registration_*.c) */
int registration_crio(struct registration *r, const char *program, struct err *e);
int registration_crio_dirs(struct registration *r, const char *program, struct err *e);
int registration_containerd(struct registration *r, const char *program, struct err *e);
int registration_docker(struct registration *r, const char *program, struct err *e);
bool registration_has(const struct registration *r, const char *program); /* of ours */
/* What hostfiles_put returned, said and counted: is it new? */
bool registration_tell(struct registration *r, const char *path, int how);
/* 0, also where an engine refuses the file: that is said and counted. Sets *ret_written when it is new. */
int registration_put(struct registration *r, const struct hostfile_change *c, bool *ret_written, struct err *e);
void registration_by_hand(struct registration *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* What a hostfile_check_fn returns when the engine does not want it. */
#define REGISTRATION_REFUSED (-EKEYREJECTED)
