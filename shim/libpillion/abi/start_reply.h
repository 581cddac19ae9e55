/* SPDX-License-Identifier: Apache-2.0 */
/*
 * start_reply - the reply of `pilliond --library` to the program that started it (launch.h), by an inherited pipe, once
 * its socket listens and the program is profiled, or cannot be. One message, written in one piece; end of file without
 * one: pilliond died.
 */
#pragma once

#include <stdint.h>
#include <sys/un.h>

#define START_REPLY_MAGIC 0x73746172 /* "star" */
#define START_REPLY_VERSION 1
#define START_REPLY_PIPE 3 /* the descriptor, in pilliond */

struct start_reply {
	uint32_t magic, version;
	int32_t code; /* 0, or -errno */
	uint32_t reserved;
	char socket[sizeof(((struct sockaddr_un *)0)->sun_path)]; /* PILLION_SOCKET */
	char text[320]; /* the reason of the failure, or the part that could not be met */
};
