/* SPDX-License-Identifier: Apache-2.0 */
/*
 * altstack - a stack for handlers, for threads that have none of their own (sigaltstack(2)): where a thread's stack is
 * used up, a handler needs another one.
 *
 * The thread that calls altstack_take() gets one, and each that pthread_create(3) begins (pthread.c). It is the
 * application's business whether a thread has another one: while it has, ours is not used, and where it has none, it
 * is told so. A handler of its own with SA_ONSTACK, where it never gave it a stack, runs on ours: ALTSTACK_SIZE.
 *
 * Stacks are kept for the next thread. One that ends otherwise than by returning leaves its own to whoever finds that
 * it is gone. A lock nobody has: a place is taken by one compare-and-swap.
 */
#pragma once

#include <signal.h>
#include <stdbool.h>

#define ALTSTACK_SIZE (64u << 10) /* below it, a page that is none. What is not used is not there */
#define ALTSTACK_MAX 4096	  /* threads; beyond that they have none */

struct altstack;
void altstack_give(void);		   /* to the calling thread, if it has none */
struct altstack *altstack_take(void);	   /* for a thread to be; NULL: there is none */
void *altstack_room(struct altstack *a);   /* some bytes, until then */
void altstack_use(struct altstack *a);	   /* by that thread */
void altstack_release(struct altstack *a); /* nobody uses it; by that thread, or where there will be none */
void altstack_in_child(void);		   /* atfork.h: it has what its parent's thread had, under another number */
bool altstack_is_ours(const stack_t *s);   /* that a thread has */
