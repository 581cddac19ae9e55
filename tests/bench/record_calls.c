/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record_calls FILE SAMPLES EVERY COMMAND... - runs a command, steps through parts of it one instruction at a time
 * (PTRACE_SINGLESTEP), and records every EVERYth instruction as a sample, with the callers that it really has: where a
 * call pushed a return address that still lies on the stack. So unwinding can be held against the truth, whether there
 * are unwind tables or none. It ends at SAMPLES, or with the command, whose first thread alone is looked at.
 *
 * Between the parts the command runs freely for a moment: of a loop that takes long there is not more than of others.
 */
#include "tests/bench/corpus.h"
#include "oci/base/array.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PART_STEPS 10000
#define FREE_NS (100 * 1000000l)
#define STACK_BYTES 65528u
#define CALLERS_MAX 512
#define INSN_MAX 15 /* bytes of an instruction */

static struct {
	FILE *out;
	unsigned long wanted, got, every, steps;
	uint32_t set;
	char *maps; /* as they were written last */
	size_t maps_size;
	pid_t pid;
	struct {
		uint64_t slot, address;
	} callers[CALLERS_MAX]; /* innermost last */
	unsigned n;
	uint8_t stack[STACK_BYTES];
} w;

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "record_calls: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void put(const void *p, size_t n)
{
	if (n && fwrite(p, n, 1, w.out) != 1)
		die("write");
}

static void put_u32(uint32_t v)
{
	put(&v, sizeof(v));
}

/* --- mappings */

static char *read_maps(size_t *size)
{
	char path[64], *text = NULL;
	size_t room = 0, n = 0;
	snprintf(path, sizeof(path), "/proc/%d/maps", w.pid);
	FILE *f = fopen(path, "r");
	while (f && array_reserve(&text, &room, n + 4096, 1, 4096) == 0) {
		const size_t got = fread(text + n, 1, 4095, f);
		if (!got)
			break;
		n += got;
	}
	if (!f || !text)
		die(path);
	fclose(f);
	text[n] = 0;
	*size = n;
	return text;
}

static unsigned each_map(char *text, bool write)
{
	unsigned n = 0;
	for (char *line = text, *next; *line; line = next) {
		next = line + strcspn(line, "\n");
		next += *next == '\n';
		uint64_t start, end, pgoff;
		char rights[5];
		int at = 0;
		if (sscanf(line, "%lx-%lx %4s %lx %*s %*s %n", &start, &end, rights, &pgoff, &at) < 4 ||
			rights[2] != 'x')
			continue;
		n++;
		if (!write)
			continue;
		const uint64_t range[] = {start, end, pgoff};
		const size_t size = strcspn(line + at, "\n");
		put(range, sizeof(range));
		put_u32((uint32_t)size);
		put(line + at, size);
	}
	return n;
}

static void put_maps(void)
{
	size_t size;
	char *text = read_maps(&size);
	if (w.maps && size == w.maps_size && !memcmp(text, w.maps, size)) {
		free(text);
		return;
	}
	free(w.maps);
	w.maps = text;
	w.maps_size = size;
	put_u32(CORPUS_MAPS);
	put_u32(++w.set);
	put_u32(each_map(text, false));
	each_map(text, true);
}

/* --- a step */

static size_t read_memory(uint64_t at, void *buf, size_t size)
{
	const struct iovec here = {buf, size}, there = {(void *)(uintptr_t)at, size}; // NOLINT
	const ssize_t n = process_vm_readv(w.pid, &here, 1, &there, 1, 0);
	return n < 0 ? 0 : (size_t)n;
}

static bool is_call(uint64_t ip, uint64_t ret)
{
	uint8_t c[INSN_MAX];
	const size_t n = ret - ip;
	if (n < 2 || n > INSN_MAX || read_memory(ip, c, n) != n)
		return false;
	size_t i = 0;
	while (i + 2 < n && (c[i] == 0x66 || c[i] == 0x3e || c[i] == 0xf2 || c[i] == 0xf3 || (c[i] & 0xf0) == 0x40))
		i++;
	return c[i] == 0xe8 || (c[i] == 0xff && (c[i + 1] >> 3 & 7) == 2);
}

static void note_step(const struct user_regs_struct *before, const struct user_regs_struct *after)
{
	uint64_t ret;
	while (w.n && w.callers[w.n - 1].slot < after->rsp)
		w.n--;
	if (after->rsp == before->rsp - 8 && read_memory(after->rsp, &ret, 8) == 8 && is_call(before->rip, ret)) {
		if (w.n == CALLERS_MAX)
			die("too many callers");
		w.callers[w.n].slot = after->rsp;
		w.callers[w.n++].address = ret;
	}
}

/* The kernel stops a dump of the stack at its end: so does this. */
static uint32_t read_stack(uint64_t sp)
{
	size_t n = read_memory(sp, w.stack, STACK_BYTES);
	for (uint64_t page = 4096 - sp % 4096; !n && page < STACK_BYTES; page = 0)
		n = read_memory(sp, w.stack, page);
	return (uint32_t)n;
}

static void put_sample(const struct user_regs_struct *r)
{
	/* the order of perf's registers: asm/perf_regs.h */
	const uint64_t regs[17] = {r->rax, r->rbx, r->rcx, r->rdx, r->rsi, r->rdi, r->rbp, r->rsp, r->rip, r->r8, r->r9,
		r->r10, r->r11, r->r12, r->r13, r->r14, r->r15};
	put_maps();
	const uint32_t size = read_stack(r->rsp);
	put_u32(CORPUS_SAMPLE);
	put_u32(w.set);
	put(regs, sizeof(regs));
	put_u32(size);
	put(w.stack, size);
	put_u32(CORPUS_CALLERS);
	put_u32(w.n);
	for (unsigned i = w.n; i-- > 0;)
		put(&w.callers[i].address, 8);
	w.got++;
}

/* --- parts */

static void get_regs(struct user_regs_struct *ret)
{
	if (ptrace(PTRACE_GETREGS, w.pid, NULL, ret) < 0)
		die("ptrace");
}

/* False: the command has ended. *signal: of the stop; 0: it is ours. */
static bool await_stop(int *signal)
{
	int status;
	if (waitpid(w.pid, &status, 0) < 0 || !WIFSTOPPED(status))
		return false;
	*signal = WSTOPSIG(status);
	return true;
}

static bool step_part(void)
{
	struct user_regs_struct before, after;
	int signal;
	w.n = 0;
	get_regs(&before);
	for (unsigned i = 0; i < PART_STEPS && w.got < w.wanted; i++) {
		if (ptrace(PTRACE_SINGLESTEP, w.pid, NULL, NULL) < 0 || !await_stop(&signal))
			return false;
		if (signal != SIGTRAP) /* its handler is called by nothing */
			return ptrace(PTRACE_CONT, w.pid, NULL, signal) == 0;
		get_regs(&after);
		note_step(&before, &after);
		before = after;
		if (w.n && ++w.steps % w.every == 0)
			put_sample(&after);
	}
	return ptrace(PTRACE_CONT, w.pid, NULL, NULL) == 0;
}

static bool stop_command(void)
{
	int signal;
	nanosleep(&(struct timespec){.tv_nsec = FREE_NS}, NULL);
	if (kill(w.pid, SIGSTOP) < 0)
		return false;
	while (await_stop(&signal)) {
		if (signal == SIGSTOP)
			return true;
		if (ptrace(PTRACE_CONT, w.pid, NULL, signal == SIGTRAP ? 0 : signal) < 0)
			return false;
	}
	return false;
}

int main(int argc, char **argv)
{
	int signal;
	if (argc < 5) {
		fprintf(stderr, "usage: record_calls FILE SAMPLES EVERY COMMAND...\n");
		return 2;
	}
	w.out = fopen(argv[1], "w");
	w.wanted = strtoul(argv[2], NULL, 10);
	w.every = strtoul(argv[3], NULL, 10);
	if (!w.out || !w.every)
		die(argv[1]);
	put(CORPUS_MAGIC, 8);
	w.pid = fork();
	if (w.pid == 0) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		execvp(argv[4], argv + 4);
		_exit(127);
	}
	bool runs = w.pid > 0 && await_stop(&signal) &&
		    ptrace(PTRACE_SETOPTIONS, w.pid, NULL, PTRACE_O_EXITKILL) == 0 &&
		    ptrace(PTRACE_CONT, w.pid, NULL, NULL) == 0;
	while (runs && w.got < w.wanted)
		runs = stop_command() && step_part();
	kill(w.pid, SIGKILL);
	waitpid(w.pid, NULL, 0);
	printf("%lu samples, %u sets of mappings\n", w.got, w.set);
	return fclose(w.out) == 0 && w.got ? 0 : 1;
}
