/* SPDX-License-Identifier: Apache-2.0 */
/*
 * container - all that is known of a container before its first instruction, as one struct of fixed size.
 *
 * An unprivileged child fills it from hostile text, and the privileged parent, which trusts nothing, checks it again:
 * so it holds no pointers, and every string is NUL-terminated within its array.
 */
#pragma once

#include "oci/config/options.h"

#include <stdint.h>
#include <sys/types.h>

#define CONTAINER_MAGIC 0x316e6f63  /* "con1" */
#define CONTAINER_PID_MAX (1 << 22) /* PID_MAX_LIMIT, include/linux/threads.h */

enum profile_decision {
	DECISION_UNDECIDED, /* only between the two steps of oci/runtime/hook_input.h: config.json decides */
	DECISION_PROFILE,   /* asked for, and understood */
	DECISION_OFF,	    /* not annotated, or "off" */
	DECISION_SANDBOX,   /* a pause container */
	DECISION_INVALID,   /* `reason` says why */
};

struct container {
	uint32_t magic, size;
	uint32_t verdict; /* enum profile_decision */
	uint32_t stopped; /* the state's status is "stopped": the container has ended */
	int32_t pid;	  /* of the init, in the runtime's pid namespace; 0 = not known */
	char id[256];	  /* [A-Za-z0-9_+.-]+, runtime-spec and runc/crun's own rule */
	char bundle[4096];
	char root[4096];    /* root.path of config.json made absolute with the bundle */
	char exe[4096];	    /* process.args[0], "" if absent; may hold any bytes */
	char sidecar[4096]; /* host path that is mounted at /run/pillion (shim/attach/sidecar.h), "" if there is none */
	/* The names below are printable ASCII: anything else became '?' */
	char name[256]; /* container name if a runtime tells it, else "" */
	char pod[256];
	char pod_namespace[256];
	char service[256]; /* app.kubernetes.io/name, else "" */
	struct request request;
	char warning[320]; /* e.g. an unknown io.pillion.* annotation */
	char reason[320];
};

void container_init(struct container *c); /* all zero but magic and size */

/*
 * Copies a name that a runtime tells into one of the fields above: made printable, because names go to logs, labels and
 * file names, and cut if it does not fit. Returns the bytes copied.
 */
#define CONTAINER_NAME_SIZE sizeof(((struct container *)0)->name)
size_t container_name_copy(char *to, const char *text, size_t len);

/* Can the id be a file name and a cgroup name: the rule above, and neither "." nor ".."? */
bool container_id_valid(const char *id);

/*
 * Is this container the one of `one_in` that is profiled (policy: sample_containers)? By a hash of the id alone: every
 * stage of a container's life, and every node, gets the same answer.
 */
bool container_sampled(const char *id, uint32_t one_in);

/*
 * Returns 0 or -EBADMSG. Always checks: magic, size, a final verdict, strings terminated, names and sentences
 * printable. With DECISION_PROFILE also: a valid id, bundle and root absolute, 1 < pid <= CONTAINER_PID_MAX, and the
 * enums, counts and labels of the request in range. Otherwise those fields may be empty, or be anything.
 */
int container_check(const struct container *c);
