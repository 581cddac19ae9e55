/* SPDX-License-Identifier: Apache-2.0 */
/* push_requests with profiles of any bytes, and little room: what it makes for Pyroscope can be read, and is all of it.
 */
#include "oci/base/protobuf.h"
#include "profiler/pprof/pprof.h"
#include "profiler/push/push_encode.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SMALL (1ll << 40) /* sums of such values do not overflow */

static bool is_small(const struct profile *p)
{
	struct profile_sample s;
	for (size_t i = 0; i < profile_samples(p); i++) {
		profile_sample_get(p, i, &s);
		for (unsigned k = 0; k < profile_info(p)->n_types; k++)
			if (s.values[k] > SMALL || s.values[k] < -SMALL)
				return false;
	}
	return true;
}

static bool child(struct pb m, uint32_t number, struct pb_field *ret)
{
	while (pb_next(&m, ret))
		if (pb_is(ret, number))
			return true;
	return false;
}

static void subtract(const struct push_request *r, int64_t *left)
{
	struct profile *part;
	struct pb_field series, sample, raw;
	if (!child(pb_of(r->body, r->len), 1, &series) || !child(pb_inside(&series), 2, &sample) ||
		!child(pb_inside(&sample), 1, &raw) || pprof_read(raw.data, raw.len, &part, NULL) < 0)
		abort();
	for (unsigned i = 0; i < profile_info(part)->n_types; i++)
		left[i] -= profile_total(part, i);
	profile_free(part);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct push_source of = {"target", "target/file.pb.gz", "cpu", "node"};
	static const struct push_limits limits = {1500, 3};
	struct profile *p;
	struct err e = {0};
	if (pprof_read(data, size, &p, &e) < 0)
		return 0;
	for (enum push_form form = PUSH_PYROSCOPE; form <= PUSH_PUT; form++) {
		struct push_request *r;
		size_t n;
		int64_t *left = calloc(profile_info(p)->n_types, sizeof(*left));
		int code = push_requests(form, &limits, &of, p, data, size, &r, &n, &e);
		if (code < 0 && code != -EFBIG)
			abort();
		for (unsigned i = 0; i < profile_info(p)->n_types; i++)
			left[i] = profile_total(p, i);
		for (size_t i = 0; code == 0 && form == PUSH_PYROSCOPE && i < n; i++)
			subtract(&r[i], left);
		for (unsigned i = 0; code == 0 && n && form == PUSH_PYROSCOPE && i < profile_info(p)->n_types; i++)
			if (left[i] && is_small(p))
				abort();
		if (code == 0)
			push_requests_free(r, n);
		free(left);
	}
	profile_free(p);
	return 0;
}
