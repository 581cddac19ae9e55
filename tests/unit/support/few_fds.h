/* SPDX-License-Identifier: Apache-2.0 */
/*
 * few_fds - a process that can open N descriptors more, whichever ones are open already.
 */
#pragma once

#include <check.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

struct few_fds {
	struct rlimit had;
	int taken[64]; /* the lowest that were free */
	size_t n_taken;
};

static inline void few_fds_end(struct few_fds *f)
{
	while (f->n_taken)
		close(f->taken[--f->n_taken]);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &f->had), 0);
}

/* Until few_fds_end(). n: at most 31, where 32 that are open already may lie between those that are free. */
static inline struct few_fds few_fds_begin(unsigned n)
{
	struct few_fds f = {.n_taken = 0};
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &f.had), 0);
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	struct rlimit few = {(rlim_t)fd + 1 + n + 32, f.had.rlim_max};
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
	for (; fd >= 0; fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) {
		ck_assert_uint_lt(f.n_taken, 64);
		f.taken[f.n_taken++] = fd;
	}
	while (n--) {
		ck_assert_uint_gt(f.n_taken, 0);
		close(f.taken[--f.n_taken]);
	}
	return f;
}
