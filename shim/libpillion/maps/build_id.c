/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/libpillion/maps/build_id.h"

#include "shim/libpillion/core/syscall.h"

#include <elf.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>

#define SEGMENTS_MAX 32
#define NOTES_MAX 2048 /* bytes of one segment that are searched */

static bool memory_read(long mem, uint64_t at, void *buf, size_t size)
{
	return sys_call(pread64, mem, buf, size, at) == (long)size;
}

static bool find_id(const char *notes, size_t size, struct build_identity *ret)
{
	Elf64_Nhdr n;
	for (size_t at = 0; at + sizeof(n) <= size;) {
		memcpy(&n, notes + at, sizeof(n));
		size_t name = at + sizeof(n), desc = name + ((n.n_namesz + 3ul) & ~3ul);
		if (desc > size || n.n_descsz > size - desc)
			return false;
		if (n.n_type == NT_GNU_BUILD_ID && n.n_namesz == 4 && !memcmp(notes + name, "GNU", 4) &&
			n.n_descsz <= sizeof(ret->bytes)) {
			memcpy(ret->bytes, notes + desc, n.n_descsz);
			ret->size = n.n_descsz;
			return true;
		}
		at = desc + ((n.n_descsz + 3ul) & ~3ul);
	}
	return false;
}

static void find_notes(long mem, uint64_t start, struct build_identity *ret)
{
	Elf64_Ehdr e;
	Elf64_Phdr p[SEGMENTS_MAX];
	char notes[NOTES_MAX];
	if (!memory_read(mem, start, &e, sizeof(e)) || memcmp(e.e_ident, ELFMAG, SELFMAG) || e.e_phnum > SEGMENTS_MAX ||
		e.e_phentsize != sizeof(p[0]) || !memory_read(mem, start + e.e_phoff, p, e.e_phnum * sizeof(p[0])))
		return;
	uint64_t bias = start;
	for (int i = 0; i < e.e_phnum; i++)
		if (p[i].p_type == PT_LOAD && p[i].p_offset == 0)
			bias = start - p[i].p_vaddr;
	for (int i = 0; i < e.e_phnum && !ret->size; i++) {
		size_t size = p[i].p_filesz < sizeof(notes) ? p[i].p_filesz : sizeof(notes);
		if (p[i].p_type == PT_NOTE && memory_read(mem, bias + p[i].p_vaddr, notes, size))
			find_id(notes, size, ret);
	}
}

void build_id_read(uint64_t start, struct build_identity *ret)
{
	ret->size = 0;
	long mem = sys_call(open, "/proc/self/mem", O_RDONLY | O_CLOEXEC);
	if (mem < 0)
		return;
	find_notes(mem, start, ret);
	sys_call(close, mem);
}
