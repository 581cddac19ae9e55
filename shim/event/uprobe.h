/* SPDX-License-Identifier: Apache-2.0 */
/*
 * uprobe - finds where in a file a function begins, for uprobes (`uprobe:PATH:SYMBOL`), or an instruction of it
 * (`SYMBOL+OFF`).
 *
 * The file is the target's own, so hostile: it is opened beneath the target's tree, on the root file system alone (a
 * volume's file system may never answer), and read by a child that holds no capability, sees no path and can report no
 * more than an error and three numbers. A breakpoint in the middle of an instruction would break the program: so
 * instructions are counted from the function's beginning on (shim/event/insn_length.h).
 */
#pragma once

#include "oci/base/err.h"
#include "shim/event/target_desc.h"

#include <stddef.h>
#include <stdint.h>

#define UPROBE_FILE_MAX (4ull << 30)

struct uprobe {
	int fd;		 /* of the file, or -1 */
	uint64_t offset; /* in it: perf_event_attr.probe_offset */
};

/* before, behind: if SYMBOL+OFF is within an instruction, where that and the next one begin; 0: not known. */
struct uprobe_found {
	uint64_t offset;
	uint32_t before, behind;
};
#define UPROBE_INTO_MAX (1u << 20) /* bytes of a function up to an instruction */

/*
 * tree: O_PATH; self_fds: from exe_self_fds. -ENOENT: no such file, or no such function (with how names are written);
 * -ENOEXEC: not a 64-bit ELF file, -ENOSYS: the function is chosen when the program starts (STT_GNU_IFUNC), -ERANGE:
 * the function is not that long, -EILSEQ: no instruction begins there, -EOPNOTSUPP: an unknown instruction before that
 * place, -ETIMEDOUT. With a sentence.
 */
int uprobe_find(int tree, int self_fds, const char *path, const char *symbol, int64_t deadline, struct uprobe *ret,
	struct err *e);

/*
 * Finds all uprobes of `d`'s events: stores their files in `ret`, in order, and sets spec.config. One that is not
 * available is left out of the events, with a note. Returns the number of files; or -errno when no event is left. The
 * caller closes them.
 */
int probes_find(struct target_desc *d, int tree, int self_fds, int64_t deadline, int ret[EVENTS_MAX], struct err *e);
size_t probes_count(const struct target_desc *d);

/* The child's work; reads `fd` with pread(2). As uprobe_find, without a sentence. For tests and a fuzzer. */
int uprobe_lookup(int fd, const char *symbol, struct uprobe_found *ret);
