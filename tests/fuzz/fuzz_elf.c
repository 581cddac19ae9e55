/* SPDX-License-Identifier: Apache-2.0 */
/* elf, symbols, symtab_scan and debug_sections over the same bytes. */
#include "profiler/symbol/debug_sections.h"
#include "profiler/symbol/symtab.h"
#include "profiler/symbol/symtab_scan.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct elf_memory m = {data, size};
	struct elf *f;
	struct symtab *s;
	struct err e;
	uint64_t vaddr, offset, vaddrs[64];
	const char *names[64];

	if (elf_read(elf_source_memory(&m), &f, &e) == 0) {
		for (uint64_t at = 0; at < size; at += 64)
			elf_vaddr_of_offset(f, at, &vaddr);
		elf_free(f);
	}
	if (symtab_read(elf_source_memory(&m), SIZE_MAX, &s, &e) == 0) {
		for (uint64_t at = 0; at < 2 * size; at += 16)
			symtab_find(s, at, 0, &offset);
		symtab_free(s);
	}
	for (size_t i = 0; i < 64; i++)
		vaddrs[i] = i * size / 64;
	symtab_scan_symbols(&m, vaddrs, NULL, 64, names, &e);
	free(debug_sections_decompress(&m, &size));
	return 0;
}
