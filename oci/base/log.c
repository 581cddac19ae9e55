/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/base/log.h"

#include "oci/base/fd.h"
#include "oci/base/unix_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LOG_FILE "/var/log/pillion/pillion.log"

static struct {
	const char *program;
	int fd, level;
	bool is_syslog;
} sink = {.program = "pillion", .fd = -1, .level = LOG_WARNING};

static const struct {
	const char *name;
	int level;
} levels[] = {{"error", LOG_ERR}, {"warn", LOG_WARNING}, {"info", LOG_INFO}, {"debug", LOG_DEBUG}};

static int open_file(const char *path)
{
	return fd_open(AT_FDCWD, path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0640);
}

void log_open(const char *program, const char *destination)
{
	log_close();
	sink.program = program;
	if (destination && !strcmp(destination, "stderr")) {
		sink.fd = fcntl(2, F_DUPFD_CLOEXEC, 3);
	} else if (destination && destination[0] == '/') {
		sink.fd = open_file(destination);
	} else {
		sink.fd = unix_socket_connect(unix_socket_new(SOCK_DGRAM), "/dev/log");
		sink.is_syslog = sink.fd >= 0;
		if (sink.fd < 0) {
			mkdir("/var/log/pillion", 0750);
			sink.fd = open_file(LOG_FILE);
		}
	}
}

void log_program(const char *program)
{
	sink.program = program;
}

void log_level(int level)
{
	sink.level = level;
}

int log_parse_level(const char *text)
{
	for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++)
		if (!strcmp(levels[i].name, text))
			return levels[i].level;
	return -EINVAL;
}

static const char *level_name(int level)
{
	for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++)
		if (levels[i].level == level)
			return levels[i].name;
	return "notice";
}

/* Nothing from a container's annotations may start a new line or move a terminal's cursor. */
static void replace_control_chars(char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s < 0x20 || *s == 0x7f)
			*s = '?';
}

void log_line(int level, const char *fmt, ...)
{
	char body[1024], line[1200];
	if (level > sink.level || sink.fd < 0)
		return;
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(body, sizeof(body), fmt, ap);
	va_end(ap);
	replace_control_chars(body);

	struct timespec ts;
	struct tm tm;
	char when[32];
	clock_gettime(CLOCK_REALTIME, &ts);
	gmtime_r(&ts.tv_sec, &tm);
	int n;
	if (sink.is_syslog) {
		strftime(when, sizeof(when), "%b %e %H:%M:%S", &tm);
		n = snprintf(line, sizeof(line), "<%d>%s %s[%d]: %s", LOG_DAEMON | level, when, sink.program,
			(int)getpid(), body);
	} else {
		strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S", &tm);
		n = snprintf(line, sizeof(line), "time=%s.%03ldZ level=%s prog=%s pid=%d %s\n", when,
			ts.tv_nsec / 1000000, level_name(level), sink.program, (int)getpid(), body);
	}
	if (n >= (int)sizeof(line))
		n = (int)sizeof(line) - 1;
	/* one write: lines of several writers do not mix; a full pipe or disk drops the line */
	if (write(sink.fd, line, (size_t)n) < 0)
		return;
}

int log_fd(void)
{
	return sink.fd;
}

void log_close(void)
{
	sink.fd = fd_close(sink.fd);
	sink.is_syslog = false;
}
