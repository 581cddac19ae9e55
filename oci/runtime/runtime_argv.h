/* SPDX-License-Identifier: Apache-2.0 */
/*
 * runtime_argv - parses the command line of an OCI runtime: runc's (urfave/cli) and crun's (argp).
 *
 * Reads no more than a wrapper needs: which command, which container, where its bundle is. Options of later releases,
 * and all else that is not understood for sure, make it unclear: then the wrapper must not change it.
 * Sources: runc main.go, create.go, run.go, start.go; crun src/crun.c, create.c, run.c, start.c.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum dialect { DIALECT_RUNC, DIALECT_CRUN };

/* By the file's name: crun's if it contains "crun", else runc's. */
enum dialect dialect_of(const char *path);

enum runtime_argv_command {
	INVOKED_OTHER, /* also if there is none: --version, --help */
	INVOKED_CREATE,
	INVOKED_RUN,
	INVOKED_START,
	INVOKED_DELETE,
};

/* Strings are borrowed from argv; NULL: not given. */
struct runtime_argv {
	enum runtime_argv_command command;
	int at;	   /* argv[at] is the command, after the global options */
	int id_at; /* argv[id_at] is the id, or the "--" before it: more options can be put before it */
	const char *id;
	const char *root, *log, *log_format;
	const char *bundle;
	const char *config; /* crun's, in place of the bundle's config.json */
};

/* 0, or -EINVAL: unclear; then do not use *ret. */
int runtime_argv_parse(enum dialect dialect, int argc, char **argv, struct runtime_argv *ret);
