/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/attach/sidecar.h"

#include "oci/base/fd.h"
#include "oci/base/process/child_process.h"
#include "oci/base/unix_socket.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* asm-generic/socket.h, since 6.5 */
#endif

#define POD_ID_MIN 32 /* a uid's digits (static Pods have no dashes), or a podman id's */

/* The length of an id, or of a uid with dashes, or with _ where systemd may not have dashes. */
static size_t id_length(const char *text)
{
	size_t n = 0;
	while (isxdigit((unsigned char)text[n]) || text[n] == '-' || text[n] == '_')
		n++;
	return n;
}

/* kubelet: pod<uid>, kubepods-burstable-pod<uid>.slice; podman: libpod_pod_<id>, libpod_parent/<id> */
static bool is_pod(const char *name)
{
	for (const char *at = name; (at = strstr(at, "pod")); at += 3)
		if (id_length(at + 3) >= POD_ID_MIN)
			return true;
	return false;
}

int sidecar_pod(const char *cgroup, char *ret, size_t size)
{
	static const char podman[] = "/libpod_parent/";
	const char *end = strrchr(cgroup, '/');
	if (!end || snprintf(ret, size, "%.*s", (int)(end - cgroup), cgroup) >= (int)size)
		return -ENOENT;
	const char *name = strrchr(ret, '/');
	const char *below = strstr(ret, podman);
	if (!name)
		return -ENOENT;
	return is_pod(name) || (below && id_length(below + strlen(podman)) >= POD_ID_MIN) ? 0 : -ENOENT;
}

/* Connects by the descriptor: the name may denote another file by then. Non-blocking: a full backlog is no answer. */
static int connect_to(int socket_file, struct err *e)
{
	char path[32];
	snprintf(path, sizeof(path), "/proc/self/fd/%d", socket_file);
	const int fd = unix_socket_connect(unix_socket_new(SOCK_SEQPACKET), path);
	if (fd < 0)
		return err_set(e, fd, "the Pod's sidecar does not answer at " SIDECAR_DIR "/" SIDECAR_SOCKET);
	fcntl(fd, F_SETFL, 0);
	return fd;
}

/* err_set's sentence for -ELOOP does not help the reader. */
static int set_open_error(int error, const char *what, struct err *e)
{
	return error == -ELOOP ? err_say(e, error, "%s: a symbolic link is not followed", what)
			       : err_set(e, error, "%s", what);
}

static int find_socket(const char *volume, struct err *e)
{
	struct stat st;
	fd_auto root = fd_open(AT_FDCWD, "/", O_PATH | O_DIRECTORY, 0);
	fd_auto dir = root < 0 ? root : fd_open_no_links(root, volume, O_PATH | O_DIRECTORY);
	if (dir < 0)
		return set_open_error(dir, "the volume at " SIDECAR_DIR " on the host", e);
	const int file = fd_open_no_links(dir, SIDECAR_SOCKET, O_PATH);
	if (file == -ENOENT)
		return err_say(e, file,
			"no sidecar listens in the volume at " SIDECAR_DIR
			" yet: it has to be started before the containers that it profiles");
	if (file < 0 || (fstat(file, &st) == 0 && S_ISSOCK(st.st_mode)))
		return file < 0 ? set_open_error(file, SIDECAR_DIR "/" SIDECAR_SOCKET, e) : file;
	fd_close(file);
	return err_say(e, -ENOTSOCK, SIDECAR_DIR "/" SIDECAR_SOCKET " is no socket");
}

/* Finds the listening process. The pid is its own as long as the pidfd says that it lives. */
static int peer_of(int sock, pid_t *ret, int *ret_pidfd, struct err *e)
{
	struct ucred who;
	socklen_t size = sizeof(who), one = sizeof(*ret_pidfd);
	if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &who, &size) < 0)
		return err_set(e, -errno, "cannot tell who listens at " SIDECAR_DIR);
	if (who.pid <= 1)
		return err_say(e, -EPERM, "who listens at " SIDECAR_DIR " is not seen from here");
	*ret = who.pid;
	*ret_pidfd = -1;
	if (getsockopt(sock, SOL_SOCKET, SO_PEERPIDFD, ret_pidfd, &one) < 0) /* an older kernel: by its pid */
		*ret_pidfd = child_process_pidfd(who.pid);
	return *ret_pidfd < 0 ? err_say(e, -ESRCH, "who made the socket at " SIDECAR_DIR " has ended") : 0;
}

static int check_peer(int sock, const struct cgroup_target *of, const char *pod, struct err *e)
{
	char cgroup[sizeof(of->path)];
	pid_t pid = 0;
	fd_auto pidfd = -1;
	int r = peer_of(sock, &pid, &pidfd, e);
	if (r < 0)
		return r;
	r = cgroup_path(pid, of->v1 ? "perf_event" : NULL, cgroup, sizeof(cgroup));
	if (r < 0 || fd_wait(pidfd, POLLIN, 0) == 1) /* the pid may be another process's by now */
		return err_say(e, r < 0 ? r : -ESRCH, "who made the socket at " SIDECAR_DIR " has ended");
	const size_t len = strlen(pod);
	if (strncmp(cgroup, pod, len) != 0 || cgroup[len] != '/')
		return err_say(e, -EPERM, "who listens at " SIDECAR_DIR " is not of the container's Pod");
	return 0;
}

int sidecar_reach(const char *volume, const struct cgroup_target *of, struct err *e)
{
	char pod[sizeof(of->path)];
	int r = sidecar_pod(of->path, pod, sizeof(pod));
	if (r < 0)
		return err_say(
			e, r, "a sidecar has to be in the container's Pod, but cgroup %.200s is in none", of->path);
	fd_auto file = find_socket(volume, e);
	const int sock = file < 0 ? file : connect_to(file, e);
	r = sock < 0 ? sock : check_peer(sock, of, pod, e);
	if (r < 0 && sock >= 0)
		fd_close(sock);
	return r < 0 ? r : sock;
}
