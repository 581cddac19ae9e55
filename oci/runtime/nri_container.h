/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nri_container - from a call of the Node Resource Interface (oci/runtime/nri_ttrpc.h) to `struct container`, and the
 * answers that carry a payload. Parsing alone, no I/O; tenants write the contents.
 *
 * For one container it returns the same as the hook (oci/runtime/hook_input.h): the same verdicts in the same order.
 * The Pod's annotations win over the container's; names are the container's and the Pod's own. The service's name is
 * the annotation app.kubernetes.io/name, as for the hook, else the Pod's label of that name. A runtime calls when the
 * init is parked in its own root file system: `root` and `bundle` are "/".
 *
 * A malformed message is DECISION_INVALID with a reason: its container starts without a profile.
 */
#pragma once

#include "oci/base/protobuf.h"
#include "oci/runtime/container.h"
#include "oci/runtime/nri_ttrpc.h"

#include <stdbool.h>

/* 0 with ret->verdict, or -ENOMEM. CreateContainer has no pid yet, and needs none; of StateChange the event is not
 * looked at. */
int nri_container(enum nri_call call, const void *payload, size_t len, struct container *ret);

uint32_t nri_event(const void *payload, size_t len); /* of StateChange; 0: there is none */
bool nri_more(const void *payload, size_t len);	     /* of Synchronize: there is more to come */
/* Reads Configure. `ret_config`: the plugin's configuration, cut to `size`. Returns the milliseconds that an answer may
 * take, 0: not given. */
uint32_t nri_configuration(const void *payload, size_t len, char *ret_config, size_t size);

/*
 * Writes the answer to CreateContainer that makes the runtime call our hook: the hook at createRuntime and poststop,
 * and the annotations that it reads, the Pod's io.pillion.* (containerd passes on none of them by itself). `o` has
 * failed if the answer does not fit.
 */
struct nri_hook {
	const char *path;
	const char *const *args; /* after its name; ends with NULL */
	uint32_t timeout_s;
};
void nri_injection(const void *payload, size_t len, const struct nri_hook *hook, struct protobuf_writer *o);
