/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hook_input_child - runs the reader where it can do no harm: a forked child without capabilities, under seccomp and
 * resource limits, that turns a hook's input into one fixed struct.
 *
 * It is forked by the hook, which is root, and gives up every capability before it touches a byte of the input. It
 * stays uid 0 only to read a bundle that is mode 0700: it can open root's files for reading, and nothing else.
 * Before that it opens the config.json of the working directory, for bundles that belong to a container's own root.
 */
#pragma once

#include "oci/runtime/container.h"

struct hook_input_child {
	pid_t child;
	int said;		  /* pipe: the init's pid, then a byte when the answer is there */
	struct container *answer; /* shared memory */
};

/* Forks the reader: it reads state JSON from `state_fd` (borrowed), then the bundle's config.json. 0 or -errno. */
int hook_input_child_start(struct hook_input_child *in, int state_fd, struct err *e);

/* Forks no reader: gives `c` as its answer, which is checked as a reader's would be. 0 or -errno. */
int hook_input_child_answered(struct hook_input_child *in, const struct container *c, struct err *e);

/* The next two may be called in another child of the process that forked the reader. */
/* Waits until the reader has read the state. Returns the init's pid if a profile is still possible; else 0, and
 * hook_input_child_finish says why. */
pid_t hook_input_child_asked(struct hook_input_child *in, int64_t deadline);
/* Waits for the answer. 0 with *ret checked (container_check); -EBADMSG; -EPIPE: there is none, see
 * hook_input_child_explain. */
int hook_input_child_finish(struct hook_input_child *in, int64_t deadline, struct container *ret, struct err *e);

/* Says how the reader ended without an answer: -ETIMEDOUT (it is killed then), -ENOMEM, -EIO. */
int hook_input_child_explain(struct hook_input_child *in, int64_t deadline, struct err *e);
void hook_input_child_unmap(struct hook_input_child *in); /* in another child: forgets the answer */
void hook_input_child_done(struct hook_input_child *in);  /* leaves no process */
