/* forker CHILDREN SECONDS - children, one after the other, that burn SECONDS of CPU time in child_work each. */
#include <sys/wait.h>
#include <unistd.h>

#include "tests/targets/cpu.h"

FRAME int64_t child_work(int64_t nsec);

FRAME int64_t child_work(int64_t nsec)
{
	return cpu_spin(nsec);
}

int main(int argc, char **argv)
{
	long children = argc > 1 ? strtol(argv[1], NULL, 10) : 4;
	int64_t nsec = cpu_arg(argc, argv, 2, "0.1");
	int status, bad = 0;

	for (long i = 0; i < children; i++) {
		pid_t pid = fork();

		if (pid == 0)
			_exit(child_work(nsec) < nsec);
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
			bad++;
	}
	printf("children %ld failed %d\n", children, bad);
	return bad != 0;
}
