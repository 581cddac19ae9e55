/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hook_input - from a runtime's hook input to `struct container`: state JSON on a descriptor, config.json in the
 * bundle that it names (runtime-spec: runtime.md "State", config.md).
 *
 * Parsing alone, no I/O: the caller reads at most STATE_MAX + 1 and CONFIG_MAX + 1 bytes and hands them over; a longer
 * text is refused here with a sentence. Hostile input: JSON_DEPTH and JSON_VALUES bound the parser, an
 * annotation's value is at most 4 KiB. Nothing is allocated beyond the parsed documents.
 *
 * Annotations of the state win over those of config.json (the state MAY leave them out). A name comes from the first
 * row of one table that matches: CRI containerd, CRI-O, podman, nerdctl; without a row it is "".
 * A sandbox is io.kubernetes.cri.container-type or io.kubernetes.cri-o.ContainerType = "sandbox".
 *
 * The decision, in this order:
 *	1. DECISION_OFF		no io.pillion.profile for this container, or "off": nothing else is looked at
 *	2. DECISION_SANDBOX	a pause container
 *	3. DECISION_INVALID	id, pid, bundle or root are missing or bad (the pid is absent after the end: poststop)
 *	4. DECISION_INVALID	an annotation has a bad value
 *	5. DECISION_INVALID	the runtime runs it without becoming it (WebAssembly, a virtual machine of crun's)
 *	6. DECISION_PROFILE
 * A document that cannot be parsed is DECISION_INVALID at once. Valid fields are filled in all cases.
 */
#pragma once

#include "oci/base/json/json_parse.h"
#include "oci/runtime/container.h"

#include <stdbool.h>

#define STATE_MAX (1u << 20)
#define CONFIG_MAX (16u << 20)

/* Annotations by which runtimes name a container (the first one present counts) and mark a sandbox. Both lists end with
 * NULL. */
extern const char *const hook_input_name_keys[], *const hook_input_sandbox_keys[];
/* Annotations that tell a runtime to run a program without becoming it: `value` is a prefix. The last has no key. */
struct hook_input_handler {
	const char *key, *value, *why;
};
extern const struct hook_input_handler hook_input_handlers[];

struct hook_input;
int hook_input_new(struct hook_input **ret);

/*
 * Step 1: parses the state. Fills id, pid and bundle. Every step returns 0 with ret->verdict and, for DECISION_INVALID,
 * ret->reason; or -ENOMEM. A final verdict (not UNDECIDED, not PROFILE) stays as it is in later steps.
 */
int hook_input_state(struct hook_input *r, const char *text, size_t len, struct container *ret);
/* After step 1: is a profile still possible, so that the caller should look at the pid already? */
bool hook_input_asked(const struct hook_input *r, const struct container *c);
/* Gives a container name from elsewhere (podman tells it to conmon only); annotations win. Before step 2. */
void hook_input_hint_name(struct hook_input *r, const char *name);
/*
 * Step 2: decides by the state's annotations. PROFILE (root and exe still missing) and UNDECIDED (the state carries no
 * annotations, config.json decides) need step 3; otherwise config.json need not be read.
 */
int hook_input_decide(struct hook_input *r, struct container *ret);
/* Step 3: parses config.json into the same struct. Blanks those parts of `text` that it does not need. */
int hook_input_config(struct hook_input *r, char *text, size_t len, struct container *ret);

struct hook_input *hook_input_free(struct hook_input *r);
