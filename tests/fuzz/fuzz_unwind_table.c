/* SPDX-License-Identifier: Apache-2.0 */
/* rows: bytes of .eh_frame, of .debug_frame, or of both. The table is in order, every address has an answer, every full
 * rule can be tried. */
#include "profiler/unwind/unwind_table.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool read_word(void *arg, uint64_t addr, uint64_t *ret)
{
	*ret = addr * 3;
	return addr % 5 != 0;
}

static void try_full(const struct unwind_table *t, const struct cfi_rule *r)
{
	static const uint64_t regs[DWARF_REGS] = {1, 2, 3, 4, 5, 6, 7, 8};
	const struct cfi_rule_full *f = unwind_table_full(t, r);
	uint64_t value, cfa = 4096;
	if (f->cfa.how == CFI_REGISTER_VAL_EXPRESSION)
		unwind_table_eval(t, &f->cfa, regs, UINT32_MAX, NULL, read_word, NULL, &value);
	for (unsigned i = 0; i < DWARF_REGS; i++)
		if (f->reg[i].how == CFI_REGISTER_EXPRESSION || f->reg[i].how == CFI_REGISTER_VAL_EXPRESSION)
			unwind_table_eval(t, &f->reg[i], regs, UINT32_MAX, &cfa, read_word, NULL, &value);
}

static struct elf_section copy(uint64_t vaddr, const uint8_t *data, size_t size)
{
	struct elf_section s = {vaddr, size, malloc(size ? size : 1)};
	memcpy(s.data, data, size);
	return s;
}

static void build(struct elf *elf, const uint8_t *data, size_t size)
{
	struct unwind_table *t;
	struct unwind_table_stats st;
	if (unwind_table_build(elf, 64 << 20, &t) == 0) {
		unwind_table_stats(t, &st);
		if (st.rows > 2 * size + 1 || st.left_out > st.entries)
			abort();
		/* around where code usually is, and at places that the input names */
		for (uint64_t at = 0; at + 8 <= size && at < 512; at += 4) {
			uint32_t v;
			memcpy(&v, data + at, 4);
			for (int absolute = 0; absolute < 2; absolute++) {
				const struct cfi_rule *r = unwind_table_find(t, absolute ? v : 0x1000 + at + v);
				if (r->kind == CFI_RULE_FULL)
					try_full(t, r);
				if (r->kind > CFI_RULE_SWITCH ||
					(r->kind == CFI_RULE_FRAME && r->cfa_reg >= DWARF_REGS))
					abort();
			}
		}
		unwind_table_find(t, UINT64_MAX);
		unwind_table_find(t, 0);
		unwind_table_free(t);
	}
	free(elf->eh_frame.data);
	free(elf->debug_frame.data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	for (int kind = 0; kind < 3; kind++) {
		size_t split = kind == 0 ? size : kind == 1 ? 0 : size / 2;
		struct elf elf = {.machine = EM_X86_64,
			.eh_frame = copy(0x1000, data, split),
			.debug_frame = copy(0, data + split, size - split),
			.n_segments = 1,
			.segments = {{.memsz = 1 << 30, .exec = true}}};
		build(&elf, data, size);
	}
	return 0;
}
