/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spool_index - what lies in the spool, for those who read it: <spool>/index.jsonl, mode 0640, a line of JSON per
 * profile:
 *
 *	{"file":"web/20260101T000000Z-000000-cpu.pb.gz","id":"8f2e...","name":"web","pod":"","namespace":"",
 *	 "event":"cpu","seq":0,"start_ns":1767225600000000000,"duration_ns":60000000000,"samples":5940,"bytes":20480}
 *
 * "file" is below the spool and always first; start_ns is since the epoch. Of a profile that came without a word (its
 * writer died, an older version wrote it) the line has what its name says, and null for the rest.
 *
 * A line is appended by one write(2), so lines of several writers (a service, sessions) do not mix; who appends or
 * rewrites holds a flock(2), but nobody waits for it for long. It is rewritten (temporary file, rename) when it does
 * not match the directory: at a start, and some time after files were removed. So a line may be there for a file that
 * has just gone, and a reader may meet the last line half written: it is one without a newline.
 *
 * It is made from the directory where it is lost: the files are the spool, not the index. Whoever can write to the
 * spool is trusted no more for that: lines are bytes, and are kept or dropped by the path at their beginning.
 */
#pragma once

#include "profiler/spool/exporter_client.h"
#include "profiler/spool/spool.h"

#define SPOOL_INDEX_FILE "index.jsonl"
#define SPOOL_INDEX_MAX (64u << 20) /* bytes; a larger one is made anew */

/* 0 or -errno; then there is no such line, or a part without newline that spool_index_match drops. */
int spool_index_append(int dir, const struct export_profile *p, const char *file, uint64_t bytes);
/*
 * One line for each file that is there, the last of several. Nothing is written when that is so already. *ret_lines
 * (may be NULL). 0 or -errno; then it is as it was.
 */
int spool_index_match(const struct spool *s, size_t *ret_lines);
