/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/unwind/cfi_execute.h"
#include "profiler/unwind/unwind.h"

/* The frame pointer is saved at the top of every frame that has a size. */
struct cfi_rule unwind_go_rule(int64_t delta)
{
	const uint64_t same = (uint16_t)CFI_RULE_SAME, all = same | same << 16 | same << 32 | same << 48;
	const uint64_t w[CFI_RULE_WORDS] = {CFI_RULE_FRAME | DWARF_RSP << 8 | (uint64_t)(delta + 8) << 32,
		delta > 0 ? (all & ~0xffff0000ull) | 0xfffe0000ull : all, same | same << 16 | 0xffffull << 32};
	struct cfi_rule r;
	memcpy(&r, w, sizeof(r)); /* whole words, see cfi_rule_word() */
	return r;
}

/*
 * jmp *slot; push index; jmp first: 6, 5 and 5 bytes. The first: push, jmp *slot; 6 bytes each (psABI, "Procedure
 * Linkage Table").
 */
size_t unwind_stub_rows(bool lazy, bool first, struct cfi_row *ret)
{
	for (unsigned pushed = 0; pushed <= lazy; pushed++) {
		ret[pushed] = (struct cfi_row){pushed ? first ? 6 : 11 : 0, unwind_go_rule(8 * (first + pushed))};
		ret[pushed].rule.at[1] = CFI_RULE_SAME; /* rbp */
	}
	return 1 + lazy;
}

/* The call has pushed its return address. */
bool unwind_undo_call(struct unwind_regs *r, const uint8_t **stack, uint64_t *size)
{
	uint64_t to;
	if (*size < sizeof(to))
		return false;
	memcpy(&to, *stack, sizeof(to));
	r->r[UNWIND_IP] = to - 1;
	r->r[UNWIND_SP] += sizeof(to);
	*stack += sizeof(to);
	*size -= sizeof(to);
	return true;
}
