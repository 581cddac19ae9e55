/* SPDX-License-Identifier: Apache-2.0 */
/*
 * altstack - a stack for signal handlers, for threads that have none of their own (sigaltstack(2)): if a thread's stack
 * is used up, a handler needs another one.
 *
 * A thread that calls altstack_give() gets one, and each that pthread_create(3) begins (pthread.c). The application may
 * give a thread another one: then ours is not used. If it has given none, it is told that there is none. A handler of
 * the application with SA_ONSTACK, on a thread without a stack of its own, runs on ours: ALTSTACK_SIZE.
 *
 * Stacks are kept for later threads. A thread that ends otherwise than by returning leaves its stack to the thread that
 * finds it gone. There is no lock: a place is taken by one compare-and-swap.
 */
#pragma once

#include <signal.h>
#include <stdbool.h>

#define ALTSTACK_SIZE (64u << 10) /* a guard page below it. Untouched pages use no memory */
#define ALTSTACK_MAX 4096	  /* threads; beyond that they have none */

struct altstack;
void altstack_give(void);		   /* to the calling thread, if it has none */
struct altstack *altstack_take(void);	   /* for a thread to be created; NULL: there is none */
void *altstack_room(struct altstack *a);   /* its memory, usable until then */
void altstack_use(struct altstack *a);	   /* called by the new thread */
void altstack_release(struct altstack *a); /* called by that thread, or if it was not created */
void altstack_in_child(void);		   /* atfork.h: keeps the stack of the parent's thread, under the new tid */
bool altstack_is_ours(const stack_t *s);   /* whether a thread's stack is one of these */
