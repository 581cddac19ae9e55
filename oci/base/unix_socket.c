/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/base/unix_socket.h"

#include "oci/base/fd.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static int set_address(const char *path, struct sockaddr_un *ret)
{
	*ret = (struct sockaddr_un){.sun_family = AF_UNIX};
	if (strlen(path) >= UNIX_SOCKET_PATH_MAX)
		return -ENAMETOOLONG;
	memcpy(ret->sun_path, path, strlen(path) + 1);
	return 0;
}

int unix_socket_new(int type)
{
	const int sock = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	return sock < 0 ? -errno : sock;
}

int unix_socket_connect(int sock, const char *path)
{
	struct sockaddr_un un;
	int r = sock < 0 ? sock : set_address(path, &un);
	if (r == 0 && connect(sock, (struct sockaddr *)&un, sizeof(un)) < 0)
		r = -errno;
	return r < 0 ? fd_close(sock), r : sock;
}

int unix_socket_listen(int sock, const char *path, mode_t mode, gid_t gid, int backlog)
{
	struct sockaddr_un un;
	int r = sock < 0 ? sock : set_address(path, &un);
	if (r == 0) {
		const mode_t old = umask(0777 & ~mode);
		r = bind(sock, (struct sockaddr *)&un, sizeof(un)) < 0 || listen(sock, backlog) < 0 ? -errno : 0;
		umask(old);
	}
	if (r == 0 && gid != (gid_t)-1 && geteuid() == 0 && chown(path, 0, gid) < 0)
		r = -errno;
	return r < 0 ? fd_close(sock), r : sock;
}

bool unix_socket_has_listener(const char *path, int type)
{
	fd_auto sock = unix_socket_connect(unix_socket_new(type), path);
	return sock >= 0 || sock == -EAGAIN;
}
