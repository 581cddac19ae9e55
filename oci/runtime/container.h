/* SPDX-License-Identifier: Apache-2.0 */
/*
 * container - what is known of a container before its first instruction, as one struct of fixed size.
 *
 * It is filled by an unprivileged child from hostile text and checked again by the privileged parent, which
 * believes nothing: so it holds no pointers, and every string is NUL-terminated within its array.
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
	DECISION_INVALID,   /* `reason` says what is wrong */
};

struct container {
	uint32_t magic, size;
	uint32_t verdict; /* enum profile_decision */
	uint32_t stopped; /* the state's status is "stopped": the container has ended */
	int32_t pid;	  /* of the init, in the runtime's pid namespace; 0 = not known */
	char id[256];	  /* [A-Za-z0-9_+.-]+, runtime-spec and runc/crun's own rule */
	char bundle[4096];
	char root[4096];    /* root.path of config.json made absolute with the bundle */
	char exe[4096];	    /* process.args[0], "" if absent; not cleaned */
	char sidecar[4096]; /* on the host, what is mounted at /run/pillion (shim/attach/sidecar.h), "" if nothing is */
	/* The names below are printable ASCII: anything else became '?' */
	char name[256]; /* container name where a runtime tells it, else "" */
	char pod[256];
	char pod_namespace[256];
	char service[256]; /* app.kubernetes.io/name, else "" */
	struct request request;
	char warning[320]; /* e.g. an unknown io.pillion.* annotation */
	char reason[320];
};

void container_init(struct container *c); /* all zero but magic and size */

/*
 * A name that a runtime tells, for one of the fields above: printable, and cut where it does not fit. Names go to logs,
 * labels and file names. Returns how many bytes are left of it.
 */
#define CONTAINER_NAME_SIZE sizeof(((struct container *)0)->name)
size_t container_name_copy(char *to, const char *text, size_t len);

/* An id that can be a file name and a cgroup name: the rule above, and neither "." nor "..". */
bool container_id_valid(const char *id);

/*
 * Is it the one of `one_in` that is profiled (policy: sample_containers)? By a hash of the id alone: every stage of a
 * container's life, and every node, comes to the same answer.
 */
bool container_sampled(const char *id, uint32_t one_in);

/*
 * 0 or -EBADMSG. Always: magic, size, a verdict that is final, strings terminated, names and sentences printable.
 * With DECISION_PROFILE also: a valid id, bundle and root absolute, 1 < pid <= CONTAINER_PID_MAX, and a request
 * whose enums, counts and labels are in range. Otherwise those fields may be empty, or be anything.
 */
int container_check(const struct container *c);
