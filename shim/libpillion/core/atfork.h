/* SPDX-License-Identifier: Apache-2.0 */
/*
 * atfork - what a child of fork(2) has to put right before it goes on: its timers, and whose the stack of its handlers
 * is (pthread_atfork(3)). One that comes by a system call of the application's own (clone(2)) is not told of.
 */
#pragma once

void atfork_follow(void); /* from now on. Not from a handler */
