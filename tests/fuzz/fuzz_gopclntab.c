/* SPDX-License-Identifier: Apache-2.0 */
/* gopclntab: bytes of the section. The rows that come of it answer for every address; names and lines are strings. */
#include "profiler/elf/gopclntab.h"
#include "profiler/unwind/unwind_table.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void names_and_lines(const uint8_t *data, size_t size)
{
	struct gopclntab t;
	struct gofunc f, found;
	const char *file;
	uint32_t line;
	if (!gopclntab_open(data, size, &t))
		return;
	for (size_t i = 0; i < t.n_funcs && i < 64; i++) {
		if (!gopclntab_func(&t, i, &f))
			continue;
		const char *name = gopclntab_name(&t, &f);
		if (name && (!*name || strlen(name) >= GOPCLNTAB_STRING_MAX))
			abort();
		for (uint64_t at = f.start; at < f.end && at < f.start + 16; at++)
			if (gopclntab_line(&t, &f, at, &file, &line) && (!*file || !line))
				abort();
		if (gopclntab_find(&t, f.start, &found) && (found.start > f.start || found.end <= f.start))
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct elf elf = {.machine = EM_X86_64,
		.gopclntab = {0x1000, size, NULL},
		.n_segments = 1,
		.segments = {{.memsz = 1ull << 40, .exec = true}}};
	struct unwind_table *t;
	struct unwind_table_stats st;
	elf.gopclntab.data = malloc(size ? size : 1);
	memcpy(elf.gopclntab.data, data, size);
	names_and_lines(elf.gopclntab.data, size);
	if (unwind_table_build(&elf, 64 << 20, &t) == 0) {
		unwind_table_stats(t, &st);
		if (st.left_out > st.entries)
			abort();
		for (uint64_t at = 0; at + 8 <= size && at < 1024; at += 4) {
			uint64_t v;
			memcpy(&v, data + at, 8);
			const struct cfi_rule *r = unwind_table_find(t, v);
			/* the signal trampoline */
			if (r->kind == CFI_RULE_FULL && (!r->signal || !unwind_table_full(t, r)))
				abort();
			if (r->kind > CFI_RULE_SWITCH ||
				(r->kind == CFI_RULE_FRAME && (r->cfa_reg != DWARF_RSP || r->cfa < 8)))
				abort();
		}
		unwind_table_free(t);
	}
	free(elf.gopclntab.data);
	return 0;
}
