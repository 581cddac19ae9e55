/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nri_ttrpc - the plugin's end of a connection to the Node Resource Interface of containerd and CRI-O: its two layers
 * of framing and its calls (containerd/nri pkg/net/multiplex, pkg/api/api.proto; containerd/ttrpc PROTOCOL.md). No I/O:
 * the caller has the socket, feeds the bytes that it received, and sends the unsent ones.
 *
 *	mux	u32 connection, u32 length, big-endian. On one of our two connections the runtime calls us (service
 *		Plugin), on the other we call it (service Runtime). Any other is skipped.
 *		Frames of a connection are a stream: a message may begin and end anywhere in them.
 *	ttrpc	u32 length, u32 stream, big-endian, u8 type (1 request, 2 response), u8 flags; then a protobuf
 *		`Request` or `Response`. A message has 4 MiB at most.
 *
 * The runtime is no enemy, but it passes on text from tenants, and may be of any version. A malformed frame ends the
 * connection (-EBADMSG, -EMSGSIZE with a sentence): the runtime then goes on without us, whereas an error as an answer
 * would fail the container's start. Memory is bounded by two messages, one for each connection; the caller does not
 * read while more than NRI_UNSENT_MAX bytes wait to be sent (nri_full).
 */
#pragma once

#include "oci/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NRI_SOCKET "/var/run/nri/nri.sock"
#define NRI_MESSAGE_MAX (4u << 20)
#define NRI_UNSENT_MAX (1u << 20)

enum nri_call {
	NRI_UNKNOWN,
	NRI_CONFIGURE,
	NRI_SYNCHRONIZE,
	NRI_SHUTDOWN,
	NRI_CREATE_CONTAINER,
	NRI_START_CONTAINER,
	NRI_STATE_CHANGE, /* among others from runtimes that have no StartContainer */
	NRI_REGISTERED,	  /* not a call: the answer to nri_register; payload: why it refused us, "": it accepted us */
};

/* The events of api.proto that we ask for, as bits of Configure's answer. */
#define NRI_EVENT_CREATE_CONTAINER 4
#define NRI_EVENT_START_CONTAINER 6
#define NRI_EVENT_BIT(event) (1u << ((event)-1))

/* `payload` is the call's message, valid until the function returns. It may be answered later, with `stream`. */
typedef void nri_fn(void *arg, enum nri_call call, uint32_t stream, const void *payload, size_t len);

struct nri;
int nri_new(nri_fn *fn, void *arg, struct nri **ret);
struct nri *nri_free(struct nri *n);

int nri_feed(struct nri *n, const void *bytes, size_t len, struct err *e); /* 0, or close the connection */
/* The next three: 0 or -ENOMEM. */
int nri_register(struct nri *n, const char *name, const char *index); /* our first message */
int nri_answer(struct nri *n, uint32_t stream, const void *payload, size_t len);
int nri_unimplemented(struct nri *n, uint32_t stream); /* means to a runtime "this plugin does not care" */

const void *nri_unsent(const struct nri *n, size_t *ret_len);
void nri_sent(struct nri *n, size_t len);
bool nri_full(const struct nri *n);
