/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/event/insn_length.h"

#include <errno.h>
#include <stdbool.h>

/*
 * From the Intel SDM, volume 2, chapter 2 and appendix A, and the AMD64 APM, volume 3, for XOP; without APX.
 * A letter for each opcode: the bytes that follow it.
 *	. nothing	m ModRM		b one byte	z two or four, by the operand's size	d four, of jumps
 *	i ModRM and a byte	j ModRM and z	w two	e two and a byte	v a register's size	o an address
 *	f ModRM and, of its first two, z (F7), g: a byte (F6)	c ModRM that is never memory
 *	x none, p a prefix	E escape
 */
static const char one_byte[256 + 1] = "mmmmbzxxmmmmbzxE"
				      "mmmmbzxxmmmmbzxx"
				      "mmmmbzpxmmmmbzpx"
				      "mmmmbzpxmmmmbzpx"
				      "xxxxxxxxxxxxxxxx" /* REX: taken before */
				      "................"
				      "xxxmppppzjbi...."
				      "bbbbbbbbbbbbbbbb"
				      "ijximmmmmmmmmmmm"
				      "..........x....."
				      "oooo....bz......"
				      "bbbbbbbbvvvvvvvv"
				      "iiw.xxije.w..bx."
				      "mmmmxxx.mmmmmmmm"
				      "bbbbbbbbddxb...."
				      "p.pp..gf......mm";
static const char two_bytes[256 + 1] = "mmmmx.....x.xm.i"
				       "mmmmmmmmmmmmmmmm"
				       "ccccxxxxmmmmmmmm"
				       "......x.ExExxxxx"
				       "mmmmmmmmmmmmmmmm"
				       "mmmmmmmmmmmmmmmm"
				       "mmmmmmmmmmmmmmmm"
				       "iiiimmm.mmxxmmmm"
				       "dddddddddddddddd"
				       "mmmmmmmmmmmmmmmm"
				       "...mimmm...mimmm"
				       "mmmmmmmmmmimmmmm"
				       "mmimiiim........"
				       "mmmmmmmmmmmmmmmm"
				       "mmmmmmmmmmmmmmmm"
				       "mmmmmmmmmmmmmmmm";

struct insn {
	const uint8_t *bytes;
	size_t size, at;
	bool wide, narrow, short_address; /* REX.W; 66; 67 */
	bool repne, fixed;		  /* F2; by VEX and the like, where 66 and F2 are part of the opcode */
};

static int peek_byte(const struct insn *i, size_t ahead)
{
	return i->at + ahead < i->size ? i->bytes[i->at + ahead] : -ENODATA;
}

/* Prefixes in any order; REX counts where it is the last one. */
static int take_prefixes(struct insn *i)
{
	int c;
	for (; (c = peek_byte(i, 0)) >= 0; i->at++) {
		if ((c & 0xf0) == 0x40) {
			i->wide = c & 8;
			continue;
		}
		if (one_byte[c] != 'p')
			return c;
		i->wide = false;
		i->narrow |= c == 0x66;
		i->short_address |= c == 0x67;
		i->repne |= c == 0xf2;
	}
	return c;
}

static size_t get_operand_size(const struct insn *i)
{
	return i->narrow && !i->wide ? 2 : 4;
}

/* ModRM, SIB and displacement. */
static int read_modrm(struct insn *i, bool never)
{
	const int modrm = peek_byte(i, 0), mod = modrm >> 6, low = modrm & 7;
	if (modrm < 0)
		return modrm;
	i->at++;
	if (mod == 3 || never)
		return modrm;
	int base = low;
	if (low == 4) {
		base = peek_byte(i, 0);
		if (base < 0)
			return base;
		base &= 7;
		i->at++;
	}
	i->at += mod == 1 ? 1 : mod == 2 || base == 5 ? 4 : 0;
	return modrm;
}

static int skip_operands(struct insn *i, char what)
{
	int modrm = 0;
	switch (what) {
	case '.':
		break;
	case 'b':
		i->at += 1;
		break;
	case 'w':
		i->at += 2;
		break;
	case 'e':
		i->at += 3;
		break;
	case 'd':
		if (i->narrow && !i->wide) /* Intel's have four, AMD's two */
			return -EINVAL;
		i->at += 4;
		break;
	case 'z':
		i->at += get_operand_size(i);
		break;
	case 'v':
		i->at += i->wide ? 8 : get_operand_size(i);
		break;
	case 'o':
		i->at += i->short_address ? 4 : 8;
		break;
	case 'm':
	case 'c':
	case 'i':
	case 'j':
	case 'f':
	case 'g':
		modrm = read_modrm(i, what == 'c');
		i->at += what == 'i' ? 1 : what == 'j' ? get_operand_size(i) : 0;
		if (modrm >= 0 && (modrm >> 3 & 7) < 2)
			i->at += what == 'g' ? 1 : what == 'f' ? get_operand_size(i) : 0;
		break;
	default:
		return -EINVAL;
	}
	return modrm < 0 ? modrm : 0;
}

/* extrq and insertq of AMD's have two bytes behind (66 0F 78, F2 0F 78). */
static int take_map(struct insn *i, unsigned map, int opcode)
{
	if (map == 1 && opcode == 0x78 && !i->fixed && (i->narrow || i->repne)) {
		int r = skip_operands(i, 'i');
		i->at++;
		return r;
	}
	if (map == 1)
		return skip_operands(i, i->fixed && two_bytes[opcode] != 'i' ? 'm' : two_bytes[opcode]);
	return map == 2 ? skip_operands(i, 'm') : map == 3 ? skip_operands(i, 'i') : -EINVAL;
}

/* Behind 0F. */
static int take_escaped(struct insn *i)
{
	const int c = peek_byte(i, 0), next = peek_byte(i, 1);
	if (c < 0)
		return c;
	i->at++;
	if (c != 0x38 && c != 0x3a)
		return take_map(i, 1, c);
	i->at++;
	return next < 0 ? next : take_map(i, c == 0x38 ? 2 : 3, next);
}

/* VEX (C5, C4), EVEX (62) and XOP (8F): the map is in the prefix, the opcode behind it. */
static int take_vector(struct insn *i, int first)
{
	const int second = peek_byte(i, 1);
	const size_t size = first == 0xc5 ? 2 : first == 0x62 ? 4 : 3;
	const int opcode = peek_byte(i, size);
	if (second < 0 || opcode < 0)
		return -ENODATA;
	const unsigned map = first == 0xc5 ? 1 : second & (first == 0x62 ? 7 : 0x1f);
	i->at += size + 1;
	i->fixed = true;
	i->wide = true; /* no operand of two bytes */
	if (first == 0x8f)
		return map == 8	   ? skip_operands(i, 'i')
		       : map == 9  ? skip_operands(i, 'm')
		       : map == 10 ? skip_operands(i, 'j')
				   : -EINVAL;
	if (first == 0x62 && (map == 5 || map == 6)) /* AVX512-FP16 */
		return skip_operands(i, 'm');
	if (first != 0x62 && map == 1 && opcode == 0x77) /* vzeroupper */
		return 0;
	return map >= 1 && map <= 3 ? take_map(i, map, opcode) : -EINVAL;
}

int insn_length(const uint8_t *bytes, size_t size)
{
	struct insn i = {.bytes = bytes, .size = size < INSN_LENGTH_MAX ? size : INSN_LENGTH_MAX};
	const int c = take_prefixes(&i), next = peek_byte(&i, 1);
	int r = c;
	if (c == 0xc4 || c == 0xc5 || c == 0x62 || (c == 0x8f && next >= 0 && (next & 0x1f) >= 8)) {
		r = take_vector(&i, c);
	} else if (c >= 0) {
		i.at++;
		r = one_byte[c] == 'E' ? take_escaped(&i) : skip_operands(&i, one_byte[c]);
	}
	if (r == 0 && i.at > i.size)
		r = -ENODATA;
	/* longer ones are no instructions, wherever they end */
	return r == -ENODATA && size >= INSN_LENGTH_MAX ? -EINVAL : r < 0 ? r : (int)i.at;
}
