/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli_settings - reads the settings of a command that a person calls: flags win over environment, user's file, system's
 * file and defaults. A plain user has their own control socket and directories (user_dirs.h), PID 1 a shorter window.
 */
#pragma once

#include "oci/config/options.h"

/*
 * A mistake does not stop the rest; `first` gets the first one. Returns the index of the first argument that is no
 * flag.
 */
int cli_settings_read(struct options *o, int argc, char **argv, struct err *first);
/* The same for a command that starts a daemon: prefers the daemon beside this program to the installed one. */
int cli_settings_read_session(struct options *o, int argc, char **argv, struct err *first);
