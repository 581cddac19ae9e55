/* SPDX-License-Identifier: Apache-2.0 */
/*
 * app_socket - lets a program with libpillion find its profiler: by a listening socket at a path that no other process
 * knows, and by two environment variables (PILLION_SOCKET, LD_PRELOAD).
 *
 * The directory belongs to the caller alone: /run/pillion/app/<32 hex> for root, $XDG_RUNTIME_DIR/pillion/app/<32 hex>
 * or /tmp/pillion-<32 hex> for a user. A caller that makes one removes its user's earlier ones where no process listens
 * any more.
 */
#pragma once

#include "oci/base/err.h"
#include "oci/base/unix_socket.h"
#include "oci/config/options.h"

struct app_socket {
	int listener; /* -1: none */
	char socket[UNIX_SOCKET_PATH_MAX];
	char library[1024];
};
#define APP_SOCKET_NONE                                                                                                \
	{                                                                                                              \
		.listener = -1                                                                                         \
	}

/*
 * Makes the socket for `program`, which is about to be executed. 0, or -errno with a sentence, also when the program
 * cannot load the library: it is static, or setuid.
 */
int app_socket_listen(const struct settings *s, const char *program, struct app_socket *ret, struct err *e);
int app_socket_listen_for_caller(struct app_socket *ret, struct err *e); /* the caller has loaded the library itself */
/* Checks whether the library can be loaded into the program open at `fd`. 0, or -errno with a sentence. */
int app_socket_check_program(int fd, const char *program, struct err *e);
int app_socket_find_library(const struct settings *s, char *buf, size_t size, struct err *e); /* beside pilliond */
int app_socket_environment(const struct app_socket *a); /* sets both variables in this process; 0 or -errno */
void app_socket_forget(struct app_socket *a);		/* not needed: closes and removes the socket */
