/*
 * app_inside - libpillion in a container: what it has to be started with, and the socket where its processes find their
 * profiler.
 *
 * The container has the library, read-only, and two variables in its environment (`pillion inject` prints all of it as
 * options of an engine). The hook makes the socket beside the library in the container's own tree, before it starts: no
 * directory is shared with the host or with another container. Who can reach it is whoever is in the container; what
 * they can do there is have samples of their own (profiler/inproc/inproc.h).
 */
#pragma once

#include "oci/base/err.h"

#define APP_INSIDE_DIR "/run/pillion"
#define APP_INSIDE_LIBRARY APP_INSIDE_DIR "/libpillion.so"
#define APP_INSIDE_SOCKET APP_INSIDE_DIR "/app.sock"

/*
 * root: the container's, in its mount namespace; program: the one that it begins with, open, or -1. A
 * socket that listens, or -errno with a sentence. The caller's directory is another one then.
 */
int app_listen_inside(int root, int program, const char *name, struct err *e);
