/* SPDX-License-Identifier: Apache-2.0 */
/* here - files that a test opens itself, as a struct file. */
#pragma once

#include "oci/base/fd.h"
#include "profiler/elf/target_file.h"

/* Takes what an open returned, also -errno. */
static inline int file_take(int fd, struct file *ret)
{
	int r = fd < 0 ? fd : file_on(fd, ret);
	if (r < 0 && fd >= 0)
		fd_close(fd);
	return r;
}
