/* SPDX-License-Identifier: Apache-2.0 */
/*
 * service_client - reaching the node's pilliond, and remembering that it does not answer.
 *
 * A service that failed to answer SERVICE_CLIENT_FAILURES starts in a row is skipped at once, so that a stopped or
 * wedged one costs a node two budgets and not one per container. The count is 4 bytes in `hook.state`
 * beside the control socket, made by pilliond, which sets it to zero whenever it reads a greeting or is asked for a
 * list: also those that piled up while it was stopped. So the memory ends when the service is back.
 */
#pragma once

#include "oci/base/err.h"

#include "oci/config/options.h"

#include <stddef.h>
#include <stdint.h>

#define SERVICE_CLIENT_FAILURES 2

/* Where members of the service's users_group connect: users.sock beside `control`. 0 or -ENAMETOOLONG. */
int service_client_users_path(const char *control, char *buf, size_t size);
/*
 * Returns a connected SEQPACKET socket, to users.sock where `control` is not for us. -ENOENT or -ECONNREFUSED: no
 * service listens; -EBUSY: skipped, `e` says so.
 */
int service_client_connect(const char *control, struct err *e);
/* The same for a person, who can wait: the service is never skipped. */
int service_client_connect_anyway(const char *control, struct err *e);
/* Sends HELLO. A peer that has hung up is no error yet: it may have said why, and the answer tells. */
int service_client_greet(int sock, const struct settings *s, uint32_t flags, struct err *e); /* HELLO_... */
/* Connects and sends HELLO; a service that accepts no more connections is remembered as one that does not answer. */
int service_client_reach(const struct settings *s, uint32_t flags, struct err *e);
void service_client_failed(const char *control); /* one more start without an answer */

/* pilliond's side: opens (making it) the memory beside `control`; descriptor or -errno. */
int service_client_memory_open(const char *control);
void service_client_memory_reset(int fd);
