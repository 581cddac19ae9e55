/* SPDX-License-Identifier: Apache-2.0 */
/*
 * debuglink - facts of an ELF file about its debug information: its build-id, whether it has any itself, and the
 * separate files that it names, by .gnu_debuglink (gdb, "Debugging Information in Separate Files") and by
 * .gnu_debugaltlink (dwz(1)). Contents of debug sections are not read here. profiler/process/debug_file.h finds the
 * files.
 */
#pragma once

#include "profiler/elf/elf.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct build_id {
	uint8_t bytes[ELF_BUILD_ID_MAX];
	size_t len; /* 0: none */
};
bool build_id_equal(const struct build_id *a, const struct build_id *b);

#define DEBUG_SEGMENTS_MAX 16
struct debug_segment { /* of code; filesz 0: a separate debug file, which has the addresses but not the bytes */
	uint64_t vaddr, offset, filesz, memsz;
};

/* The facts of a file. They are valid whatever bytes the file holds: the symbolizer sends the struct as it is. */
struct debug_facts {
	struct build_id id;
	unsigned has_debug : 1;
	unsigned is_cut : 1;	 /* of section headers that could not be read: no separate debug file */
	unsigned is_go : 1;	 /* it has Go's own table: lines, but no inlined calls */
	char link[NAME_MAX + 1]; /* .gnu_debuglink, a file name; "" none */
	uint32_t link_crc;
	char alt[PATH_MAX]; /* .gnu_debugaltlink, a path; "" none */
	struct build_id alt_id;
	uint32_t n_segments;
	struct debug_segment segments[DEBUG_SEGMENTS_MAX];
};
int debug_facts_read(struct elf_source src, struct debug_facts *ret, struct err *e); /* errors as elf_read */
