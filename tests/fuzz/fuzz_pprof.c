/* SPDX-License-Identifier: Apache-2.0 */
/* pprof_read with any bytes; what is read can be written, reported, merged, and read again, and then says the same. */
#include "profiler/pprof/pprof.h"
#include "profiler/pprof/profile_merge.h"
#include "profiler/view/call_tree_text.h"
#include "profiler/view/folded.h"
#include "profiler/view/profile_json.h"
#include "profiler/view/top_table.h"
#include "tests/unit/support/profile_dump.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void same(const struct profile *p, const struct profile *q)
{
	char *a = profile_dump(p), *b = profile_dump(q);
	if (!a || !b || strcmp(a, b))
		abort();
	free(a);
	free(b);
}

static void round_trip(const struct profile *p)
{
	struct profile *back;
	struct err e = {0};
	uint8_t *bytes;
	size_t len;
	if (pprof_write(p, &bytes, &len) < 0 || pprof_read(bytes, len, &back, &e) < 0)
		abort();
	same(p, back);
	free(bytes);
	profile_free(back);
}

/* Into an empty profile: what only one side has is all there. */
static void merge(const struct profile *p)
{
	struct profile_info info = *profile_info(p);
	struct profile *to;
	struct err e = {0};
	info.duration_ns = 0;
	if (profile_new(&info, &to) < 0 || profile_merge_add(to, p, &e) < 0 ||
		profile_locations(to) != profile_locations(p) || profile_functions(to) != profile_functions(p) ||
		profile_mappings(to) != profile_mappings(p) || profile_samples(to) != profile_samples(p))
		abort();
	profile_free(to);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct profile *p;
	struct err e = {0};
	static FILE *null;
	if (!null)
		null = fopen("/dev/null", "we");
	if (pprof_read(data, size, &p, &e) < 0)
		return 0;
	top_header(p, "fuzz", null);
	if (top_write(p, profile_info(p)->n_types - 1, 10, null) < 0 || folded_write(p, 0, "process", null) < 0 ||
		profile_json_write(p, null) < 0 || call_tree_text_write(p, null) < 0)
		abort();
	round_trip(p);
	merge(p);
	profile_free(p);
	return 0;
}
