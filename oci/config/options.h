/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options - every setting of pillion, in one table that yields defaults, parsing, help and documentation.
 *
 * One name everywhere: `--foo-bar`, PILLION_FOO_BAR, file key `foo_bar`, and for the rows that are safe in a
 * tenant's hands the annotation `io.pillion.foo-bar` (the annotation of `events` is `io.pillion.profile`).
 * Precedence: flag > environment > user file > system file > default; the caller applies the sources from
 * weakest to strongest, and the policy last. A tenant's options are a struct of their own
 * (`struct request`): fixed size, so that it can cross a process boundary.
 *
 * Values: durations are a whole number and a unit (ms s m h d), sizes a whole number and a unit (KiB MiB GiB, none =
 * bytes), shares a number and % (up to three decimals), switches are 1 0 yes no true false on off. A refused value
 * leaves the struct as it was.
 */
#pragma once

#include "oci/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum stacks { STACKS_AUTO, STACKS_FP, STACKS_DWARF, STACKS_NONE };
enum attach { ATTACH_AUTO, ATTACH_CGROUP, ATTACH_PROCESS };
/* Optional labels of samples: each makes profiles larger. */
enum detail { DETAIL_CPU = 1, DETAIL_TIME = 2, DETAIL_CGROUP = 4, DETAIL_ALL = 7 };

#define OPTIONS_ETC "/etc/pillion"
#define WINDOW_MIN_S 5u
#define WINDOW_MAX_S 3600u

#define USERS_MAX 16

#define LABELS_MAX 16
struct label {
	char key[64];	 /* [A-Za-z_][A-Za-z0-9_.-]*, at most 63; no two alike */
	char value[129]; /* printable ASCII, at most 128 */
};

/* The request for a target: by annotation, flag, environment or file. No pointers. */
struct request {
	char events[256]; /* event list (printable ASCII), or "off"; "on" is stored as "cpu"; grammar:
			     shim/event/event_spec.h */
	uint32_t stacks;  /* enum stacks */
	uint32_t attach;  /* enum attach */
	uint32_t window_s;
	uint32_t detail; /* mask of enum detail */
	uint32_t n_labels;
	struct label labels[LABELS_MAX];
};

/* Settings that only the administrator or the user of the command line makes. */
/* What may be profiled; patterns, "" = all: oci/runtime/policy.h */
struct policy_settings {
	uint32_t max_rate;			 /* Hz, the most an annotation may ask for */
	bool tracepoints, kprobes, uprobes, raw; /* an annotation may ask for them */
	bool sidecars;				 /* a Pod may bring its own profiler: shim/attach/sidecar.h */
	char allow_namespaces[1024], allow_users[1024], allow_events[1024];
	uint32_t sample; /* of so many containers that ask for a profile, one gets it */
};

struct path_settings {
	char control[108];	/* control socket path */
	char metrics[108];	/* address at which a service serves them: profiler/web/http_listen.h */
	char spool[1024];	/* directory of finished windows */
	char output[1024];	/* of `pillion run` and `attach`, "" = ./pillion-<pid> */
	char daemon[1024];	/* pilliond binary */
	char runtime[1024];	/* the OCI runtime that pillion-runc calls, "" = the first that is there */
	char log[1024];		/* destination, "" = system log */
	char etc[480];		/* directory of policy and kill switch; no option */
	char config[1024];	/* user file, "" = the usual place */
	char target_root[1024]; /* root for files of targets that bring no files, "" = none */
};

/* Of `pillion run` and `pillion attach`. */
struct command_settings {
	bool quiet, wait;     /* no line before the program; stays its parent */
	bool output_explicit; /* by a flag or a variable: a session writes there, also if a service listens */
	uint32_t duration_s;  /* 0 = until the target ends */
};

/* Users that may register processes of their own. */
struct user_settings {
	char group[64];	      /* its members may, "" = only root may */
	uint32_t max;	      /* such users at a time */
	uint64_t spool_bytes; /* cap of each user's profiles */
};

/* Of a service: profiler/target/limits.h */
struct limit_settings {
	uint32_t targets, fds;
	uint64_t table_bytes, module_bytes, jit_bytes;
	uint64_t target_rate, target_bytes; /* of each, a second; 0 = none */
	uint32_t cpu_budget;		    /* thousandths of a per cent of the machine; 0 = none */
};

struct settings {
	bool enabled;	      /* false = as if pillion were not there */
	bool strict;	      /* a failure of ours fails the start */
	uint32_t budget_ms;   /* the whole handshake */
	int log_level;	      /* syslog(3) level */
	uint64_t spool_bytes; /* cap of the spool */
	uint32_t spool_age_s; /* cap of a profile's age */
	char node[254];	      /* in labels; "": the host's name */
	struct policy_settings policy;
	struct path_settings paths;
	struct command_settings command;
	struct user_settings users;
	struct limit_settings limits;
};

struct options {
	struct request request;
	struct settings settings;
};

#define ANNOTATION_PREFIX "io.pillion."

enum option_source {
	OPTION_FLAG = 1,
	OPTION_ENV = 2,
	OPTION_FILE = 4,
	OPTION_ANNOTATION = 8,
	OPTION_POLICY = 16, /* the administrator's policy.conf: strict and the clamps, nothing else */
};

/* Checks the kill switch DIR/off, a file of any type: 1 it is there, 0 it is not, -errno: unknown. */
int options_off(const char *dir);

void options_default(struct options *o);
void request_default(struct request *r); /* as options_default, but events = "" (absent) */

/*
 * Sets one option from text. `name` is the bare name with dashes ("log-level"); `source` must be one that
 * the row allows. -ENOENT: no such option (or not from this source); -EINVAL: bad value; `e` names the
 * option as this source writes it (options_set_as: as `where`), the value (cleaned, cut) and the allowed values.
 */
int options_set_as(struct options *o, enum option_source source, const char *name, const char *where, const char *value,
	struct err *e);
int options_set(struct options *o, enum option_source source, const char *name, const char *value, struct err *e);

/* Returns the name of the i-th option that `source` may set; NULL after the last. The first is "events", the switch. */
const char *options_name(enum option_source source, size_t i);

/*
 * Reads `key = value` lines, '#' comments; `source` is OPTION_FILE or OPTION_POLICY. -EINVAL names the line, and the
 * lines above it have been applied; -EFBIG beyond 64 KiB. A `path` that does not exist is not an error (returns 0).
 */
int options_read_file(struct options *o, enum option_source source, const char *path, struct err *e);
/* The same for an open file (borrowed); `path` is for the sentences. */
int options_read_fd(struct options *o, enum option_source source, int fd, const char *path, struct err *e);
/* Reads any file of such lines: calls `fn` for each, which explains errors in `e`. For one thread. */
typedef int options_pair_fn(void *arg, const char *key, const char *value, struct err *e);
int options_read_pairs(int fd, const char *path, options_pair_fn *fn, void *arg, struct err *e);
/*
 * Reads PILLION_* of this process's environment, ignores unknown ones; reads nothing under AT_SECURE. -EINVAL names the
 * first bad one; the others have been applied.
 */
int options_read_env(struct options *o, struct err *e);
/*
 * Reads flags from argv[1] up to the first argument that is none, or a "--". `--name value` and `--name=value`; a
 * switch may stand alone, and its value as an argument is 0 or 1, or a word in front of a "--".
 * *ret_next: index of the first argument that is not ours. -EINVAL names the first that is wrong (bad value, missing
 * value, no such option, with the nearest name); the others have been applied. An argument in front of a "--" is never
 * taken for the program.
 */
int options_read_flags(struct options *o, int argc, char **argv, int *ret_next, struct err *e);

void options_help(FILE *out, enum option_source source); /* prints the rows of one source, aligned, with defaults */
