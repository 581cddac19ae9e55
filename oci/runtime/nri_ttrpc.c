/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/runtime/nri_ttrpc.h"

#include "oci/base/array.h"
#include "oci/base/protobuf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SERVICE "nri.pkg.api.v1alpha1.Plugin"
#define RUNTIME "nri.pkg.api.v1alpha1.Runtime"
#define VERSION_OF_NRI "v0.6.1" /* these messages are of this version; older runtimes ignore it */

enum connection { PLUGIN = 1, RUNTIME_CALLS = 2, CONNECTIONS };
enum message_type { REQUEST = 1, RESPONSE = 2 };

#define MUX_HEADER 8u
#define TTRPC_HEADER 10u
#define MUX_FRAME_MAX (64u << 20) /* more than any runtime sends; beyond it we have lost our place */
#define CODE_UNIMPLEMENTED 12	  /* google.rpc.Code */

static const struct {
	const char *method;
	enum nri_call call;
} calls[] = {
	{"Configure", NRI_CONFIGURE},
	{"Synchronize", NRI_SYNCHRONIZE},
	{"Shutdown", NRI_SHUTDOWN},
	{"CreateContainer", NRI_CREATE_CONTAINER},
	{"StartContainer", NRI_START_CONTAINER},
	{"StateChange", NRI_STATE_CHANGE},
};

/* A growing buffer: it keeps its size, up to one message. */
struct bytes {
	uint8_t *at;
	size_t len, size;
};

struct nri {
	nri_fn *fn;
	void *arg;
	uint8_t header[MUX_HEADER]; /* of a mux frame, the bytes so far */
	size_t header_len;
	uint32_t connection, left;    /* of the frame under way */
	struct bytes in[CONNECTIONS]; /* a ttrpc message under way */
	struct bytes out;
};

static uint32_t read_be32(const uint8_t *at)
{
	return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static void write_be32(uint8_t *at, size_t value)
{
	at[0] = (uint8_t)(value >> 24);
	at[1] = (uint8_t)(value >> 16);
	at[2] = (uint8_t)(value >> 8);
	at[3] = (uint8_t)value;
}

static int reserve_space(struct bytes *b, size_t more)
{
	return array_reserve(&b->at, &b->size, b->len + more, 1, 0);
}

static int append_bytes(struct bytes *b, const void *data, size_t len)
{
	int r = reserve_space(b, len);
	if (r == 0 && len) {
		memcpy(b->at + b->len, data, len);
		b->len += len;
	}
	return r;
}

int nri_new(nri_fn *fn, void *arg, struct nri **ret)
{
	*ret = calloc(1, sizeof(**ret));
	if (!*ret)
		return -ENOMEM;
	(*ret)->fn = fn;
	(*ret)->arg = arg;
	return 0;
}

struct nri *nri_free(struct nri *n)
{
	for (size_t i = 0; n && i < CONNECTIONS; i++)
		free(n->in[i].at);
	if (n)
		free(n->out.at);
	free(n);
	return NULL;
}

/* --- messages ----------------------------------------------------------------------------------------------- */

static enum nri_call call_of(const struct pb_field *service, const struct pb_field *method)
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		if (pb_equals(service, SERVICE) && pb_equals(method, calls[i].method))
			return calls[i].call;
	return NRI_UNKNOWN;
}

/* ttrpc.Request{service = 1, method = 2, payload = 3} */
static int dispatch_request(struct nri *n, uint32_t stream, const uint8_t *body, size_t len, struct err *e)
{
	struct pb m = pb_of(body, len);
	struct pb_field f, part[4] = {[1] = {.data = ""}, [2] = {.data = ""}, [3] = {.data = ""}};
	while (pb_next(&m, &f))
		if (f.type == PB_BYTES && f.number <= 3)
			part[f.number] = f;
	if (m.bad)
		return err_say(e, -EBADMSG, "the runtime's request is no message");
	n->fn(n->arg, call_of(&part[1], &part[2]), stream, part[3].data, part[3].len);
	return 0;
}

/* ttrpc.Response{status = 1: google.rpc.Status{code = 1, message = 2}, payload = 2} */
static int dispatch_response(struct nri *n, const uint8_t *body, size_t len, struct err *e)
{
	struct pb m = pb_of(body, len), status = pb_of(NULL, 0);
	struct pb_field f, why = {.data = "it does not say why", .len = 19};
	uint64_t code = 0;
	while (pb_next(&m, &f))
		if (pb_is(&f, 1))
			status = pb_inside(&f);
	while (pb_next(&status, &f))
		if (f.number == 1 && f.type == PB_VARINT)
			code = f.value;
		else if (pb_is(&f, 2) && f.len)
			why = f;
	if (m.bad || status.bad)
		return err_say(e, -EBADMSG, "the runtime's answer is no message");
	n->fn(n->arg, NRI_REGISTERED, 0, why.data, code ? why.len : 0);
	return 0;
}

static int dispatch_message(struct nri *n, enum connection c, const uint8_t *at, size_t len, struct err *e)
{
	uint32_t stream = read_be32(at + 4);
	uint8_t type = at[8];
	at += TTRPC_HEADER;
	len -= TTRPC_HEADER;
	if (c == PLUGIN && type == REQUEST)
		return dispatch_request(n, stream, at, len, e);
	if (c == RUNTIME_CALLS && type == RESPONSE)
		return dispatch_response(n, at, len, e);
	return 0; /* of a stream that we never opened, or of a kind that is not invented yet */
}

/* Handles all whole messages of a connection. */
static int dispatch_messages(struct nri *n, enum connection c, struct err *e)
{
	struct bytes *b = &n->in[c];
	size_t at = 0;
	int r = 0;
	while (r == 0 && b->len - at >= TTRPC_HEADER) {
		size_t len = read_be32(b->at + at);
		if (len > NRI_MESSAGE_MAX)
			return err_say(e, -EMSGSIZE, "the runtime's message has %zu bytes, %u is the most", len,
				NRI_MESSAGE_MAX);
		if (b->len - at - TTRPC_HEADER < len)
			break;
		r = dispatch_message(n, c, b->at + at, TTRPC_HEADER + len, e);
		at += TTRPC_HEADER + len;
	}
	b->len -= at;
	if (at)
		memmove(b->at, b->at + at, b->len);
	return r;
}

/* --- frames ------------------------------------------------------------------------------------------------- */

static int parse_mux_header(struct nri *n, struct err *e)
{
	n->header_len = 0;
	n->connection = read_be32(n->header);
	n->left = read_be32(n->header + 4);
	return n->left > MUX_FRAME_MAX ? err_say(e, -EMSGSIZE, "the runtime's frame has %u bytes", n->left) : 0;
}

/* Takes one piece, and handles the whole messages before the next: so no more than one is kept. */
static int receive_payload(struct nri *n, const uint8_t *bytes, size_t len, struct err *e)
{
	if (n->connection != PLUGIN && n->connection != RUNTIME_CALLS)
		return 0;
	if (append_bytes(&n->in[n->connection], bytes, len) < 0)
		return err_say(e, -ENOMEM, "no memory for the runtime's message");
	return dispatch_messages(n, (enum connection)n->connection, e);
}

int nri_feed(struct nri *n, const void *bytes, size_t len, struct err *e)
{
	const uint8_t *at = bytes;
	int r = 0;
	while (r == 0 && len) {
		size_t want = n->left ? n->left : MUX_HEADER - n->header_len;
		size_t most = n->left ? 65536 : MUX_HEADER;
		size_t take = want < len ? want : len;
		take = take < most ? take : most;
		if (n->left) {
			r = receive_payload(n, at, take, e);
			n->left -= (uint32_t)take;
		} else {
			memcpy(n->header + n->header_len, at, take);
			n->header_len += take;
			if (n->header_len == MUX_HEADER)
				r = parse_mux_header(n, e);
		}
		at += take;
		len -= take;
	}
	return r;
}

/* --- our messages ------------------------------------------------------------------------------------------- */

static int send_message(
	struct nri *n, enum connection c, uint32_t stream, enum message_type type, const struct protobuf_writer *body)
{
	uint8_t head[MUX_HEADER + TTRPC_HEADER] = {0};
	if (body->failed)
		return -ENOMEM;
	write_be32(head, c);
	write_be32(head + 4, TTRPC_HEADER + body->len);
	write_be32(head + 8, body->len);
	write_be32(head + 12, stream);
	head[16] = type;
	int r = reserve_space(&n->out, sizeof(head) + body->len);
	if (r == 0)
		r = append_bytes(&n->out, head, sizeof(head));
	return r < 0 ? r : append_bytes(&n->out, body->bytes, body->len);
}

int nri_register(struct nri *n, const char *name, const char *index)
{
	uint8_t call[256], all[512];
	struct protobuf_writer c = protobuf_writer_fixed(call, sizeof(call)),
			       o = protobuf_writer_fixed(all, sizeof(all));
	protobuf_writer_text(&c, 1, name);
	protobuf_writer_text(&c, 2, index);
	protobuf_writer_text(&c, 3, VERSION_OF_NRI);
	protobuf_writer_text(&o, 1, RUNTIME);
	protobuf_writer_text(&o, 2, "RegisterPlugin");
	protobuf_writer_message(&o, 3, &c);
	return send_message(n, RUNTIME_CALLS, 1, REQUEST, &o);
}

int nri_answer(struct nri *n, uint32_t stream, const void *answer, size_t len)
{
	struct protobuf_writer o = {0};
	if (len)
		protobuf_writer_bytes(&o, 2, answer, len);
	int r = send_message(n, PLUGIN, stream, RESPONSE, &o);
	protobuf_writer_done(&o);
	return r;
}

int nri_unimplemented(struct nri *n, uint32_t stream)
{
	uint8_t status[64], all[80];
	struct protobuf_writer s = protobuf_writer_fixed(status, sizeof(status)),
			       o = protobuf_writer_fixed(all, sizeof(all));
	protobuf_writer_number(&s, 1, CODE_UNIMPLEMENTED);
	protobuf_writer_text(&s, 2, "pillion has no such method");
	protobuf_writer_message(&o, 1, &s);
	return send_message(n, PLUGIN, stream, RESPONSE, &o);
}

const void *nri_unsent(const struct nri *n, size_t *ret_len)
{
	*ret_len = n->out.len;
	return n->out.at;
}

void nri_sent(struct nri *n, size_t len)
{
	n->out.len -= len;
	if (n->out.len)
		memmove(n->out.at, n->out.at + len, n->out.len);
}

bool nri_full(const struct nri *n)
{
	return n->out.len > NRI_UNSENT_MAX;
}
