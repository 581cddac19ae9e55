/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/libpillion/core/thread_name.h"

#include "shim/libpillion/core/syscall.h"

#include <sys/prctl.h>

void thread_name_read(struct shm_more *ret)
{
	*ret = (struct shm_more){0};
	sys_call(prctl, PR_GET_NAME, ret->name);
}
