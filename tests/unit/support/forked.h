/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forked - a fork server, and a symbolizer's server of it, for a test whose main() begins with forkserver_main().
 */
#pragma once

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "oci/base/process/child_process.h"
#include "profiler/symbol/forkserver.h"

#include <check.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct forked {
	struct forkserver from;
	struct symbolizer_sockets sockets; /* the test may take one, and put -1 there */
	pid_t server;
};

static inline pid_t forked_pid(int pidfd)
{
	char path[64], text[512], *at;
	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", pidfd);
	ck_assert_int_eq(fd_read_text(AT_FDCWD, path, text, sizeof(text)), 0);
	at = strstr(text, "Pid:");
	ck_assert_ptr_nonnull(at);
	return (pid_t)strtol(at + 4, NULL, 10);
}

static inline void forked_more(struct forked *f)
{
	ck_assert_int_eq(forkserver_fork(&f->from, &f->sockets), 0);
	ck_assert_int_eq(fd_wait(f->sockets.questions, POLLIN, deadline_in(120 * NSEC_PER_SEC)), 1);
	int pidfd = symbolizer_process(f->sockets.questions);
	ck_assert_int_ge(pidfd, 0);
	f->server = forked_pid(pidfd);
	fd_close(pidfd);
}

static inline void forked_start(struct forked *f, struct symbolizer_limits limits)
{
	struct err e = {0};
	ck_assert_msg(forkserver_start(&limits, &f->from, &e) == 0, "%s", e.text);
	forked_more(f);
}

/* What is left of it is ended; the fork server is a child of ours and no zombie. */
static inline void forked_end(struct forked *f)
{
	symbolizer_close(&f->sockets);
	forkserver_end(&f->from);
}
