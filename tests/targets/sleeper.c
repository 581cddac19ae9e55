/* sleeper SECONDS - does nothing, and ends at once with status 0 on SIGTERM (PID 1 must handle it to get it). */
#include <signal.h>

#include "tests/targets/cpu.h"

int main(int argc, char **argv)
{
	int64_t nsec = cpu_arg(argc, argv, 1, "3600");
	struct timespec t = {nsec / SEC, nsec % SEC};
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	sigtimedwait(&set, NULL, &t);
	return 0;
}
