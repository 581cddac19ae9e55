/* SPDX-License-Identifier: Apache-2.0 */
/*
 * capabilities - gives up privilege in one step, for good (capabilities(7)).
 *
 * Sets are bit masks: CAP_BIT(CAP_PERFMON).
 */
#pragma once

#include "oci/base/err.h"

#include <linux/capability.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define CAP_BIT(cap) (UINT64_C(1) << (cap))

/*
 * Keeps exactly `keep` (as far as we have it) as permitted and effective, nothing inheritable or ambient. Sets
 * securebits that take uid 0's privilege (locked), and no_new_privs. No exec after this can gain anything.
 */
int capabilities_limit(uint64_t keep, struct err *e);
/* As capabilities_limit, but first becomes this user, with no supplementary groups. */
int capabilities_become(uid_t uid, gid_t gid, uint64_t keep, struct err *e);
/* For long-lived processes: empties the bounding set as well, if CAP_SETPCAP allows. Before capabilities_limit. */
void capabilities_empty_bounding(void);
uint64_t capabilities_effective(void);
bool capabilities_known(unsigned cap); /* does this kernel have the capability (CAP_PERFMON: 5.8)? */
