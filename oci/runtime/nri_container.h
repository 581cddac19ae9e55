/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nri_container - from a call of the Node Resource Interface (oci/runtime/nri_ttrpc.h) to `struct container`, and the
 * answers that carry something. Parsing alone, no I/O; what is in it was written by tenants.
 *
 * For one container it comes to what the hook would find (oci/runtime/hook_input.h): the same verdicts in the same
 * order. Annotations are the container's, and over them the Pod's; names are the container's and the Pod's own. The
 * service's name is the annotation app.kubernetes.io/name, as for the hook, else the Pod's label of that name. A
 * runtime calls when the init is parked in its own root file system: `root` and `bundle` are "/".
 *
 * A message that makes no sense is DECISION_INVALID with a reason: what it is about starts without a profile.
 */
#pragma once

#include "oci/base/protobuf.h"
#include "oci/runtime/container.h"
#include "oci/runtime/nri_ttrpc.h"

#include <stdbool.h>

/* 0 with ret->verdict, or -ENOMEM. CreateContainer has no pid yet, and none is asked for; of StateChange the message
 * alone. */
int nri_container(enum nri_call call, const void *payload, size_t len, struct container *ret);

uint32_t nri_event(const void *payload, size_t len); /* of StateChange; 0: of none */
bool nri_more(const void *payload, size_t len);	     /* of Synchronize: there is more to come */
/* Of Configure. `ret_config`: the plugin's configuration, cut. Milliseconds that an answer may take, 0: it does not
 * say. */
uint32_t nri_configuration(const void *payload, size_t len, char *ret_config, size_t size);

/*
 * What makes the runtime call our hook for a container: the hook at createRuntime and poststop, and what it goes by,
 * the annotations of the Pod that are ours (of which containerd passes on none by itself). `o` is full where that is
 * too much.
 */
struct nri_hook {
	const char *path;
	const char *const *args; /* behind its name; ends with NULL */
	uint32_t timeout_s;
};
void nri_injection(const void *payload, size_t len, const struct nri_hook *hook, struct pb_out *o);
