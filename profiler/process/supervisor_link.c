/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/process/supervisor_link.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#define PATIENCE_NS (50 * NSEC_PER_MSEC)

void supervisor_request(int channel, const struct worker_request *r, int fd)
{
	if (channel >= 0)
		fd_send(channel, r, sizeof(*r), &fd, fd >= 0);
}

int supervisor_list_processes(int channel, uint32_t number, char *text, size_t size)
{
	struct worker_request q = {REQUEST_LIST_PROCESSES, number, 0};
	int pair[2];
	if (channel < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -ENOTCONN;
	int r = fd_send(channel, &q, sizeof(q), &pair[1], 1);
	fd_close(pair[1]);
	if (r == 0)
		r = fd_wait(pair[0], POLLIN, clock_now() + PATIENCE_NS);
	ssize_t got = r == 1 ? fd_recv(pair[0], text, size - 1, NULL, 0, &(size_t){0}) : r < 0 ? r : -ETIMEDOUT;
	fd_close(pair[0]);
	text[got < 0 ? 0 : got] = 0;
	return (int)got;
}
