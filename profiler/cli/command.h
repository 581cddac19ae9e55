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
	const char *name, *line;	   /* the command's purpose, in one line */
	const char *help;		   /* usage, description, example */
	int (*run)(int argc, char **argv); /* argv[0] is the command's name */
	bool own_options;		   /* arguments may be another program's: the command finds --help itself */
	bool settings;			   /* it also takes the options of OPTION_FLAG */
	bool hidden;			   /* for programs only */
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
	struct profile_filter *terms; /* with a value, and allowed several times */
};

/*
 * Takes the options out of argv, anywhere before "--", with getopt_long_only(3); their names are written in full.
 * Returns how many other arguments there are, now at argv[1]..., or -EINVAL after reporting the mistake. `options`
 * ends with a row without name.
 */
int command_options(int argc, char **argv, const struct command_option *options);
/* Prints the last line of a command that has profiled a program: how many samples, and how to look at them. */
void command_say_profile(const char *target, uint64_t samples, const char *path);
/* Makes a target's text safe for a terminal: the same text, without control characters. */
const char *command_clean(char *text);
/* Parses a number of rows of a table: 1, 2, ..., or "all" (SIZE_MAX). */
bool command_rows(const char *text, size_t *ret);
/* Prints the command's help for people. */
void command_help(const struct command *c, FILE *out);
/* "pillion NAME: sentence" on stderr; returns `code`. */
int command_fail(const char *name, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Replaces a file, whole or not at all; its owner and mode stay. 0, or -errno with a sentence about `path`. */
int command_replace(int dir, const char *file, const char *path, const void *data, size_t len, struct err *e);
/* Writes the file of --output; '-': standard output. Returns an exit code, after reporting any error. */
int command_write(const char *name, const char *output, const void *data, size_t len);
int command_may_write(const char *name, const char *output); /* no profile goes to a terminal. Returns an exit code */

/*
 * Replaces each path that is neither a file nor a directory, but names a target of the spool (setting `spool`), by the
 * target's directory there, malloc'ed. NAMESPACE/POD/CONTAINER names a target; so does its end, CONTAINER or
 * POD/CONTAINER, and the name of another target, if only one has it. Other paths stay as they are. Returns an exit
 * code; if several targets have a name, it has listed them.
 */
int command_find_targets(const char *name, int n, char **paths);
#define COMMAND_ALONE "/." /* behind a directory: its own files, without the directories below */
#define COMMAND_TARGET_HELP                                                                                            \
	"A target's name means its directory in the spool: checkout, or of a container of Kubernetes\n"                \
	"prod/shop-0/main, shop-0/main, or main where no other target is called so.\n"
/* Waits until no session owes the directory `path` the last window of a program that has ended (spool_lock.h); reports
 * a long wait. */
void command_await(const char *name, const char *path);
/*
 * Calls fn for every file named, and every *.pb.gz of the directories named (searched to the depth of a spool), in
 * turn: `dir` and `file` open it, `path` is for people. A result of fn other than 0 ends this; fn has reported why.
 * Returns an exit code.
 */
typedef int command_file_fn(void *arg, int dir, const char *file, const char *path);
int command_files(const char *name, int n, char **paths, command_file_fn *fn, void *arg, size_t *ret_files);
int command_read(const char *name, int dir, const char *file, const char *path, struct profile **ret);
/*
 * Loads all of them, merged. `type`: only files with this sample type; NULL: the types of the first. Files of other
 * types are left out, and stderr says how many. Returns an exit code; on EXIT_DONE *ret and the index of the type
 * (default: profile_default_type).
 */
int command_load(const char *name, int n, char **paths, const char *type, struct profile **ret, unsigned *ret_type);
/* Replaces *p by its samples that match; reports if none does. Without a term it stays as it is. */
int command_filter(const char *name, const struct profile_filter *f, struct profile **p);

struct target_table;
/* Asks the service behind this socket for its targets. Returns an exit code. */
int command_ask_targets(const char *name, const char *control, const char *daemon, struct target_table *ret);

/* keep: command_fail stores its message instead of printing it: command_said() returns the last one. */
void command_keep_saying(bool keep);
const char *command_said(void); /* "": none since the last call */
/* As progress_show, unless command_keep_saying is on: `top` draws on the terminal then. */
void command_progress(const char *name, size_t file, const char *path);
