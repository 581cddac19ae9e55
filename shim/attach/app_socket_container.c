/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/attach/app_socket_container.h"

#include "oci/base/fd.h"
#include "shim/attach/app_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static const char *last_part(const char *path)
{
	return strrchr(path, '/') + 1;
}

/* Removes the socket of an earlier start. A file of another type stays, and bind(2) then fails. */
static void remove_old(const char *name)
{
	struct stat st;
	if (lstat(name, &st) == 0 && S_ISSOCK(st.st_mode))
		unlink(name);
}

/* Binds a name in the current directory: the whole path may be too long for sun_path. */
static int listen_here(const char *name)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	memcpy(at.sun_path, name, strlen(name) + 1);
	remove_old(name);
	/* by descriptor: the name may denote another file by now */
	if (fd >= 0 && fchmod(fd, 0666) == 0 && bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0 &&
		listen(fd, SOMAXCONN) == 0)
		return fd;
	const int r = -errno;
	fd_close(fd);
	return r;
}

static bool has_library(int dir)
{
	struct stat st;
	return fstatat(dir, last_part(APP_CONTAINER_LIBRARY), &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode);
}

int app_socket_listen_in_container(int root, int program, const char *name, struct err *e)
{
	fd_auto dir = fd_open_beneath(root, APP_CONTAINER_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
	if (dir < 0 || !has_library(dir))
		return err_say(e, -ENOENT,
			"the container has no " APP_CONTAINER_LIBRARY
			": start it with the options that `pillion inject` prints");
	int r = program < 0 ? 0 : app_socket_check_program(program, name, e);
	if (r < 0)
		return r;
	const mode_t mask = umask(0);
	r = fchdir(dir) < 0 ? -errno : listen_here(last_part(APP_CONTAINER_SOCKET));
	umask(mask);
	return r < 0 ? err_set(e, r, "cannot make " APP_CONTAINER_SOCKET " in the container") : r;
}
