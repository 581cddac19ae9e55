/*
 * shm_layout - the memory that a process and its profiler share: samples on their way, and which sampled memory is in use.
 *
 * The process makes it, a memfd of one size sealed against any other, and passes it when it connects; when the profiler
 * is another one, it passes it again, and nothing is lost. Layout: struct area_head, then AREA_ITEMS struct area_item,
 * AREA_BYTES of records, AREA_SLOTS struct area_slot, AREA_SETS struct area_set, AREA_CHANGES struct area_change.
 *
 * Records: a writer reserves (area_reserve) by one compare-and-swap that moves both numbers of `tail`, writes, then
 * publishes its item (area_publish). It takes no lock, so it can die, be stopped or leave by longjmp at any
 * instruction and is in nobody's way: the reader skips what is not published for a while. Should such a writer wake up
 * when its bytes are somebody else's, that record's sum is wrong, and it is not taken. No room: `lost` counts.
 *
 * The reader copies by pread(2) and says how far it has come by pwrite(2) (`read`): it has nothing mapped that another
 * can take away. It trusts none of it (profiler/inproc/shm_reader.h).
 *
 * CPU time (shim/libpillion/cputime/cpu_timers.h): of all that the process used (`cpu`), its samples stand for what was
 * seen. What it has mapped comes as text before the first of them, and again when the reader has met an address that it
 * does not know
 * (`maps`), or the process itself has.
 *
 * Labels (labels.h): sets of them, by number, and the last AREA_CHANGES times that a thread was given one, in a ring
 * that nobody waits for: who reads too late has lost some.
 *
 * Slots: which sampled allocations have not been freed. Whoever frees one empties its slot: no record tells of it, and
 * none can be lost. One that is in use and of which the reader has no record is memory of an unknown place.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AREA_MAGIC 0x61657261 /* "area" */
#define AREA_VERSION 3
#define AREA_UNIT 16 /* bytes: where records begin */
#define AREA_ITEMS 2048
#define AREA_BYTES (2u << 20)
#define AREA_SLOTS (1u << 20) /* of which a page is there when it is used first */
#define AREA_RECORD_MAX (48u << 10)
#define AREA_SETS 1024
#define AREA_CHANGES 8192

/* Both numbers only grow, and wrap: how many items, and AREA_UNITs of records. */
#define AREA_AT(items, units) ((uint64_t)(items) | (uint64_t)(units) << 32)
#define AREA_AT_ITEMS(at) ((uint32_t)(at))
#define AREA_AT_UNITS(at) ((uint32_t)((at) >> 32))

struct area_head {
	uint32_t magic, version;
	uint32_t pid; /* as the process itself knows it */
	uint32_t reserved;
	uint64_t cookie; /* of this process, until it execs */
	uint64_t cpu;	 /* ns by the process' CPU clock, as it was last seen; an exec leaves it as it is */
	uint64_t tail __attribute__((aligned(64)));    /* AREA_AT, by writers */
	uint64_t lost;				       /* records that found no room */
	uint64_t last_id;			       /* of a slot */
	uint64_t slots;				       /* from the first on, one of which was ever used */
	uint64_t read __attribute__((aligned(64)));    /* AREA_AT, by the reader */
	uint64_t wake;				       /* AREA_AT_UNITS of the tail at which it wants to be woken */
	uint64_t maps;				       /* counts up: what is mapped is wanted once more */
	uint64_t cpu_read;			       /* of `cpu`, what it has taken into its account */
	uint64_t changes __attribute__((aligned(64))); /* of labels, by writers: how many there were */
} __attribute__((aligned(4096)));

struct area_item {
	uint32_t number; /* of this item and 1: it is published */
	uint32_t start;	 /* AREA_AT_UNITS of its first byte */
	uint32_t size;
	uint32_t reserved;
	uint64_t sum; /* area_sum() of its bytes */
	uint64_t pad;
};

/* `at` is written last and emptied first. */
struct area_slot {
	uint64_t at; /* 0: empty; AREA_SLOT_TAKEN: about to be written */
	uint64_t id; /* never used twice */
	uint64_t bytes;
	uint64_t reserved;
};
#define AREA_SLOT_TAKEN 1

/* What a thread of this number of a set (from 1 on) is called; never changed once it has a size. */
struct area_set {
	uint32_t size; /* written last; 0: there is none */
	uint32_t reserved;
	char text[1592]; /* label_text.h */
};

struct area_change {
	uint64_t number; /* of this change and 1: it is there */
	uint64_t time;	 /* CLOCK_MONOTONIC, ns */
	uint32_t tid, set;
};

#define AREA_ITEMS_AT sizeof(struct area_head)
#define AREA_BYTES_AT (AREA_ITEMS_AT + AREA_ITEMS * sizeof(struct area_item))
#define AREA_SLOTS_AT (AREA_BYTES_AT + AREA_BYTES)
#define AREA_SETS_AT (AREA_SLOTS_AT + (uint64_t)AREA_SLOTS * sizeof(struct area_slot))
#define AREA_CHANGES_AT (AREA_SETS_AT + AREA_SETS * sizeof(struct area_set))
#define AREA_SIZE (AREA_CHANGES_AT + AREA_CHANGES * sizeof(struct area_change))

enum area_kind { AREA_ALLOC = 1, AREA_CPU, AREA_MAPS, AREA_CRASH, AREA_KINDS };

/*
 * What is sampled: `more` bytes follow, then `stack` bytes from `sp` on. AREA_MAPS: so many of text, whole lines of
 * proc_pid_maps(5), those of code; nothing but kind, tid and time is set, and what follows.
 */
struct area_record {
	uint32_t kind; /* enum area_kind */
	uint32_t tid;
	uint64_t time; /* CLOCK_MONOTONIC, ns */
	uint64_t ip, sp, bp, bx, r12, r13, r14, r15;
	uint64_t bytes; /* AREA_ALLOC: of the allocation; AREA_CPU: ns that it stands for */
	uint64_t id;	/* of its slot; 0: it has none */
	uint32_t stack, more;
	uint64_t labels; /* the number of the thread's set; 0: it has none */
};
/* Where nothing else tells of threads: `more` is 0, or this; of AREA_CRASH struct area_crash. */
struct area_more {
	uint64_t ax, cx, dx, si, di, r8, r9, r10, r11; /* AREA_CPU */
	char name[16];				       /* of the thread */
	uint64_t pad;
};
/* A signal that ends the process (crash_handler.h), as its siginfo_t and its context have it. */
#define AREA_CALLS_MAX 64
struct area_crash {
	struct area_more more;
	uint32_t signal;
	int32_t code;	       /* si_code */
	uint64_t address;      /* si_addr, of a fault */
	uint32_t sender, user; /* si_pid, si_uid: of what somebody sent */
	uint64_t flags;	       /* of the CPU */
	uint64_t trap, error;  /* the exception, and what the CPU says of it */
	uint64_t calls_n, pad;
	uint64_t calls[AREA_CALLS_MAX]; /* functions that are under way by the instrumented program's own account
					   (calltree.h), innermost first */
};

_Static_assert(sizeof(struct area_head) == 4096, "shared layout");
_Static_assert(sizeof(struct area_item) == 32 && AREA_BYTES_AT % 4096 == 0, "shared layout");
_Static_assert(sizeof(struct area_slot) == 32 && AREA_SLOTS_AT % 4096 == 0, "shared layout");
_Static_assert(sizeof(struct area_set) == 1600 && AREA_SETS_AT % 4096 == 0, "shared layout");
_Static_assert(
	sizeof(struct area_change) == 24 && AREA_CHANGES_AT % 4096 == 0 && AREA_SIZE % 4096 == 0, "shared layout");
_Static_assert(sizeof(struct area_record) == 112 && sizeof(struct area_record) % AREA_UNIT == 0, "shared layout");
_Static_assert(sizeof(struct area_crash) == 672 && sizeof(struct area_crash) % AREA_UNIT == 0, "shared layout");
_Static_assert(sizeof(struct area_more) == 96 && sizeof(struct area_more) % AREA_UNIT == 0, "shared layout");

/* --- messages of the socket, SOCK_SEQPACKET --- */

struct area_hello { /* with the memfd */
	uint32_t magic, version;
	uint64_t size; /* AREA_SIZE */
};
/* In its place: a process that has no memory to share, and leaves it at that */
#define AREA_NONE_MAGIC 0x656e6f6e /* "none" */
struct area_none {
	uint32_t magic, version; /* AREA_VERSION */
	int64_t error;		 /* -errno */
};
/* What libpillion counts by itself: struct area_welcome.calls */
#define AREA_CALLS 1u	   /* calls (calltree_layout.h) */
#define AREA_CALLS_TIME 2u /* and the time they take */
#define AREA_CALLS_MAPS 4u /* what is mapped comes as AREA_MAPS: nothing else tells of it */
struct area_welcome {
	uint32_t magic, version;
	uint64_t alloc; /* bytes from sample to sample on average, 0: allocations are not sampled */
	uint64_t cpu;	/* ns of CPU time of a thread from sample to sample, 0: that is not sampled here */
	uint64_t calls; /* AREA_CALLS... */
	uint64_t crash; /* 1: of a signal that ends the process there is a record, 0: there is none */
};
/*
 * Then, from the process, a message of one byte where it has passed `wake`, and, if calls are counted, its trees: with
 * the memfd of the region.
 */
#define AREA_TREE_MAGIC 0x65657274 /* "tree" */
struct area_tree {
	uint32_t magic, version; /* AREA_VERSION */
	uint64_t size;		 /* TREE_SHARED_SIZE */
};
struct area_stop { /* the target is over: where the process itself has begun it. Answered by a welcome of nothing */
	uint32_t magic, reserved;
	uint64_t pad;
};

/* --- the process' side --- */

struct area {
	struct area_head *head;
	struct area_item *items;
	uint8_t *bytes;
	struct area_slot *slots;
	struct area_set *sets;
	struct area_change *changes;
};
void area_on(void *mapped, struct area *ret);

struct area_place {
	uint8_t *at; /* where its bytes go, contiguous */
	uint32_t number, start, size;
};
/* False: no room, which is counted. `ret_wake`: the reader wants to know. */
bool area_reserve(const struct area *a, uint32_t size, struct area_place *ret, bool *ret_wake);
void area_publish(const struct area *a, const struct area_place *p);
/* `size`: a multiple of 8. */
uint64_t area_sum(const void *bytes, size_t size, uint32_t number);
