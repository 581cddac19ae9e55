/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/install/engine_exec.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "oci/base/process/child_process.h"

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
	int line;
	char *buf = malloc(ANSWER_MAX);
	int r = buf ? child_process_fork_answering(&line) : -ENOMEM;
	if (r == 0)
		exec_in(root, argv, line, errors);
	if (r > 0) {
		buf[fd_read_until(line, buf, ANSWER_MAX - 1, deadline)] = 0;
		r = child_process_wait(r, deadline);
		fd_close(line);
	}
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
