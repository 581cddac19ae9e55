/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/symbol/symbolizer_client.h"

#include "oci/base/fd.h"
#include "profiler/elf/gopclntab.h"
#include "profiler/symbol/demangle.h"
#include "profiler/symbol/dwarf_lines.h"
#include "profiler/symbol/symtab.h"
#include "profiler/symbol/symtab_scan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OUT (64u << 10)

struct item {
	uint64_t vaddr, label_floor;
	uint32_t index;
	const char *name;
};

struct work {
	uint8_t *question;
	struct item *items;
	size_t n;
	struct elf_memory separate; /* a separate file, to look up symbols in; data NULL: none */
	const char **looked_up;	    /* names from there, by item; NULL: not yet */
	struct dwarf_lines *lines;
	struct gopclntab go; /* used without DWARF lines */
	bool is_go;
	char symbol[SYMBOLIZER_NAME_MAX + 1];
	int out;
	size_t used;
	uint8_t buffer[OUT];
};

/* --- the question -------------------------------------------------------------------------------------- */

int symbolizer_head(int question, struct question_head *ret)
{
	if (fd_pread_all(question, ret, sizeof(*ret), 0) != sizeof(*ret))
		return -EBADMSG;
	ret->debug.path[PATH_MAX - 1] = ret->alt.path[PATH_MAX - 1] = 0;
	return 0;
}

static int read_question(struct work *w, int fd, struct question_head *ret)
{
	off_t size = lseek(fd, 0, SEEK_END);
	if (size < (off_t)sizeof(*ret) || size > SYMBOLIZER_QUESTION_MAX)
		return -EBADMSG;
	w->question = malloc((size_t)size);
	if (!w->question)
		return -ENOMEM;
	ssize_t got = fd_pread_all(fd, w->question, (size_t)size, 0);
	if (got != size)
		return -EBADMSG;
	memcpy(ret, w->question, sizeof(*ret));
	if (ret->n > (size_t)size / sizeof(struct question_item))
		return -EBADMSG;
	w->items = calloc((size_t)ret->n + 1, sizeof(w->items[0]));
	if (!w->items)
		return -ENOMEM;
	size_t at = sizeof(*ret);
	for (; w->n < ret->n; w->n++) {
		struct question_item item;
		if ((size_t)size - at < sizeof(item))
			return -EBADMSG;
		memcpy(&item, w->question + at, sizeof(item));
		at += sizeof(item);
		const char *name = item.name_size ? (const char *)w->question + at
				   : w->n	  ? w->items[w->n - 1].name
						  : "";
		if ((size_t)size - at < item.name_size || (item.name_size && name[item.name_size - 1]))
			return -EBADMSG;
		w->items[w->n] = (struct item){item.vaddr, item.label_floor, item.index, name};
		at += item.name_size;
	}
	return 0;
}

static int by_address(const void *a, const void *b)
{
	const struct item *x = a, *y = b;
	return x->vaddr < y->vaddr ? -1 : x->vaddr > y->vaddr;
}

/* --- the answers --------------------------------------------------------------------------------------- */

static int flush_buffer(struct work *w)
{
	int r = fd_write_all(w->out, w->buffer, w->used);
	w->used = 0;
	return r;
}

static int put_bytes(struct work *w, const void *data, size_t size)
{
	const uint8_t *from = data;
	int r = 0;
	while (size && r == 0) {
		size_t n = OUT - w->used < size ? OUT - w->used : size;
		memcpy(w->buffer + w->used, from, n);
		w->used += n;
		from += n;
		size -= n;
		if (w->used == OUT)
			r = flush_buffer(w);
	}
	return r;
}

static uint32_t text_size(const char *text)
{
	return (uint32_t)strnlen(text, SYMBOLIZER_NAME_MAX) + 1;
}

static int put_text(struct work *w, const char *text, uint32_t size)
{
	int r = put_bytes(w, text, size - 1);
	return r < 0 ? r : put_bytes(w, "", 1);
}

static int put_answer(struct work *w, uint32_t index, const struct symbol_line *lines, size_t n)
{
	struct answer_line heads[DWARF_LINES_DEPTH_MAX];
	struct answer_head head = {.index = index, .n = (uint32_t)n, .size = (uint32_t)(n * sizeof(heads[0]))};
	for (size_t i = 0; i < n; i++) {
		heads[i] = (struct answer_line){lines[i].line, lines[i].start, text_size(lines[i].name),
			text_size(lines[i].linkage), text_size(lines[i].file)};
		head.size += heads[i].name + heads[i].linkage + heads[i].file;
	}
	int r = put_bytes(w, &head, sizeof(head));
	for (size_t i = 0; i < n && r == 0; i++) {
		r = put_bytes(w, &heads[i], sizeof(heads[i]));
		if (r == 0)
			r = put_text(w, lines[i].name, heads[i].name);
		if (r == 0)
			r = put_text(w, lines[i].linkage, heads[i].linkage);
		if (r == 0)
			r = put_text(w, lines[i].file, heads[i].file);
	}
	return r;
}

static int put_facts(struct work *w, const struct elf_memory *file)
{
	struct debug_facts f;
	struct answer_head head = {.index = ANSWER_FACTS, .size = sizeof(f)};
	if (debug_facts_read(elf_source_memory(file), &f, NULL) < 0)
		return 0;
	int r = put_bytes(w, &head, sizeof(head));
	return r < 0 ? r : put_bytes(w, &f, sizeof(f));
}

/* --- one address --------------------------------------------------------------------------------------- */

static const char *or_empty(const char *text)
{
	return text ? text : "";
}

/* Looks up all items when the first name is missing, so that the file's symbols are scanned only once. */
static void look_up(struct work *w)
{
	struct err e = {0};
	uint64_t *vaddrs = malloc(2 * w->n * sizeof(*vaddrs)), *label_floors = vaddrs ? vaddrs + w->n : NULL;
	w->looked_up = calloc(w->n, sizeof(*w->looked_up));
	for (size_t i = 0; vaddrs && i < w->n; i++) {
		vaddrs[i] = w->items[i].vaddr;
		label_floors[i] = w->items[i].label_floor;
	}
	if (vaddrs && w->looked_up)
		symtab_scan_symbols(&w->separate, vaddrs, label_floors, w->n, w->looked_up, &e);
	free(vaddrs);
}

/*
 * Returns the symbol table's name of the function that the code belongs to. Needed without debug information, and for
 * clones.
 */
static const char *symbol_of(struct work *w, const struct item *item)
{
	if (item->name[0])
		return item->name;
	if (w->separate.data && !w->looked_up)
		look_up(w);
	const char *found = w->looked_up ? or_empty(w->looked_up[item - w->items]) : "";
	snprintf(w->symbol, sizeof(w->symbol), "%.*s", (int)symtab_name_length(found), found);
	return w->symbol;
}

/* A stripped Go program keeps the table from which Go itself prints its stacks. */
static void open_go(struct work *w, const struct elf_memory *file)
{
	struct elf_tables t;
	if (!file->data || elf_tables_read(elf_source_memory(file), &t, NULL) < 0)
		return;
	const Elf64_Shdr *s = elf_tables_gopclntab(&t);
	if (s && s->sh_offset <= file->size && s->sh_size <= file->size - s->sh_offset)
		w->is_go = gopclntab_open((const uint8_t *)file->data + s->sh_offset, s->sh_size, &w->go);
	elf_tables_done(&t);
}

static size_t find_go(const struct work *w, uint64_t vaddr, struct dwarf_line *ret)
{
	struct gofunc f;
	if (!w->is_go || !gopclntab_find(&w->go, vaddr, &f))
		return 0;
	*ret = (struct dwarf_line){.function = gopclntab_name(&w->go, &f)};
	gopclntab_line(&w->go, &f, vaddr, &ret->file, &ret->line);
	return 1;
}

static int symbolize_item(struct work *w, const struct item *item)
{
	static char text[DWARF_LINES_DEPTH_MAX][SYMBOLIZER_NAME_MAX + 1];
	struct dwarf_line found[DWARF_LINES_DEPTH_MAX] = {0};
	struct symbol_line lines[DWARF_LINES_DEPTH_MAX];
	ssize_t n = w->lines ? dwarf_lines_find(w->lines, item->vaddr, found, DWARF_LINES_DEPTH_MAX) : 0;
	const char *symbol = symbol_of(w, item);
	if (n < 0)
		return (int)n;
	if (n == 0)
		n = (ssize_t)find_go(w, item->vaddr, found);
	if (n == 0 && symbol[0])
		n = 1;
	for (ssize_t i = 0; i < n; i++) {
		const char *linkage = i + 1 == n && symbol[0] ? symbol : or_empty(found[i].function);
		bool plain = !demangle_symbol(linkage, text[i], sizeof(text[i]));
		lines[i] = (struct symbol_line){.name = plain ? linkage : text[i],
			.linkage = plain ? "" : linkage,
			.file = or_empty(found[i].file),
			.line = found[i].line,
			.start = found[i].start_line};
	}
	int r = put_answer(w, item->index, lines, (size_t)n);
	return r < 0 ? r : flush_buffer(w); /* the next address may kill this process */
}

static int answer_all(struct work *w, const struct question_head *head, const struct elf_memory *debug,
	const struct elf_memory *alt, size_t memory)
{
	struct err e = {0};
	qsort(w->items, w->n, sizeof(w->items[0]), by_address);
	int r = head->facts ? put_facts(w, debug) : 0;
	if (r == 0 && w->n && debug->data && (r = dwarf_lines_open(debug, alt, memory, &w->lines, &e)) != -ENOMEM)
		r = 0; /* without lines: names alone */
	if (w->n && !w->lines)
		open_go(w, debug);
	if (head->separate)
		w->separate = *debug;
	for (size_t i = 0; i < w->n && r == 0; i++)
		r = symbolize_item(w, &w->items[i]);
	if (r == 0)
		r = put_answer(w, ANSWER_END, NULL, 0);
	return r < 0 ? r : flush_buffer(w);
}

int symbolizer_begin(int answers)
{
	struct answer_head begun = {.index = ANSWER_BEGUN};
	return fd_write_all(answers, &begun, sizeof(begun));
}

int symbolizer_answer(
	int question, int answers, const struct elf_memory *debug, const struct elf_memory *alt, size_t memory)
{
	struct question_head head;
	struct work *w = calloc(1, sizeof(*w));
	if (!w)
		return -ENOMEM;
	w->out = answers;
	int r = read_question(w, question, &head);
	if (r == 0)
		r = answer_all(w, &head, debug, alt, memory);
	dwarf_lines_close(w->lines);
	free(w->looked_up);
	free(w->items);
	free(w->question);
	free(w);
	return r;
}
