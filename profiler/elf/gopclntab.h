/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gopclntab - Go's own table of functions: where each begins, its name, how far the stack pointer is from the frame at
 * every instruction, and the lines that it came from (src/runtime/symtab.go, src/internal/abi/symtab.go and
 * src/debug/gosym/pclntab.go of Go 1.2 and later; lines from 1.16 on). Go programs carry no .eh_frame for their own
 * code; the table stays when they are stripped. Since Go 1.26 the header does not say where the text begins: elf.c puts
 * it there.
 *
 * The bytes are hostile: a senseless value ends the list or leaves out a function.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GOPCLNTAB_STRING_MAX 4096 /* names and files that are longer, with their NUL, are ignored */

struct gopclntab {
	const uint8_t *data;
	size_t size;
	/* found in the header */
	uint64_t text;				  /* address of the first function */
	size_t n_funcs;				  /* at most as many as there is room for */
	uint64_t names, units, files, pcs, funcs; /* offsets */
	/* by version: where the list of functions begins, bytes of its fields and of a function's first field */
	uint64_t list;
	unsigned field;
	unsigned quantum; /* bytes of the shortest instruction */
};

struct gofunc {
	uint64_t start, end;
	uint64_t record;   /* offset of its further fields */
	uint32_t pcsp;	   /* offset of its stack deltas, from the table's beginning; 0 = none */
	bool is_root;	   /* it has no caller: the beginning of a goroutine or a thread */
	bool is_sigreturn; /* where a signal handler returns to */
	bool switches;	   /* to another stack: its caller is not above */
};

/* False: no such table, or of a version that we do not know. */
bool gopclntab_open(const uint8_t *data, size_t size, struct gopclntab *ret);
bool gopclntab_func(const struct gopclntab *t, size_t i, struct gofunc *ret);
/* The same without the flags: these depend on its name, which is elsewhere in memory. */
bool gopclntab_range(const struct gopclntab *t, size_t i, struct gofunc *ret);
/* The function around an address. */
bool gopclntab_find(const struct gopclntab *t, uint64_t address, struct gofunc *ret);
/* "main.work", valid as long as the table; NULL: none. For generic functions it has "[...]" in place of the types. */
const char *gopclntab_name(const struct gopclntab *t, const struct gofunc *f);
/* The line of the instruction at `address` in it; for an inlined function, the file and line of that function. */
bool gopclntab_line(
	const struct gopclntab *t, const struct gofunc *f, uint64_t address, const char **ret_file, uint32_t *ret_line);

/* The stretches of a function in which the stack pointer is `delta` bytes below where it was at its first instruction.
 */
struct godeltas {
	const uint8_t *p, *end;
	uint64_t pc;
	int64_t delta;
	unsigned quantum;
	bool first;
};
void godeltas_begin(const struct gopclntab *t, const struct gofunc *f, struct godeltas *ret);
/* The next one: from *ret_from to d->pc it is d->delta. False behind the last. */
bool godeltas_next(struct godeltas *d, uint64_t *ret_from);
