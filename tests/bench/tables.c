/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tables FILE... - how long the unwind table of a file takes to make (profiler/unwind/unwind_table.h), the quickest of
 * RUNS, and how large it is. What it is made from has been read before: that is disk, not work.
 */
#include "oci/base/fd.h"
#include "profiler/unwind/unwind_table.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define RUNS 15
#define MEMORY ((size_t)1 << 30)

static double cpu_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int measure(const char *path)
{
	const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
	struct elf *elf;
	struct unwind_table *rows = NULL;
	struct unwind_table_stats st;
	struct err e = {0};
	double best = 0, worst = 0;
	fd_auto fd = fd_open(AT_FDCWD, path, O_RDONLY, 0);
	if (fd < 0 || elf_read(elf_source_fd(&fd), &elf, &e) < 0) {
		printf("  %-34.34s %s\n", name, fd < 0 ? strerror(-fd) : e.text);
		return 1;
	}
	for (int run = 0; run < RUNS; run++) {
		unwind_table_free(rows);
		double begin = cpu_now();
		if (unwind_table_build(elf, MEMORY, &rows) < 0)
			return 1;
		double used = cpu_now() - begin;
		best = !run || used < best ? used : best;
		worst = used > worst ? used : worst;
	}
	unwind_table_stats(rows, &st);
	double n = st.rows ? (double)st.rows : 1;
	printf("  %-34.34s %9zu %8zu %6zu %9.2f %9.2f %8.1f %8.1f\n", name, st.rows, st.rules, st.left_out, best / 1e6,
		(double)unwind_table_bytes(rows) / n, best / n, worst / n);
	unwind_table_free(rows);
	elf_free(elf);
	return 0;
}

int main(int argc, char **argv)
{
	int status = 0;
	printf("  %-34s %9s %8s %6s %9s %9s %8s %8s\n", "", "rows", "rules", "bad", "ms", "bytes/row", "ns/row",
		"worst");
	for (int i = 1; i < argc; i++)
		status |= measure(argv[i]);
	return status;
}
