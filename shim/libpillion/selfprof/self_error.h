/* SPDX-License-Identifier: Apache-2.0 */
/*
 * self_error - the sentence behind a negative errno of the self-profiling calls: of the calling thread's last failure.
 */
#pragma once

/* The sentence, from a format of %s, %d (long) and %% alone; what is too long is cut off. Returns `error`. */
int self_fail(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* What perf_event_open(2) said, of whom (NULL: of an event) it said so, and what lets it through. */
int self_fail_open(int error, const char *what);
/* RLIMIT_NOFILE, fs.file-max */
int self_fail_descriptors(int error, const char *what);
