/* SPDX-License-Identifier: Apache-2.0 */
/*
 * app_socket_container - libpillion in a container: what it has to be started with, and the socket where its processes
 * find their profiler.
 *
 * The container has the library, read-only, and two variables in its environment (`pillion inject` prints all of it as
 * options of an engine). The hook makes the socket beside the library in the container's own tree, before it starts: no
 * directory is shared with the host or with another container. Who can reach it is whoever is in the container; what
 * they can do there is have samples of their own (profiler/inproc/inproc.h).
 */
#pragma once

#include "oci/base/err.h"

#define APP_CONTAINER_DIR "/run/pillion"
#define APP_CONTAINER_LIBRARY APP_CONTAINER_DIR "/libpillion.so"
#define APP_CONTAINER_SOCKET APP_CONTAINER_DIR "/app.sock"

/*
 * root: the container's, in its mount namespace; program: the one that it begins with, open, or -1. A
 * socket that listens, or -errno with a sentence. The caller's directory is another one then.
 */
int app_socket_listen_in_container(int root, int program, const char *name, struct err *e);
