/* SPDX-License-Identifier: Apache-2.0 */
/*
 * target_inproc - a target as libpillion's side of the profiler knows it (profiler/inproc/inproc.h).
 */
#pragma once

struct target;

/* 0, also where none of its processes are to connect, or -errno. */
int target_inproc_new(struct target *t);
