/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/install/engine_exec.h"

#include "oci/base/child_process.h"
#include "oci/base/clock.h"
#include "oci/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define ANSWER_MAX (4u << 20)
#define CANNOT 126

static int is_own_root(int root)
{
	struct stat a, b;
	return fstat(root, &a) == 0 && stat("/", &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static _Noreturn void exec_in(int root, const char *const argv[], int to, int errors)
{
	static char *const environment[] = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", NULL};
	int null = fd_open(AT_FDCWD, "/dev/null", O_RDWR, 0);
	dup2(null, 0);
	dup2(to, 1);
	dup2(errors ? to : null, 2);
	if (!is_own_root(root) && (fchdir(root) < 0 || chroot(".") < 0))
		_exit(CANNOT);
	if (chdir("/") == 0)
		execve(argv[0], (char *const *)argv, environment);
	_exit(CANNOT);
}

int engine_exec(int root, const char *const argv[], int errors, char **ret)
{
	const int64_t deadline = deadline_in(ENGINE_WAIT_S * NSEC_PER_SEC);
	int ends[2];
	char *buf = malloc(ANSWER_MAX);
	if (!buf || pipe2(ends, O_CLOEXEC) < 0) {
		free(buf);
		return buf ? -errno : -ENOMEM;
	}
	pid_t self = getpid(), pid = child_process_fork_quiet();
	int r = -errno;
	if (pid == 0) {
		child_process_die_with(self);
		exec_in(root, argv, ends[1], errors);
	}
	fd_close(ends[1]);
	if (pid > 0) {
		buf[fd_read_until(ends[0], buf, ANSWER_MAX - 1, deadline)] = 0;
		r = child_process_wait(pid, deadline);
	}
	fd_close(ends[0]);
	if (r >= 0)
		r = WIFEXITED(r) ? WEXITSTATUS(r) : 128 + WTERMSIG(r);
	if (r < 0 || r == CANNOT)
		free(buf);
	else
		*ret = buf;
	return r == CANNOT ? -ENOEXEC : r;
}

char *engine_exec_last_line(char *text)
{
	for (size_t n = strlen(text); n && strchr("\r\n \t", text[n - 1]);)
		text[--n] = 0;
	char *line = strrchr(text, '\n');
	return line ? line + 1 : text;
}
