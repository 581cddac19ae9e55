/* SPDX-License-Identifier: Apache-2.0 */
/*
 * supervisor_link - the worker's requests to its supervisor, through the channel between them (SOCK_SEQPACKET): the
 * supervisor has paths and holds copies of descriptors, the worker does not. -1 is no channel: nothing is sent.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum worker_request_kind {
	REQUEST_LIST_PROCESSES = 1, /* of a target, with a socket for the answer: a line "PID NAME" for each process in
				       its cgroup, PID as the target's own pid namespace has it */
	REQUEST_EXPORTER,	    /* a new one: the present one is no good */
	REQUEST_CLOSE_EVENT,	    /* that target's event of this index, for good */
	REQUEST_KEEP_MEMORY, /* a process's memory for a later worker: with its descriptor, or without, when it has
				gone; `index` tells which */
};
struct worker_request {
	uint32_t kind, number, index; /* enum worker_request_kind; number of the target */
};
#define PROCESS_LIST_MAX 4096 /* bytes of the answer */

void supervisor_request(int channel, const struct worker_request *r, int fd); /* fd -1: none */
/* Lists the processes in the cgroup of target `number`. Returns the bytes of `text`, which ends with NUL, or -errno. */
int supervisor_list_processes(int channel, uint32_t number, char *text, size_t size);
