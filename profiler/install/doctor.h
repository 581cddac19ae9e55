/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doctor - checks the chain from a kernel to a profile, link by link: state, fault and fix of each.
 *
 * Each link is a row of one table. A check changes nothing. For a container it uses the hook's own reader and policy,
 * so it prints the hook's own sentence.
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
	char way[480]; /* the fix, or "" */
};

struct doctor {
	struct file_changes *host; /* the host's files */
	bool here;		   /* `host` is the machine that we run on */
	struct options options;	   /* the service's: pillion.conf and policy.conf */
	const char *container;	   /* or NULL */
};

typedef void doctor_fn(const struct doctor *d, struct check_result *f);
struct check {
	const char *name;
	doctor_fn *look;
	bool here; /* it checks the running machine, and is left out for another tree */
};
extern const struct check doctor_links[]; /* ends with a row without name */

void check_report(struct check_result *f, enum finding_state state, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void check_suggest_fix(struct check_result *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The checks of the links (doctor_*.c). */
doctor_fn doctor_kernel, doctor_paranoid, doctor_caps, doctor_lsm, doctor_cgroups, doctor_memlock;
doctor_fn doctor_engines, doctor_hooksd, doctor_hook, doctor_handlers;
doctor_fn doctor_switch, doctor_settings, doctor_policy, doctor_service, doctor_spool, doctor_push;
/* Tells why `container` has a profile, or has none. */
doctor_fn doctor_container;
