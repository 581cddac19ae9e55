/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doctor - the chain from a kernel to a profile, link by link: what is well, what is broken, and the way out.
 *
 * Each link is a row of one table. It looks and changes nothing; what it says of a container it has from the same
 * reader and the same policy as the hook, so it says the hook's own sentence.
 */
#pragma once

#include "oci/config/options.h"
#include "profiler/install/file_changes.h"

#include <stdio.h>
#include <sys/types.h>

enum finding_state { FINDING_OK, FINDING_WARNING, FINDING_BROKEN, FINDING_STATES };

struct check_result {
	enum finding_state state;
	char what[480];
	char way[480]; /* out, or "" */
};

struct doctor {
	struct file_changes *host; /* its files */
	bool here;		   /* they are those of the machine that we run on */
	struct options options;	   /* of the service: pillion.conf and policy.conf */
	const char *container;	   /* or NULL */
};

typedef void doctor_fn(const struct doctor *d, struct check_result *f);
struct check {
	const char *name;
	doctor_fn *look;
	bool here; /* it is of the running machine, and left out of another tree */
};
extern const struct check doctor_links[]; /* ends with a row without name */

void check_report(struct check_result *f, enum finding_state state, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void check_suggest_fix(struct check_result *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Of the links (doctor_*.c). */
doctor_fn doctor_kernel, doctor_paranoid, doctor_caps, doctor_lsm, doctor_cgroups, doctor_memlock;
doctor_fn doctor_engines, doctor_hooksd, doctor_hook, doctor_handlers;
doctor_fn doctor_switch, doctor_settings, doctor_policy, doctor_service, doctor_spool, doctor_push;
/* Why the one that is asked about has, or has not, a profile. */
doctor_fn doctor_container;
