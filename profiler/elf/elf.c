/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/elf/elf.h"

#include "oci/base/fd.h"
#include "profiler/elf/elf_arch.h"
#include "profiler/elf/elf_dynamic.h"

#include <errno.h>
#include <libdeflate.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK (1u << 20)
#define DEFLATE_RATIO_MAX 1032 /* zlib.net/zlib_tech.html: a run of 258 bytes in two bits */
/* A note segment holds a few dozen bytes; these bound the work for a file made of notes only. */
#define NOTE_BYTES_MAX (64u << 10)
#define NOTE_SEGMENTS_MAX 64

/* --- sources */

static ssize_t read_fd(void *arg, void *buf, size_t size, uint64_t off)
{
	if (off > INT64_MAX)
		return 0;
	return fd_pread_all(*(const int *)arg, buf, size, (off_t)off);
}

struct elf_source elf_source_fd(const int *fd)
{
	return (struct elf_source){.read = read_fd, .arg = (void *)fd};
}

static ssize_t read_memory(void *arg, void *buf, size_t size, uint64_t off)
{
	const struct elf_memory *m = arg;
	if (off >= m->size)
		return 0;
	if (size > m->size - off)
		size = m->size - off;
	memcpy(buf, (const char *)m->data + off, size);
	return (ssize_t)size;
}

struct elf_source elf_source_memory(const struct elf_memory *m)
{
	return (struct elf_source){.read = read_memory, .arg = (void *)m};
}

static int set_read_error(struct err *e, int r, const char *what)
{
	if (r == -EBADMSG)
		return err_say(e, r, "%s: beyond the end of the file", what);
	return err_set(e, r, "cannot read %s", what);
}

/* `size` is the file's claim: the buffer doubles only after the bytes before have really been there. */
int elf_bytes(struct elf_source src, uint64_t off, uint64_t size, const char *what, uint8_t **ret, struct err *e)
{
	if (off > UINT64_MAX - size || size >= SIZE_MAX)
		return set_read_error(e, -EBADMSG, what);
	uint64_t room = size < CHUNK ? size : CHUNK, have = 0;
	uint8_t *buf = malloc(room + 1);
	int r = buf ? 0 : -ENOMEM;
	while (r == 0 && have < size) {
		if (have == room) {
			room = room > size / 2 ? size : room * 2;
			uint8_t *bigger = realloc(buf, room + 1);
			if (!bigger) {
				r = -ENOMEM;
				break;
			}
			buf = bigger;
		}
		ssize_t n = src.read(src.arg, buf + have, room - have, off + have);
		if (n <= 0)
			r = n < 0 ? (int)n : -EBADMSG;
		else
			have += (uint64_t)n;
	}
	if (r < 0) {
		free(buf);
		return set_read_error(e, r, what);
	}
	buf[size] = 0;
	*ret = buf;
	return 0;
}

/* --- the file's tables */

static int read_header(struct elf_source src, Elf64_Ehdr *h, struct err *e)
{
	size_t have = 0;
	while (have < sizeof(*h)) {
		ssize_t n = src.read(src.arg, (char *)h + have, sizeof(*h) - have, have);
		if (n < 0)
			return set_read_error(e, (int)n, "the ELF header");
		if (n == 0)
			return err_say(e, -ENOEXEC, "not an ELF file: only %zu bytes", have);
		have += (size_t)n;
	}
	if (memcmp(h->e_ident, ELFMAG, SELFMAG))
		return err_say(e, -ENOEXEC, "not an ELF file");
	if (h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_ident[EI_DATA] != ELFDATA2LSB)
		return err_say(e, -ENOEXEC, "not a 64-bit little-endian ELF file");
	if (h->e_machine != ELF_ARCH_NATIVE && h->e_machine != ELF_ARCH_EMULATED)
		return err_say(e, -ENOEXEC, "ELF file for machine %u, which pillion does not know", h->e_machine);
	/* dwz(1) writes the parts that several files share into a relocatable object */
	if (h->e_type != ET_EXEC && h->e_type != ET_DYN && h->e_type != ET_REL)
		return err_say(e, -ENOEXEC, "ELF file of type %u is neither program nor shared object", h->e_type);
	return 0;
}

static int read_segments(struct elf_source src, struct elf_tables *t, struct err *e)
{
	const Elf64_Ehdr *h = &t->header;
	if (!h->e_phoff || !h->e_phnum)
		return 0;
	if (h->e_phnum == PN_XNUM)
		return err_say(e, -EFBIG, "ELF file with %u or more program headers", PN_XNUM);
	if (h->e_phentsize != sizeof(Elf64_Phdr))
		return err_say(e, -EBADMSG, "ELF program headers of %u bytes", h->e_phentsize);
	uint8_t *bytes;
	int r = elf_bytes(src, h->e_phoff, h->e_phnum * sizeof(Elf64_Phdr), "ELF program headers", &bytes, e);
	if (r < 0)
		return r;
	t->segments = (Elf64_Phdr *)(void *)bytes;
	t->n_segments = h->e_phnum;
	return 0;
}

/* Counts that do not fit into the header stand in section 0 (elf(5), e_shnum and e_shstrndx). */
static int count_sections(
	struct elf_source src, const Elf64_Ehdr *h, uint64_t *ret_n, uint32_t *ret_names, struct err *e)
{
	*ret_n = h->e_shnum;
	*ret_names = h->e_shstrndx;
	if (!h->e_shoff)
		*ret_n = 0;
	if (!h->e_shoff || (h->e_shnum && h->e_shstrndx != SHN_XINDEX))
		return 0;
	uint8_t *bytes;
	int r = elf_bytes(src, h->e_shoff, sizeof(Elf64_Shdr), "ELF section headers", &bytes, e);
	if (r < 0)
		return r;
	Elf64_Shdr first;
	memcpy(&first, bytes, sizeof(first));
	free(bytes);
	if (!h->e_shnum)
		*ret_n = first.sh_size;
	if (h->e_shstrndx == SHN_XINDEX)
		*ret_names = first.sh_link;
	return 0;
}

static int read_sections(struct elf_source src, struct elf_tables *t, struct err *e)
{
	uint64_t n;
	uint32_t names;
	int r = count_sections(src, &t->header, &n, &names, e);
	if (r < 0 || !n)
		return r;
	if (n > ELF_SECTIONS_MAX)
		return err_say(e, -EFBIG, "ELF file with %llu sections", (unsigned long long)n);
	if (t->header.e_shentsize != sizeof(Elf64_Shdr))
		return err_say(e, -EBADMSG, "ELF section headers of %u bytes", t->header.e_shentsize);
	uint8_t *bytes;
	r = elf_bytes(src, t->header.e_shoff, n * sizeof(Elf64_Shdr), "ELF section headers", &bytes, e);
	if (r < 0)
		return r;
	t->sections = (Elf64_Shdr *)(void *)bytes;
	t->n_sections = (size_t)n;
	if (names == SHN_UNDEF)
		return 0;
	if (names >= n)
		return err_say(e, -EBADMSG, "ELF section names in section %u of %u", names, (unsigned)n);
	const Elf64_Shdr *s = &t->sections[names];
	if (s->sh_type != SHT_STRTAB)
		return err_say(e, -EBADMSG, "ELF section names in a section of type %u", s->sh_type);
	if (s->sh_size > ELF_NAMES_MAX)
		return err_say(e, -EFBIG, "ELF section names of %llu bytes", (unsigned long long)s->sh_size);
	r = elf_bytes(src, s->sh_offset, s->sh_size, "ELF section names", &t->names, e);
	if (r == 0)
		t->names_size = s->sh_size;
	return r;
}

int elf_tables_read(struct elf_source src, struct elf_tables *ret, struct err *e)
{
	struct elf_tables t = {0};
	struct err why = {0};
	int r = read_header(src, &t.header, e);
	if (r == 0)
		r = read_segments(src, &t, e);
	if (r == 0) {
		r = read_sections(src, &t, &why);
		t.cut = r == -EBADMSG || r == -EFBIG;
		if (t.n_segments && t.cut)
			r = 0;
		else if (r < 0)
			err_say(e, r, "%s", why.text);
	}
	if (r == 0)
		elf_dynamic_read(src, &t);
	if (r < 0) {
		elf_tables_done(&t);
		return r;
	}
	*ret = t;
	return 0;
}

void elf_tables_done(struct elf_tables *t)
{
	free(t->segments);
	free(t->sections);
	free(t->names);
	*t = (struct elf_tables){0};
}

const Elf64_Shdr *elf_tables_section_any(const struct elf_tables *t, const char *name)
{
	for (size_t i = 1; i < t->n_sections; i++) {
		const Elf64_Shdr *s = &t->sections[i];
		if (s->sh_type != SHT_NULL && s->sh_type != SHT_NOBITS && s->sh_name < t->names_size &&
			!strcmp((const char *)t->names + s->sh_name, name))
			return s;
	}
	return NULL;
}

const Elf64_Shdr *elf_tables_section(const struct elf_tables *t, const char *name)
{
	const Elf64_Shdr *s = elf_tables_section_any(t, name);
	return s && !(s->sh_flags & SHF_COMPRESSED) ? s : NULL;
}

const Elf64_Shdr *elf_tables_gopclntab(const struct elf_tables *t)
{
	const Elf64_Shdr *s = elf_tables_section(t, ".gopclntab");
	return s ? s : elf_tables_section(t, ".data.rel.ro.gopclntab"); /* position-independent */
}

/* --- compressed sections */

uint64_t elf_decompressed_size(const uint8_t *bytes, uint64_t size)
{
	Elf64_Chdr h;
	if (size < sizeof(h))
		return 0;
	memcpy(&h, bytes, sizeof(h));
	return h.ch_type == ELFCOMPRESS_ZLIB && h.ch_size / DEFLATE_RATIO_MAX <= size ? h.ch_size : 0;
}

int elf_decompress(const uint8_t *bytes, uint64_t size, uint8_t *ret, uint64_t ret_size)
{
	struct libdeflate_decompressor *d = libdeflate_alloc_decompressor();
	if (!d)
		return -ENOMEM;
	const uint64_t head = sizeof(Elf64_Chdr);
	int r = libdeflate_zlib_decompress(d, bytes + head, size - head, ret, ret_size, NULL);
	libdeflate_free_decompressor(d);
	return r == LIBDEFLATE_SUCCESS ? 0 : -EBADMSG;
}

/* --- struct elf from the tables */

static int take_segments(struct elf *f, const struct elf_tables *t, struct err *e)
{
	for (size_t i = 0; i < t->n_segments; i++) {
		const Elf64_Phdr *p = &t->segments[i];
		if (p->p_type != PT_LOAD)
			continue;
		if (p->p_offset > UINT64_MAX - p->p_filesz || p->p_vaddr > UINT64_MAX - p->p_memsz ||
			p->p_vaddr > UINT64_MAX - p->p_filesz)
			return err_say(e, -EBADMSG, "ELF program header %zu wraps around the address space", i);
		if (f->n_segments == ELF_SEGMENTS_MAX)
			return err_say(e, -EFBIG, "ELF file with more than %d loadable segments", ELF_SEGMENTS_MAX);
		f->segments[f->n_segments++] = (struct elf_segment){
			.vaddr = p->p_vaddr,
			.offset = p->p_offset,
			.filesz = p->p_filesz,
			.memsz = p->p_memsz,
			.exec = p->p_flags & PF_X,
		};
	}
	return 0;
}

static size_t align_up(size_t n, size_t align)
{
	return (n + align - 1) & ~(align - 1);
}

/* `size` <= NOTE_BYTES_MAX and note fields have 32 bits: no sum below overflows. */
static size_t find_build_id(const uint8_t *notes, size_t size, size_t align, uint8_t *ret)
{
	for (size_t at = 0; at < size && size - at >= sizeof(Elf64_Nhdr);) {
		Elf64_Nhdr n;
		memcpy(&n, notes + at, sizeof(n));
		at += sizeof(n);
		const uint8_t *name = notes + at;
		at = align_up(at + n.n_namesz, align);
		if (at > size || n.n_descsz > size - at)
			return 0;
		if (n.n_type == NT_GNU_BUILD_ID && n.n_namesz == 4 && !memcmp(name, "GNU", 4) && n.n_descsz &&
			n.n_descsz <= ELF_BUILD_ID_MAX) {
			memcpy(ret, notes + at, n.n_descsz);
			return n.n_descsz;
		}
		at = align_up(at + n.n_descsz, align);
	}
	return 0;
}

/* A file without a readable build-id is still of use: no errors here but those of reading and memory. */
static int read_notes(struct elf_source src, uint64_t off, uint64_t size, uint64_t align, uint8_t *ret, size_t *ret_len,
	struct err *e)
{
	if (size > NOTE_BYTES_MAX)
		size = NOTE_BYTES_MAX;
	uint8_t *notes;
	int r = elf_bytes(src, off, size, "ELF notes", &notes, e);
	if (r < 0)
		return r == -EBADMSG ? 0 : r;
	*ret_len = find_build_id(notes, size, align == 8 ? 8 : 4, ret);
	free(notes);
	return 0;
}

int elf_tables_build_id(struct elf_source src, const struct elf_tables *t, uint8_t *ret, size_t *ret_len, struct err *e)
{
	int r = 0, tried = 0;
	*ret_len = 0;
	for (size_t i = 0; i < t->n_segments && tried < NOTE_SEGMENTS_MAX && !*ret_len && r == 0; i++) {
		const Elf64_Phdr *p = &t->segments[i];
		if (p->p_type != PT_NOTE)
			continue;
		tried++;
		r = read_notes(src, p->p_offset, p->p_filesz, p->p_align, ret, ret_len, e);
	}
	const Elf64_Shdr *s = *ret_len || r < 0 ? NULL : elf_tables_section(t, ".note.gnu.build-id");
	if (s)
		r = read_notes(src, s->sh_offset, s->sh_size, s->sh_addralign, ret, ret_len, e);
	return r;
}

/* --- unwind sections */

static int read_section(struct elf_source src, uint64_t off, uint64_t vaddr, uint64_t size, struct elf_section *ret,
	const char *name, struct err *e)
{
	if (!size)
		return 0;
	if (size > ELF_UNWIND_MAX)
		return err_say(e, -EFBIG, "%s of %llu bytes", name, (unsigned long long)size);
	int r = elf_bytes(src, off, size, name, &ret->data, e);
	if (r < 0)
		return r;
	ret->vaddr = vaddr;
	ret->size = size;
	return 0;
}

/* eh_frame_ptr: version, three encodings, then the pointer (LSB core, "The .eh_frame_hdr section"). */
static bool eh_frame_pointer(const struct elf_section *hdr, uint64_t *ret)
{
	enum { PTR = 4, ABS = 0x00, PCREL = 0x10, DATAREL = 0x30 }; /* DW_EH_PE_..., upper half of the encoding */
	if (hdr->size < PTR + sizeof(uint64_t) || hdr->data[0] != 1)
		return false;
	uint8_t enc = hdr->data[1];
	int32_t s4;
	uint32_t u4;
	uint64_t v;
	memcpy(&s4, hdr->data + PTR, sizeof(s4));
	memcpy(&u4, hdr->data + PTR, sizeof(u4));
	memcpy(&v, hdr->data + PTR, sizeof(v));
	switch (enc & 0x0f) {
	case 0x03: /* DW_EH_PE_udata4 */
		v = u4;
		break;
	case 0x0b: /* DW_EH_PE_sdata4 */
		v = (uint64_t)(int64_t)s4;
		break;
	case 0x00: /* DW_EH_PE_absptr */
	case 0x04: /* DW_EH_PE_udata8 */
	case 0x0c: /* DW_EH_PE_sdata8 */
		break;
	default:
		return false;
	}
	switch (enc & 0xf0) {
	case ABS:
		break;
	case PCREL:
		v += hdr->vaddr + PTR;
		break;
	case DATAREL:
		v += hdr->vaddr;
		break;
	default:
		return false;
	}
	*ret = v;
	return true;
}

/* Without section headers only its own terminator tells where .eh_frame ends, so more is harmless. */
static int derive_eh_frame(struct elf *f, struct elf_source src, struct err *e)
{
	uint64_t vaddr;
	if (!f->eh_frame_hdr.data || !eh_frame_pointer(&f->eh_frame_hdr, &vaddr))
		return 0;
	for (unsigned i = 0; i < f->n_segments; i++) {
		const struct elf_segment *s = &f->segments[i];
		if (vaddr < s->vaddr || vaddr - s->vaddr >= s->filesz)
			continue;
		uint64_t skip = vaddr - s->vaddr, size = s->filesz - skip;
		if (size > ELF_UNWIND_MAX)
			size = ELF_UNWIND_MAX;
		f->eh_frame_open_ended = true;
		return read_section(src, s->offset + skip, vaddr, size, &f->eh_frame, ".eh_frame", e);
	}
	return 0;
}

static int read_named(struct elf_source src, const struct elf_tables *t, const char *name, struct elf_section *ret)
{
	const Elf64_Shdr *s = elf_tables_section(t, name);
	return s ? read_section(src, s->sh_offset, s->sh_addr, s->sh_size, ret, name, NULL) : -ENOENT;
}

static uint64_t word_at(const struct elf_section *s, uint64_t off)
{
	uint64_t v = 0;
	if (s->data && off <= s->size && s->size - off >= sizeof(v))
		memcpy(&v, s->data + off, sizeof(v));
	return v;
}

/* The value that the dynamic linker of a position-independent program puts at an address; 0: none that we know of. */
static uint64_t relative_at(const struct elf_section *rela, uint64_t vaddr)
{
	for (uint64_t off = 0; off + sizeof(Elf64_Rela) <= rela->size; off += sizeof(Elf64_Rela)) {
		Elf64_Rela r;
		memcpy(&r, rela->data + off, sizeof(r));
		if (r.r_offset == vaddr && ELF64_R_TYPE(r.r_info) == ELF_ARCH_RELATIVE)
			return (uint64_t)r.r_addend;
	}
	return 0;
}

/*
 * Since Go 1.26 the header of gopclntab does not say where the text begins, as that takes a relocation.
 * runtime.moduledata says it, in a section of its own (release notes; src/runtime/symtab.go: pcHeader *, six slices,
 * findfunctab, minpc, maxpc, text). Its text is taken if minpc is the first function by it, as the runtime itself
 * checks.
 */
static void find_go_text(struct elf *f, struct elf_source src, const struct elf_tables *t)
{
	enum { HEADER_TEXT = 24, HEADER_FUNCS = 64, MINPC = 160, MODULE_TEXT = 176 };
	struct elf_section module = {0}, rela = {0};
	uint32_t first;
	uint64_t list = word_at(&f->gopclntab, HEADER_FUNCS);
	if (f->gopclntab.size < HEADER_FUNCS + sizeof(list)) /* it has no such header */
		return;
	if (word_at(&f->gopclntab, HEADER_TEXT) || list > f->gopclntab.size || f->gopclntab.size - list < 4)
		return;
	memcpy(&first, f->gopclntab.data + list, sizeof(first));
	if (read_named(src, t, ".go.module", &module) == 0) {
		uint64_t minpc = word_at(&module, MINPC), text = word_at(&module, MODULE_TEXT);
		if (!text && read_named(src, t, ".rela.dyn", &rela) == 0) {
			minpc = relative_at(&rela, module.vaddr + MINPC);
			text = relative_at(&rela, module.vaddr + MODULE_TEXT);
		}
		if (text && minpc == text + first)
			memcpy(f->gopclntab.data + HEADER_TEXT, &text, sizeof(text));
	}
	free(module.data);
	free(rela.data);
}

static int read_go(struct elf *f, struct elf_source src, const struct elf_tables *t)
{
	uint32_t magic = 0;
	const Elf64_Shdr *s = elf_tables_gopclntab(t);
	int r = s ? read_section(src, s->sh_offset, s->sh_addr, s->sh_size, &f->gopclntab, ".gopclntab", NULL) : 0;
	if (f->gopclntab.size > sizeof(magic))
		memcpy(&magic, f->gopclntab.data, sizeof(magic));
	if (magic == 0xfffffff1) /* from 1.20 on */
		find_go_text(f, src, t);
	return r;
}

/* Replaces a section's bytes with the decompressed ones (elf(5), Elf64_Chdr). */
static int inflate_section(struct elf_section *s)
{
	const uint64_t size = elf_decompressed_size(s->data, s->size);
	if (!size || size > ELF_UNWIND_MAX)
		return -EBADMSG;
	uint8_t *out = malloc(size + 1);
	if (!out)
		return -ENOMEM;
	int r = elf_decompress(s->data, s->size, out, size);
	if (r < 0) {
		free(out);
		return r;
	}
	free(s->data);
	s->data = out;
	s->size = size;
	return 0;
}

static int read_debug_frame(struct elf *f, struct elf_source src, const struct elf_tables *t)
{
	struct elf_section *ret = &f->debug_frame;
	int r = 0;
	for (size_t i = 1; i < t->n_sections; i++) {
		const Elf64_Shdr *s = &t->sections[i];
		if (s->sh_type == SHT_NULL || s->sh_type == SHT_NOBITS || s->sh_name >= t->names_size ||
			strcmp((const char *)t->names + s->sh_name, ".debug_frame"))
			continue;
		r = read_section(src, s->sh_offset, 0, s->sh_size, ret, ".debug_frame", NULL);
		if (r == 0 && ret->data && s->sh_flags & SHF_COMPRESSED)
			r = inflate_section(ret);
		break;
	}
	if (r < 0)
		elf_drop_debug_frame(f);
	return r;
}

/* Stubs of 16 bytes are lazy ones, also where nothing is bound late; static programs have jumps of 8 bytes. */
static void find_plt(struct elf *f, const struct elf_tables *t)
{
	static const char *const names[] = {".plt", ".plt.got"};
	for (unsigned i = 0; i < 2; i++) {
		const Elf64_Shdr *s = elf_tables_section(t, names[i]);
		if (s && s->sh_addr <= UINT64_MAX - s->sh_size && s->sh_size <= ELF_PLT_MAX)
			f->plt[i] = (struct elf_plt){s->sh_addr, s->sh_size, i == 0 && s->sh_addralign >= 16};
	}
}

static int read_unwind(struct elf *f, struct elf_source src, const struct elf_tables *t, struct err *e)
{
	for (size_t i = 0; i < t->n_segments; i++) {
		const Elf64_Phdr *p = &t->segments[i];
		if (p->p_type != PT_GNU_EH_FRAME)
			continue;
		int r = read_section(src, p->p_offset, p->p_vaddr, p->p_filesz, &f->eh_frame_hdr, ".eh_frame_hdr", e);
		if (r < 0)
			return r;
		break;
	}
	find_plt(f, t);
	/* without these there are frame pointers, so an error in them must not cost the rest */
	if (f->machine == ELF_ARCH_NATIVE && (read_go(f, src, t) == -ENOMEM || read_debug_frame(f, src, t) == -ENOMEM))
		return err_set(e, -ENOMEM, ".gopclntab or .debug_frame");
	const Elf64_Shdr *s = elf_tables_section(t, ".eh_frame");
	if (s)
		return read_section(src, s->sh_offset, s->sh_addr, s->sh_size, &f->eh_frame, ".eh_frame", e);
	return derive_eh_frame(f, src, e);
}

int elf_read(struct elf_source src, struct elf **ret, struct err *e)
{
	struct elf_tables t;
	int r = elf_tables_read(src, &t, e);
	if (r < 0)
		return r;
	struct elf *f = calloc(1, sizeof(*f));
	if (!f)
		r = err_set(e, -ENOMEM, "cannot read the ELF file");
	else if (t.header.e_type == ET_REL)
		r = err_say(e, -ENOEXEC, "ELF file of type %u is neither program nor shared object", ET_REL);
	if (r == 0) {
		f->type = t.header.e_type;
		f->machine = t.header.e_machine;
		f->entry = t.header.e_entry;
		r = take_segments(f, &t, e);
	}
	if (r == 0)
		r = elf_tables_build_id(src, &t, f->build_id, &f->build_id_len, e);
	if (r == 0)
		r = read_unwind(f, src, &t, e);
	elf_tables_done(&t);
	if (r < 0) {
		elf_free(f);
		return r;
	}
	*ret = f;
	return 0;
}

struct elf *elf_free(struct elf *f)
{
	if (f) {
		free(f->eh_frame_hdr.data);
		free(f->eh_frame.data);
		free(f->debug_frame.data);
		free(f->gopclntab.data);
		free(f);
	}
	return NULL;
}

void elf_drop_gopclntab(struct elf *f)
{
	free(f->gopclntab.data);
	f->gopclntab = (struct elf_section){0};
}

void elf_drop_debug_frame(struct elf *f)
{
	free(f->debug_frame.data);
	f->debug_frame = (struct elf_section){0};
}

/* Segments may share a page of the file. The caller asks about code, so code is searched first. */
bool elf_vaddr_of_offset(const struct elf *f, uint64_t offset, uint64_t *ret)
{
	for (int exec = 1; exec >= 0; exec--)
		for (unsigned i = 0; i < f->n_segments; i++) {
			const struct elf_segment *s = &f->segments[i];
			if (s->exec != exec || offset < s->offset || offset - s->offset >= s->filesz)
				continue;
			*ret = s->vaddr + (offset - s->offset);
			return true;
		}
	return false;
}
