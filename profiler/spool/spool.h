/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spool - the directory of finished windows: <dir>/<target>/<UTC start>-<seq>-<kind>.pb.gz, mode 0640. The name of a
 * target's directory: spool_target.h.
 *
 * A file appears whole (temporary name in the same directory, fsync, rename) or not at all. Everything goes through one
 * directory descriptor opened at the start, so it works under seccomp and after privileges are gone. Caps: bytes and
 * age, oldest first, applied before a write. Bytes are those of the disk: whole blocks of 4 KiB, and one for each
 * directory, of a target or above it; so a spool is bounded in files too (a short container's profile has a few hundred
 * bytes: 1 GiB is at most 131,072 of those, and 100 bytes of memory each). A full disk loses this profile, says so
 * (-ENOSPC), removes its temporary file, and the next write tries again. Several processes may write to one spool
 * (sessions do); each counts and removes the files that it saw, so the cap on bytes is exact for a single writer only.
 *
 * Only files with names of this form are counted and removed; others are left alone. Age counts from the start of the
 * window, as the name has it.
 */
#pragma once

#include "oci/base/err.h"
#include "profiler/spool/spool_target.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct spool;

/*
 * Opens a spool. dir: an open directory (taken, also on failure). Temporary files of processes that are gone are
 * removed. A cap of 0: none.
 */
int spool_open_take(int dir, uint64_t cap_bytes, uint32_t cap_age_s, struct spool **ret, struct err *e);
/*
 * Writes a profile. target: a path from spool_target_path(); any other text becomes one safe name. start_ns: since the
 * epoch. kind: "cpu". ret_path (may be NULL): "<target>/<file>" relative to the spool. If that name is taken (a restart
 * within the second, two containers of one name), the next free `seq` is used; but a file of one of those names with
 * the same bytes is this profile, from a writer that could not report it any more: returns 1, and writes nothing. Else
 * 0. -EFBIG: more than the whole spool may hold.
 */
int spool_write(struct spool *s, const char *target, int64_t start_ns, unsigned seq, const char *kind, const void *data,
	size_t len, char *ret_path, size_t size, struct err *e);
void spool_limit(struct spool *s, uint64_t cap_bytes, uint32_t cap_age_s); /* other caps, from the next write on */
uint64_t spool_bytes(const struct spool *s);				   /* held now, of the disk */
size_t spool_files(const struct spool *s);
uint64_t spool_removed(const struct spool *s); /* files, by caps, so far */
/* Removes files beyond the caps. Each write does that first anyway. */
void spool_tidy(struct spool *s);
/* Returns the i-th of spool_files(), oldest first; borrowed until the next write. *ret_bytes: of the file. */
const char *spool_file(const struct spool *s, size_t i, uint64_t *ret_bytes);
int spool_dir(const struct spool *s); /* borrowed */
struct spool *spool_close(struct spool *s);

/* For readers: returns whether the name is that of a profile's file, and its start. */
bool spool_parse_name(const char *name, int64_t *ret_start_s);
/* Returns the event in "<UTC start>-<seq>-<event>.pb.gz", with the text behind it; NULL: there is none. */
const char *spool_event(const char *name, size_t *ret_len);
/*
 * The name of this process' unfinished file in a directory; and whether a file is unfinished and its writer is gone:
 * other sessions may be writing just now.
 */
void spool_temporary(char ret[static 32]);
bool spool_left_over(const char *file);
