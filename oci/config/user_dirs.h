/* SPDX-License-Identifier: Apache-2.0 */
/*
 * user_dirs - where a user's files are, and whether we are a user's: root of a user namespace is nobody's root.
 *
 * A hook of rootless podman runs as root of the user's own namespace. What it may do there it may do to the user's
 * containers; of the host it may what the user may. So its socket, profiles and log are the user's (XDG base
 * directories):
 *
 *	control	$XDG_RUNTIME_DIR/pillion/control.sock	else /run/user/<uid>/...
 *	spool	$XDG_STATE_HOME/pillion			else $HOME/.local/state/pillion
 *	log	pillion.log in the spool, in a hook where there is no system log
 *	options	$XDG_CONFIG_HOME/pillion/pillion.conf	else $HOME/.config/pillion/pillion.conf
 */
#pragma once

#include "oci/config/options.h"

/* The environment's value where it is an absolute path; NULL under AT_SECURE. */
const char *user_dirs_environment(const char *name);

/*
 * The user's file of options in its usual place, or -1. HOME is often that of who we were before; under sudo it may be
 * that of who asked, who must not choose what root runs: neither by a file there nor by a link to one that happens to
 * be root's. So directory and file are ours, and nobody else may write to the file.
 */
int user_dirs_user_file(char *path, size_t size);
/* What stands in it; 0 also where there is none. A mistake is the user's own. */
int user_dirs_read_user(struct options *o, struct err *e);

bool user_dirs_in_userns(void); /* we are root, of a user namespace whose root is a user outside */
bool user_dirs_rootless(void);	/* and the system's places are not ours: in a machine of LXC's they are */
/* The user's places in place of the system's, as far as they are known: behind the system's file, before the user's. */
void user_dirs_use(struct options *o);
