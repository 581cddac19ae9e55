/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli_settings - the settings of a command that a person calls: flags before environment, user's file, system's file
 * and defaults. A plain user has a control socket and directories of his own (user_dirs.h), PID 1 a shorter window.
 */
#pragma once

#include "oci/config/options.h"

/*
 * A mistake does not stop the rest; the first one is in `first`. Returns the index of the first argument that is no
 * flag.
 */
int cli_settings_read(struct options *o, int argc, char **argv, struct err *first);
/* The same of a command that starts a daemon: the one beside this program goes before the installed one. */
int cli_settings_read_session(struct options *o, int argc, char **argv, struct err *first);
