/* SPDX-License-Identifier: Apache-2.0 */
/*
 * self_strategy - how a session's events get to the threads of this process.
 *
 * per core: on each thread, for each CPU, with what the thread makes later: list the threads, open, and list again
 * until nobody is new. Only per CPU can an event be inherited and have a ring. All events of a CPU write into one ring,
 * which belongs to an event that counts nothing; timed ones have one each, and no descriptor (man 3 pillion).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct pillion_session;
struct self_strategy {
	const char *name;
	bool per_cpu;	  /* an event for each CPU, which has a ring for all */
	bool inherit;	  /* what a thread makes is heard as well */
	bool all_threads; /* of the process; else the calling one */
	bool follow;	  /* until nobody is new, and later on */
};
const struct self_strategy *self_strategy(uint32_t which); /* NULL: beyond the table */

/* What the kernel lets us: s->open_flags. -errno with a sentence. */
int self_probe(struct pillion_session *s);
/* -EMFILE, -ENFILE, also of our own budget: there are descriptors for no more, and what there is stays. */
int self_attach(struct pillion_session *s);
/* Again, while it runs: somebody may have come without. */
void self_attach_late(struct pillion_session *s);
