/* SPDX-License-Identifier: Apache-2.0 */
/*
 * alloc_sample - one sample of an allocation: its place, its size and its stack.
 *
 * Sampled is as if each byte that is allocated were sampled with a probability of 1 / mean: the distance from one to
 * the next is drawn from the exponential distribution. An allocation is sampled if any of its bytes is, so one of
 * `bytes` stands for 1 / (1 - exp(-bytes / mean)) of its size: unbiased, for their number as for their sum. The
 * profiler scales.
 *
 * A stack is copied by process_vm_readv(2) of ourselves: if memory ends or is missing, it copies the part that is
 * there.
 */
#pragma once

#include "shim/libpillion/abi/shm_layout.h"
#include "shim/libpillion/core/thread_state.h"

#include <stddef.h>

/*
 * `t->left` has just fallen below zero, and the thread is busy: draws the next distance. `failed`: bytes of this
 * allocation where there was no memory for it, else 0. Returns whether this allocation is sampled.
 */
bool alloc_sample_due(struct thread_state *t, size_t failed);
void alloc_sample_put_off(struct thread_state *t); /* `t->left` is below zero, and this allocation is not looked at */
/* Records a sampled allocation of `bytes` at p. */
void alloc_sample_record(struct thread_state *t, const struct shm_regs *r, const void *p, size_t bytes);
/*
 * p is about to be freed, and may have been sampled (live_slots_maybe). Returns a number for alloc_sample_freed(), for
 * when p is freed; 0: p was not sampled.
 */
uint32_t alloc_sample_find(const void *p);
void alloc_sample_freed(uint32_t found, const void *p);

/* Draws from the exponential distribution with this mean, by the state of a generator (not 0). */
int64_t alloc_sample_draw(uint64_t *random, uint64_t mean);
