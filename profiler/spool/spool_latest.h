/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spool_latest - the windows of a spool that were written last: of each directory the newest of each kind (cpu, offcpu,
 * ...), by their names <UTC start>-<seq>-<kind>.pb.gz.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct spool_latest { /* all zero: none */
	char **paths;
	size_t n;
};

/*
 * Adds the windows of this directory alone: below it may be other targets' (spool_target.h). 0, or -errno: -ENOENT,
 * -ENOMEM, ...
 */
int spool_latest_add(struct spool_latest *l, const char *dir);
void spool_latest_done(struct spool_latest *l);
