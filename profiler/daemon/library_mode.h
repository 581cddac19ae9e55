/* SPDX-License-Identifier: Apache-2.0 */
/*
 * library_mode - `pilliond --library PID KEPT [options]`: a profiler for the process that asks for one, by libpillion
 * (shim/libpillion/core/launch.h). It reaches a service or starts a session, attaches to the process as `pillion
 * attach` does, makes a socket for it and writes the socket's path to the pipe. It stays for as long as the process and
 * its descendants are profiled: its connection is the target's life. It leaves nothing behind.
 *
 * KEPT: 1 where its parent is a keeper, a child of the process that is ours as well; else 0. Settings are those of
 * `pillion run`, by files, environment and flags.
 */
#pragma once

int library_mode_main(int argc, char **argv);
