/* SPDX-License-Identifier: Apache-2.0 */
/*
 * target_offcpu - a target as its profile of waits knows it (profiler/offcpu/offcpu.h).
 */
#pragma once

struct target;

/* 0, also where none of its events measures waits, or -ENOMEM. */
int target_offcpu_new(struct target *t);
void target_offcpu_free(struct target *t);
