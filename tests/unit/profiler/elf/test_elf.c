/* SPDX-License-Identifier: Apache-2.0 */
/* elf: a hand-made file that is spoiled one field at a time, and real files against readelf. */
#include "profiler/elf/elf.h"

#include "oci/base/fd.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <zlib.h>

#define LIBC "/lib/x86_64-linux-gnu/libc.so.6"
#define VADDR 0x400000

/* --- a small file with everything that elf_read looks at */

enum { PH_LOAD, PH_CODE, PH_NOTE, PH_HDR, N_PH };
enum { SH_NULL, SH_NOTE, SH_FRAME, SH_NAMES, N_SH };

struct image {
	Elf64_Ehdr eh;
	Elf64_Phdr ph[N_PH];
	struct {
		Elf64_Nhdr head;
		char name[4];
		uint8_t id[20];
	} note;
	uint8_t hdr[12];
	uint8_t eh_frame[64];
	uint8_t code[64];
	char names[64];
	Elf64_Shdr sh[N_SH];
};
#define AT(field) offsetof(struct image, field)
#define SIZE(field) sizeof(((struct image *)0)->field)

static void image_make(struct image *im)
{
	static const char names[] = "\0.note.gnu.build-id\0.eh_frame\0.shstrtab";
	int32_t to_frame = (int32_t)(AT(eh_frame) - AT(hdr) - 4);

	*im = (struct image){
		.eh = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
			.e_type = ET_DYN,
			.e_machine = EM_X86_64,
			.e_version = EV_CURRENT,
			.e_entry = VADDR + AT(code),
			.e_phoff = AT(ph),
			.e_shoff = AT(sh),
			.e_ehsize = sizeof(Elf64_Ehdr),
			.e_phentsize = sizeof(Elf64_Phdr),
			.e_phnum = N_PH,
			.e_shentsize = sizeof(Elf64_Shdr),
			.e_shnum = N_SH,
			.e_shstrndx = SH_NAMES},
		.ph =
			{
				[PH_LOAD] = {.p_type = PT_LOAD,
					.p_flags = PF_R,
					.p_vaddr = VADDR,
					.p_filesz = AT(names),
					.p_memsz = AT(names)},
				[PH_CODE] = {.p_type = PT_LOAD,
					.p_flags = PF_R | PF_X,
					.p_offset = AT(code),
					.p_vaddr = VADDR + 0x1000 + AT(code),
					.p_filesz = SIZE(code),
					.p_memsz = SIZE(code)},
				[PH_NOTE] =
					{.p_type = PT_NOTE, .p_offset = AT(note), .p_filesz = SIZE(note), .p_align = 4},
				[PH_HDR] = {.p_type = PT_GNU_EH_FRAME,
					.p_offset = AT(hdr),
					.p_vaddr = VADDR + AT(hdr),
					.p_filesz = SIZE(hdr)},
			},
		.note = {.head = {.n_namesz = 4, .n_descsz = 20, .n_type = NT_GNU_BUILD_ID},
			.name = "GNU",
			.id = {1, 2, 3, [19] = 20}},
		.hdr = {1, 0x1b, 0x03, 0x3b},
		.sh =
			{
				[SH_NOTE] = {.sh_name = 1,
					.sh_type = SHT_NOTE,
					.sh_offset = AT(note),
					.sh_size = SIZE(note)},
				[SH_FRAME] = {.sh_name = 20,
					.sh_type = SHT_PROGBITS,
					.sh_addr = VADDR + AT(eh_frame),
					.sh_offset = AT(eh_frame),
					.sh_size = SIZE(eh_frame)},
				[SH_NAMES] = {.sh_name = 30,
					.sh_type = SHT_STRTAB,
					.sh_offset = AT(names),
					.sh_size = sizeof(names)},
			},
	};
	memcpy(im->hdr + 4, &to_frame, 4);
	memcpy(im->names, names, sizeof(names));
	memset(im->eh_frame, 0x5a, sizeof(im->eh_frame));
}

/* --- one field at a time */

static void nothing(struct image *im) {}
static void is_aarch64(struct image *im)
{
	im->eh.e_machine = EM_AARCH64;
}
static void bad_magic(struct image *im)
{
	im->eh.e_ident[0] = 'M';
}
static void is_32_bit(struct image *im)
{
	im->eh.e_ident[EI_CLASS] = ELFCLASS32;
}
static void is_big_endian(struct image *im)
{
	im->eh.e_ident[EI_DATA] = ELFDATA2MSB;
}
static void is_riscv(struct image *im)
{
	im->eh.e_machine = EM_RISCV;
}
static void is_object(struct image *im)
{
	im->eh.e_type = ET_REL;
}
static void is_core(struct image *im)
{
	im->eh.e_type = ET_CORE;
}
static void ph_entsize(struct image *im)
{
	im->eh.e_phentsize = 1;
}
static void ph_far(struct image *im)
{
	im->eh.e_phoff = UINT64_MAX - 8;
}
static void ph_xnum(struct image *im)
{
	im->eh.e_phnum = PN_XNUM;
}
static void ph_many(struct image *im)
{
	im->eh.e_phnum = PN_XNUM - 1;
}
static void sh_entsize(struct image *im)
{
	im->eh.e_shentsize = 1;
}
static void sh_far(struct image *im)
{
	im->eh.e_shoff = 1ULL << 60;
}
static void sh_many(struct image *im)
{
	im->eh.e_shnum = 65000;
}
static void sh_extended(struct image *im)
{
	im->eh.e_shnum = 0;
	im->eh.e_shstrndx = SHN_XINDEX;
	im->sh[0].sh_size = N_SH;
	im->sh[0].sh_link = SH_NAMES;
}
static void sh_extended_huge(struct image *im)
{
	im->eh.e_shnum = 0;
	im->sh[0].sh_size = UINT64_MAX / 2;
}
static void sh_none(struct image *im)
{
	im->eh.e_shoff = im->eh.e_shnum = im->eh.e_shstrndx = 0;
}
static void sh_none_udata4(struct image *im)
{
	uint32_t where = VADDR + AT(eh_frame);
	sh_none(im);
	im->hdr[1] = 0x03;
	memcpy(im->hdr + 4, &where, 4);
}
static void sh_none_unknown_encoding(struct image *im)
{
	sh_none(im);
	im->hdr[1] = 0xff;
}
static void sh_none_frame_elsewhere(struct image *im)
{
	sh_none(im);
	memset(im->hdr + 4, 0x7f, 4);
}
static void names_index(struct image *im)
{
	im->eh.e_shstrndx = N_SH;
}
static void names_type(struct image *im)
{
	im->sh[SH_NAMES].sh_type = SHT_PROGBITS;
}
static void names_huge(struct image *im)
{
	im->sh[SH_NAMES].sh_size = 1ULL << 40;
}
static void names_none(struct image *im)
{
	im->eh.e_shstrndx = 0;
}
static void name_out_of_range(struct image *im)
{
	im->sh[SH_FRAME].sh_name = UINT32_MAX;
}
static void names_unterminated(struct image *im)
{
	im->sh[SH_NAMES].sh_size = 29;
}
static void frame_huge(struct image *im)
{
	im->sh[SH_FRAME].sh_size = 1ULL << 50;
}
static void frame_just_below_cap(struct image *im)
{
	im->sh[SH_FRAME].sh_size = ELF_UNWIND_MAX;
}
static void frame_wraps(struct image *im)
{
	im->sh[SH_FRAME].sh_offset = UINT64_MAX - 3;
}
static void frame_nobits(struct image *im)
{
	im->sh[SH_FRAME].sh_type = SHT_NOBITS;
}
static void frame_compressed(struct image *im)
{
	im->sh[SH_FRAME].sh_flags = SHF_COMPRESSED;
}
static void frame_over_headers(struct image *im)
{
	im->sh[SH_FRAME].sh_offset = 0;
	im->sh[SH_FRAME].sh_size = sizeof(*im);
}
static void hdr_beyond(struct image *im)
{
	im->ph[PH_HDR].p_offset = sizeof(*im) - 4;
}
static void hdr_none(struct image *im)
{
	im->ph[PH_HDR].p_type = PT_NULL;
}
static void load_wraps(struct image *im)
{
	im->ph[PH_CODE].p_vaddr = UINT64_MAX;
}
static void load_offset_wraps(struct image *im)
{
	im->ph[PH_CODE].p_offset = UINT64_MAX;
}
static void load_memory_wraps(struct image *im)
{
	im->ph[PH_CODE].p_memsz = UINT64_MAX;
}
static void note_section_only(struct image *im)
{
	im->ph[PH_NOTE].p_type = PT_NULL;
}
static void note_none(struct image *im)
{
	im->ph[PH_NOTE].p_type = PT_NULL;
	im->sh[SH_NOTE].sh_name = 0;
}
static void note_name_long(struct image *im)
{
	im->note.head.n_namesz = UINT32_MAX;
}
static void note_id_long(struct image *im)
{
	im->note.head.n_descsz = 21;
	im->ph[PH_NOTE].p_filesz += 8;
	im->sh[SH_NOTE].sh_size += 8;
}
static void note_id_cut(struct image *im)
{
	im->ph[PH_NOTE].p_filesz -= 8;
	im->sh[SH_NOTE].sh_size -= 8;
}
static void note_head_cut(struct image *im)
{
	im->ph[PH_NOTE].p_filesz = im->sh[SH_NOTE].sh_size = sizeof(Elf64_Nhdr) - 1;
}
static void note_id_empty(struct image *im)
{
	im->note.head.n_descsz = 0;
}
static void note_other_vendor(struct image *im)
{
	memcpy(im->note.name, "Go\0", 4);
}
static void note_beyond(struct image *im)
{
	im->ph[PH_NOTE].p_offset = im->sh[SH_NOTE].sh_offset = 1 << 30;
}

enum { ID = 20, FRAME = SIZE(eh_frame), DERIVED = AT(names) - AT(eh_frame) };
static const struct {
	const char *name;
	void (*spoil)(struct image *im);
	int expect;
	size_t build_id, eh_frame;
} rows[] = {
	{"a sound file", nothing, 0, ID, FRAME},
	{"for aarch64", is_aarch64, 0, ID, FRAME},
	{"not ELF at all", bad_magic, -ENOEXEC, 0, 0},
	{"32-bit", is_32_bit, -ENOEXEC, 0, 0},
	{"big-endian", is_big_endian, -ENOEXEC, 0, 0},
	{"for a machine we do not know", is_riscv, -ENOEXEC, 0, 0},
	{"a relocatable object", is_object, -ENOEXEC, 0, 0},
	{"a core dump", is_core, -ENOEXEC, 0, 0},
	{"program headers of one byte", ph_entsize, -EBADMSG, 0, 0},
	{"program headers that wrap around", ph_far, -EBADMSG, 0, 0},
	{"program headers counted elsewhere", ph_xnum, -EFBIG, 0, 0},
	{"more program headers than file", ph_many, -EBADMSG, 0, 0},
	{"section headers of one byte", sh_entsize, 0, ID, DERIVED},
	{"section headers far outside", sh_far, 0, ID, DERIVED},
	{"more section headers than file", sh_many, 0, ID, DERIVED},
	{"section count in section 0", sh_extended, 0, ID, FRAME},
	{"a huge section count in section 0", sh_extended_huge, 0, ID, DERIVED},
	{"no section headers: .eh_frame by its header", sh_none, 0, ID, DERIVED},
	{"no section headers, absolute pointer", sh_none_udata4, 0, ID, DERIVED},
	{"no section headers, unknown pointer encoding", sh_none_unknown_encoding, 0, ID, 0},
	{"no section headers, pointer outside all segments", sh_none_frame_elsewhere, 0, ID, 0},
	{"section names in a section that is not there", names_index, 0, ID, DERIVED},
	{"section names in a section of code", names_type, 0, ID, DERIVED},
	{"section names of a terabyte", names_huge, 0, ID, DERIVED},
	{"no section names", names_none, 0, ID, DERIVED},
	{"a section name out of range", name_out_of_range, 0, ID, DERIVED},
	{"section names without a NUL at the end", names_unterminated, 0, ID, FRAME},
	{".eh_frame of a petabyte", frame_huge, -EFBIG, 0, 0},
	{".eh_frame claims 256 MiB in a small file", frame_just_below_cap, -EBADMSG, 0, 0},
	{".eh_frame wraps around", frame_wraps, -EBADMSG, 0, 0},
	{".eh_frame without bytes, as in a debug file", frame_nobits, 0, ID, DERIVED},
	{".eh_frame compressed", frame_compressed, 0, ID, DERIVED},
	{".eh_frame laid over the headers", frame_over_headers, 0, ID, sizeof(struct image)},
	{".eh_frame_hdr beyond the end", hdr_beyond, -EBADMSG, 0, 0},
	{"no .eh_frame_hdr", hdr_none, 0, ID, FRAME},
	{"a segment that wraps around", load_wraps, -EBADMSG, 0, 0},
	{"a segment whose offset wraps around", load_offset_wraps, -EBADMSG, 0, 0},
	{"a segment whose memory wraps around", load_memory_wraps, -EBADMSG, 0, 0},
	{"build-id in a section only", note_section_only, 0, ID, FRAME},
	{"no build-id", note_none, 0, 0, FRAME},
	{"a note name of 4 GiB", note_name_long, 0, 0, FRAME},
	{"a build-id of 21 bytes", note_id_long, 0, 0, FRAME},
	{"a build-id cut off by the end of its notes", note_id_cut, 0, 0, FRAME},
	{"a note head cut off by the end of its notes", note_head_cut, 0, 0, FRAME},
	{"a build-id of no bytes", note_id_empty, 0, 0, FRAME},
	{"a note of another vendor", note_other_vendor, 0, 0, FRAME},
	{"notes beyond the end", note_beyond, 0, 0, FRAME},
};

/* As elf_source_memory, and remembers how much was ever asked for at once. */
struct watched {
	struct elf_source inner;
	size_t largest;
};

static ssize_t watched_read(void *arg, void *buf, size_t size, uint64_t off)
{
	struct watched *w = arg;
	if (size > w->largest)
		w->largest = size;
	return w->inner.read(w->inner.arg, buf, size, off);
}

START_TEST(one_field_spoiled)
{
	int fds = fd_count();
	struct image im;
	image_make(&im);
	rows[_i].spoil(&im);
	struct elf_memory m = {&im, sizeof(im)};
	struct watched w = {.inner = elf_source_memory(&m)};
	struct elf *f = NULL;
	struct err e = {0};

	int r = elf_read((struct elf_source){watched_read, &w}, &f, &e);
	ck_assert_msg(r == rows[_i].expect, "%s: %d (%s)", rows[_i].name, r, e.text);
	ck_assert_msg(w.largest <= 1 << 20, "%s: %zu bytes asked for at once", rows[_i].name, w.largest);
	ck_assert_msg((r < 0) == (e.text[0] && !f), "%s: '%s'", rows[_i].name, e.text);
	if (r == 0) {
		ck_assert_msg(f->build_id_len == rows[_i].build_id, "%s: id %zu", rows[_i].name, f->build_id_len);
		ck_assert_msg(f->eh_frame.size == rows[_i].eh_frame, "%s: eh_frame %zu", rows[_i].name,
			(size_t)f->eh_frame.size);
		ck_assert(!f->eh_frame.size == !f->eh_frame.data);
		ck_assert_uint_eq(f->entry, VADDR + AT(code));
	}
	elf_free(f);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

START_TEST(too_many_segments)
{
	struct {
		Elf64_Ehdr eh;
		Elf64_Phdr ph[ELF_SEGMENTS_MAX + 1];
	} im = {0};
	struct image small;
	image_make(&small);
	im.eh = small.eh;
	im.eh.e_shoff = 0;
	im.eh.e_phnum = ELF_SEGMENTS_MAX + 1;
	for (int i = 0; i <= ELF_SEGMENTS_MAX; i++)
		im.ph[i] = small.ph[PH_CODE];
	struct elf_memory m = {&im, sizeof(im)};
	struct elf *f = NULL;
	ck_assert_int_eq(elf_read(elf_source_memory(&m), &f, NULL), -EFBIG);
	im.ph[0].p_type = PT_NULL;
	ck_assert_int_eq(elf_read(elf_source_memory(&m), &f, NULL), 0);
	ck_assert_uint_eq(f->n_segments, ELF_SEGMENTS_MAX);
	elf_free(f);
}
END_TEST

START_TEST(offsets_to_addresses)
{
	static const struct {
		const char *name;
		uint64_t offset;
		bool found;
		uint64_t vaddr;
	} cases[] = {
		{"the first byte of the file", 0, true, VADDR},
		{"code, in both segments: the executable one", AT(code), true, VADDR + 0x1000 + AT(code)},
		{"the last byte of code", AT(code) + 63, true, VADDR + 0x1000 + AT(code) + 63},
		{"the last byte before code", AT(code) - 1, true, VADDR + AT(code) - 1},
		{"behind all segments", AT(names), false, 0},
		{"the largest offset", UINT64_MAX, false, 0},
	};
	struct image im;
	image_make(&im);
	struct elf_memory m = {&im, sizeof(im)};
	struct elf *f = NULL;
	ck_assert_int_eq(elf_read(elf_source_memory(&m), &f, NULL), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t vaddr = 0;
		ck_assert_msg(elf_vaddr_of_offset(f, cases[i].offset, &vaddr) == cases[i].found, "%s", cases[i].name);
		ck_assert_msg(vaddr == cases[i].vaddr, "%s: 0x%llx", cases[i].name, (unsigned long long)vaddr);
	}
	elf_free(f);
}
END_TEST

/* --- truncation and real files */

static int read_size(const void *data, size_t size)
{
	struct elf_memory m = {data, size};
	struct elf *f = NULL;
	int r = elf_read(elf_source_memory(&m), &f, NULL);
	elf_free(f);
	return r;
}

START_TEST(truncated_everywhere)
{
	struct image im;
	image_make(&im);
	for (size_t size = 0; size < sizeof(im); size++) {
		int r = read_size(&im, size), expect = size < AT(names) ? -EBADMSG : 0; /* it can be loaded */
		ck_assert_msg(r == (size < sizeof(Elf64_Ehdr) ? -ENOEXEC : expect), "%zu bytes: %d", size, r);
	}
}
END_TEST

START_TEST(libc_truncated_at_every_64th_byte)
{
	fd_auto fd = fd_open(AT_FDCWD, LIBC, O_RDONLY, 0);
	char *data;
	size_t size;
	ck_assert_int_eq(fd_slurp(fd, 64 << 20, &data, &size), 0);
	struct elf_memory m = {data, size};
	struct elf *f = NULL;
	ck_assert_int_eq(elf_read(elf_source_memory(&m), &f, NULL), 0);
	/* offsets are addresses there */
	const uint64_t needed = f->eh_frame.vaddr + f->eh_frame.size;
	for (size_t cut = 0; cut < needed; cut += 64)
		ck_assert_msg(read_size(data, cut) < 0, "%zu bytes", cut);
	elf_free(f);
	free(data);
}
END_TEST

/* First number that a command prints, in the base given. */
static uint64_t shell_number(const char *command, int base)
{
	char line[256] = "";
	FILE *p = popen(command, "r");
	ck_assert_ptr_nonnull(p);
	ck_assert_msg(fgets(line, sizeof(line), p) != NULL, "nothing from: %s", command);
	pclose(p);
	return strtoull(line, NULL, base);
}

static uint64_t readelf(const char *path, const char *what, int base)
{
	char command[512];
	snprintf(command, sizeof(command), what, path);
	return shell_number(command, base);
}

START_TEST(same_as_readelf)
{
	static const char *const paths[] = {LIBC, "/usr/bin/gcc", "/proc/self/exe"};
	int fds = fd_count();
	char path[PATH_MAX];
	ck_assert_ptr_nonnull(realpath(paths[_i], path)); /* /proc/self means another program to readelf */
	int fd = fd_open(AT_FDCWD, path, O_RDONLY, 0);
	struct elf *f = NULL;
	struct err e = {0};
	ck_assert_msg(elf_read(elf_source_fd(&fd), &f, &e) == 0, "%s: %s", path, e.text);
	fd_close(fd);
	ck_assert_uint_eq(f->n_segments, readelf(path, "readelf -lW %s | grep -c '  LOAD '", 10));
	ck_assert_uint_eq(f->entry, readelf(path, "readelf -hW %s | sed -n 's/.*Entry point address: *//p'", 16));
	ck_assert_uint_eq(
		f->eh_frame.vaddr, readelf(path, "readelf -SW %s | sed -n 's/.* .eh_frame  *[A-Z]* *//p'", 16));
	ck_assert_uint_eq(f->eh_frame.size,
		readelf(path, "readelf -SW %s | sed -n 's/.* .eh_frame  *[A-Z0-9_]* *[0-9a-f]* *[0-9a-f]* *//p'", 16));
	ck_assert_uint_eq(f->eh_frame_hdr.vaddr, readelf(path, "readelf -lW %s | awk '/GNU_EH_FRAME/ {print $3}'", 16));
	ck_assert_uint_eq(f->build_id_len, 20);
	uint32_t id = (uint32_t)f->build_id[0] << 24 | f->build_id[1] << 16 | f->build_id[2] << 8 | f->build_id[3];
	ck_assert_uint_eq(id, readelf(path, "readelf -nW %s | sed -n 's/.*Build ID: \\(........\\).*/\\1/p'", 16));
	elf_free(f);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

START_TEST(the_vdso_in_memory)
{
	struct elf_memory m = {(void *)getauxval(AT_SYSINFO_EHDR), 4096};
	if (!m.data)
		return;
	struct elf *f = NULL;
	struct err e = {0};
	int r = elf_read(elf_source_memory(&m), &f, &e);
	if (r == -EBADMSG) { /* two pages where it grew */
		m.size = 8192;
		r = elf_read(elf_source_memory(&m), &f, &e);
	}
	ck_assert_msg(r == 0, "%s", e.text);
	ck_assert_uint_gt(f->eh_frame.size, 0);
	elf_free(f);
}
END_TEST

/* Whatever lay there before: strings are looked for in these bytes. */
START_TEST(a_zero_after_the_bytes)
{
	static const char text[300] = "text";
	struct elf_memory m = {text, sizeof(text)};
	for (uint64_t size = 0; size <= sizeof(text); size += 20) {
		uint8_t *bytes = malloc(size + 1);
		memset(bytes, 0xa5, size + 1);
		free(bytes);
		ck_assert_int_eq(elf_bytes(elf_source_memory(&m), 0, size, "text", &bytes, NULL), 0);
		ck_assert_mem_eq(bytes, text, size);
		ck_assert_uint_eq(bytes[size], 0);
		free(bytes);
	}
}
END_TEST

/* --- .debug_frame, compressed */

static const struct {
	unsigned type;
	uint64_t claimed; /* of 200 bytes */
	uint64_t cut;	  /* from the section's end */
	bool flips;
	size_t expect;
} compressed[] = {
	{ELFCOMPRESS_ZLIB, 200, 0, false, 200}, {ELFCOMPRESS_ZLIB, 201, 0, false, 0},
	{ELFCOMPRESS_ZLIB, 199, 0, false, 0}, {ELFCOMPRESS_ZLIB, 200, 1, false, 0}, {ELFCOMPRESS_ZLIB, 200, 0, true, 0},
	{ELFCOMPRESS_ZLIB, ELF_UNWIND_MAX, 0, false, 0}, {ELFCOMPRESS_ZLIB, ELF_UNWIND_MAX + 1, 0, false, 0},
	{ELFCOMPRESS_ZLIB + 1, 200, 0, false, 0},
	{ELFCOMPRESS_ZLIB, 200, UINT64_MAX, false, 0}, /* only a part of the header */
};

START_TEST(debug_frame_decompressed)
{
	struct {
		struct image im;
		Elf64_Chdr head;
		uint8_t bytes[256];
	} file = {.head = {.ch_type = compressed[_i].type, .ch_size = compressed[_i].claimed}};
	uint8_t frame[200];
	uLongf n = sizeof(file.bytes);
	struct elf *f = NULL;

	image_make(&file.im);
	for (size_t i = 0; i < sizeof(frame); i++)
		frame[i] = (uint8_t)(i * i);
	frame[0] = 0x53; /* the checksum ends in 0, as do the bytes that are read of a section: still one too few */
	ck_assert_int_eq(compress(file.bytes, &n, frame, sizeof(frame)), Z_OK);
	ck_assert_uint_eq(file.bytes[n - 1], 0);
	if (compressed[_i].flips)
		file.bytes[n - 1] ^= 1;
	strcpy(file.im.names + 1, ".debug_frame");
	uint64_t size = sizeof(file.head) + n - compressed[_i].cut;
	file.im.sh[SH_NOTE] = (Elf64_Shdr){.sh_name = 1,
		.sh_type = SHT_PROGBITS,
		.sh_flags = SHF_COMPRESSED,
		.sh_offset = (uint64_t)((char *)&file.head - (char *)&file),
		.sh_size = compressed[_i].cut == UINT64_MAX ? sizeof(file.head) - 1 : size};
	struct elf_memory m = {&file, sizeof(file)};
	ck_assert_int_eq(elf_read(elf_source_memory(&m), &f, NULL), 0);
	ck_assert_uint_eq(f->debug_frame.size, compressed[_i].expect);
	ck_assert(!f->debug_frame.size == !f->debug_frame.data);
	if (f->debug_frame.size)
		ck_assert_mem_eq(f->debug_frame.data, frame, sizeof(frame));
	elf_free(f);
}
END_TEST

UNIT_SUITE(elf)
{
	Suite *s = suite_create("elf");
	TCase *t = tcase_create("elf");
	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, one_field_spoiled, 0, sizeof(rows) / sizeof(rows[0]));
	tcase_add_test(t, too_many_segments);
	tcase_add_test(t, offsets_to_addresses);
	tcase_add_test(t, truncated_everywhere);
	tcase_add_test(t, libc_truncated_at_every_64th_byte);
	tcase_add_loop_test(t, same_as_readelf, 0, 3);
	tcase_add_test(t, the_vdso_in_memory);
	tcase_add_test(t, a_zero_after_the_bytes);
	tcase_add_loop_test(t, debug_frame_decompressed, 0, sizeof(compressed) / sizeof(compressed[0]));
	suite_add_tcase(s, t);
	return s;
}
