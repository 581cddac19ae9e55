/* SPDX-License-Identifier: Apache-2.0 */
/* nothing [CHILDREN] - what it costs to start a static program, and as many children at once, and wait for them. */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	for (int n = argc > 1 ? atoi(argv[1]) : 0; n > 0; n--)
		if (fork() == 0)
			_exit(0);
	while (wait(NULL) > 0)
		;
	return 0;
}
