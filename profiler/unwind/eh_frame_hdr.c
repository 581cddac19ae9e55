/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/unwind/eh_frame_hdr.h"

#include "profiler/elf/dwarf_cursor.h"
#include "profiler/elf/elf_arch.h"
#include "profiler/unwind/cfi_parse.h"

#include <errno.h>
#include <string.h>

/* .eh_frame_hdr as every linker writes it; another encoding has no table that could be searched. */
#define ENC_TABLE 0x3b /* DW_EH_PE_datarel | DW_EH_PE_sdata4 */
#define ENC_COUNT 0x03 /* DW_EH_PE_udata4 */
#define ENC_OMIT 0xff

#define PROGRAM_MAX 65536 /* bytes of instructions */
#define REMEMBER_MAX 64	  /* states remembered at a time */

static void take_pointer(struct dwarf_cursor *r, uint8_t encoding)
{
	unsigned size = dwarf_pointer_size(encoding);
	if (!size)
		r->bad = true;
	dwarf_take(r, size);
}

/*
 * The operands of an opcode, one letter for each: 1 2 4 8 bytes, l = LEB128, r = register (LEB128), e = expression. An
 * opcode that is in no row is refused.
 */
struct opcodes {
	uint8_t first, last;
	const char *operands;
};

/* DWARF 5, 7.7.1: no jumps, no division, nothing that digs into the evaluation stack. */
static const struct opcodes expression_opcodes[] = {
	{0x06, 0x06, ""},  /* deref */
	{0x08, 0x09, "1"}, /* const1u, const1s */
	{0x0a, 0x0b, "2"},
	{0x0c, 0x0d, "4"},
	{0x0e, 0x0f, "8"},
	{0x10, 0x11, "l"},		    /* constu, consts */
	{0x12, 0x12, ""},		    /* dup */
	{0x1a, 0x1a, ""},		    /* and */
	{0x1c, 0x1c, ""},		    /* minus */
	{0x1e, 0x1e, ""},		    /* mul */
	{0x21, 0x22, ""},		    /* or, plus */
	{0x23, 0x23, "l"},		    /* plus_uconst */
	{0x24, 0x26, ""},		    /* shl, shr, shra */
	{0x29, 0x2e, ""},		    /* eq, ge, gt, le, lt, ne */
	{0x30, 0x4f, ""},		    /* lit0 ... lit31 */
	{0x70, 0x70 + DWARF_REGS - 1, "l"}, /* breg0 ... */
	{0x96, 0x96, ""},		    /* nop */
	{0, 0, NULL},
};

/* DWARF 5, 7.24. DW_CFA_set_loc (1) is refused: no compiler emits it. */
static const struct opcodes instruction_opcodes[] = {
	{0x00, 0x00, ""},  /* nop */
	{0x02, 0x02, "1"}, /* advance_loc1 */
	{0x03, 0x03, "2"},
	{0x04, 0x04, "4"},
	{0x05, 0x05, "ll"}, /* offset_extended */
	{0x06, 0x08, "l"},  /* restore_extended, undefined, same_value */
	{0x09, 0x09, "lr"}, /* register */
	{0x0a, 0x0b, ""},   /* remember_state, restore_state */
	{0x0c, 0x0c, "rl"}, /* def_cfa */
	{0x0d, 0x0d, "r"},  /* def_cfa_register */
	{0x0e, 0x0e, "l"},  /* def_cfa_offset */
	{0x0f, 0x0f, "e"},  /* def_cfa_expression */
	{0x10, 0x10, "le"}, /* expression */
	{0x11, 0x11, "ll"}, /* offset_extended_sf */
	{0x12, 0x12, "rl"}, /* def_cfa_sf */
	{0x13, 0x13, "l"},  /* def_cfa_offset_sf */
	{0x14, 0x15, "ll"}, /* val_offset, val_offset_sf */
	{0x16, 0x16, "le"}, /* val_expression */
	{0x2e, 0x2e, "l"},  /* GNU_args_size */
	{0x2f, 0x2f, "ll"}, /* GNU_negative_offset_extended */
	{0x40, 0x7f, ""},   /* advance_loc, its operand in the low bits, as in the next two */
	{0x80, 0xbf, "l"},  /* offset */
	{0xc0, 0xff, ""},   /* restore */
	{0, 0, NULL},
};

static void take_expression(struct dwarf_cursor *r);

static void take_operands(struct dwarf_cursor *r, const char *kinds)
{
	for (; *kinds && !r->bad; kinds++) {
		if (*kinds == 'l')
			dwarf_uleb(r);
		else if (*kinds == 'r')
			r->bad |= dwarf_uleb(r) >= DWARF_REGS;
		else if (*kinds == 'e')
			take_expression(r);
		else
			dwarf_take(r, (uint64_t)(*kinds - '0'));
	}
}

static uint8_t take_opcode(struct dwarf_cursor *r, const struct opcodes *row)
{
	uint8_t op = dwarf_u8(r);
	while (row->operands && !(op >= row->first && op <= row->last))
		row++;
	if (row->operands)
		take_operands(r, row->operands);
	else
		r->bad = true;
	return op;
}

static void take_expression(struct dwarf_cursor *r)
{
	uint64_t len = dwarf_uleb(r);
	struct dwarf_cursor inner = dwarf_read(dwarf_take(r, len), len);
	while (!inner.bad && inner.p < inner.end)
		take_opcode(&inner, expression_opcodes);
	r->bad |= inner.bad;
}

static void vet_instructions(struct dwarf_cursor *r)
{
	unsigned remembered = 0;
	r->bad |= r->end - r->p > PROGRAM_MAX;
	while (!r->bad && r->p < r->end) {
		uint8_t op = take_opcode(r, instruction_opcodes);
		if (op == 0x0a)
			r->bad |= ++remembered > REMEMBER_MAX;
		else if (op == 0x0b)
			r->bad |= remembered-- == 0;
	}
}

struct cie {
	bool has_data;	      /* 'z': FDEs carry augmentation data */
	uint8_t fde_encoding; /* of the FDE's addresses */
};

static void vet_augmentation(struct dwarf_cursor *r, const char *letters, struct cie *ret)
{
	for (; *letters && !r->bad; letters++) {
		switch (*letters) {
		case 'R':
			ret->fde_encoding = dwarf_u8(r);
			break;
		case 'P':
			take_pointer(r, dwarf_u8(r));
			break;
		case 'L':
			dwarf_u8(r);
			break;
		case 'S':
		case 'B':
			break;
		default:
			r->bad = true;
		}
	}
}

static bool vet_cie(struct dwarf_cursor r, struct cie *ret)
{
	char letters[8];
	*ret = (struct cie){0};
	r.bad |= (uint32_t)dwarf_uint(&r, 4) != 0; /* 0 makes it a CIE */
	uint8_t version = dwarf_u8(&r);
	r.bad |= version != 1 && version != 3;
	size_t n = 0;
	while ((letters[n] = (char)dwarf_u8(&r)) && ++n < sizeof(letters))
		;
	if (n == sizeof(letters) || r.bad)
		return false;
	ret->has_data = letters[0] == 'z';
	r.bad |= n > 0 && !ret->has_data;
	take_operands(&r, version == 1 ? "ll1" : "lll"); /* code and data alignment, return address column */
	if (ret->has_data) {
		uint64_t len = dwarf_uleb(&r);
		struct dwarf_cursor augmentation = dwarf_read(dwarf_take(&r, len), len);
		vet_augmentation(&augmentation, letters + 1, ret);
		r.bad |= augmentation.bad;
	}
	vet_instructions(&r);
	return !r.bad;
}

static bool vet_fde(const struct elf_section *s, uint64_t off)
{
	struct cie cie;
	struct dwarf_cursor r = cfi_entry_at(s, off);
	uint64_t here = r.bad ? 0 : (uint64_t)(r.p - s->data);
	uint32_t back = (uint32_t)dwarf_uint(&r, 4); /* from this word to the CIE */
	if (r.bad || !back || back > here || !vet_cie(cfi_entry_at(s, here - back), &cie))
		return false;
	r.bad |= !!(cie.fde_encoding & DWARF_ENC_INDIRECT);
	take_pointer(&r, cie.fde_encoding);
	take_pointer(&r, cie.fde_encoding); /* the length of the code, of the same size */
	if (cie.has_data)
		dwarf_take(&r, dwarf_uleb(&r));
	vet_instructions(&r);
	return !r.bad;
}

struct entry { /* both relative to the section */
	int32_t start, fde;
};

/* Where the search table begins in .eh_frame_hdr, and how many entries are really there. */
static size_t table_find(const struct elf_section *hdr, const uint8_t **ret)
{
	struct dwarf_cursor r = dwarf_read(hdr->data, hdr->size);
	uint8_t version = dwarf_u8(&r), ptr = dwarf_u8(&r), count = dwarf_u8(&r), table = dwarf_u8(&r);
	if (r.bad || version != 1 || ptr == ENC_OMIT || count != ENC_COUNT || table != ENC_TABLE)
		return 0;
	take_pointer(&r, ptr);
	size_t n = (uint32_t)dwarf_uint(&r, 4), whole = (size_t)(r.end - r.p) / sizeof(struct entry);
	*ret = r.p;
	return r.bad ? 0 : n < whole ? n : whole;
}

static struct entry entry_get(const uint8_t *table, size_t i)
{
	struct entry e;
	memcpy(&e, table + i * sizeof(e), sizeof(e));
	return e;
}

/* How many entries start at or below `vaddr`: the last of them is the one that may cover it. */
static size_t search_table(const struct elf_section *hdr, uint64_t vaddr, const uint8_t **ret_table)
{
	size_t lo = 0, hi = table_find(hdr, ret_table);
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (hdr->vaddr + (uint64_t)(int64_t)entry_get(*ret_table, mid).start > vaddr)
			hi = mid;
		else
			lo = mid + 1;
	}
	return lo;
}

/* The entry of the table that begins last at or below `vaddr`, and where its FDE lies in .eh_frame. */
static int find_last(const struct elf *f, uint64_t vaddr, const uint8_t **ret_entry, uint64_t *ret_offset)
{
	const uint8_t *table = NULL;
	size_t n = search_table(&f->eh_frame_hdr, vaddr, &table);
	if (!n)
		return -ENOENT;
	*ret_entry = table + (n - 1) * sizeof(struct entry);
	*ret_offset = f->eh_frame_hdr.vaddr + (uint64_t)(int64_t)entry_get(table, n - 1).fde - f->eh_frame.vaddr;
	return *ret_offset < f->eh_frame.size ? 0 : -EBADMSG;
}

static bool read_range(const struct elf *f, uint64_t offset, struct cfi_entry *ret)
{
	struct cfi_section s = {.bytes = &f->eh_frame};
	return cfi_entry_read(&s, (uint32_t)offset, ret);
}

int eh_frame_hdr_last(const struct elf *f, uint64_t vaddr, uint64_t *ret_start, uint64_t *ret_end)
{
	const uint8_t *entry;
	uint64_t offset;
	struct cfi_entry range = {0};
	int r = find_last(f, vaddr, &entry, &offset);
	if (r == 0 && (!read_range(f, offset, &range) || range.start > vaddr))
		r = -EBADMSG;
	if (r < 0)
		return r;
	*ret_start = range.start;
	*ret_end = range.end;
	return 0;
}

int eh_frame_hdr_find(const struct elf *f, uint64_t vaddr, uint64_t *ret_entry)
{
	const uint8_t *entry;
	uint64_t offset;
	struct cfi_entry range = {0};
	int r = find_last(f, vaddr, &entry, &offset);
	if (r < 0)
		return r;
	if (!vet_fde(&f->eh_frame, offset))
		return -EBADMSG;
	if (read_range(f, offset, &range) && vaddr >= range.end)
		return -ENOENT;
	*ret_entry = f->eh_frame_hdr.vaddr + (uint64_t)(entry - f->eh_frame_hdr.data);
	return 0;
}
