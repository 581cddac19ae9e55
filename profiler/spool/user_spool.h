/* SPDX-License-Identifier: Apache-2.0 */
/*
 * user_spool - the directory for profiles of a user's own processes: it is in the spool, no target's name can lead to
 * it, and it belongs to the service, like all of the spool. An access control list (acl(5)), which all in it inherits,
 * lets this user read it.
 */
#pragma once

#include <sys/types.h>

#define USER_SPOOLS ".users" /* in the spool: all of them */

void user_spool_name(uid_t user, char *buf, size_t size); /* ".users/1000" */
/*
 * Opens it, and makes it if it is missing: descriptor or -errno. Where the file system has no such lists the user
 * cannot read it, and the log says so when it is made.
 */
int user_spool_open(int spool, uid_t user);
