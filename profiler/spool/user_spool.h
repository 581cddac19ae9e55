/* SPDX-License-Identifier: Apache-2.0 */
/*
 * user_spool - where profiles of a user's own processes are: a directory in the spool, which no target's name can lead
 * to, that is the service's, as all of it is, and that this user, beside it, may read, by an access control list
 * (acl(5)) which all in it inherits.
 */
#pragma once

#include <sys/types.h>

#define USER_SPOOLS ".users" /* in the spool: all of them */

void user_spool_name(uid_t user, char *buf, size_t size); /* ".users/1000" */
/*
 * Makes it, where it is missing, and opens it: descriptor or -errno. Where the file system has no such lists the user
 * cannot read it, and the log says so when it is made.
 */
int user_spool_open(int spool, uid_t user);
