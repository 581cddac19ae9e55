/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/elf/minidebuginfo.h"

#include <errno.h>
#include <lzma.h>
#include <stdlib.h>

#define CHUNK (64u << 10)

struct unpacking {
	struct elf_source src;
	uint64_t at, left; /* of the packed bytes */
	lzma_stream lzma;
	uint8_t *out;
	size_t room, limit;
	uint8_t in[CHUNK];
};

static int fill_input(struct unpacking *u)
{
	if (u->lzma.avail_in || !u->left)
		return 0;
	ssize_t n = u->src.read(u->src.arg, u->in, u->left < CHUNK ? (size_t)u->left : CHUNK, u->at);
	if (n <= 0)
		return n < 0 ? (int)n : -EBADMSG;
	u->lzma.next_in = u->in;
	u->lzma.avail_in = (size_t)n;
	u->at += (uint64_t)n;
	u->left -= (uint64_t)n;
	return 0;
}

static int make_room(struct unpacking *u)
{
	if (u->lzma.avail_out)
		return 0;
	if (u->room == u->limit)
		return -EFBIG;
	size_t room = u->room ? u->room * 2 : CHUNK;
	if (room > u->limit)
		room = u->limit;
	uint8_t *bigger = realloc(u->out, room);
	if (!bigger)
		return -ENOMEM;
	u->out = bigger;
	u->lzma.next_out = bigger + u->room;
	u->lzma.avail_out = room - u->room;
	u->room = room;
	return 0;
}

/* 1: go on. */
static int decode_chunk(struct unpacking *u)
{
	int r = fill_input(u);
	if (r == 0)
		r = make_room(u);
	if (r < 0)
		return r;
	switch (lzma_code(&u->lzma, u->left ? LZMA_RUN : LZMA_FINISH)) {
	case LZMA_OK:
		return 1;
	case LZMA_STREAM_END:
		return 0;
	case LZMA_MEM_ERROR:
		return -ENOMEM;
	case LZMA_MEMLIMIT_ERROR:
		return -EFBIG;
	default: /* LZMA_BUF_ERROR: it ends before its end */
		return -EBADMSG;
	}
}

static size_t limit_for(uint64_t size)
{
	uint64_t limit =
		size > MINIDEBUGINFO_MAX / MINIDEBUGINFO_RATIO ? MINIDEBUGINFO_MAX : size * MINIDEBUGINFO_RATIO;
	return limit > MINIDEBUGINFO_SMALL ? (size_t)limit : MINIDEBUGINFO_SMALL;
}

static int decode_stream(struct unpacking *u)
{
	int r = lzma_stream_decoder(&u->lzma, MINIDEBUGINFO_MAX, 0) == LZMA_OK ? 1 : -ENOMEM;
	while (r == 1)
		r = decode_chunk(u);
	lzma_end(&u->lzma);
	return r;
}

int minidebuginfo_unpack(
	struct elf_source src, uint64_t offset, uint64_t size, uint8_t **ret, size_t *ret_size, struct err *e)
{
	struct unpacking *u = calloc(1, sizeof(*u));
	int r = -ENOMEM;
	if (u) {
		*u = (struct unpacking){.src = src, .at = offset, .left = size, .limit = limit_for(size)};
		r = decode_stream(u);
	}
	if (r == 0) {
		*ret = u->out;
		*ret_size = (size_t)u->lzma.total_out;
	} else if (u) {
		free(u->out);
	}
	free(u);
	if (r == -EBADMSG)
		return err_say(e, r, ".gnu_debugdata: not xz, or damaged");
	if (r == -EFBIG)
		return err_say(e, r, ".gnu_debugdata: takes too much memory to unpack");
	return r < 0 ? err_set(e, r, ".gnu_debugdata") : 0;
}
