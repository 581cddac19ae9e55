/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pprof - profile <-> gzip'ed profile.proto (github.com/google/pprof/proto), through protobuf-c and zlib.
 *
 * Consumers need: ids are index + 1; string 0 is ""; one value per sample type; default_sample_type is
 * profile_default_type(); per-mapping has_functions and its like (enum profile_has); every location has a line with a
 * named function; file names that begin with '[' are never symbolized again; label keys appear once per sample. Equal
 * profiles give equal bytes.
 */
#pragma once

#include "oci/base/err.h"
#include "profiler/pprof/profile.h"

#define PPROF_READ_MAX (256u << 20) /* bytes after decompression that pprof_read accepts */

/* *ret is malloc'ed. 0 or -ENOMEM. */
int pprof_write(const struct profile *p, uint8_t **ret, size_t *ret_len);
/*
 * Reads gzip'ed or plain bytes; a foreign but valid file (Go's, perf's) is read too. Dropped are lines and labels
 * beyond the number that a profile holds (a comment says so), line numbers beyond 32 bits, and columns. A file's
 * default sample type stays; without one it is the last type. A sample without a stack gets "[no stack]". As go tool
 * pprof does, it reads a location of a mapping that is not in the file as one without a mapping, and leaves out frames
 * that the file's drop_frames hides (frame_drop.h). The bytes are hostile: -EBADMSG with a sentence for anything else,
 * -EFBIG over a cap.
 */
int pprof_read(const void *data, size_t len, struct profile **ret, struct err *e);
