/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/daemon/sd_notify.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "oci/base/unix_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define FIRST_FD 3 /* SD_LISTEN_FDS_START */
#define CONTROL "control"

/* Copies a variable into `buf`, "" when it is not set, and unsets it: no child shall find it. */
static const char *take_env_variable(const char *name, char *buf, size_t size)
{
	const char *value = getenv(name);
	snprintf(buf, size, "%s", value ? value : "");
	unsetenv(name);
	return buf;
}

/* 0 = no number */
static uint64_t take_number(const char *name)
{
	char text[24], *end;
	take_env_variable(name, text, sizeof(text));
	errno = 0;
	unsigned long long value = strtoull(text, &end, 10);
	return *end || errno || text[0] == '-' ? 0 : value;
}

/* --- descriptors from the manager ----------------------------------------------------------------------- */

static bool has_socket_option(int fd, int option, int wanted)
{
	int value;
	socklen_t size = sizeof(value);
	return getsockopt(fd, SOL_SOCKET, option, &value, &size) == 0 && value == wanted;
}

static int check_listener(int fd, struct err *e)
{
	if (!has_socket_option(fd, SO_TYPE, SOCK_SEQPACKET) || !has_socket_option(fd, SO_ACCEPTCONN, 1))
		return err_say(e, -EINVAL,
			"descriptor %d of the service manager is no listening Unix socket of packets "
			"(ListenSequentialPacket=)",
			fd);
	if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0 || fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
		return err_set(e, -errno, "descriptor %d of the service manager", fd);
	return 0;
}

/* Returns the next of the names, which ':' divide; there may be fewer names than descriptors. */
static const char *next_name(char **names)
{
	char *name = *names, *end = name + strcspn(name, ":");
	*names = *end ? end + 1 : end;
	*end = 0;
	return name;
}

struct sockets {
	int n, control, other; /* number; the one with that name; the first with another name; or -1 */
};

static void sort_in(struct inherited_fds *h, struct sockets *sockets, const char *name, int fd)
{
	if (!strncmp(name, SD_NOTIFY_KEPT, strlen(SD_NOTIFY_KEPT)) && strlen(name) < SD_NOTIFY_NAME_MAX) {
		struct stored_fd *k = &h->kept[h->n_kept++];
		snprintf(k->name, sizeof(k->name), "%s", name);
		k->fd = fd;
		fcntl(fd, F_SETFD, FD_CLOEXEC);
		return;
	}
	sockets->n++;
	if (!strcmp(name, CONTROL) && sockets->control < 0)
		sockets->control = fd;
	else if (sockets->other < 0)
		sockets->other = fd;
	else
		fd_close(fd);
}

/* A single socket may have any name. */
static int choose_control_socket(struct sockets *sockets, struct err *e)
{
	if (sockets->control < 0 && sockets->n == 1)
		sockets->control = sockets->other;
	else
		fd_close(sockets->other);
	if (sockets->control >= 0 || !sockets->n)
		return 0;
	return err_say(e, -EINVAL,
		"the service manager hands over %d sockets, and none has FileDescriptorName=" CONTROL, sockets->n);
}

int sd_notify_handed(struct inherited_fds *ret, struct err *e)
{
	struct sockets sockets = {0, -1, -1};
	bool ours = take_number("LISTEN_PID") == (uint64_t)getpid();
	uint64_t n = take_number("LISTEN_FDS");
	const char *said = getenv("LISTEN_FDNAMES");
	char *names = strdup(said ? said : ""), *at = names;
	unsetenv("LISTEN_FDNAMES");
	*ret = (struct inherited_fds){.listener = -1};
	int r = 0;
	if (ours && n > SD_NOTIFY_FDS_MAX)
		r = err_say(e, -EINVAL, "the service manager hands over %llu sockets", (unsigned long long)n);
	else if (ours && n && (!names || !(ret->kept = calloc(n, sizeof(*ret->kept)))))
		r = err_set(e, -ENOMEM, "what the service manager hands over");
	for (int i = 0; ours && r == 0 && i < (int)n; i++)
		sort_in(ret, &sockets, next_name(&at), FIRST_FD + i);
	free(names);
	if (r == 0)
		r = choose_control_socket(&sockets, e);
	if (r == 0 && sockets.control >= 0)
		r = check_listener(sockets.control, e);
	if (r == 0)
		ret->listener = sockets.control;
	else
		sd_notify_handed_done(ret);
	return r;
}

void sd_notify_handed_done(struct inherited_fds *h)
{
	while (h->n_kept)
		fd_close(h->kept[--h->n_kept].fd);
	free(h->kept);
	h->kept = NULL;
}

/* --- messages to the manager ---------------------------------------------------------------------------- */

/* "/path" or "@abstract" */
static int connect_to(const char *address)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	size_t len = strlen(address);
	if ((address[0] != '/' && address[0] != '@') || len < 2 || len >= sizeof(un.sun_path))
		return -EINVAL;
	memcpy(un.sun_path, address, len);
	if (address[0] == '@')
		un.sun_path[0] = 0;
	/* a name in the file system ends with a 0, an abstract one with its length */
	socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + (address[0] == '/'));
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&un, size) == 0)
		return fd;
	int r = -errno;
	fd_close(fd);
	return r;
}

int sd_notify_open(struct sd_notify *m, struct err *e)
{
	char address[UNIX_SOCKET_PATH_MAX + 8];
	uint64_t usec = take_number("WATCHDOG_USEC"), pid = take_number("WATCHDOG_PID");
	*m = (struct sd_notify){.sock = -1};
	take_env_variable("NOTIFY_SOCKET", address, sizeof(address));
	if (!address[0])
		return 0;
	m->sock = connect_to(address);
	if (m->sock < 0) {
		int r = m->sock;
		m->sock = -1;
		return err_set(e, r, "cannot speak to the service manager at %s", address);
	}
	if (usec && usec < INT64_MAX / 1000 && (pid == 0 || pid == (uint64_t)getpid()))
		m->watchdog_ns = (int64_t)usec * 1000 / 2;
	return 0;
}

static void send_notification(const struct sd_notify *m, const char *text)
{
	if (send(m->sock, text, strlen(text), MSG_NOSIGNAL) < 0)
		return;
}

void sd_notify_say(const struct sd_notify *m, const char *fmt, ...)
{
	char text[512];
	va_list ap;
	if (m->sock < 0)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	fd_wait(m->sock, POLLOUT, deadline_in(SD_NOTIFY_PATIENCE_MS * NSEC_PER_MSEC));
	send_notification(m, text);
}

int sd_notify_keep(const struct sd_notify *m, const char *name, int fd)
{
	char text[32 + SD_NOTIFY_NAME_MAX];
	int n = snprintf(text, sizeof(text), "FDSTORE=1\nFDPOLL=0\nFDNAME=%s", name);
	return m->sock < 0 ? -ENOTCONN : fd_send(m->sock, text, (size_t)n, &fd, 1);
}

int sd_notify_drop(const struct sd_notify *m, const char *name)
{
	char text[32 + SD_NOTIFY_NAME_MAX];
	int n = snprintf(text, sizeof(text), "FDSTOREREMOVE=1\nFDNAME=%s", name);
	return m->sock < 0 ? -ENOTCONN : fd_send(m->sock, text, (size_t)n, NULL, 0);
}

int sd_notify_round(struct sd_notify *m, unsigned targets)
{
	int64_t now = clock_now();
	char text[64];
	if (!m->watchdog_ns)
		return -1;
	if (now >= m->due) {
		snprintf(text, sizeof(text), "WATCHDOG=1\nSTATUS=targets: %u", targets);
		send_notification(m, text);
		m->due = now + m->watchdog_ns;
	}
	return deadline_left_ms(m->due);
}

void sd_notify_close(struct sd_notify *m)
{
	m->sock = fd_close(m->sock);
	m->watchdog_ns = 0;
}
