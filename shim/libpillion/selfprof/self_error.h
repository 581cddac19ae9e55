/* SPDX-License-Identifier: Apache-2.0 */
/* self_error - the sentence for a negative errno of the self-profiling calls: of the calling thread's last failure. */
#pragma once

/* Makes the sentence, from a format of %s and %ld alone; the end is cut off if it is too long. Returns `error`. */
int self_fail(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Makes the sentence for an error of perf_event_open(2): `what` failed (NULL: an event), and how to permit it. */
int self_fail_open(int error, const char *what);
/* The same for RLIMIT_NOFILE and fs.file-max */
int self_fail_descriptors(int error, const char *what);
