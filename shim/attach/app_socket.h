/* SPDX-License-Identifier: Apache-2.0 */
/*
 * app_socket - what a program is given so that libpillion in it finds its profiler: a socket that listens, whose path
 * nobody else knows, and two variables of its environment (PILLION_SOCKET, LD_PRELOAD).
 *
 * The directory is of the caller's alone: /run/pillion/app/<32 hex> of root's, $XDG_RUNTIME_DIR/pillion/app/<32 hex> or
 * /tmp/pillion-<32 hex> of a user's. Whoever makes one takes away those of his that nobody listens at any more.
 */
#pragma once

#include "oci/base/err.h"
#include "oci/config/options.h"

#include <sys/un.h>

struct app_socket {
	int listener; /* -1: none */
	char socket[sizeof(((struct sockaddr_un *)0)->sun_path)];
	char library[1024];
};
#define APP_SOCKET_NONE                                                                                                \
	{                                                                                                              \
		.listener = -1                                                                                         \
	}

/*
 * For `program`, which is about to be executed. 0, or -errno with a sentence, also where the program cannot have the
 * library: it is static, or setuid.
 */
int app_socket_listen(const struct settings *s, const char *program, struct app_socket *ret, struct err *e);
int app_socket_listen_for_caller(struct app_socket *ret, struct err *e); /* one that has the library, and asks for it */
/* Of an open one: whether the library can be loaded into it. */
int app_socket_check_program(int fd, const char *program, struct err *e);
int app_socket_find_library(const struct settings *s, char *buf, size_t size, struct err *e); /* beside pilliond */
int app_socket_environment(const struct app_socket *a); /* of this process; 0 or -errno */
void app_socket_forget(struct app_socket *a);		/* it was not needed: nothing is left of it */
