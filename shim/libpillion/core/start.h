/* SPDX-License-Identifier: Apache-2.0 */
/*
 * start - library mode: a program that asks for a profiler, by pillion_start() or by PILLION_EVENTS in its environment,
 * has the one that PILLION_SOCKET names, or starts one (launch.h).
 *
 * Of several at once, threads or processes that were forked from one another, one does it and the others wait for it:
 * they share a page that tells who is at it, and what came of it. Whoever was at it and is gone is in nobody's way.
 *
 * What is started says its socket, which goes into the environment, for programs that are executed from here on. By
 * setenv(3), where the program has called us; before it begins, by another array of pointers: nothing is allocated
 * then. What came to nothing there is said in PILLION_LOG, if that is a file, and PILLION_EVENTS becomes "off", so that
 * not every child is held up as well.
 */
#pragma once

#include "shim/libpillion/core/launch.h"

/* 0, or -errno with a sentence in ret->text. */
int start_now(const struct launch *l, struct start_reply *ret);
int start_stop(void);
