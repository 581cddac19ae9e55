/* SPDX-License-Identifier: Apache-2.0 */
/*
 * user_dirs - finds a user's files, and whether we run for a user: root of a user namespace is not root of the host.
 *
 * A hook of rootless podman runs as root of the user's own namespace. It has root's rights over the user's containers,
 * but only the user's rights on the host. So its socket, profiles and log are the user's (XDG base directories):
 *
 *	control	$XDG_RUNTIME_DIR/pillion/control.sock	else /run/user/<uid>/...
 *	spool	$XDG_STATE_HOME/pillion			else $HOME/.local/state/pillion
 *	log	pillion.log in the spool, in a hook if there is no system log
 *	options	$XDG_CONFIG_HOME/pillion/pillion.conf	else $HOME/.config/pillion/pillion.conf
 */
#pragma once

#include "oci/config/options.h"

/* Returns the environment's value if it is an absolute path; NULL under AT_SECURE. */
const char *user_dirs_environment(const char *name);

/*
 * Opens the user's file of options in its usual place; -1: none is ours. HOME is often that of our former user; under
 * sudo it may be the caller's. That user must not choose the programs that root runs: neither by a file there nor by a
 * link to a file of root's. So directory and file must be ours, and no other user may write to them.
 */
int user_dirs_user_file(char *path, size_t size);
/* Reads that file; 0 also if there is none. A mistake is the user's own. */
int user_dirs_read_user(struct options *o, struct err *e);

bool user_dirs_in_userns(void); /* are we root of a user namespace, and another user outside? */
bool user_dirs_rootless(void);	/* and are the system's directories not ours? In an LXC machine they are */
/*
 * Sets the user's paths in place of the system's, as far as they are known. Call it after reading the system's file,
 * whose paths are root's, and before reading the user's file.
 */
void user_dirs_use(struct options *o);
