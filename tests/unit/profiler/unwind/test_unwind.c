/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unwind: a recursion of known depth, compiled without frame pointers, seen from three sides: a snapshot that the
 * program takes of itself (no privilege), samples of perf events where the kernel allows them, and hand-made or damaged
 * stacks, registers and tables.
 */
#include "profiler/process/address_space.h"
#include "profiler/unwind/unwind.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "oci/base/process/child_process.h"
#include "shim/event/event_arch.h"
#include "tests/unit/support/here.h"
#include "tests/unit/support/suite.h"
#include "tests/unit/support/unwind_shapes.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#define DEPTH 40
#define SNAPSHOT (32u << 10)

/* what every test has */
static struct modules *modules;
static struct map_files *files;
static struct address_space *space;
static struct unwind *unwinder;
static struct unwind_frame frames[UNWIND_FRAMES_MAX];
static int fds_before;

static int open_here(void *arg, const char *path, struct file *ret)
{
	return file_take(fd_open(AT_FDCWD, path, O_RDONLY, 0), ret);
}

static target_file_open_fn *opener;

static struct module *resolve(void *arg, const struct module_key *key)
{
	struct module *m = NULL;
	ck_assert_int_eq(modules_get(modules, key, opener, NULL, &m), 0);
	return m;
}

static void setup(void)
{
	fds_before = fd_count();
	opener = open_here;
	ck_assert_int_eq(modules_new(512 << 20, &modules), 0);
	ck_assert_int_eq(map_files_new(resolve, NULL, &files), 0);
	ck_assert_int_eq(address_space_new(files, &space), 0);
	ck_assert_int_eq(unwind_new(&unwinder), 0);
}

static void teardown(void)
{
	space = address_space_free(space);
	unwinder = unwind_free(unwinder);
	files = map_files_free(files);
	modules = modules_free(modules);
	ck_assert_int_eq(fd_count(), fds_before);
}

static void map_process(struct address_space *s, pid_t pid)
{
	char path[64], line[1024], perms[8];
	unsigned long long start, end, off, ino;
	unsigned maj, min;
	int name;
	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	FILE *f = fopen(path, "re");
	ck_assert_ptr_nonnull(f);
	while (fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = 0;
		if (sscanf(line, "%llx-%llx %7s %llx %x:%x %llu %n", &start, &end, perms, &off, &maj, &min, &ino,
			    &name) != 7)
			continue;
		struct module_key key = {
			.path = line[name] ? line + name : "//anon", .maj = maj, .min = min, .ino = ino};
		if (perms[2] == 'x')
			ck_assert_int_eq(address_space_map(s, start, end - start, off, &key), 0);
	}
	fclose(f);
}

/* Names of the frames, recursion counted: "spin recursion*40 main _start" ([...] only where asked for). */
static void describe(size_t n, char *buf, size_t size)
{
	char name[MODULE_NAME_MAX], last[MODULE_NAME_MAX] = "";
	size_t used = 0, times = 0;
	buf[0] = 0;
	for (size_t i = 0; i <= n && used < size; i++) {
		if (i < n)
			module_frame_name(frames[i].module, frames[i].vaddr, name, sizeof(name));
		if (i < n && !strcmp(name, last)) {
			times++;
			continue;
		}
		if (times > 1)
			used += (size_t)snprintf(buf + used, size - used, "*%zu", times);
		if (i < n)
			used += (size_t)snprintf(buf + used, size - used, " %s", name);
		strcpy(last, name);
		times = 1;
	}
}

/* --- a snapshot of ourselves */

static struct {
	struct unwind_regs regs;
	uint64_t stack[SNAPSHOT / 8];
	size_t size;
} shot;

static __attribute__((noinline)) uint64_t stack_top(void)
{
	unsigned long long start, end, here = (uintptr_t)&start, top = 0;
	char line[512];
	FILE *f = fopen("/proc/self/maps", "re");
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%llx-%llx", &start, &end) == 2 && here >= start && here < end)
			top = end;
	fclose(f);
	return top;
}

static __attribute__((noinline, noclone, no_sanitize("address", "undefined"))) void take_snapshot(void)
{
	static const int order[UNWIND_REGS] = {REG_RAX, REG_RBX, REG_RCX, REG_RDX, REG_RSI, REG_RDI, REG_RBP, REG_RSP,
		REG_RIP, REG_R8, REG_R9, REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
	uint64_t top = stack_top();
	ucontext_t c;
	getcontext(&c);
	for (int i = 0; i < UNWIND_REGS; i++)
		shot.regs.r[i] = (uint64_t)c.uc_mcontext.gregs[order[i]];
	uint64_t sp = shot.regs.r[UNWIND_SP];
	for (shot.size = 0; shot.size < SNAPSHOT && sp + shot.size < top; shot.size += 8)
		shot.stack[shot.size / 8] = *(volatile uint64_t *)(uintptr_t)(sp + shot.size);
}

static size_t unwind_shot(size_t max, enum unwind_stop *stop)
{
	return unwind_user(
		unwinder, address_space_unwind_map(space), &shot.regs, shot.stack, shot.size, frames, max, stop);
}

static __attribute__((noinline, noclone)) void take_below_recursion(void)
{
	recursion(DEPTH, take_snapshot);
	map_process(space, getpid());
}

START_TEST(a_recursion_without_frame_pointers_is_complete)
{
	enum unwind_stop stop;
	char is[4096];
	take_below_recursion();
	for (int again = 0; again < 2; again++) { /* cold, then from libunwind's cache */
		size_t n = unwind_shot(UNWIND_FRAMES_MAX, &stop);
		describe(n, is, sizeof(is));
		ck_assert_msg(stop == UNWIND_END, "%s: %s", unwind_stop_name(stop), is);
		ck_assert_msg(strstr(is, " take_snapshot recursion*40 take_below_recursion ") == is, "%s", is);
		ck_assert_msg(strstr(is, " main ") && strstr(is, " _start"), "%s", is);
		ck_assert_uint_eq(frames[0].ip, shot.regs.r[UNWIND_IP]);
	}
	ck_assert_ptr_null(unwind_stop_name(stop));
}
END_TEST

/* The same frames from the same stack, and no more than there is of it. */
START_TEST(a_brief_one_is_its_beginning)
{
	struct unwind_frame whole[UNWIND_FRAMES_MAX];
	enum unwind_stop stop;
	take_below_recursion();
	size_t n = unwind_shot(UNWIND_FRAMES_MAX, &stop), reach = unwind_reach(unwinder), last = 0;
	uint64_t last_resorts = unwind_last_resorts(unwinder);
	memcpy(whole, frames, sizeof(whole));
	for (size_t size = 0; size <= shot.size; size += 64) {
		size_t some = unwind_brief(unwinder, address_space_unwind_map(space), &shot.regs, shot.stack, size,
			frames, UNWIND_FRAMES_MAX);
		ck_assert(some >= last && some >= 1 && some <= n);
		for (size_t i = 0; i < some; i++)
			ck_assert(frames[i].ip == whole[i].ip && frames[i].vaddr == whole[i].vaddr);
		last = some;
	}
	ck_assert_uint_gt(last, DEPTH);
	ck_assert_uint_eq(unwind_reach(unwinder), reach);
	ck_assert_uint_eq(unwind_last_resorts(unwinder), last_resorts);
}
END_TEST

START_TEST(a_snapshot_of_its_reach_is_enough)
{
	enum unwind_stop stop;
	take_below_recursion();
	size_t n = unwind_shot(UNWIND_FRAMES_MAX, &stop), reach = unwind_reach(unwinder);
	ck_assert(stop == UNWIND_END && reach > 0 && reach < shot.size);
	shot.size = reach;
	ck_assert_uint_eq(unwind_shot(UNWIND_FRAMES_MAX, &stop), n);
	ck_assert(stop == UNWIND_END && unwind_reach(unwinder) == reach);
	shot.size = reach - 8;
	ck_assert_uint_lt(unwind_shot(UNWIND_FRAMES_MAX, &stop), n);
	ck_assert(stop == UNWIND_STACK && unwind_reach(unwinder) <= shot.size);
}
END_TEST

/* Behind the 20th return address into the recursion. */
static void cut_snapshot(void)
{
	enum unwind_stop stop;
	size_t i = 0;
	ck_assert_uint_gt(unwind_shot(UNWIND_FRAMES_MAX, &stop), DEPTH);
	for (int seen = 0; seen < 20 && i < shot.size / 8; i++)
		seen += shot.stack[i] == frames[2].ip;
	shot.size = i * 8;
}
static void cut_to_an_odd_size(void)
{
	cut_snapshot();
	shot.size--;
}
static void cut_to_nothing(void)
{
	shot.size = 0;
}
static void ip_nowhere(void)
{
	shot.regs.r[UNWIND_IP] = 0x10;
}
static void ip_zero(void)
{
	shot.regs.r[UNWIND_IP] = 0;
}
static void ip_at_the_top(void)
{
	shot.regs.r[UNWIND_IP] = UINT64_MAX;
}
static void sp_zero(void)
{
	shot.regs.r[UNWIND_SP] = 0;
}
static void sp_at_the_top(void)
{
	shot.regs.r[UNWIND_SP] = UINT64_MAX - 64;
}
static void stack_of_zeros(void)
{
	memset(shot.stack, 0, sizeof(shot.stack));
}
static void stack_of_ones(void)
{
	memset(shot.stack, 0xff, sizeof(shot.stack));
}
static void stack_of_one_return_address(void)
{
	for (size_t i = 0; i < SNAPSHOT / 8; i++)
		shot.stack[i] = shot.regs.r[UNWIND_IP];
}
static void a_frame_that_does_not_grow(void)
{
	shot.regs.r[UNWIND_IP] = (uint64_t)(uintptr_t)liar;
	shot.stack[2] = (uint64_t)(uintptr_t)liar + 2;
}
static void a_leaf_that_popped(void)
{
	shot.regs.r[UNWIND_DI] = shot.regs.r[UNWIND_IP];
	shot.regs.r[UNWIND_IP] = (uint64_t)(uintptr_t)popper + 2;
}
static void ip_nowhere_and_records_lost(void)
{
	ip_nowhere();
	address_space_set_lossy(space);
}

static const struct {
	const char *name;
	void (*damage)(void);
	size_t max, least, most; /* frames */
	const char *stop;
} damages[] = {
	{"a snapshot that ends in the recursion", cut_snapshot, 512, 21, 22, "[truncated: stack]"},
	{"a snapshot that ends within a word", cut_to_an_odd_size, 512, 20, 21, "[truncated: stack]"},
	{"no snapshot at all", cut_to_nothing, 512, 1, 1, "[truncated: stack]"},
	{"more frames than asked for", NULL, 10, 10, 10, "[truncated: depth]"},
	{"no room for any frame", NULL, 0, 0, 0, "[truncated: depth]"},
	{"a call through a wild pointer", ip_nowhere, 512, 1, 1, "[truncated: unknown mapping]"},
	{"a call through a null pointer", ip_zero, 512, 1, 1, "[truncated: unknown mapping]"},
	{"an instruction at the last address", ip_at_the_top, 512, 1, 1, "[truncated: unknown mapping]"},
	{"an unknown place after losses", ip_nowhere_and_records_lost, 512, 1, 1, "[truncated: lost mapping]"},
	{"a stack pointer of 0", sp_zero, 512, 1, 512, NULL},
	{"a stack pointer that would wrap", sp_at_the_top, 512, 1, 1, NULL},
	{"a stack of zeros ends at once", stack_of_zeros, 512, 1, 1, "complete"},
	{"a stack of ones", stack_of_ones, 512, 1, 1, "[truncated: unknown mapping]"},
	{"a description by which the stack does not grow", a_frame_that_does_not_grow, 512, 1, 1,
		"[truncated: bad memory]"},
	{"a leaf whose return address is in a register", a_leaf_that_popped, 512, DEPTH + 4, 512, "complete"},
	{"a stack of one return address is walked to its end only", stack_of_one_return_address, 512, 2, 512, NULL},
};

START_TEST(damaged_samples)
{
	enum unwind_stop stop;
	char is[4096];
	take_below_recursion();
	if (damages[_i].damage)
		damages[_i].damage();
	size_t n = unwind_shot(damages[_i].max, &stop);
	const char *name = unwind_stop_name(stop) ? unwind_stop_name(stop) : "complete";
	describe(n, is, sizeof(is));
	ck_assert_msg(n >= damages[_i].least && n <= damages[_i].most, "%s: %zu frames, %s:%s", damages[_i].name, n,
		name, is);
	ck_assert_uint_le(unwind_reach(unwinder), shot.size);
	ck_assert_msg(!damages[_i].stop || !strcmp(name, damages[_i].stop), "%s: %s:%s", damages[_i].name, name, is);
}
END_TEST

START_TEST(random_damage_ends)
{
	enum unwind_stop stop;
	recursion(DEPTH, take_snapshot);
	map_process(space, getpid());
	static typeof(shot) good;
	good = shot;
	srand(1);
	for (int round = 0; round < 2000; round++) {
		shot = good;
		for (int i = rand() % 20; i >= 0; i--) {
			uint64_t *word = rand() % 4 ? &shot.stack[(size_t)rand() % (shot.size / 8)]
						    : &shot.regs.r[rand() % UNWIND_REGS];
			*word = rand() % 2 ? *word ^ (1ull << rand() % 64)
					   : shot.regs.r[UNWIND_SP] + (uint64_t)(rand() % 4096) * 8;
		}
		ck_assert_uint_le(unwind_shot(UNWIND_FRAMES_MAX, &stop), UNWIND_FRAMES_MAX);
		ck_assert_uint_le(unwind_reach(unwinder), shot.size);
	}
}
END_TEST

/* This program with bytes of its unwind tables changed, as a tenant may ship it. */
static int open_damaged(void *arg, const char *path, struct file *ret)
{
	fd_auto fd = fd_open(AT_FDCWD, "/proc/self/exe", O_RDONLY, 0);
	struct elf *elf = NULL;
	char *bytes;
	size_t len, before = 0;
	ck_assert_int_eq(fd_slurp(fd, 256 << 20, &bytes, &len), 0);
	ck_assert_int_eq(elf_read(elf_source_fd(&fd), &elf, NULL), 0);
	/* found by content: the file offset of .eh_frame */
	uint8_t *at = memmem(bytes, len, elf->eh_frame.data, elf->eh_frame.size);
	ck_assert_ptr_nonnull(at);
	before = elf->eh_frame_hdr.size;
	for (size_t i = 0, n = elf->eh_frame.size / (8 << rand() % 6); i < n; i++)
		at[(size_t)rand() % elf->eh_frame.size] = (uint8_t)(rand() % 4 ? rand() : 0x0f + rand() % 8);
	if (rand() % 2)
		at[-(ptrdiff_t)(1 + (size_t)rand() % before)] ^= (uint8_t)(1 << rand() % 8);
	elf_free(elf);
	int out = memfd_create("damaged", MFD_CLOEXEC);
	ck_assert_int_eq(fd_write_all(out, bytes, len), 0);
	free(bytes);
	return file_take(out, ret);
}

START_TEST(damaged_unwind_tables_end)
{
	enum unwind_stop stop;
	size_t reached[UNWIND_STOPS] = {0};
	recursion(DEPTH, take_snapshot);
	opener = open_damaged;
	for (int round = 0; round < 20; round++) {
		srand((unsigned)round);
		teardown();
		target_file_open_fn *keep = opener;
		setup();
		opener = keep;
		map_process(space, getpid());
		for (int again = 0; again < 2; again++)
			reached[(unwind_shot(UNWIND_FRAMES_MAX, &stop), stop)]++;
		uint64_t ip = shot.regs.r[UNWIND_IP]; /* other descriptions than those on the stack */
		for (int i = 0; i < 200; i++) {
			shot.regs.r[UNWIND_IP] = ip - 0x2000 + (uint64_t)(rand() % 0x4000);
			reached[(unwind_shot(UNWIND_FRAMES_MAX, &stop), stop)]++;
		}
		shot.regs.r[UNWIND_IP] = ip;
	}
	ck_assert_uint_gt(reached[UNWIND_NO_INFO], 0);
}
END_TEST

/* --- frame pointers in code that has no tables: "//anon" at 0x1000, stack at 0x8000 */

static const struct {
	const char *name;
	uint64_t bp, stack[8];
	size_t frames;
	const char *stop;
} chains[] = {
	{"two callers, then rbp 0", 0x8010, {1, 2, 0x8020, 0x1010, 0, 0x1020}, 3, "complete"},
	{"two callers, then no return address", 0x8000, {0x8010, 0x1010, 0x8020, 0x1020, 0, 0}, 3, "complete"},
	{"a leaf with rbp 0", 0, {0}, 1, "[truncated: no unwind info]"},
	{"a leaf whose rbp points to zeros", 0x8000, {0}, 1, "[truncated: no unwind info]"},
	{"an rbp that is a number", 0x1234567, {0}, 1, "[truncated: no unwind info]"},
	{"an rbp below the stack pointer", 0x7ff0, {0}, 1, "[truncated: no unwind info]"},
	{"an rbp that is not aligned", 0x8001, {0}, 1, "[truncated: no unwind info]"},
	{"a frame that ends beyond the snapshot", 0x8038, {0}, 1, "[truncated: stack]"},
	{"a caller beyond the snapshot", 0x8000, {0x9000, 0x1010}, 2, "[truncated: stack]"},
	{"an rbp at the last address", UINT64_MAX - 7, {0}, 1, "[truncated: no unwind info]"},
	{"a return address that is no code", 0x8000, {0x8010, 0x3000}, 1, "[truncated: no unwind info]"},
	{"a frame that points to itself", 0x8000, {0x8000, 0x1010}, 2, "[truncated: no unwind info]"},
	{"two frames that point to each other", 0x8000, {0x8010, 0x1010, 0x8000, 0x1020}, 3,
		"[truncated: no unwind info]"},
};

START_TEST(chains_of_frame_pointers)
{
	struct module_key anon = {.path = "//anon"};
	struct unwind_regs regs = {{[UNWIND_IP] = 0x1500, [UNWIND_SP] = 0x8000, [UNWIND_BP] = chains[_i].bp}};
	enum unwind_stop stop;
	address_space_map(space, 0x1000, 0x1000, 0x1000, &anon);
	size_t n = unwind_user(unwinder, address_space_unwind_map(space), &regs, chains[_i].stack,
		sizeof(chains[_i].stack), frames, 512, &stop);
	const char *name = unwind_stop_name(stop) ? unwind_stop_name(stop) : "complete";
	ck_assert_msg(!strcmp(name, chains[_i].stop), "%s: %s", chains[_i].name, name);
	ck_assert_msg(n == chains[_i].frames, "%s: %zu frames", chains[_i].name, n);
}
END_TEST

/* The caller is found by the frame pointer, which the leaf has restored. */
START_TEST(a_leaf_that_restored_its_frame_pointer)
{
	const uint64_t stack[8] = {0x1010, 0, 0, 0}, ip = (uint64_t)(uintptr_t)restored + 2;
	struct module_key anon = {.path = "//anon"};
	struct unwind_regs regs = {{[UNWIND_IP] = ip, [UNWIND_SP] = 0x8000, [UNWIND_BP] = 0x8010}};
	enum unwind_stop stop;
	map_process(space, getpid());
	address_space_map(space, 0x1000, 0x1000, 0x1000, &anon);
	size_t n =
		unwind_user(unwinder, address_space_unwind_map(space), &regs, stack, sizeof(stack), frames, 512, &stop);
	ck_assert_msg(stop == UNWIND_END && n == 2, "%zu frames, %s", n, unwind_stop_name(stop));
	ck_assert_uint_eq(frames[1].ip, 0x1010);
}
END_TEST

START_TEST(the_beginning_without_a_description)
{
	static const struct {
		void (*caller)(void);
		enum unwind_stop stop;
	} kinds[] = {{libc_start_main_stage2, UNWIND_END}, {nothing_known, UNWIND_NO_INFO}};
	enum unwind_stop stop;
	map_process(space, getpid());
	for (size_t i = 0; i < 2; i++) {
		const uint64_t stack[8] = {(uint64_t)(uintptr_t)kinds[i].caller + 2};
		struct unwind_regs regs = {
			{[UNWIND_IP] = (uint64_t)(uintptr_t)restored, [UNWIND_SP] = 0x8000, [UNWIND_BP] = 1}};
		size_t n = unwind_user(
			unwinder, address_space_unwind_map(space), &regs, stack, sizeof(stack), frames, 512, &stop);
		ck_assert_uint_eq(n, 2);
		ck_assert_int_eq(stop, kinds[i].stop);
	}
}
END_TEST

START_TEST(a_handler_on_a_stack_of_its_own)
{
	static const struct {
		uint64_t sp;
		enum unwind_stop stop;
	} kinds[] = {{0x7000, UNWIND_SWITCH}, {0x8010, UNWIND_UNKNOWN_MAPPING}, {0x9000, UNWIND_STACK}};
	const uint64_t stack[8] = {(uint64_t)(uintptr_t)restored, 0, 1};
	enum unwind_stop stop;
	map_process(space, getpid());
	for (size_t i = 0; i < 3; i++) {
		struct unwind_regs regs = {{[UNWIND_IP] = (uint64_t)(uintptr_t)on_other_stack,
			[UNWIND_SP] = 0x8000,
			[UNWIND_R8] = kinds[i].sp}};
		size_t n = unwind_user(
			unwinder, address_space_unwind_map(space), &regs, stack, sizeof(stack), frames, 512, &stop);
		ck_assert_uint_eq(n, 2);
		ck_assert_msg(stop == kinds[i].stop, "%zu: %s", i, unwind_stop_name(stop));
	}
}
END_TEST

/* A description that no table takes goes to libunwind, each step of it is counted, and it can be done without. */
START_TEST(the_last_resort)
{
	const uint64_t stack[8] = {0x1010}, ip = (uint64_t)(uintptr_t)long_way + 1;
	struct module_key anon = {.path = "//anon"};
	struct unwind_regs regs = {{[UNWIND_IP] = ip, [UNWIND_SP] = 0x8000}};
	enum unwind_stop stop;
	struct unwind_table_stats st;
	map_process(space, getpid());
	address_space_map(space, 0x1000, 0x1000, 0x1000, &anon);
	for (uint64_t times = 1; times < 4; times++) {
		size_t n = unwind_user(
			unwinder, address_space_unwind_map(space), &regs, stack, sizeof(stack), frames, 512, &stop);
		ck_assert_msg(stop == UNWIND_END && n == 2, "%zu frames, %s", n, unwind_stop_name(stop));
		ck_assert_uint_eq(frames[1].ip, 0x1010);
		ck_assert_uint_eq(unwind_last_resorts(unwinder), times);
	}
	ck_assert_ptr_nonnull(*address_space_cache(space));
	unwind_table_stats(module_rows(frames[0].module), &st);
	ck_assert_uint_eq(st.left_out, 1);
	ck_assert_uint_eq(
		unwind_brief(unwinder, address_space_unwind_map(space), &regs, stack, sizeof(stack), frames, 512), 1);
	ck_assert_uint_eq(unwind_last_resorts(unwinder), 3);
	unwind_no_last_resort(unwinder);
	ck_assert_uint_eq(
		unwind_user(unwinder, address_space_unwind_map(space), &regs, stack, sizeof(stack), frames, 512, &stop),
		1);
	ck_assert_int_eq(stop, UNWIND_NO_INFO);
	ck_assert_uint_eq(unwind_last_resorts(unwinder), 3);
}
END_TEST

/* What compilers emit is compiled: nothing of libunwind's is kept for it. */
START_TEST(no_last_resort)
{
	struct address_space *many[4];
	enum unwind_stop stop;
	take_below_recursion();
	for (size_t i = 0; i < 4; i++) {
		address_space_new(files, &many[i]);
		for (size_t m = 0; m < address_space_count(space); m++) {
			const struct mapping *map = address_space_at(space, m);
			address_space_map(many[i], map->start, map->end - map->start, map->pgoff, mapping_key(map));
		}
		unwind_user(unwinder, address_space_unwind_map(many[i]), &shot.regs, shot.stack, shot.size, frames, 512,
			&stop);
		ck_assert_int_eq(stop, UNWIND_END);
	}
	ck_assert_uint_eq(unwind_last_resorts(unwinder), 0);
	for (size_t i = 0; i < 4; i++) {
		ck_assert_ptr_null(*address_space_cache(many[i]));
		address_space_free(many[i]);
	}
}
END_TEST

/* --- samples of a child process */

struct ring {
	int fd;
	struct perf_event_mmap_page *page;
};
#define RING_DATA (1u << 20)

static int ring_open(struct ring *r, pid_t pid)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.freq = 1,
		.sample_freq = 499,
		.sample_type = PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER,
		.sample_regs_user = PERF_REGS_USER_MASK,
		.sample_stack_user = SNAPSHOT,
		.exclude_kernel = 1,
	};
	r->fd = (int)syscall(SYS_perf_event_open, &attr, pid, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (r->fd < 0)
		return -errno;
	r->page = mmap(NULL, 4096 + RING_DATA, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, 0);
	return r->page == MAP_FAILED ? -errno : 0;
}

static void ring_copy(const struct ring *r, uint64_t pos, void *to, size_t n)
{
	const uint8_t *data = (const uint8_t *)r->page + 4096;
	for (size_t i = 0; i < n; i++)
		((uint8_t *)to)[i] = data[(pos + i) % RING_DATA];
}

/* The next sample into `shot`; false at the end. */
static bool ring_next(const struct ring *r, uint64_t *pos)
{
	struct perf_event_header h;
	while (*pos < __atomic_load_n(&r->page->data_head, __ATOMIC_ACQUIRE)) {
		uint64_t abi, size, at = *pos + sizeof(h);
		ring_copy(r, *pos, &h, sizeof(h));
		*pos += h.size;
		ring_copy(r, at, &abi, 8);
		if (h.type != PERF_RECORD_SAMPLE || abi != PERF_SAMPLE_REGS_ABI_64)
			continue;
		ring_copy(r, at + 8, &shot.regs, sizeof(shot.regs));
		at += 8 + sizeof(shot.regs);
		ring_copy(r, at, &size, 8);
		ck_assert_uint_eq(size, SNAPSHOT);
		ring_copy(r, at + 8, shot.stack, size);
		ring_copy(r, at + 8 + size, &size, 8);
		shot.size = size;
		return true;
	}
	return false;
}

static __attribute__((noinline, noclone)) pid_t child_start(bottom_fn *bottom)
{
	pid_t pid = fork();
	if (pid == 0) {
		recursion(DEPTH, bottom);
		_exit(0);
	}
	return pid;
}

static const struct {
	const char *name;
	bottom_fn *bottom;
	const char *begins, *holds;
} children[] = {
	{"spinning below the recursion", spin, " spin recursion*40 child_start ", " main "},
	{"in a signal handler below it", spin_in_signal_handler, " spin on_signal ",
		" spin_in_signal_handler recursion*40 child_start "},
	{"in a handler of a fault at a function's first byte", spin_after_a_fault, " spin on_signal ",
		" faults_at_once spin_after_a_fault recursion*40 child_start "},
	{"below code that has frame pointers only", spin_below_jit_code,
		" spin [anon] spin_below_jit_code recursion*40 child_start ", " main "},
};

START_TEST(samples_of_a_child)
{
	enum unwind_stop stop;
	struct ring r = {-1, NULL};
	char is[4096];
	size_t samples = 0, good = 0;
	uint64_t pos = 0;
	jit_prepare();
	pid_t pid = child_start(children[_i].bottom);
	ck_assert_int_gt(pid, 0);
	usleep(20000); /* down the recursion */
	int error = ring_open(&r, pid);
	if (!error) {
		while (__atomic_load_n(&r.page->data_head, __ATOMIC_ACQUIRE) < 8ull * SNAPSHOT)
			usleep(2000);
		map_process(space, pid);
	}
	kill(pid, SIGKILL);
	child_process_wait(pid, deadline_in(NSEC_PER_SEC));
	if (error) {
		printf("skipped: %s: perf_event_open: %s\n", children[_i].name, strerror(-error));
		fd_close(r.fd);
		return;
	}
	while (ring_next(&r, &pos)) {
		size_t n = unwind_shot(UNWIND_FRAMES_MAX, &stop);
		describe(n, is, sizeof(is));
		samples++;
		good += stop == UNWIND_END && strstr(is, children[_i].begins) == is &&
			strstr(is, children[_i].holds) != NULL;
	}
	munmap(r.page, 4096 + RING_DATA);
	fd_close(r.fd);
	ck_assert_uint_gt(samples, 5);
	ck_assert_msg(good == samples, "%s: %zu of %zu, the last %s:%s", children[_i].name, good, samples,
		unwind_stop_name(stop), is);
}
END_TEST

UNIT_SUITE(unwind)
{
	unwind_new(&unwinder); /* libunwind's own two descriptors, before they are counted */
	unwinder = unwind_free(unwinder);
	Suite *suite = suite_create("unwind");
	TCase *t = tcase_create("unwind");
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 120);
	tcase_add_test(t, a_recursion_without_frame_pointers_is_complete);
	tcase_add_test(t, a_brief_one_is_its_beginning);
	tcase_add_test(t, a_snapshot_of_its_reach_is_enough);
	tcase_add_loop_test(t, damaged_samples, 0, sizeof(damages) / sizeof(*damages));
	tcase_add_test(t, random_damage_ends);
	tcase_add_test(t, damaged_unwind_tables_end);
	tcase_add_loop_test(t, chains_of_frame_pointers, 0, sizeof(chains) / sizeof(*chains));
	tcase_add_test(t, a_leaf_that_restored_its_frame_pointer);
	tcase_add_test(t, no_last_resort);
	tcase_add_test(t, the_last_resort);
	tcase_add_test(t, a_handler_on_a_stack_of_its_own);
	tcase_add_test(t, the_beginning_without_a_description);
	tcase_add_loop_test(t, samples_of_a_child, 0, sizeof(children) / sizeof(*children));
	suite_add_tcase(suite, t);
	return suite;
}
