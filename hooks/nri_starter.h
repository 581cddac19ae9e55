/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nri_starter - the part of pillion-nri that does the hook's work for one container, in a child of its own: kill
 * switch, settings and policy anew, then the hook's opener (shim/attach/opener.h) with a container that is known
 * already.
 *
 * Privileges: root of the host. The talker asks, and is not trusted: the struct is checked (container_check), and the
 * pid must be the parked init of that very container (oci/runtime/init_check.h). So a talker that was taken over can do
 * no worse than a tenant's annotation: have a container profiled that is about to start, within policy.
 *
 * The answer is sent when the container is armed or is not going to be; a start never fails for it, also not under
 * `strict`: a runtime takes a plugin that is gone for one that agrees, so strict could not be kept.
 */
#pragma once

#include "hooks/nri_messages.h"

struct nri_starter_spec {
	const char *etc;
	int argc; /* the flags, [0] is not looked at */
	char **argv;
	int pair;
};
_Noreturn void nri_start(const struct nri_starter_spec *spec, const struct nri_ask *ask);
