/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nri_client - the part of pillion-nri that speaks with the runtime (oci/runtime/nri_ttrpc.h), a process for each
 * connection.
 *
 * Who we are: a child of the starter, which is root. Before the first byte from the runtime is read, we are user
 * pillion (or nobody) without a capability, in a seccomp role with two sockets and no paths, with 64 MiB of memory.
 * What the runtime passes on was written by tenants, and is parsed here; the starter gets a struct of fixed size for
 * each container that asks for a profile.
 *
 * What we promise the runtime: an answer to every call, at once where nothing is to be done, else when the starter has
 * answered, at the latest after `budget_ms` and a little, or seven eighths of what the runtime waits for (2 s by
 * default; behind that it drops us). Never an error for a failure of ours: it would fail the container's start.
 *
 * Synchronize, which tells what runs already, is answered and its contents are left alone: what was profiled when the
 * last talker ended is profiled by pilliond still, and what was not has begun without us (`pillion attach` is for
 * that).
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
