/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/symbol/symbol_arch.h"

#include <stddef.h>
#include <string.h>

/* [endbr64] [bnd] jmp *disp32(%rip) (psABI, "Procedure Linkage Table") */
bool symbol_stub_slot(const uint8_t code[ELF_ARCH_STUB], uint64_t vaddr, uint64_t *ret)
{
	static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
	size_t at = memcmp(code, endbr64, sizeof(endbr64)) ? 0 : sizeof(endbr64);
	at += code[at] == 0xf2;
	if (code[at] != 0xff || code[at + 1] != 0x25)
		return false;
	int32_t disp;
	memcpy(&disp, code + at + 2, sizeof(disp));
	*ret = vaddr + at + 6 + (uint64_t)(int64_t)disp;
	return true;
}
