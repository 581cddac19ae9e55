/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log - one line, key=value, to the system log, else to a file. Programs log; library code returns errors.
 *
 *	log_open("pillion-hook", NULL);
 *	log_line(LOG_WARNING, "container=%s stage=open reason=\"%s\"", id, e.text);
 *
 * Destinations: "syslog" (the /dev/log socket, RFC 3164; journald reads it too), "stderr", or a path.
 * NULL: /dev/log where it exists, else /var/log/pillion/pillion.log. A log that cannot be written is dropped.
 */
#pragma once

#include <syslog.h>

void log_open(const char *program, const char *destination);
void log_program(const char *program); /* another name in the lines to come; not copied */
void log_level(int level);	       /* LOG_ERR ... LOG_DEBUG; default LOG_WARNING */
/* Parses "error", "warn", "info", "debug": level or -EINVAL. */
int log_parse_level(const char *text);
void log_line(int level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int log_fd(void); /* for callers that close all other descriptors; -1: not open */
void log_close(void);
