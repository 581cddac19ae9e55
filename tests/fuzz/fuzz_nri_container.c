/* SPDX-License-Identifier: Apache-2.0 */
/* First byte: how many bytes arrive at a time; the rest is what a runtime says. What comes out passes its check, and
 * what is to be profiled is answered for. */
#include "oci/runtime/nri_container.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct nri *nri;

static void called(void *arg, enum nri_call call, uint32_t stream, const void *payload, size_t len)
{
	static struct container c;
	static uint8_t buf[300 << 10];
	static const char *const args[] = {NULL};
	const struct nri_hook hook = {.path = "/hook", .args = args, .timeout_s = 5};
	struct protobuf_writer o = protobuf_writer_fixed(buf, sizeof(buf));
	char config[64];
	size_t texts = nri_configuration(payload, len, config, sizeof(config)) + nri_event(payload, len) +
		       nri_more(payload, len);
	if (call != NRI_REGISTERED && nri_container(call, payload, len, &c) == 0) {
		if (container_check(&c) < 0 && (call != NRI_CREATE_CONTAINER || c.verdict != DECISION_PROFILE))
			abort();
		nri_injection(payload, len, &hook, &o);
	}
	if (strlen(config) >= sizeof(config) || o.len > o.room)
		abort();
	if (texts == SIZE_MAX || nri_answer(nri, stream, o.bytes, o.failed ? 0 : o.len) < 0 ||
		nri_unimplemented(nri, stream) < 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t piece = size ? data[0] + 1u : 1, unsent;
	struct err e;
	if (size < 1 || nri_new(called, NULL, &nri) < 0)
		return 0;
	for (size_t at = 1; at < size && !nri_full(nri); at += piece) {
		size_t n = size - at < piece ? size - at : piece;
		char *own = malloc(n);
		memcpy(own, data + at, n);
		int r = nri_feed(nri, own, n, &e);
		free(own);
		if (r < 0)
			break;
	}
	nri_unsent(nri, &unsent);
	nri_sent(nri, unsent);
	nri = nri_free(nri);
	return 0;
}
