/* SPDX-License-Identifier: Apache-2.0 */
/* uprobe_lookup: the tables of symbols of a file that the target made, as an opener's child reads them. */
#include "shim/event/uprobe.h"

#include "oci/base/fd.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const names[] = {"main", "x", "_start", "main+4", "x+1"};
	static int file = -1;
	struct uprobe_found found;
	if (file < 0)
		file = memfd_create("file", MFD_CLOEXEC);
	if (file < 0 || ftruncate(file, 0) < 0 || pwrite(file, data, size, 0) != (ssize_t)size)
		abort();
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (uprobe_lookup(file, names[i], &found) == 0 && found.offset >= size + UPROBE_INTO_MAX)
			abort();
	return 0;
}
