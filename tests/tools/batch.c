/* SPDX-License-Identifier: Apache-2.0 */
/* batch - sends itself as many descriptors as one message may carry, and prints how many came. Of the hook's C library.
 */
#include "oci/base/fd.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

int main(void)
{
	int pair[2], sent[FD_PASS_MAX], got[FD_PASS_MAX];
	size_t n = 0;
	char c = 0;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) < 0)
		return 2;
	for (size_t i = 0; i < FD_PASS_MAX; i++)
		sent[i] = pair[0];
	int r = fd_send(pair[0], &c, 1, sent, FD_PASS_MAX);
	if (r == 0)
		r = (int)fd_recv(pair[1], &c, 1, got, FD_PASS_MAX, &n);
	printf("%s %zu\n", r < 0 ? strerror(-r) : "ok", n);
	return 0;
}
