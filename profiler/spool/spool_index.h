/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spool_index - the index of the spool, for readers: <spool>/index.jsonl, mode 0640, a line of JSON per profile:
 *
 *	{"file":"web/20260101T000000Z-000000-cpu.pb.gz","id":"8f2e...","name":"web","pod":"","namespace":"",
 *	 "event":"cpu","seq":0,"start_ns":1767225600000000000,"duration_ns":60000000000,"samples":5940,"bytes":20480}
 *
 * "file" is below the spool and always first; start_ns is since the epoch. If only the file of a profile is known (its
 * writer died, an older version wrote it), the line has the data in its name, and null for the rest.
 *
 * A line is appended by one write(2), so lines of several writers (a service, sessions) do not mix; a process that
 * appends or rewrites holds a flock(2), but no process waits for it for long. The index is rewritten (temporary file,
 * rename) when it does not match the directory: at a start, and some time after files were removed. So a line may be
 * there for a file that has just gone, and a reader may meet the last line half written: it is one without a newline.
 *
 * A lost index is made anew from the directory: the files are the spool, not the index. A process that can write to the
 * spool is trusted no more for that: lines are bytes, and are kept or dropped by the path at their beginning.
 */
#pragma once

#include "profiler/spool/exporter_client.h"
#include "profiler/spool/spool.h"

#define SPOOL_INDEX_FILE "index.jsonl"
#define SPOOL_INDEX_MAX (64u << 20) /* bytes; a larger one is made anew */

/* Appends a line. 0 or -errno; then there is no such line, or a part without newline that spool_index_match drops. */
int spool_index_append(int dir, const struct export_profile *p, const char *file, uint64_t bytes);
/*
 * Makes the index match the directory: one line for each file that is there, the last of several. Writes nothing if it
 * matches already. *ret_lines (may be NULL). 0 or -errno; then it is as it was.
 */
int spool_index_match(const struct spool *s, size_t *ret_lines);
