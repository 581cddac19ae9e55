/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/elf/gopclntab.h"

#include "profiler/elf/elf_arch.h"

#include <string.h>

#define MAGIC_1_2 0xfffffffbu
#define MAGIC_1_16 0xfffffffau
#define MAGIC_1_18 0xfffffff0u
#define MAGIC_1_20 0xfffffff1u
#define HEADER 72	 /* of 1.18; the older ones are shorter, their tables never that short */
#define NAME_MAX_HERE 40 /* longer ones are none that is looked for */

/*
 * struct _func of src/runtime/runtime2.go: offsets of its fields, where the first one has 4 bytes (gofunc.record allows
 * for the 8 of older versions)
 */
enum { FUNC_NAME = 4, FUNC_FILES = 20, FUNC_LINES = 24, FUNC_UNIT = 32 };

static bool u32_at(const struct gopclntab *t, uint64_t off, uint32_t *ret)
{
	if (off > t->size || t->size - off < sizeof(*ret))
		return false;
	memcpy(ret, t->data + off, sizeof(*ret));
	return true;
}

/* Of 4 bytes, or of 8 in versions before 1.18. */
static bool field_at(const struct gopclntab *t, uint64_t off, uint64_t *ret)
{
	*ret = 0;
	if (off > t->size || t->size - off < t->field)
		return false;
	if (t->field == 8)
		memcpy(ret, t->data + off, 8);
	else
		memcpy(ret, t->data + off, 4);
	return true;
}

/*
 * For each field, the number of its word in the header. Names, pcs and functions are offsets; 0: the whole table's
 * beginning.
 */
static const struct version {
	uint32_t magic;
	uint8_t text, names, units, files, pcs, funcs, list, field;
} versions[] = {
	{MAGIC_1_2, 0, 0, 0, 0, 0, 0, 0, 8}, /* the list begins behind the number of functions; it has no units */
	{MAGIC_1_16, 0, 2, 3, 4, 5, 6, 6, 8},
	{MAGIC_1_18, 2, 3, 4, 5, 6, 7, 7, 4},
	{MAGIC_1_20, 2, 3, 4, 5, 6, 7, 7, 4},
};

bool gopclntab_open(const uint8_t *data, size_t size, struct gopclntab *ret)
{
	const struct version *v = versions, *end = v + sizeof(versions) / sizeof(*v);
	uint32_t magic;
	uint64_t words[8];
	if (!data || size < HEADER)
		return false;
	memcpy(&magic, data, sizeof(magic));
	memcpy(words, data + 8, sizeof(words));
	while (v < end && v->magic != magic)
		v++;
	if (v == end || (data[6] != 1 && data[6] != 4) || data[7] != 8)
		return false;
	*ret = (struct gopclntab){.data = data,
		.size = size,
		.text = v->text ? words[v->text] : 0,
		.names = v->names ? words[v->names] : 0,
		.units = v->units ? words[v->units] : 0,
		.files = v->files ? words[v->files] : 0,
		.pcs = v->pcs ? words[v->pcs] : 0,
		.funcs = v->funcs ? words[v->funcs] : 0,
		.list = v->list ? words[v->list] : 16,
		.field = v->field,
		.quantum = data[6]};
	if (ret->funcs > size || ret->names > size || ret->pcs > size || ret->list > size || ret->units > size ||
		ret->files > size)
		return false;
	size_t room = (size - ret->list) / (2 * ret->field);
	ret->n_funcs = words[0] < room ? (size_t)words[0] : room;
	if (ret->field == 8) /* addresses are absolute: text only has to be code */
		return field_at(ret, ret->list, &ret->text) && ret->text;
	return ret->text;
}

/* The flags of gofunc for functions that have these names. */
enum what { ORDINARY, ROOT, SIGRETURN, SWITCHES };
#define NAMED(text, what)                                                                                              \
	{                                                                                                              \
		sizeof(text) - 1, what, text                                                                           \
	}
#define NAMED_TWICE(text, what) NAMED(text, what), NAMED(text ".abi0", what)
static const struct {
	size_t len;
	enum what what;
	const char *text;
} named[] = {
	NAMED_TWICE("runtime.goexit", ROOT),
	NAMED_TWICE("runtime.mstart", ROOT),
	NAMED_TWICE("runtime.rt0_go", ROOT),
	NAMED(ELF_ARCH_GO_ENTRY, ROOT),
	NAMED_TWICE("runtime.sigreturn", SIGRETURN),
	NAMED_TWICE("runtime.sigreturn__sigaction", SIGRETURN),
	NAMED_TWICE("runtime.systemstack", SWITCHES),
	NAMED_TWICE("runtime.mcall", SWITCHES),
	NAMED_TWICE("runtime.morestack", SWITCHES),
	NAMED_TWICE("runtime.asmcgocall", SWITCHES),
	/* these call the vdso, which needs more stack than a goroutine has */
	NAMED_TWICE("time.now", SWITCHES),
	NAMED_TWICE("runtime.walltime", SWITCHES),
	NAMED_TWICE("runtime.nanotime1", SWITCHES),
};

static enum what what_is(const struct gopclntab *t, uint64_t name)
{
	if (name >= t->size)
		return ORDINARY;
	const char *text = (const char *)t->data + name;
	if (*text != 'r' && *text != 't' && *text != '_') /* as all in the list begin */
		return ORDINARY;
	size_t room = t->size - name, len = strnlen(text, room < NAME_MAX_HERE ? room : NAME_MAX_HERE);
	for (size_t i = 0; i < sizeof(named) / sizeof(*named); i++)
		if (named[i].len == len && !memcmp(text, named[i].text, len))
			return named[i].what;
	return ORDINARY;
}

bool gopclntab_range(const struct gopclntab *t, size_t i, struct gofunc *ret)
{
	uint32_t pcsp;
	uint64_t start, off, end, at = t->list + 2 * t->field * (uint64_t)i, base = t->field == 4 ? t->text : 0;
	if (!field_at(t, at, &start) || !field_at(t, at + t->field, &off) || !field_at(t, at + 2 * t->field, &end) ||
		end <= start || off > t->size || !u32_at(t, t->funcs + off + t->field + 12, &pcsp))
		return false;
	*ret = (struct gofunc){.start = base + start,
		.end = base + end,
		.record = t->funcs + off + t->field - 4,
		.pcsp = pcsp && t->pcs + pcsp < t->size && t->pcs + pcsp <= UINT32_MAX ? (uint32_t)(t->pcs + pcsp) : 0};
	return ret->end > ret->start;
}

bool gopclntab_func(const struct gopclntab *t, size_t i, struct gofunc *ret)
{
	uint32_t name;
	if (!gopclntab_range(t, i, ret) || !u32_at(t, ret->record + FUNC_NAME, &name))
		return false;
	const enum what what = what_is(t, t->names + name);
	ret->is_root = what == ROOT;
	ret->is_sigreturn = what == SIGRETURN;
	ret->switches = what == SWITCHES;
	return true;
}

/* An unsigned varint of at most 32 bits. */
static inline bool take_varint(struct godeltas *d, uint32_t *ret)
{
	*ret = 0;
	if (d->p < d->end && *d->p < 0x80) { /* nearly all of them */
		*ret = *d->p++;
		return true;
	}
	for (unsigned shift = 0; shift < 35 && d->p < d->end; shift += 7) {
		uint8_t b = *d->p++;
		*ret |= shift < 32 ? (uint32_t)(b & 0x7f) << shift : 0;
		if (!(b & 0x80))
			return true;
	}
	return false;
}

void godeltas_begin(const struct gopclntab *t, const struct gofunc *f, struct godeltas *ret)
{
	*ret = (struct godeltas){.p = t->data + f->pcsp,
		.end = f->pcsp ? t->data + t->size : t->data + f->pcsp,
		.pc = f->start,
		.delta = -1,
		.quantum = t->quantum,
		.first = true};
}

bool godeltas_next(struct godeltas *d, uint64_t *ret_from)
{
	uint32_t value, pcs;
	if (!take_varint(d, &value) || (value == 0 && !d->first) || !take_varint(d, &pcs))
		return false;
	d->first = false;
	d->delta += value & 1 ? -(int64_t)(value >> 1) - 1 : (int64_t)(value >> 1);
	*ret_from = d->pc;
	d->pc += (uint64_t)pcs * d->quantum;
	return pcs > 0;
}

/* --- names and lines */

#define STRETCHES_MAX 65536 /* of a function, looked at in a search */

static const char *string_at(const struct gopclntab *t, uint64_t off)
{
	if (off >= t->size || !t->data[off])
		return NULL;
	size_t room = t->size - off, look = room < GOPCLNTAB_STRING_MAX ? room : GOPCLNTAB_STRING_MAX;
	return memchr(t->data + off, 0, look) ? (const char *)t->data + off : NULL;
}

bool gopclntab_find(const struct gopclntab *t, uint64_t address, struct gofunc *ret)
{
	uint64_t base = t->field == 4 ? t->text : 0;
	size_t low = 0, high = t->n_funcs; /* those below low begin at or before the address */
	while (low < high) {
		size_t mid = low + (high - low) / 2;
		uint64_t start;
		if (field_at(t, t->list + 2 * t->field * (uint64_t)mid, &start) && base + start <= address)
			low = mid + 1;
		else
			high = mid;
	}
	return low && gopclntab_func(t, low - 1, ret) && address >= ret->start && address < ret->end;
}

const char *gopclntab_name(const struct gopclntab *t, const struct gofunc *f)
{
	uint32_t name;
	return u32_at(t, f->record + FUNC_NAME, &name) ? string_at(t, t->names + name) : NULL;
}

/* Reads the value for an address from the table that a field of the function's record names. */
static bool value_at(const struct gopclntab *t, const struct gofunc *f, unsigned field, uint64_t address, int64_t *ret)
{
	uint32_t off;
	uint64_t from;
	struct godeltas d;
	if (!u32_at(t, f->record + field, &off) || !off || t->pcs + off >= t->size)
		return false;
	struct gofunc values = {.start = f->start, .end = f->end, .pcsp = (uint32_t)(t->pcs + off)};
	godeltas_begin(t, &values, &d);
	for (int i = 0; i < STRETCHES_MAX && godeltas_next(&d, &from); i++)
		if (address >= from && address < d.pc) {
			*ret = d.delta;
			return true;
		}
	return false;
}

bool gopclntab_line(
	const struct gopclntab *t, const struct gofunc *f, uint64_t address, const char **ret_file, uint32_t *ret_line)
{
	int64_t file, line;
	uint32_t unit, off;
	if (!t->units || !value_at(t, f, FUNC_FILES, address, &file) || !value_at(t, f, FUNC_LINES, address, &line) ||
		!u32_at(t, f->record + FUNC_UNIT, &unit))
		return false;
	if (file < 0 || line <= 0 || line > INT32_MAX || file > UINT32_MAX ||
		!u32_at(t, t->units + 4 * (unit + (uint64_t)file), &off))
		return false;
	const char *text = string_at(t, t->files + off); /* UINT32_MAX, beyond all tables, is no file */
	if (!text)
		return false;
	*ret_file = text;
	*ret_line = (uint32_t)line;
	return true;
}
