/* SPDX-License-Identifier: Apache-2.0 */
/* state JSON, a line "---", config.json: whatever they hold, the struct that comes out passes its check, and what is to
 * be profiled was asked for early enough to fork the opener (a container that has ended is only tidied up after). */
#include "oci/runtime/hook_input.h"

#include <stdlib.h>
#include <string.h>

#define MARKER "\n---\n"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct container c;
	const char *text = (const char *)data, *marker = size ? memmem(text, size, MARKER, strlen(MARKER)) : NULL;
	size_t state = marker ? (size_t)(marker - text) : size, config = marker ? state + strlen(MARKER) : size;
	struct hook_input *r;

	if (hook_input_new(&r) < 0)
		return 0;
	char *own = malloc(size - config + 1);
	memcpy(own, text + config, size - config);
	if (hook_input_state(r, text, state, &c) == 0) {
		bool asked = hook_input_asked(r, &c);
		if (hook_input_decide(r, &c) == 0 && hook_input_config(r, own, size - config, &c) == 0 &&
			(container_check(&c) < 0 || (c.verdict == DECISION_PROFILE && !c.stopped && !asked)))
			abort();
	}
	free(own);
	hook_input_free(r);
	return 0;
}
