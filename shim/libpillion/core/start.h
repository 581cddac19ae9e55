/* SPDX-License-Identifier: Apache-2.0 */
/*
 * start - library mode: a program that asks for a profiler, by pillion_start() or by PILLION_EVENTS in its environment,
 * uses the one that PILLION_SOCKET names, or starts one (launch.h).
 *
 * Of several callers at once, threads or processes that were forked from one another, one does it and the others wait
 * for it: they share a page with the thread at work and its result. A thread that has died at work blocks no other.
 *
 * The socket of a started profiler goes into the environment, for programs that are executed from here on: by
 * setenv(3), if the program has called us; before the program begins, by another array of pointers, as nothing is
 * allocated then. A failure before the program begins is written to PILLION_LOG, if that is a file, and PILLION_EVENTS
 * becomes "off", so that not every child is held up as well.
 */
#pragma once

#include "shim/libpillion/core/launch.h"

/* 0, or -errno with a sentence in ret->text. */
int start_now(const struct launch *l, struct start_reply *ret);
int start_stop(void);
