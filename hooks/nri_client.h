/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nri_client - the part of pillion-nri that speaks with the runtime (oci/runtime/nri_ttrpc.h), a process for each
 * connection: the talker.
 *
 * Privileges: the talker is a child of the starter, which is root. Before it reads the first byte from the runtime, it
 * becomes user pillion (or 65534) without a capability, in a seccomp role with two sockets and no paths, with 64 MiB of
 * memory. The runtime passes on text that tenants wrote: it is parsed here, and the starter gets a struct of fixed size
 * for each container that asks for a profile.
 *
 * Promise to the runtime: an answer to every call, at once where nothing is to be done, else when the starter has
 * answered, at the latest after `budget_ms` and a little, or seven eighths of the runtime's own timeout (2 s by
 * default; behind that it drops us). Never an error for a failure of ours: it would fail the container's start.
 *
 * Synchronize, which lists the running containers, is answered, and its contents are ignored: pilliond still profiles
 * those that it profiled when the last talker ended, and the others have begun without us (`pillion attach` is for
 * those).
 */
#pragma once

#include "oci/runtime/nri_container.h"

#include <stdbool.h>
#include <sys/types.h>

struct talker_spec {
	int trunk; /* connected to the runtime */
	int pair;  /* to the starter */
	pid_t starter;
	uint32_t budget_ms;
	const char *name, *index; /* of the plugin */
	bool inject;		  /* not attach: let the runtime call this hook */
	struct nri_hook hook;
};

_Noreturn void talker_run(const struct talker_spec *spec);
