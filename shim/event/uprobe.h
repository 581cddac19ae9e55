/* SPDX-License-Identifier: Apache-2.0 */
/*
 * uprobe - where in a file a function begins, for uprobes (`uprobe:PATH:SYMBOL`), or an instruction of it
 * (`SYMBOL+OFF`).
 *
 * The file is the target's own, so hostile: it is opened beneath the target's tree, on the root file system alone (what
 * a volume's file system says may never come), and read by a child that holds no capability, sees no path and can say
 * no more than three numbers. A breakpoint in the middle of an instruction would break the program: the function's are
 * counted from its beginning on (shim/event/x86_insn.h).
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

/* Of SYMBOL+OFF that is within an instruction: where that begins, and the next one; 0: not known. */
struct uprobe_found {
	uint64_t offset;
	uint32_t before, behind;
};
#define UPROBE_INTO_MAX (1u << 20) /* bytes of a function up to an instruction */

/*
 * tree: O_PATH; self_fds: as exe_self_fds. -ENOENT: no such file, or no such function (with how names are written);
 * -ENOEXEC: not a 64-bit ELF file, -ENOSYS: chosen when the program starts (STT_GNU_IFUNC), -ERANGE: the function is
 * not that long, -EILSEQ: no instruction begins there, -EOPNOTSUPP: one on the way is not known, -ETIMEDOUT. With a
 * sentence.
 */
int uprobe_find(int tree, int self_fds, const char *path, const char *symbol, int64_t deadline, struct uprobe *ret,
	struct err *e);

/*
 * Of all uprobes among `d`'s events the files, in their order, and spec.config. One that is not to be had is left out
 * of the events, with a note. How many there are; or -errno, when no event is left. ret: closed by nobody but the
 * caller.
 */
int probes_find(struct target_desc *d, int tree, int self_fds, int64_t deadline, int ret[EVENTS_MAX], struct err *e);
size_t probes_count(const struct target_desc *d);

/* What the child does; `fd` is read with pread(2). As uprobe_find, without a sentence. For tests and a fuzzer. */
int uprobe_lookup(int fd, const char *symbol, struct uprobe_found *ret);
