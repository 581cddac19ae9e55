/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unix_socket - Unix sockets at paths (unix(7)).
 *
 * Connecting and listening take over `sock`: they close it if they fail, and return a negative one as it is.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>
#include <sys/un.h>

#define UNIX_SOCKET_PATH_MAX sizeof(((struct sockaddr_un *)0)->sun_path) /* with its NUL */

int unix_socket_new(int type); /* close-on-exec and non-blocking. A descriptor or -errno */
/* Returns `sock` or -errno: -ENAMETOOLONG, -ECONNREFUSED: no process listens, -EAGAIN: too many connections wait. */
int unix_socket_connect(int sock, const char *path);
/*
 * Binds and listens. The file has `mode` from the first moment; if root makes it, it belongs to `gid`, -1: as it is.
 * Returns `sock` or -errno.
 */
int unix_socket_listen(int sock, const char *path, mode_t mode, gid_t gid, int backlog);
/* False: there is no socket, or a killed process has left it. */
bool unix_socket_has_listener(const char *path, int type);
