/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In the program that the mutants are run in.
 *
 * MUTANTS_TEMP names a file to which each temporary directory is added, a line each: a suite that is ended leaves them.
 *
 * The compiler calls __sanitizer_cov_trace_pc at the beginning of each piece of code. MUTANTS_RAN names a file in which
 * each byte of the program's code has a byte: it becomes 1 where the code ran, also in a child that is killed.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

extern const char __executable_start[], etext[];
void __sanitizer_cov_trace_pc(void);

static uint8_t *ran;

__attribute__((constructor)) static void map_file(void)
{
	const char *path = getenv("MUTANTS_RAN");
	size_t size = (size_t)(etext - __executable_start);
	int fd;

	if (!path || (fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666)) < 0)
		return;
	void *p = ftruncate(fd, (off_t)size) < 0 ? MAP_FAILED
						 : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	ran = p == MAP_FAILED ? NULL : p;
}

void __sanitizer_cov_trace_pc(void)
{
	uint8_t *file = ran;
	if (file)
		file[(const char *)__builtin_return_address(0) - __executable_start] = 1;
}

__attribute__((visibility("default"))) char *mkdtemp(char *template)
{
	char *(*next)(char *) = (char *(*)(char *))dlsym(RTLD_NEXT, "mkdtemp");
	const char *list = getenv("MUTANTS_TEMP");
	char *made = next ? next(template) : NULL;
	int fd = made && list ? open(list, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666) : -1;

	if (fd >= 0) {
		dprintf(fd, "%s\n", made);
		close(fd);
	}
	return made;
}
