/* SPDX-License-Identifier: Apache-2.0 */
/* epilogue: code in memory of exactly its size; a rule that it finds is one that the unwinder takes. */
#include "profiler/unwind/epilogue.h"

#include <stdlib.h>
#include <string.h>

#define CODE 0x401000u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct elf_section *code_around(const void *arg, uint64_t vaddr)
{
	const struct elf_section *code = arg;
	return vaddr - code->vaddr < code->size ? code : NULL;
}

/* Functions begin where the address says so: the input decides by where it puts its code. */
static bool begins(const void *arg, uint64_t vaddr)
{
	return vaddr % 61 == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct elf_section code = {.vaddr = CODE, .size = size, .data = malloc(size ? size : 1)};
	const struct epilogue_known known = {code_around, begins, &code};
	static struct epilogue *epilogue;
	struct cfi_rule r;
	if (!epilogue && epilogue_new(&epilogue) < 0)
		abort();
	if (size)
		memcpy(code.data, data, size);
	for (uint64_t at = CODE; at <= CODE + size && at < CODE + 64; at++) {
		unsigned insns = EPILOGUE_INSNS_MAX;
		const bool found = epilogue_find(epilogue, &known, at, at % 2, &insns, &r) == EPILOGUE_FOUND;
		if (insns > EPILOGUE_INSNS_MAX)
			abort();
		if (found != (r.kind == CFI_RULE_FRAME) || (!found && r.kind != CFI_RULE_NONE) ||
			(found && r.cfa_reg != DWARF_SP && r.cfa_reg != DWARF_FP) ||
			(found && r.cfa_reg == DWARF_SP && r.cfa < 8))
			abort();
		epilogue_is_behind_call(&code, at);
	}
	free(code.data);
	return 0;
}
