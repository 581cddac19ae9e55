/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file_tail - where the last look at a growing file ended, and whether it is still that file.
 *
 * It is another one if device or inode differ, if it has become shorter, or if bytes that were read have changed: a
 * program may write its file anew in place (jcmd Compiler.perfmap does), and then it is rarely shorter.
 */
#pragma once

#include "profiler/elf/target_file.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define FILE_TAIL_SEEN 32

struct file_tail {	 /* all zero: nothing read yet */
	uint64_t offset; /* the bytes before it have been read */
	uint64_t size;	 /* of the file, when it was opened for the last look */
	bool begun;
	uint64_t dev, ino;
	uint64_t seen_at;
	size_t n_seen;
	char seen[FILE_TAIL_SEEN]; /* as it was there */
};

/* True: go on at t->offset. False: not the file of the last time, or the first time at all: t->offset is 0. */
bool file_tail_look(struct file_tail *t, const struct file *f);
/* Notes n > 0 bytes that have been read at t->offset, to compare them at the next look. */
void file_tail_seen(struct file_tail *t, const void *bytes, size_t n);
