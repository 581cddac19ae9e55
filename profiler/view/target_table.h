/* SPDX-License-Identifier: Apache-2.0 */
/*
 * target_table - a service's list of its targets (profiler/target/target_list.h): collected, as a table for people, as
 * JSON.
 *
 * The table's columns and the JSON's keys are one table each; keys stay as they are, new ones may come. Names come from
 * containers: they are made safe for a terminal and for JSON as they are collected.
 */
#pragma once

#include "shim/protocol/messages.h"

#include <stdbool.h>
#include <stdio.h>

#define TARGET_TABLE_MAX 10000 /* more than any service has: a longer list is not from a service */

struct target_table { /* all zero: nothing */
	struct target_row *targets;
	size_t n, room;
	struct target_totals sums;
	uint64_t sampling_us; /* of sums.minute_us */
	char spool[1016];
};

/* Adds a page: 1 when it was the last, else 0; -E2BIG, -ENOMEM. */
int target_table_add(struct target_table *l, const struct msg_listing *page);
/* Asks a connected service for all pages. 0, or -errno with a sentence. */
int target_table_ask(int sock, int64_t deadline, struct target_table *l, struct err *e);
void target_table_done(struct target_table *l);

/*
 * Header, a line for each target and one of sums; without targets the header alone. full: ids, names and paths are not
 * cut. 0, -EIO.
 */
int target_table_write(const struct target_table *l, bool full, FILE *out);
/* An array with an object for each target. 0, -ENOMEM, -EIO. */
int target_table_json(const struct target_table *l, FILE *out);
/* Returns `buf` with the table's cell of a target under this title ("STATE"); "-": empty. */
#define TARGET_TABLE_CELL_MAX 2048
const char *target_table_cell(const struct target_table *l, const struct target_row *t, const char *title, char *buf);
