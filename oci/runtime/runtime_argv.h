/* SPDX-License-Identifier: Apache-2.0 */
/*
 * runtime_argv - what an OCI runtime was asked to do, by its command line: runc's (urfave/cli) and crun's (argp).
 *
 * Read no further than a wrapper needs: which command, which container, where its bundle is. Options of later releases,
 * and whatever else is not understood for sure, make it unclear, and then nobody shall touch it.
 * Sources: runc main.go, create.go, run.go, start.go; crun src/crun.c, create.c, run.c, start.c.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum dialect { DIALECT_RUNC, DIALECT_CRUN };

/* By the name of its file: with "crun" in it that, else runc's. */
enum dialect dialect_of(const char *path);

enum runtime_argv_command {
	INVOKED_OTHER, /* also where there is none: --version, --help */
	INVOKED_CREATE,
	INVOKED_RUN,
	INVOKED_START,
	INVOKED_DELETE,
};

/* Borrowed from argv; each may be NULL: it is not given. */
struct runtime_argv {
	enum runtime_argv_command command;
	int at;	   /* argv[at] is the command: what is before it are global options */
	int id_at; /* before argv[id_at] there is room for more options: it is the id, or the "--" before it */
	const char *id;
	const char *root, *log, *log_format;
	const char *bundle;
	const char *config; /* crun's, in place of the bundle's config.json */
};

/* 0, or -EINVAL: unclear; then nothing of *ret is to be used. */
int runtime_argv_parse(enum dialect dialect, int argc, char **argv, struct runtime_argv *ret);
