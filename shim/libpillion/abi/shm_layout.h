/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shm_layout - the memory that a process and its profiler share: samples on their way, and the list of sampled memory
 * in use.
 *
 * The process makes it, a memfd of one size sealed against any other, and passes it when it connects. A process that
 * connects to another profiler passes it again, and nothing is lost. Layout: struct shm_head, then SHM_ITEMS struct
 * shm_item, SHM_BYTES of records, SHM_SLOTS struct shm_slot, SHM_SETS struct shm_set, SHM_CHANGES struct shm_change.
 *
 * Records: a writer reserves space (shm_reserve) by one compare-and-swap that moves both numbers of `tail`, writes,
 * then publishes its item (shm_publish). It takes no lock, so it may die, be stopped or leave by longjmp at any
 * instruction and blocks no other writer: the reader skips an item that is not published for a while. If such a writer
 * wakes up when its bytes belong to another record, that record's sum is wrong, and the reader drops it. Without room,
 * `lost` counts the record.
 *
 * The reader copies by pread(2) and reports its position by pwrite(2) (`read`): it maps nothing that another process
 * can take away. It trusts none of it (profiler/inproc/shm_reader.h).
 *
 * CPU time (shim/libpillion/cputime/cpu_timers.h): `cpu` is all CPU time of the process; its samples stand for the part
 * that was seen. The process sends its mappings as text before the first of them, and again when the reader (`maps`) or
 * the process itself meets an unknown address.
 *
 * Labels (labels.h): sets of labels, by number, and the last SHM_CHANGES changes of a thread's set, in a ring whose
 * writers wait for no reader: a late reader loses some.
 *
 * Slots: the sampled allocations that have not been freed. The thread that frees one empties its slot: no record tells
 * of it, and none can be lost. A slot in use without a record at the reader is memory of an unknown place.
 */
#pragma once

#include "shim/libpillion/abi/abi_arch.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHM_MAGIC 0x61657261 /* "area" */
#define SHM_VERSION 3
#define SHM_UNIT 16 /* bytes: where records begin */
#define SHM_ITEMS 2048
#define SHM_BYTES (2u << 20)
#define SHM_SLOTS (1u << 20) /* a page is allocated at its first use */
#define SHM_RECORD_MAX (48u << 10)
#define SHM_SETS 1024
#define SHM_CHANGES 8192

/* Number of items, and of SHM_UNITs of records. Both only grow, and wrap. */
#define SHM_AT(items, units) ((uint64_t)(items) | (uint64_t)(units) << 32)
#define SHM_AT_ITEMS(at) ((uint32_t)(at))
#define SHM_AT_UNITS(at) ((uint32_t)((at) >> 32))

struct shm_head {
	uint32_t magic, version;
	uint32_t pid; /* as the process itself knows it */
	uint32_t reserved;
	uint64_t cookie; /* of this process, until it execs */
	uint64_t cpu;	 /* ns of the process' CPU clock when last read; an exec does not reset it */
	uint64_t tail __attribute__((aligned(64))); /* SHM_AT, by writers */
	uint64_t lost;				    /* records that found no room */
	uint64_t last_id;			    /* last id of a slot */
	uint64_t slots;				    /* 1 + the highest slot that was ever used */
	uint64_t awaited; /* bytes allocated before a profiler had said what it wants: none of them is sampled */
	uint64_t read __attribute__((aligned(64))); /* SHM_AT, by the reader */
	uint64_t wake;				    /* SHM_AT_UNITS of the tail at which the reader wants to be woken */
	uint64_t maps;				    /* counts the reader's requests for mappings */
	uint64_t cpu_read, awaited_read;	    /* parts of `cpu` and `awaited` in the reader's account */
	uint64_t changes __attribute__((aligned(64))); /* number of label changes, by writers */
} __attribute__((aligned(4096)));

struct shm_item {
	uint32_t number; /* number of this item plus 1: it is published */
	uint32_t start;	 /* SHM_AT_UNITS of its first byte */
	uint32_t size;
	uint32_t reserved;
	uint64_t sum; /* shm_sum() of its bytes */
	uint64_t pad;
};

/* `at` is written last and emptied first. */
struct shm_slot {
	uint64_t at; /* 0: empty; SHM_SLOT_TAKEN: about to be written */
	uint64_t id; /* never used twice */
	uint64_t bytes;
	uint64_t reserved;
};
#define SHM_SLOT_TAKEN 1

/* The labels of a set, by its number (from 1 on); never changed once it has a size. */
struct shm_set {
	uint32_t size; /* written last; 0: there is none */
	uint32_t reserved;
	char text[1592]; /* label_text.h */
};

struct shm_change {
	uint64_t number; /* number of this change plus 1: it is there */
	uint64_t time;	 /* CLOCK_MONOTONIC, ns */
	uint32_t tid, set;
};

#define SHM_ITEMS_AT sizeof(struct shm_head)
#define SHM_BYTES_AT (SHM_ITEMS_AT + SHM_ITEMS * sizeof(struct shm_item))
#define SHM_SLOTS_AT (SHM_BYTES_AT + SHM_BYTES)
#define SHM_SETS_AT (SHM_SLOTS_AT + (uint64_t)SHM_SLOTS * sizeof(struct shm_slot))
#define SHM_CHANGES_AT (SHM_SETS_AT + SHM_SETS * sizeof(struct shm_set))
#define SHM_SIZE (SHM_CHANGES_AT + SHM_CHANGES * sizeof(struct shm_change))

enum shm_kind { SHM_ALLOC = 1, SHM_CPU, SHM_MAPS, SHM_CRASH, SHM_KINDS };

/*
 * A sample: `more` bytes follow, then `stack` bytes of stack from regs.sp on. SHM_MAPS: `stack` bytes of text instead,
 * the whole lines of proc_pid_maps(5) that are of code; only kind, tid, time and both sizes are set.
 */
struct shm_record {
	uint32_t kind; /* enum shm_kind */
	uint32_t tid;
	uint64_t time; /* CLOCK_MONOTONIC, ns */
	struct shm_regs regs;
	uint64_t bytes; /* SHM_ALLOC: of the allocation; SHM_CPU: ns that it stands for */
	uint64_t id;	/* id of its slot; 0: it has none */
	uint32_t stack, more;
	uint64_t labels; /* the number of the thread's set; 0: it has none */
};
/* Follows if there is no other source about threads; else `more` is 0. SHM_CRASH: struct shm_crash. */
struct shm_more {
	struct shm_more_regs regs; /* SHM_CPU */
	char name[16];		   /* of the thread */
	uint64_t pad;
};
/* A signal that ends the process (crash_handler.h), from its siginfo_t and its context. */
#define SHM_CALLS_MAX 64
struct shm_crash {
	struct shm_more more;
	uint32_t signal;
	int32_t code;	       /* si_code */
	uint64_t address;      /* si_addr, of a fault */
	uint32_t sender, user; /* si_pid, si_uid: of a signal that a process sent */
	uint64_t flags;	       /* of the CPU */
	uint64_t trap, error;  /* the exception and its error code */
	uint64_t calls_n, pad;
	uint64_t calls[SHM_CALLS_MAX]; /* active functions by the instrumented program's own account (calltree.h),
					  innermost first */
};

_Static_assert(sizeof(struct shm_head) == 4096, "shared layout");
_Static_assert(sizeof(struct shm_item) == 32 && SHM_BYTES_AT % 4096 == 0, "shared layout");
_Static_assert(sizeof(struct shm_slot) == 32 && SHM_SLOTS_AT % 4096 == 0, "shared layout");
_Static_assert(sizeof(struct shm_set) == 1600 && SHM_SETS_AT % 4096 == 0, "shared layout");
_Static_assert(sizeof(struct shm_change) == 24 && SHM_CHANGES_AT % 4096 == 0 && SHM_SIZE % 4096 == 0, "shared layout");
_Static_assert(sizeof(struct shm_record) == 48 + sizeof(struct shm_regs) && sizeof(struct shm_record) % SHM_UNIT == 0,
	"shared layout");
_Static_assert(sizeof(struct shm_crash) == 576 + sizeof(struct shm_more) && sizeof(struct shm_crash) % SHM_UNIT == 0,
	"shared layout");
_Static_assert(sizeof(struct shm_more) == 24 + sizeof(struct shm_more_regs) && sizeof(struct shm_more) % SHM_UNIT == 0,
	"shared layout");

/* --- messages of the socket, SOCK_SEQPACKET --- */

struct shm_hello { /* with the memfd */
	uint32_t magic, version;
	uint64_t size; /* SHM_SIZE */
};
/* Instead of it: the process has no memory to share, and will not try again */
#define SHM_NONE_MAGIC 0x656e6f6e /* "none" */
struct shm_none {
	uint32_t magic, version; /* SHM_VERSION */
	int64_t error;		 /* -errno */
};
/* Bits of struct shm_welcome.calls: libpillion counts by itself */
#define SHM_CALLS 1u	  /* calls (calltree_layout.h) */
#define SHM_CALLS_TIME 2u /* and the time they take */
#define SHM_CALLS_MAPS 4u /* mappings come as SHM_MAPS: there is no other source */
struct shm_welcome {
	uint32_t magic, version;
	uint64_t alloc; /* bytes from sample to sample on average; 0: no samples of allocations */
	uint64_t cpu;	/* ns of CPU time of a thread from sample to sample; 0: no samples of CPU time here */
	uint64_t calls; /* SHM_CALLS... */
	uint64_t crash; /* 1: send a record of a signal that ends the process; 0: do not */
};
/*
 * Then the process sends one byte when it has passed `wake` and, if calls are counted, this message with the memfd of
 * its trees.
 */
#define SHM_TREE_MAGIC 0x65657274 /* "tree" */
struct shm_tree {
	uint32_t magic, version; /* SHM_VERSION */
	uint64_t size;		 /* of the memory that is passed */
};
struct shm_stop { /* the process ends the target that it has begun. The answer is a welcome with zeros */
	uint32_t magic, reserved;
	uint64_t pad;
};

/* --- the process' side --- */

struct shm {
	struct shm_head *head;
	struct shm_item *items;
	uint8_t *bytes;
	struct shm_slot *slots;
	struct shm_set *sets;
	struct shm_change *changes;
};
void shm_on(void *mapped, struct shm *ret);

struct shm_place {
	uint8_t *at; /* where its bytes go, contiguous */
	uint32_t number, start, size;
};
/* False: no room, which is counted. `ret_wake`: wake the reader. */
bool shm_reserve(const struct shm *a, uint32_t size, struct shm_place *ret, bool *ret_wake);
void shm_publish(const struct shm *a, const struct shm_place *p);
/* `size`: a multiple of 8. */
uint64_t shm_sum(const void *bytes, size_t size, uint32_t number);
