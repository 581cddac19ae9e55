/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hook_input - from a runtime's hook input to `struct container`: state JSON on a descriptor, config.json in the
 * bundle that it names (runtime-spec: runtime.md "State", config.md).
 *
 * Parsing alone, no I/O: the caller reads at most STATE_MAX + 1 and CONFIG_MAX + 1 bytes and hands them over; what is
 * longer is refused here with a sentence. Hostile input: JSON_DEPTH and JSON_VALUES bound the parser, an
 * annotation's value is at most 4 KiB. Nothing is allocated beyond the parsed documents.
 *
 * Annotations are those of the state over those of config.json (the state MAY leave them out). Names come from
 * the first row that matches of one table: CRI containerd, CRI-O, podman, nerdctl; without a row the name is "".
 * A sandbox is io.kubernetes.cri.container-type or io.kubernetes.cri-o.ContainerType = "sandbox".
 *
 * What decides, in this order:
 *	1. DECISION_OFF		no io.pillion.profile for this container, or "off": nothing else is looked at
 *	2. DECISION_SANDBOX	a pause container
 *	3. DECISION_INVALID	id, pid, bundle or root are missing or bad (the pid is absent after the end: poststop)
 *	4. DECISION_INVALID	an annotation has a bad value
 *	5. DECISION_INVALID	the runtime runs it without becoming it (WebAssembly, a virtual machine of crun's)
 *	6. DECISION_PROFILE
 * A document that cannot be parsed is DECISION_INVALID at once. Whatever was valid has been filled in all cases.
 */
#pragma once

#include "oci/base/json_parse.h"
#include "oci/runtime/container.h"

#include <stdbool.h>

#define STATE_MAX (1u << 20)
#define CONFIG_MAX (16u << 20)

/* Annotations by which runtimes name a container, the first that is there counts, and say that it is a sandbox. They
 * end with NULL. */
extern const char *const hook_input_name_keys[], *const hook_input_sandbox_keys[];
/* By which a runtime is told to run it without becoming it: a value that begins so. The last one has no key. */
struct hook_input_handler {
	const char *key, *value, *why;
};
extern const struct hook_input_handler hook_input_handlers[];

struct hook_input;
int hook_input_new(struct hook_input **ret);

/*
 * Step 1: the state. Fills id, pid and bundle. Every step returns 0 with ret->verdict and, for DECISION_INVALID,
 * ret->reason; or -ENOMEM. A verdict that is final (not UNDECIDED, not PROFILE) stays as it is in later steps.
 */
int hook_input_state(struct hook_input *r, const char *text, size_t len, struct container *ret);
/* After step 1: it may come to a profile, so it is worth looking at the pid already. */
bool hook_input_asked(const struct hook_input *r, const struct container *c);
/* A container name from elsewhere (podman tells it to conmon only); annotations win. Before step 2. */
void hook_input_hint_name(struct hook_input *r, const char *name);
/*
 * Step 2: what the state's annotations say. PROFILE (root and exe still missing) and UNDECIDED (the state carries no
 * annotations, config.json decides) go on to step 3; otherwise config.json need not be read.
 */
int hook_input_decide(struct hook_input *r, struct container *ret);
/* Step 3: config.json, of which it blanks what does not matter, into the same struct. */
int hook_input_config(struct hook_input *r, char *text, size_t len, struct container *ret);

struct hook_input *hook_input_free(struct hook_input *r);
