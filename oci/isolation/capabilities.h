/* SPDX-License-Identifier: Apache-2.0 */
/*
 * capabilities - giving up privilege in one step, and never getting it back (capabilities(7)).
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
 * Keep exactly `keep` (as far as we have it) as permitted and effective, nothing inheritable or ambient; securebits
 * that make uid 0 mean nothing (locked), and no_new_privs. No exec after this can gain anything.
 */
int capabilities_limit(uint64_t keep, struct err *e);
/* As capabilities_limit, and become this user with no supplementary groups on the way. */
int capabilities_become(uid_t uid, gid_t gid, uint64_t keep, struct err *e);
/* For who lives long: an empty bounding set as well, as far as CAP_SETPCAP allows. Before capabilities_limit. */
void capabilities_empty_bounding(void);
uint64_t capabilities_effective(void);
bool capabilities_known(unsigned cap); /* this kernel has the capability (CAP_PERFMON: 5.8) */
