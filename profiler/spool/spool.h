/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spool - the directory of finished windows: <dir>/<target>/<UTC start>-<seq>-<kind>.pb.gz, mode 0640. What a target's
 * directory is called: spool_target.h.
 *
 * A file appears whole (temporary name in the same directory, fsync, rename) or not at all. Everything goes through one
 * directory descriptor opened at the start, so it works under seccomp and after privileges are gone.
 * Caps: bytes and age, oldest first, applied before a write. Bytes are those of the disk: whole blocks of 4 KiB, and
 * one for each directory, of a target or above it; so what a spool can hold is bounded in files too (a short
 * container's profile has a few hundred bytes: 1 GiB is at most 131,072 of those, and 100 bytes of memory each). A full
 * disk loses this profile, says so (-ENOSPC), removes its temporary file, and the next write tries again. Several
 * processes may write to one spool (sessions do); each counts and removes by what it saw, so the cap on bytes is exact
 * for a single writer only.
 *
 * Only files with names of this form are counted and removed; what else lies there is left alone. Age counts from the
 * start of the window, as the name has it.
 */
#pragma once

#include "oci/base/err.h"
#include "profiler/spool/spool_target.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct spool;

/* dir: an open directory (taken, also on failure). Temporary files of processes that are gone are removed. A cap of 0:
 * none. */
int spool_open_take(int dir, uint64_t cap_bytes, uint32_t cap_age_s, struct spool **ret, struct err *e);
/*
 * target: what spool_target_path() made; any other text becomes one safe name. start_ns: since the epoch.
 * kind: "cpu". ret_path (may be NULL): "<target>/<file>" relative to the spool. If that name is taken (a
 * restart within the second, two containers of one name), the next free `seq` is used; but a file of one of those names
 * that has these very bytes is this profile, written by somebody who could not say so any more: 1, and nothing is done.
 * Else 0. -EFBIG: more than the whole spool may be.
 */
int spool_write(struct spool *s, const char *target, int64_t start_ns, unsigned seq, const char *kind, const void *data,
	size_t len, char *ret_path, size_t size, struct err *e);
void spool_limit(struct spool *s, uint64_t cap_bytes, uint32_t cap_age_s); /* other caps, from the next write on */
uint64_t spool_bytes(const struct spool *s);				   /* held now, of the disk */
size_t spool_files(const struct spool *s);
uint64_t spool_removed(const struct spool *s); /* files, by caps, so far */
/* What is too old or too much goes. Before each write that is done anyway. */
void spool_tidy(struct spool *s);
/* The i-th of spool_files(), oldest first; borrowed until the next write. *ret_bytes: of the file. */
const char *spool_file(const struct spool *s, size_t i, uint64_t *ret_bytes);
int spool_dir(const struct spool *s); /* borrowed */
struct spool *spool_close(struct spool *s);

/* What readers need of its names: is it a profile's file, and of when? */
bool spool_parse_name(const char *name, int64_t *ret_start_s);
/* The event in "<UTC start>-<seq>-<event>.pb.gz", with what is behind it; NULL: there is none. */
const char *spool_event(const char *name, size_t *ret_len);
/* What this process' unfinished file in a directory is called; and one that is unfinished, and whoever wrote it is
 * gone: other sessions may be writing just now. */
void spool_temporary(char ret[static 32]);
bool spool_left_over(const char *file);
