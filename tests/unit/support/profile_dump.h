/* SPDX-License-Identifier: Apache-2.0 */
/* Everything a profile says, as text: two profiles that print alike are alike. */
#pragma once

#include "profiler/pprof/profile.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static inline void dump_tables(const struct profile *p, FILE *f)
{
	for (uint32_t i = 0; i < profile_mappings(p); i++) {
		struct profile_mapping m;
		profile_mapping_get(p, i, &m);
		fprintf(f, "mapping %" PRIx64 " %" PRIx64 " %" PRIx64 " %s %s %x\n", m.start, m.limit, m.offset, m.file,
			m.build_id, m.has);
	}
	for (uint32_t i = 0; i < profile_functions(p); i++) {
		struct profile_function fn;
		profile_function_get(p, i, &fn);
		fprintf(f, "function %s (%s) %s:%" PRId64 "\n", fn.name, fn.system_name, fn.file, fn.start_line);
	}
	for (uint32_t i = 0; i < profile_locations(p); i++) {
		struct profile_location l;
		profile_location_get(p, i, &l);
		fprintf(f, "location %" PRIu32 " %" PRIx64, l.mapping, l.address);
		for (size_t k = 0; k < l.n; k++)
			fprintf(f, " %" PRIu32 ":%" PRIu32, l.lines[k].function, l.lines[k].line);
		fputc('\n', f);
	}
}

static inline void dump_samples(const struct profile *p, FILE *f)
{
	for (size_t i = 0; i < profile_samples(p); i++) {
		struct profile_sample s;
		profile_sample_get(p, i, &s);
		fputs("sample", f);
		for (size_t k = 0; k < s.n; k++)
			fprintf(f, " %" PRIu32, s.locations[k]);
		for (unsigned k = 0; k < profile_info(p)->n_types; k++)
			fprintf(f, " =%" PRId64, s.values[k]);
		for (size_t k = 0; k < s.n_labels; k++)
			fprintf(f, " %s=%s/%" PRId64 "/%s", s.labels[k].key, s.labels[k].str ? s.labels[k].str : "-",
				s.labels[k].num, s.labels[k].unit);
		fputc('\n', f);
	}
}

/* To be freed; NULL when out of memory. */
static inline char *profile_dump(const struct profile *p)
{
	const struct profile_info *info = profile_info(p);
	char *text;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	if (!f)
		return NULL;
	fprintf(f, "%" PRId64 " %" PRId64 " %s/%s %" PRId64 "\n", info->time_ns, info->duration_ns,
		info->period_type.type, info->period_type.unit, info->period);
	for (unsigned i = 0; i < info->n_types; i++)
		fprintf(f, "type %s/%s\n", info->types[i].type, info->types[i].unit);
	dump_tables(p, f);
	dump_samples(p, f);
	for (size_t i = 0; i < profile_comments(p); i++)
		fprintf(f, "# %s\n", profile_comment_get(p, i));
	if (fclose(f) == 0)
		return text;
	free(text);
	return NULL;
}
