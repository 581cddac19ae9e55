/* SPDX-License-Identifier: Apache-2.0 */
/* self_procfs - facts of this process and its machine from /proc and /sys. All of it by system calls alone. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define SELF_PARANOID "/proc/sys/kernel/perf_event_paranoid" /* it is there if the kernel has perf events */
#define SELF_CPUS_MAX 1024

int self_read_number(const char *path, long *ret); /* reads the first number in it. -errno; -EBADMSG: there is none */
/* Lists the CPUs of this machine, offline ones as well, at most `max`. Returns how many, or -errno. */
int self_cpus(int *cpus, size_t max);
int self_online_cpus(int *cpus, size_t max);
int self_parse_cpus(const char *text, int *cpus, size_t max); /* "0-3,8"; -EBADMSG */
/* Calls `fn` for each number in a directory, until it returns an error. Returns how many, or -errno. */
typedef int self_number_fn(void *arg, uint32_t n);
int self_each_number(const char *directory, self_number_fn *fn, void *arg);
long self_open_files(void);
uint64_t self_clock(void); /* CLOCK_MONOTONIC, ns */
