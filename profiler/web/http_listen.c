/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/web/http_listen.h"

#include "oci/base/fd.h"
#include "oci/base/unix_socket.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define TOKEN_BYTES 16

/* Makes the path of a file beside the control socket. */
static void format_sibling_path(const struct settings *set, const char *name, char *buf, size_t size)
{
	const char *slash = strrchr(set->paths.control, '/');
	snprintf(buf, size, "%.*s/%s", slash ? (int)(slash - set->paths.control) : 0, set->paths.control, name);
}

/* --- a Unix socket -------------------------------------------------------------------------------------- */

static int listen_at(const char *path, gid_t gid, bool instead, struct err *e)
{
	struct stat st;
	if (strlen(path) >= UNIX_SOCKET_PATH_MAX)
		return err_set(e, -ENAMETOOLONG, "metrics: %s", path);
	if (!instead && unix_socket_has_listener(path, SOCK_STREAM))
		return err_say(e, -EADDRINUSE, "metrics: somebody listens at %s", path);
	if (lstat(path, &st) == 0 && !S_ISSOCK(st.st_mode))
		return err_say(e, -EEXIST, "metrics: %s is there, and no socket", path);
	unlink(path);
	const int fd = unix_socket_listen(unix_socket_new(SOCK_STREAM), path, 0660, gid, 16);
	return fd < 0 ? err_set(e, fd, "metrics: cannot listen at %s", path) : fd;
}

/* --- a port --------------------------------------------------------------------------------------------- */

static bool is_token(const char *text)
{
	size_t n = 0;
	while (isxdigit((unsigned char)text[n]))
		n++;
	return n == 2 * TOKEN_BYTES && !text[n];
}

static int make_token(char *buf, size_t size)
{
	uint8_t bytes[TOKEN_BYTES];
	if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
		return -errno;
	for (size_t i = 0; i < sizeof(bytes); i++)
		snprintf(buf + 2 * i, size - 2 * i, "%02x", bytes[i]);
	explicit_bzero(bytes, sizeof(bytes));
	return 0;
}

/* Only root can write to the directory. */
static int open_token(const char *path, gid_t gid, char *buf, size_t size)
{
	char text[4 * TOKEN_BYTES];
	bool there = fd_read_text(AT_FDCWD, path, text, sizeof(text)) == 0 && is_token(text);
	if (there)
		snprintf(buf, size, "%.*s", 2 * TOKEN_BYTES, text);
	explicit_bzero(text, sizeof(text)); /* children inherit our stack */
	if (there)
		return 0;
	int r = make_token(buf, size);
	if (r < 0)
		return r;
	unlink(path);
	fd_auto fd = fd_open(AT_FDCWD, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
	if (fd < 0)
		return fd;
	r = fd_write_all(fd, buf, strlen(buf));
	if (r == 0 && ((geteuid() == 0 && fchown(fd, 0, gid) < 0) || fchmod(fd, 0640) < 0))
		r = -errno;
	return r;
}

/* `shared`: allow another socket of our user on the port, until that one is closed. */
static int bind_port(uint16_t port, bool shared)
{
	struct sockaddr_in in = {
		.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)); /* connections of a predecessor linger */
	if (shared)
		setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &(int){1}, sizeof(int));
	int r = bind(fd, (struct sockaddr *)&in, sizeof(in)) < 0 || (shared && listen(fd, 16) < 0) ? -errno : 0;
	return r < 0 ? fd_close(fd), r : fd;
}

/* The next supervisor may need the port while our exporter still has it, so it is shared; at first it must be free. */
static int listen_on(uint16_t port, bool instead, struct err *e)
{
	int alone = instead ? -1 : bind_port(port, false);
	int r = instead || alone >= 0 ? 0 : alone;
	fd_close(alone);
	if (r == 0)
		r = bind_port(port, true);
	return r < 0 ? err_set(e, r, "metrics: cannot listen on 127.0.0.1:%u", port) : r;
}

static int open_port(const struct settings *set, gid_t gid, bool instead, struct http_listener *ret, struct err *e)
{
	char path[128];
	ret->port = (uint16_t)atoi(strchr(set->paths.metrics, ':') + 1);
	format_sibling_path(set, "http.token", path, sizeof(path));
	int r = open_token(path, gid, ret->token, sizeof(ret->token));
	return r < 0 ? err_set(e, r, "metrics: no token at %s", path) : listen_on(ret->port, instead, e);
}

int http_listen(const struct settings *set, gid_t gid, bool instead, struct http_listener *ret, struct err *e)
{
	char path[128];
	ret->fd = -1;
	ret->port = 0;
	ret->token[0] = 0;
	if (!strcmp(set->paths.metrics, "off"))
		return 0;
	format_sibling_path(set, "http.sock", path, sizeof(path));
	int fd = set->paths.metrics[0] == '/' ? listen_at(set->paths.metrics, gid, instead, e)
		 : set->paths.metrics[0]      ? open_port(set, gid, instead, ret, e)
					      : listen_at(path, gid, instead, e);
	if (fd < 0)
		return fd;
	ret->fd = fd;
	return 0;
}
