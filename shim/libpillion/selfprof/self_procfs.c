/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/libpillion/selfprof/self_procfs.h"

#include "shim/libpillion/core/sys_clock.h"
#include "shim/libpillion/core/syscall.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

static int read_text(const char *path, char *text, size_t size)
{
	const long fd = sys_call(open, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return (int)fd;
	const long n = sys_call(read, fd, text, size - 1);
	sys_call(close, fd);
	if (n < 0)
		return (int)n;
	text[n] = 0;
	return 0;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static long take_number(const char **at)
{
	long n = 0;
	for (; is_digit(**at) && n < 1000000000000; ++*at)
		n = 10 * n + (**at - '0');
	return n;
}

int self_read_number(const char *path, long *ret)
{
	char text[64];
	const char *at = text;
	const int r = read_text(path, text, sizeof(text));
	if (r < 0)
		return r;
	const bool minus = *at == '-';
	at += minus;
	if (!is_digit(*at))
		return -EBADMSG;
	const long n = take_number(&at);
	*ret = minus ? -n : n;
	return 0;
}

int self_parse_cpus(const char *text, int *cpus, size_t max)
{
	size_t n = 0;
	for (const char *at = text; *at && *at != '\n'; at += *at == ',') {
		if (!is_digit(*at))
			return -EBADMSG;
		const long first = take_number(&at);
		long last = first;
		if (*at == '-') {
			if (!is_digit(*++at))
				return -EBADMSG;
			last = take_number(&at);
		}
		if (*at && *at != ',' && *at != '\n')
			return -EBADMSG;
		for (long cpu = first; cpu <= last && n < max; cpu++)
			cpus[n++] = (int)cpu;
	}
	return (int)n;
}

static int read_cpus(const char *path, int *cpus, size_t max)
{
	char text[4096];
	const int r = read_text(path, text, sizeof(text));
	return r < 0 ? r : self_parse_cpus(text, cpus, max);
}

/* The CPUs that this thread may run on, if there is no sysfs. */
static int allowed_cpus(int *cpus, size_t max)
{
	uint64_t mask[SELF_CPUS_MAX / 64] = {0};
	size_t n = 0;
	const long r = sys_call(sched_getaffinity, 0, sizeof(mask), mask);
	for (size_t i = 0; r > 0 && i < (size_t)r * 8 && n < max; i++)
		if (mask[i / 64] >> i % 64 & 1)
			cpus[n++] = (int)i;
	return r < 0 ? (int)r : (int)n;
}

int self_cpus(int *cpus, size_t max)
{
	const int n = read_cpus("/sys/devices/system/cpu/present", cpus, max);
	return n > 0 ? n : allowed_cpus(cpus, max);
}

int self_online_cpus(int *cpus, size_t max)
{
	const int n = read_cpus("/sys/devices/system/cpu/online", cpus, max);
	return n > 0 ? n : allowed_cpus(cpus, max);
}

struct entry { /* getdents64(2) */
	uint64_t ino;
	int64_t off;
	uint16_t len;
	uint8_t type;
	char name[];
};

int self_each_number(const char *directory, self_number_fn *fn, void *arg)
{
	char entries[16384] __attribute__((aligned(8)));
	int count = 0;
	long n = 0;
	const long fd = sys_call(open, directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return (int)fd;
	while (count >= 0 && (n = sys_call(getdents64, fd, entries, sizeof(entries))) > 0)
		for (long at = 0; count >= 0 && at < n;) {
			const struct entry *d = (const struct entry *)(entries + at);
			const char *name = d->name;
			const long number = take_number(&name);
			const int r = name == d->name || *name ? 1 : fn(arg, (uint32_t)number);
			count = r < 0 ? r : count + (name != d->name && !*name);
			at += d->len;
		}
	sys_call(close, fd);
	return n < 0 && count >= 0 ? (int)n : count;
}

static int count_one(void *arg, uint32_t n)
{
	return 0;
}

long self_open_files(void)
{
	const int n = self_each_number("/proc/self/fd", count_one, NULL);
	return n > 0 ? n - 1 : n; /* without the directory itself */
}

uint64_t self_clock(void)
{
	return sys_clock_ns(CLOCK_MONOTONIC);
}
