/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/protocol/service_client.h"

#include "oci/base/fd.h"
#include "oci/base/unix_socket.h"
#include "shim/protocol/messages.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MEMORY "hook.state"
#define USERS "users.sock"

static int format_sibling_path(const char *control, const char *name, char *buf, size_t size)
{
	const char *slash = strrchr(control, '/');
	if (!slash)
		return -EINVAL;
	return snprintf(buf, size, "%.*s/%s", (int)(slash - control), control, name) < (int)size ? 0 : -ENAMETOOLONG;
}

static int open_memory(const char *control, int flags)
{
	char path[160];
	int r = format_sibling_path(control, MEMORY, path, sizeof(path));
	return r < 0 ? r : fd_open(AT_FDCWD, path, flags | O_NOFOLLOW, 0600);
}

static uint32_t read_failure_count(int fd)
{
	uint32_t n = 0;
	return fd_pread_all(fd, &n, sizeof(n), 0) == sizeof(n) ? n : 0;
}

int service_client_users_path(const char *control, char *buf, size_t size)
{
	return format_sibling_path(control, USERS, buf, size);
}

/* Non-blocking: a full backlog is a service that does not answer, not a reason to wait here. */
static int connect_to(const char *path, struct err *e)
{
	if (strlen(path) >= UNIX_SOCKET_PATH_MAX)
		return err_set(e, -ENAMETOOLONG, "control socket %s", path);
	int fd = unix_socket_new(SOCK_SEQPACKET);
	if (fd < 0)
		return err_set(e, fd, "cannot make a socket");
	fd = unix_socket_connect(fd, path);
	return fd < 0 ? err_set(e, fd, "cannot connect to %s", path) : fd;
}

int service_client_connect(const char *control, struct err *e)
{
	fd_auto memory = open_memory(control, O_RDONLY);
	uint32_t n = memory < 0 ? 0 : read_failure_count(memory);
	if (n >= SERVICE_CLIENT_FAILURES)
		return err_say(e, -EBUSY,
			"pilliond at %s did not answer %u starts in a row and is skipped until it is back", control, n);
	return service_client_connect_anyway(control, e);
}

int service_client_connect_anyway(const char *control, struct err *e)
{
	char users[UNIX_SOCKET_PATH_MAX];
	struct err why = {0}, unused;
	int fd = connect_to(control, &why);
	if (fd == -EACCES && service_client_users_path(control, users, sizeof(users)) == 0 &&
		(fd = connect_to(users, &unused)) < 0)
		fd = -EACCES;
	if (fd < 0) {
		*e = why;
		return fd;
	}
	fcntl(fd, F_SETFL, 0);
	return fd;
}

int service_client_greet(int sock, const struct settings *s, uint32_t flags, struct err *e)
{
	union msg m;
	m.hello = (struct msg_hello){.budget_ms = s->budget_ms, .flags = flags | HELLO_SPEAKS(PROTOCOL_VERSION)};
	int r = msg_tell(sock, &m, MSG_HELLO, NULL, 0, e);
	return r < 0 ? err_wrap(e, r, "cannot greet pilliond") : 0;
}

int service_client_reach(const struct settings *s, uint32_t flags, struct err *e)
{
	int sock = service_client_connect(s->paths.control, e);
	int r = sock < 0 ? sock : service_client_greet(sock, s, flags, e);
	if (r >= 0)
		return sock;
	if (sock >= 0)
		fd_close(sock);
	if (r != -EAGAIN)
		return r;
	service_client_failed(s->paths.control);
	return err_say(e, r, "pilliond at %s does not accept connections", s->paths.control);
}

void service_client_failed(const char *control)
{
	fd_auto memory = open_memory(control, O_RDWR);
	if (memory < 0)
		return;
	/* two hooks at once may count as one: the next start makes up for it */
	uint32_t n = read_failure_count(memory) + 1;
	if (pwrite(memory, &n, sizeof(n), 0) < 0)
		return;
}

int service_client_memory_open(const char *control)
{
	return open_memory(control, O_RDWR | O_CREAT);
}

void service_client_memory_reset(int fd)
{
	uint32_t zero = 0;
	if (fd >= 0 && read_failure_count(fd) && pwrite(fd, &zero, sizeof(zero), 0) < 0)
		return;
}
