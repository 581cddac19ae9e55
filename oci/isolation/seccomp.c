/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/isolation/seccomp.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>

#include "oci/isolation/seccomp_filters.h"

#define ROLE(name)                                                                                                     \
	{                                                                                                              \
#name, name##_filter, sizeof(name##_filter) / sizeof(name##_filter[0])                                 \
	}

static const struct role {
	const char *name;
	const struct sock_filter *filter;
	size_t len;
} roles[] = {
	[SECCOMP_READER] = ROLE(reader),
	[SECCOMP_OPENER] = ROLE(opener),
	[SECCOMP_ATTACHER] = ROLE(attacher),
	[SECCOMP_SUPERVISOR] = ROLE(supervisor),
	[SECCOMP_WORKER] = ROLE(worker),
	[SECCOMP_SYMBOLIZER] = ROLE(symbolizer),
	[SECCOMP_SYMBOLIZER_JOB] = ROLE(symbolizer_job),
	[SECCOMP_FILE_READER] = ROLE(file_reader),
	[SECCOMP_FILE_OPENER] = ROLE(file_opener),
	[SECCOMP_EXPORTER] = ROLE(exporter),
	[SECCOMP_PAGE] = ROLE(page),
	[SECCOMP_NRI] = ROLE(nri),
	[SECCOMP_PUSH] = ROLE(push),
	[SECCOMP_MAKER] = ROLE(maker),
};

int seccomp_enter(enum seccomp_role which, struct err *e)
{
	const struct role *role = &roles[which];
	struct sock_fprog prog = {.len = (unsigned short)role->len, .filter = (struct sock_filter *)role->filter};
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) < 0)
		return err_set(e, -errno, "cannot enter the seccomp role %s", role->name);
	return 0;
}
