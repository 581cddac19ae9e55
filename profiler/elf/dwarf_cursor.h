/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dwarf_cursor - reading DWARF's own encodings out of hostile bytes (DWARF 5, 7.6; LSB core, "DWARF Extensions").
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define DWARF_ENC_PCREL 0x10
#define DWARF_ENC_ALIGNED 0x50
#define DWARF_ENC_INDIRECT 0x80

/* A place in a section; running over the end or meeting something refused sets `bad`, and all reads are 0 from then on.
 */
struct dwarf_cursor {
	const uint8_t *p, *end;
	bool bad;
};

static inline struct dwarf_cursor dwarf_read(const uint8_t *data, uint64_t size)
{
	return (struct dwarf_cursor){data, data ? data + size : NULL, !data};
}

static inline const uint8_t *dwarf_take(struct dwarf_cursor *r, uint64_t n)
{
	if (r->bad || n > (uint64_t)(r->end - r->p)) {
		r->bad = true;
		return NULL;
	}
	r->p += n;
	return r->p - n;
}

static inline uint8_t dwarf_u8(struct dwarf_cursor *r)
{
	if (r->bad || r->p == r->end) {
		r->bad = true;
		return 0;
	}
	return *r->p++;
}

/* Little-endian, of 1, 2, 4 or 8 bytes. */
static inline uint64_t dwarf_uint(struct dwarf_cursor *r, unsigned size)
{
	const uint8_t *p = dwarf_take(r, size);
	uint64_t v = 0;
	if (p)
		memcpy(&v, p, size);
	return v;
}

static inline int64_t dwarf_sint(struct dwarf_cursor *r, unsigned size)
{
	uint64_t v = dwarf_uint(r, size);
	unsigned unused = 64 - 8 * size;
	return (int64_t)(v << unused) >> unused;
}

/* LEB128, at most the 64 bits that the evaluator has. *ret_bits: how many were there. */
static __attribute__((noinline, unused)) uint64_t dwarf_leb(
	struct dwarf_cursor *r, unsigned *ret_bits, bool *ret_negative)
{
	uint64_t v = 0;
	for (unsigned shift = 0; shift < 70; shift += 7) {
		uint8_t b = dwarf_u8(r);
		if (shift < 64)
			v |= (uint64_t)(b & 0x7f) << shift;
		if (!(b & 0x80)) {
			*ret_bits = shift + 7;
			*ret_negative = b & 0x40;
			return v;
		}
	}
	r->bad = true;
	*ret_bits = 64;
	*ret_negative = false;
	return 0;
}

static inline uint64_t dwarf_uleb(struct dwarf_cursor *r)
{
	unsigned bits;
	bool negative;
	if (!r->bad && r->p < r->end && *r->p < 0x80) /* nearly all of them */
		return *r->p++;
	return dwarf_leb(r, &bits, &negative);
}

static inline int64_t dwarf_sleb(struct dwarf_cursor *r)
{
	unsigned bits;
	bool negative;
	uint64_t v = dwarf_leb(r, &bits, &negative);
	return (int64_t)(negative && bits < 64 ? v | UINT64_MAX << bits : v);
}

/* Bytes of an encoded pointer, 0 for those that we do not take. */
static inline unsigned dwarf_pointer_size(uint8_t encoding)
{
	static const uint8_t sizes[16] = {[0x0] = 8, [0x2] = 2, [0x3] = 4, [0x4] = 8, [0xa] = 2, [0xb] = 4, [0xc] = 8};
	return (encoding & 0x70) == DWARF_ENC_ALIGNED ? 0 : sizes[encoding & 0xf];
}
