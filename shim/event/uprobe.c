/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/event/uprobe.h"

#include "oci/base/fd.h"
#include "oci/base/process/child_process.h"
#include "oci/isolation/capabilities.h"
#include "oci/isolation/seccomp.h"
#include "shim/event/insn_length.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define SECTIONS_MAX 4096
#define SEGMENTS_MAX 64
#define PIECE (64u << 10)
#define NAMES_MAX 16 /* places in one table of strings that read as the symbol: linkers share tails */
#define CPU_SECONDS_MAX 2

/* --- in the file ---------------------------------------------------------------------------------------- */

struct file {
	int fd;
	uint64_t size;
	Elf64_Ehdr head;
};

/* The places of a name in a table of strings. */
struct name_cache {
	uint32_t at[NAMES_MAX];
	size_t n;
};

static char piece[PIECE];

static int read_at(const struct file *f, void *buf, size_t size, uint64_t at)
{
	if (at > f->size || size > f->size - at)
		return -ENOEXEC;
	ssize_t n = fd_pread_all(f->fd, buf, size, (off_t)at);
	return n < 0 ? (int)n : n == (ssize_t)size ? 0 : -ENOEXEC;
}

static int open_file(int fd, struct file *ret)
{
	off_t size = lseek(fd, 0, SEEK_END); /* the child has no fstat(2) */
	if (size < 0)
		return -errno;
	*ret = (struct file){.fd = fd, .size = (uint64_t)size};
	const Elf64_Ehdr *h = &ret->head;
	int r = read_at(ret, &ret->head, sizeof(ret->head), 0);
	if (r < 0)
		return r;
	bool ours = !memcmp(h->e_ident, ELFMAG, SELFMAG) && h->e_ident[EI_CLASS] == ELFCLASS64 &&
		    h->e_ident[EI_DATA] == ELFDATA2LSB && (h->e_type == ET_EXEC || h->e_type == ET_DYN) &&
		    h->e_phentsize == sizeof(Elf64_Phdr) && h->e_phnum <= SEGMENTS_MAX &&
		    (!h->e_shnum || h->e_shentsize == sizeof(Elf64_Shdr)) && h->e_shnum <= SECTIONS_MAX;
	return ours ? 0 : -ENOEXEC;
}

static int read_section_header(const struct file *f, unsigned i, Elf64_Shdr *ret)
{
	if (i >= f->head.e_shnum)
		return -ENOEXEC;
	return read_at(f, ret, sizeof(*ret), f->head.e_shoff + (uint64_t)i * sizeof(*ret));
}

/* Finds all places of the table that read as `symbol` to the end. Pieces overlap by the length of `symbol`. */
static int find_names(const struct file *f, const Elf64_Shdr *strings, const char *symbol, struct name_cache *ret)
{
	const size_t want = strlen(symbol) + 1;
	ret->n = 0;
	for (uint64_t from = 0; from + want <= strings->sh_size && from <= UINT32_MAX; from += PIECE - want + 1) {
		uint64_t left = strings->sh_size - from;
		size_t size = left < PIECE ? (size_t)left : PIECE;
		int r = read_at(f, piece, size, strings->sh_offset + from);
		if (r < 0)
			return r;
		for (char *at = piece; (at = memmem(at, (size_t)(piece + size - at), symbol, want)); at++)
			if (ret->n < NAMES_MAX)
				ret->at[ret->n++] = (uint32_t)(from + (uint64_t)(at - piece));
	}
	return 0;
}

static bool is_named(const struct name_cache *names, uint32_t at)
{
	for (size_t i = 0; i < names->n; i++)
		if (names->at[i] == at)
			return true;
	return false;
}

/* 1: found. -ENOSYS: it is there, but the function to call is chosen at run time. */
static int find_function(const struct file *f, const Elf64_Shdr *table, const struct name_cache *names, Elf64_Sym *ret)
{
	const Elf64_Sym *syms = (const Elf64_Sym *)(const void *)piece;
	const uint64_t count = table->sh_size / sizeof(*syms), most = PIECE / sizeof(*syms);
	int found = 0;
	for (uint64_t from = 0; from < count; from += most) {
		size_t n = (size_t)(count - from < most ? count - from : most);
		int r = read_at(f, piece, n * sizeof(*syms), table->sh_offset + from * sizeof(*syms));
		if (r < 0)
			return r;
		for (size_t i = 0; i < n; i++) {
			unsigned type = ELF64_ST_TYPE(syms[i].st_info);
			if (syms[i].st_shndx == SHN_UNDEF || !is_named(names, syms[i].st_name))
				continue;
			*ret = syms[i];
			if (type == STT_FUNC)
				return 1;
			if (type == STT_GNU_IFUNC)
				found = -ENOSYS;
		}
	}
	return found;
}

/* Finds the place in the file of the code at this address. */
static int offset_of(const struct file *f, uint64_t address, uint64_t *ret)
{
	for (unsigned i = 0; i < f->head.e_phnum; i++) {
		Elf64_Phdr p;
		int r = read_at(f, &p, sizeof(p), f->head.e_phoff + (uint64_t)i * sizeof(p));
		if (r < 0)
			return r;
		if (p.p_type != PT_LOAD || !(p.p_flags & PF_X) || address < p.p_vaddr ||
			address - p.p_vaddr >= p.p_filesz)
			continue;
		return __builtin_add_overflow(address - p.p_vaddr, p.p_offset, ret) || *ret >= f->size ? -ENOEXEC : 0;
	}
	return -ENOEXEC;
}

/*
 * Finds where instructions begin, from the function's beginning on, in pieces that overlap by the longest instruction.
 */
static int step_to(const struct file *f, uint64_t begin, uint64_t into, struct uprobe_found *ret)
{
	const uint64_t all = into + INSN_LENGTH_MAX;
	uint64_t at = 0, from = 0, have = 0;
	while (at < into) {
		if (at + INSN_LENGTH_MAX > from + have && from + have < all) {
			from = at;
			have = all - at < PIECE ? all - at : PIECE;
			have = begin + from + have > f->size ? f->size - begin - from : have;
			int r = read_at(f, piece, have, begin + from);
			if (r < 0)
				return r;
		}
		const int n = insn_length((const uint8_t *)piece + (at - from), have - (at - from));
		if (n < 0)
			return -EOPNOTSUPP;
		ret->before = (uint32_t)at;
		at += (uint64_t)n;
		ret->behind = (uint32_t)at;
	}
	return at == into ? 0 : -EILSEQ;
}

static int find_place(const struct file *f, const Elf64_Sym *function, uint64_t into, struct uprobe_found *ret)
{
	int r = offset_of(f, function->st_value, &ret->offset);
	if (r < 0 || !into)
		return r;
	if (into >= function->st_size || into > UPROBE_INTO_MAX)
		return -ERANGE;
	r = step_to(f, ret->offset, into, ret);
	ret->offset += into;
	return r;
}

/* "function+offset": its length, and the offset; it may be a part of the function's name as well (C++ has no '+'). */
static size_t split_symbol(const char *symbol, uint64_t *ret_into)
{
	const char *plus = strrchr(symbol, '+');
	char *end;
	*ret_into = 0;
	if (!plus || plus == symbol || plus[1] < '0' || plus[1] > '9')
		return strlen(symbol);
	*ret_into = strtoull(plus + 1, &end, strncmp(plus + 1, "0x", 2) ? 10 : 16);
	return *end ? strlen(symbol) : (size_t)(plus - symbol);
}

/* Both tables: a library of a distribution has .dynsym alone. */
int uprobe_lookup(int fd, const char *symbol, struct uprobe_found *ret)
{
	struct file f;
	char function[EVENT_NAME_MAX];
	uint64_t into;
	int r = open_file(fd, &f), found = -ENOENT;
	*ret = (struct uprobe_found){0};
	snprintf(function, sizeof(function), "%.*s", (int)split_symbol(symbol, &into), symbol);
	for (unsigned i = 0; r == 0 && i < f.head.e_shnum; i++) {
		Elf64_Shdr table, strings;
		struct name_cache names;
		Elf64_Sym it = {0};
		r = read_section_header(&f, i, &table);
		if (r < 0 || (table.sh_type != SHT_SYMTAB && table.sh_type != SHT_DYNSYM))
			continue;
		r = read_section_header(&f, table.sh_link, &strings);
		if (r == 0)
			r = find_names(&f, &strings, function, &names);
		if (r == 0 && names.n)
			r = find_function(&f, &table, &names, &it);
		if (r == 1)
			return find_place(&f, &it, into, ret);
		if (r == -ENOSYS) {
			found = r;
			r = 0;
		}
	}
	return r < 0 ? r : found;
}

/* --- the child that reads it ---------------------------------------------------------------------------- */

struct answer {
	int32_t code;
	uint32_t pad;
	struct uprobe_found found;
};

static _Noreturn void run_child(int file, int say, const char *symbol)
{
	const int keep[] = {file, say};
	const struct rlimit seconds = {CPU_SECONDS_MAX, CPU_SECONDS_MAX};
	struct answer a = {0};
	struct err e = {0};
	fd_close_all_but(keep, 2);
	setrlimit(RLIMIT_CPU, &seconds);
	a.code = capabilities_limit(0, &e);
	if (a.code == 0)
		a.code = seccomp_enter(SECCOMP_SYMBOLIZER_JOB, &e);
	if (a.code == 0)
		a.code = uprobe_lookup(file, symbol, &a.found);
	_exit(fd_write_all(say, &a, sizeof(a)) < 0);
}

/* Opens a file that holds code: no device, no file with contents that are made while it is read. */
static int open_binary(int tree, int self_fds, const char *path)
{
	struct stat st;
	char name[16];
	fd_auto place = fd_open_on_root(tree, path, O_PATH);
	if (place < 0)
		return place;
	if (fstat(place, &st) < 0 || !S_ISREG(st.st_mode) || (uint64_t)st.st_size > UPROBE_FILE_MAX)
		return -ENOEXEC;
	snprintf(name, sizeof(name), "%d", place);
	return fd_open(self_fds, name, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
}

/* After we have joined the target's pid namespace, our children are born there: this one would take one of its pids. */
static int stay_outside(void)
{
	fd_auto self = child_process_pidfd(getpid());
	if (self < 0)
		return self;
	/* without the right to do this we cannot have joined either */
	return setns(self, CLONE_NEWPID) < 0 && errno != EPERM ? -errno : 0;
}

static int ask_child(int file, const char *symbol, int64_t deadline, struct uprobe_found *ret)
{
	struct answer a;
	int line, r = stay_outside();
	const pid_t pid = r < 0 ? r : child_process_fork_answering(&line);
	if (pid < 0)
		return pid;
	if (pid == 0)
		run_child(file, line, symbol);
	const bool heard =
		fd_wait(line, POLLIN, deadline) == 1 && fd_read_all(line, &a, sizeof(a)) == (ssize_t)sizeof(a);
	child_process_wait(pid, heard ? deadline : 0);
	fd_close(line);
	*ret = heard ? a.found : (struct uprobe_found){0};
	return !heard ? -ETIMEDOUT : a.code > 0 ? -EBADMSG : a.code;
}

static int explain_error(
	int error, const char *path, const char *symbol, const struct uprobe_found *found, struct err *e)
{
	const char *plus = strrchr(symbol, '+');
	const int function = (int)(plus ? plus - symbol : (long)strlen(symbol));
	switch (-error) {
	case ENOENT:
		return err_say(e, error,
			"%s has no function %.*s in its symbol tables; 'nm' and 'nm -D' print what it has", path,
			function, symbol);
	case EILSEQ:
		return err_say(e, error,
			"%s: no instruction of %.*s begins at %s: a breakpoint within one would break the program; "
			"+%u and +%u are where they begin",
			path, function, symbol, plus ? plus : "", found->before, found->behind);
	case ERANGE:
		return err_say(e, error, "%s: %.*s is not that long, or nobody knows how long it is (%s)", path,
			function, symbol, plus ? plus : "");
	case EOPNOTSUPP:
		return err_say(e, error,
			"%s: of %.*s it is not known where instructions begin from +%u on, so %s may be within one",
			path, function, symbol, found->behind, plus ? plus : "");
	case ENOEXEC:
		return err_say(e, error, "%s is no 64-bit ELF program or library, or a broken one", path);
	case ENOSYS:
		return err_say(e, error, "%s of %s stands for others, of which one is chosen when the program starts",
			symbol, path);
	case ETIMEDOUT:
		return err_say(e, error, "%s: reading its symbols took too long", path);
	default:
		return err_set(e, error, "%s", path);
	}
}

int uprobe_find(int tree, int self_fds, const char *path, const char *symbol, int64_t deadline, struct uprobe *ret,
	struct err *e)
{
	struct uprobe_found found = {0};
	int fd = open_binary(tree, self_fds, path);
	*ret = (struct uprobe){.fd = -1};
	if (fd == -EXDEV)
		return err_say(e, fd, "%s is on another file system than the root of the container", path);
	if (fd < 0)
		return fd == -ENOEXEC ? explain_error(fd, path, symbol, &found, e)
				      : err_set(e, fd, "%s in the container", path);
	int r = ask_child(fd, symbol, deadline, &found);
	ret->fd = r < 0 ? fd_close(fd) : fd;
	ret->offset = found.offset;
	return r < 0 ? explain_error(r, path, symbol, &found, e) : 0;
}

/* --- all of a target ------------------------------------------------------------------------------------ */

size_t probes_count(const struct target_desc *d)
{
	size_t n = 0;
	for (uint32_t i = 0; i < d->n_events; i++)
		n += event_is(&d->events[i], NAMED_UPROBE);
	return n;
}

static int find_one(
	const struct event_spec *s, int tree, int self_fds, int64_t deadline, struct uprobe *ret, struct err *e)
{
	char path[EVENT_NAME_MAX];
	size_t len = strcspn(s->name, ":");
	snprintf(path, sizeof(path), "%.*s", (int)len, s->name);
	if (tree < 0)
		return err_say(e, -ENOENT, "%s: the target's files cannot be reached", path);
	return uprobe_find(tree, self_fds, path, s->name + len + 1, deadline, ret, e);
}

int probes_find(struct target_desc *d, int tree, int self_fds, int64_t deadline, int ret[EVENTS_MAX], struct err *e)
{
	int n = 0;
	char text[400];
	struct err why = {0};
	for (uint32_t i = 0; i < d->n_events;) {
		struct event_spec *s = &d->events[i];
		struct uprobe found;
		if (event_is(s, NAMED_UPROBE) && find_one(s, tree, self_fds, deadline, &found, &why) < 0) {
			snprintf(text, sizeof(text), "uprobe %.380s", why.text);
			target_leave_out(d, i, text);
			continue;
		}
		if (event_is(s, NAMED_UPROBE)) {
			s->config = found.offset;
			ret[n++] = found.fd;
		}
		i++;
	}
	return d->n_events ? n : err_say(e, why.code, "uprobe %s", why.text);
}
