/* SPDX-License-Identifier: Apache-2.0 */
/*
 * self_strategy - how a session's events get to the threads of this process.
 *
 * per core: on each thread, for each CPU, with the threads that it makes later: list the threads, open, and list again
 * until there is no new one. Only per CPU can an event be inherited and have a ring. All events of a CPU write into one
 * ring, which belongs to an event that counts nothing; timed ones have one each, and no descriptor (man 3 pillion).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct pillion_session;
struct self_strategy {
	const char *name;
	bool per_cpu;	  /* an event for each CPU, which has a ring for all */
	bool inherit;	  /* threads that a thread makes are heard as well */
	bool all_threads; /* of the process; else the calling one */
	bool follow;	  /* until there is no new thread, and later on */
};
const struct self_strategy *self_strategy(uint32_t which); /* NULL: beyond the table */

/* Finds out s->open_flags, which the kernel permits. -errno with a sentence. */
int self_probe(struct pillion_session *s);
/* -EMFILE, -ENFILE, also of our own budget: there are no more descriptors; the events that are open stay. */
int self_attach(struct pillion_session *s);
/* Again, during the run: a new thread may lack events. */
void self_attach_late(struct pillion_session *s);
