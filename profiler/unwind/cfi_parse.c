/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/unwind/cfi_parse.h"

/* An address, relative to its own place or to nothing; anything else is bad. */
static uint64_t take_address(struct dwarf_cursor *r, const struct elf_section *s, uint8_t encoding)
{
	unsigned size = dwarf_pointer_size(encoding);
	uint64_t here = s->vaddr + (uint64_t)(r->p - s->data);
	if (!size || encoding & DWARF_ENC_INDIRECT ||
		((encoding & 0x70) != 0 && (encoding & 0x70) != DWARF_ENC_PCREL)) {
		r->bad = true;
		return 0;
	}
	uint64_t v = encoding & 0x08 ? (uint64_t)dwarf_sint(r, size) : dwarf_uint(r, size);
	return encoding & 0x70 ? here + v : v;
}

static void take_augmentation(
	struct dwarf_cursor *r, const struct elf_section *s, const char *letters, struct cfi_cie *ret)
{
	for (; *letters && !r->bad; letters++) {
		switch (*letters) {
		case 'R':
			ret->encoding = dwarf_u8(r);
			break;
		case 'P': {
			uint8_t encoding = dwarf_u8(r);
			unsigned size = dwarf_pointer_size(encoding);
			r->bad |= !size;
			dwarf_take(r, size);
			break;
		}
		case 'L':
			dwarf_u8(r);
			break;
		case 'S':
			ret->signal = true;
			break;
		case 'B':
			break;
		default:
			r->bad = true;
		}
	}
}

/* DWARF 5, 6.4.1: .debug_frame tells how large an address is; .eh_frame never does. */
static void take_version(struct dwarf_cursor *r, bool debug, char letters[8], uint8_t *ret_version)
{
	size_t n = 0;
	*ret_version = dwarf_u8(r);
	r->bad |= *ret_version != 1 && *ret_version != 3 && !(debug && *ret_version == 4);
	while (!r->bad && (letters[n] = (char)dwarf_u8(r)) && ++n < 8)
		;
	r->bad |= n == 8 || (n && (debug || letters[0] != 'z'));
	if (*ret_version == 4) {
		r->bad |= dwarf_u8(r) != 8; /* bytes of an address */
		r->bad |= dwarf_u8(r) != 0; /* and of a segment selector */
	}
}

static void cie_read(const struct cfi_section *s, uint32_t off, struct cfi_cie *ret)
{
	char letters[8] = "";
	uint8_t version;
	struct dwarf_cursor r = cfi_entry_at(s->bytes, off);
	*ret = (struct cfi_cie){.off = off};
	r.bad |= dwarf_uint(&r, 4) != (s->debug ? UINT32_MAX : 0); /* that makes it a CIE */
	take_version(&r, s->debug, letters, &version);
	ret->code_align = dwarf_uleb(&r);
	ret->data_align = dwarf_sleb(&r);
	ret->ra = version == 1 ? dwarf_u8(&r) : dwarf_uleb(&r);
	ret->has_data = !r.bad && letters[0];
	if (ret->has_data) {
		uint64_t len = dwarf_uleb(&r);
		struct dwarf_cursor inner = dwarf_read(dwarf_take(&r, len), len);
		take_augmentation(&inner, s->bytes, letters + 1, ret);
		r.bad |= inner.bad;
	}
	ret->program = r;
	r.bad |= r.end - r.p > CFI_CIE_MAX;
	ret->good = !r.bad && ret->ra == DWARF_RA && ret->code_align == 1;
}

const struct cfi_cie *cfi_cie_read(struct cfi_section *s, uint32_t off)
{
	struct cfi_cie *cie = cfi_cie_slot(s, off);
	cie_read(s, off, cie);
	return cie->good ? cie : NULL;
}

/* Where the CIE of an entry is: from the word at `here` back, or from the section's beginning. */
static bool find_cie(const struct cfi_section *s, uint32_t here, uint32_t word, uint32_t *ret)
{
	*ret = s->debug ? word : here - word;
	return s->debug ? word != UINT32_MAX : word && word <= here;
}

static void take_range(struct dwarf_cursor *r, const struct elf_section *s, uint8_t encoding, struct cfi_entry *ret)
{
	int32_t range[2];
	const uint64_t here = s->vaddr + (uint64_t)(r->p - s->data);
	if (encoding == 0x1b && r->end - r->p >= 8) { /* pcrel | sdata4, as every compiler writes it */
		memcpy(range, dwarf_take(r, sizeof(range)), sizeof(range));
		ret->start = here + (uint64_t)(int64_t)range[0];
		ret->end = ret->start + (uint64_t)(int64_t)range[1];
		return;
	}
	ret->start = take_address(r, s, encoding);
	ret->end = ret->start + take_address(r, s, encoding & 0x0f);
}

bool cfi_entry_read(struct cfi_section *s, uint32_t off, struct cfi_entry *ret)
{
	const uint8_t *data = s->bytes->data;
	struct dwarf_cursor r = cfi_entry_at(s->bytes, off);
	uint32_t here = r.bad ? 0 : (uint32_t)(r.p - data), word = (uint32_t)dwarf_uint(&r, 4);
	if (r.bad || !find_cie(s, here, word, &ret->cie))
		return false;
	const struct cfi_cie *cie = cfi_cie_get(s, ret->cie);
	if (!cie)
		return false;
	take_range(&r, s->bytes, cie->encoding, ret);
	if (cie->has_data)
		dwarf_take(&r, dwarf_uleb(&r));
	if (r.bad || ret->end <= ret->start)
		return false;
	ret->program = (uint32_t)(r.p - data);
	ret->stop = (uint32_t)(r.end - data);
	return true;
}

bool cfi_entry_next(const struct cfi_section *s, uint64_t *off, uint32_t *ret)
{
	const uint8_t *data = s->bytes->data;
	uint64_t size = s->bytes->size;
	while (data && *off + 4 <= size) {
		uint32_t len, id = 0, cie = s->debug ? UINT32_MAX : 0;
		memcpy(&len, data + *off, 4);
		if ((!len && s->open_ended) || len > size - *off - 4)
			return false;
		if (len >= 4)
			memcpy(&id, data + *off + 4, 4);
		*ret = (uint32_t)*off;
		*off += 4 + (uint64_t)len;
		if (len >= 4 && id != cie)
			return true;
	}
	return false;
}
