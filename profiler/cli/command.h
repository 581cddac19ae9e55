/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command - the commands of `pillion`: one file profiler/cmd_X.c and one row of the table in pillion.c each.
 *
 * A command prints its result to stdout and every mistake as one sentence to stderr, naming the thing and the way
 * out; it returns an exit code. `pillion help X` and `pillion X --help` print the row's help; commands do not see
 * --help.
 */
#pragma once

#include "oci/base/err.h"
#include "oci/config/options.h"
#include "profiler/pprof/profile.h"
#include "profiler/pprof/profile_filter.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { /* exit codes, the same for every command */
	EXIT_DONE = 0,
	EXIT_FAILED = 1,
	EXIT_USAGE = 2,
	EXIT_NOTHING = 3, /* nothing matched */
};

struct command {
	const char *name, *line;	   /* what it does, in one line */
	const char *help;		   /* usage, what it does, example */
	int (*run)(int argc, char **argv); /* argv[0] is the command's name */
	bool own_options;		   /* what follows may be another program's: it finds --help itself */
	bool settings;			   /* it takes those of OPTION_FLAG, too */
	bool hidden;			   /* of interest to programs alone */
};

/* In pillion.c; the list ends with NULL. */
extern const struct command *const commands[];
const struct command *command_find(const char *name); /* NULL: there is none */

extern const struct command cmd_run, cmd_attach, cmd_ps, cmd_top, cmd_report, cmd_flame, cmd_diff, cmd_events,
	cmd_symbolize, cmd_tree, cmd_export, cmd_push, cmd_crashes, cmd_inject, cmd_install, cmd_uninstall, cmd_doctor,
	cmd_on, cmd_off, cmd_remap, cmd_complete, cmd_manual;

struct command_option { /* `--name VALUE`, `--name=VALUE`; a switch where `value` is NULL */
	const char *name, *alias;
	const char **value;
	bool *on;
	struct profile_filter *terms; /* with a value, and may be there several times */
};

/*
 * Take the options out of argv, anywhere before "--". Returns how many other arguments there are, now at argv[1]...,
 * or -EINVAL after having said what is wrong. `options` ends with a row without name.
 */
int command_options(int argc, char **argv, const struct command_option *options);
/* The last line of a command that has profiled something: how many samples, and how to look at them. */
void command_say_profile(const char *target, uint64_t samples, const char *path);
/* What a target chose, for a terminal: the same text, without control characters. */
const char *command_clean(char *text);
/* How many rows of a table: 1, 2, ..., or "all" (SIZE_MAX). */
bool command_rows(const char *text, size_t *ret);
/* What a person gets to read of it. */
void command_help(const struct command *c, FILE *out);
/* "pillion NAME: sentence" on stderr; returns `code`. */
int command_fail(const char *name, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* A file becomes this, whole or not at all; its owner and mode stay. 0, or -errno with a sentence about `path`. */
int command_replace(int dir, const char *file, const char *path, const void *data, size_t len, struct err *e);
/* The same of what --output names: a file, or '-' for standard output. An exit code; what is wrong has been said. */
int command_write(const char *name, const char *output, const void *data, size_t len);
int command_may_write(const char *name, const char *output); /* no profile goes to a terminal. An exit code */

/*
 * In place of what is neither a file nor a directory, but names a target of the spool (of the setting `spool`): its
 * directory there, malloc'ed. NAMESPACE/POD/CONTAINER names one; so does its end, CONTAINER or POD/CONTAINER, and the
 * name of another target, where only one has it. What names none stays as it is. Returns an exit code; of a name that
 * several have it has listed them.
 */
int command_find_targets(const char *name, int n, char **paths);
#define COMMAND_ALONE "/." /* behind a directory: what lies in it, without the directories below */
#define COMMAND_TARGET_HELP                                                                                            \
	"A target's name means its directory in the spool: checkout, or of a container of Kubernetes\n"                \
	"prod/shop-0/main, shop-0/main, or main where no other target is called so.\n"
/* Until no session owes the directory `path` the last window of a program that has ended (spool_lock.h); what takes
 * long is said. */
void command_await(const char *name, const char *path);
/*
 * Every file named, and every *.pb.gz of the directories named (searched to the depth of a spool), in turn: `dir` and
 * `file` open it, `path` is for people. What fn returns but 0 ends it; it has said why. Returns an exit code.
 */
typedef int command_file_fn(void *arg, int dir, const char *file, const char *path);
int command_files(const char *name, int n, char **paths, command_file_fn *fn, void *arg, size_t *ret_files);
int command_read(const char *name, int dir, const char *file, const char *path, struct profile **ret);
/*
 * All of them, merged. `type`: only files
 * with this sample type; NULL: the types of the first. Files of other types are left out, and stderr says how many.
 * Returns an exit code; on EXIT_DONE *ret and the index of the type (default: profile_default_type).
 */
int command_load(const char *name, int n, char **paths, const char *type, struct profile **ret, unsigned *ret_type);
/* In its place the samples that fit; says so where none does. Without a term it stays as it is. */
int command_filter(const char *name, const struct profile_filter *f, struct profile **p);

struct target_table;
/* What the service behind this socket profiles. Returns an exit code. */
int command_ask_targets(const char *name, const char *control, const char *daemon, struct target_table *ret);

/* From now on what command_fail says is kept in place of being printed: command_said() is the last of it. */
void command_keep_saying(bool keep);
const char *command_said(void); /* "": nothing since it was asked last */
/* progress.h, unless the terminal is live's. */
void command_progress(const char *name, size_t file, const char *path);
