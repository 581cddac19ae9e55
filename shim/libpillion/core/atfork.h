/* SPDX-License-Identifier: Apache-2.0 */
/*
 * atfork - the work of a child of fork(2) before it goes on: its timers, and the owner of its alternate stack
 * (pthread_atfork(3)). A child by a system call of the application's own (clone(2)) is not noticed.
 */
#pragma once

void atfork_follow(void); /* from now on. Not from a handler */
