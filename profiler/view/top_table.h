/* SPDX-License-Identifier: Apache-2.0 */
/*
 * top_table - the functions with the largest self time, as a table: flat, flat%, sum%, cum, cum%, name (the columns of
 * `go tool pprof -top`). Every line of a location (inlined function) counts as a frame: flat is the value of the
 * innermost line of the leaf. A recursive function counts once per sample in cum. Functions with the same name are one
 * row; those without any value have none. Equal self times are ordered by cum, then by name.
 */
#pragma once

#include "profiler/pprof/profile.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define TOP_ALL SIZE_MAX

/* type: index of the sample type. 0, -EINVAL (no such type), -ENOMEM, -EIO (`out` takes no more). */
int top_write(const struct profile *p, unsigned type, size_t rows, FILE *out);
/*
 * Prints the header of the table: target, start, duration, totals, and every comment (losses among them). `source`: the
 * target's name if no label has it.
 */
int top_header(const struct profile *p, const char *source, FILE *out);
void top_targets(const struct profile *p, const char *source, FILE *out); /* their names: "web, db" */
/* "1.23s", "450ms", "12.50MiB", "17": `value` in `unit` for a person; `buf` is returned. */
const char *top_amount(int64_t value, const char *unit, char *buf, size_t size);
struct top_view {
	unsigned type;
	bool by_cum;	   /* largest cum first; else the largest flat */
	size_t skip, rows; /* rows skipped at the top; rows shown at most */
	unsigned columns;  /* lines are cut there; 0: never */
	bool bare;	   /* without the line that says how many more there are */
};
/* ret_n (or NULL): how many functions there are. As top_write. */
int top_write_view(const struct profile *p, const struct top_view *v, size_t *ret_n, FILE *out);
