/* SPDX-License-Identifier: Apache-2.0 */
/* What a job that was taken over may have written: what push_encode_child makes of it lies within that, and is lines of
 * HTTP.
 */
#include "profiler/push/push_encode_child.h"

#include "oci/base/fd.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look(const char *text, bool needed)
{
	if (needed && !text)
		abort();
	for (; text && *text; text++)
		if (*text == '\r' || *text == '\n')
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct push_batch b;
	unsigned sum = 0;
	fd_auto fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0 || fd_write_all(fd, data, size) < 0 ||
		fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
		abort();
	if (push_encode_child_read(fd, &b) < 0)
		return 0;
	for (size_t i = 0; i < b.n; i++) {
		const struct push_request *r = &b.requests[i];
		look(r->path, true);
		look(r->method, true);
		look(r->content_type, false);
		look(r->content_encoding, false);
		for (size_t k = 0; k < r->len; k++)
			sum += r->body[k];
	}
	push_encode_child_done(&b);
	return sum == 0xffffffff;
}
