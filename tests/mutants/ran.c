/*
 * The compiler calls this at the beginning of each piece of code. MUTANTS_RAN names a file in which each byte of the
 * program's code has a byte: it becomes 1 where the code ran, also in a child that is killed.
 */
#include <fcntl.h>
#include <stdint.h>
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
