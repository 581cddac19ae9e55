/* SPDX-License-Identifier: Apache-2.0 */
/* self_procfs - what /proc and /sys tell of this process and its machine. All of it by system calls alone. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define SELF_PARANOID "/proc/sys/kernel/perf_event_paranoid" /* its being there is how perf events are */
#define SELF_CPUS_MAX 1024

int self_read_number(const char *path, long *ret); /* the first one in it. -errno; -EBADMSG: there is none */
/* CPUs of this machine, offline ones as well: how many, or -errno. No more than `max`. */
int self_cpus(int *cpus, size_t max);
int self_online_cpus(int *cpus, size_t max);
int self_parse_cpus(const char *text, int *cpus, size_t max); /* "0-3,8"; -EBADMSG */
/* Each number in a directory. How many, or -errno; `fn` ends it by an error. */
typedef int self_number_fn(void *arg, uint32_t n);
int self_each_number(const char *directory, self_number_fn *fn, void *arg);
long self_open_files(void);
uint64_t self_clock(void); /* CLOCK_MONOTONIC, ns */
