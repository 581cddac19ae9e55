/* SPDX-License-Identifier: Apache-2.0 */
/*
 * app_socket_container - libpillion in a container: how the container must be started, and the socket where its
 * processes find their profiler.
 *
 * The container has the library, read-only, and two variables in its environment (`pillion inject` prints all this as
 * options of an engine). Before the container starts, the hook makes the socket beside the library in the container's
 * own tree: no directory is shared with the host or with another container. Any process of the container can reach the
 * socket, and all it can do there is have samples of its own (profiler/inproc/inproc.h).
 */
#pragma once

#include "oci/base/err.h"

#define APP_CONTAINER_DIR "/run/pillion"
#define APP_CONTAINER_LIBRARY APP_CONTAINER_DIR "/libpillion.so"
#define APP_CONTAINER_SOCKET APP_CONTAINER_DIR "/app.sock"

/*
 * root: the container's root directory, in its mount namespace; program: the program that it starts with, open, or -1.
 * Returns a listening socket, or -errno with a sentence. Changes the caller's working directory.
 */
int app_socket_listen_in_container(int root, int program, const char *name, struct err *e);
