/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/sample/sample_stack.h"

#include "oci/base/fd.h"
#include "tests/unit/support/here.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))
#define K ((uint64_t)PERF_CONTEXT_KERNEL)
#define U ((uint64_t)PERF_CONTEXT_USER)
#define G ((uint64_t)PERF_CONTEXT_GUEST_KERNEL)
#define CHAIN PERF_SAMPLE_CALLCHAIN
#define SNAPSHOT (PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER)

static int fds;
static struct modules *modules;
static struct module *module;
static struct jit_room jit_room = {.left = 1 << 20};
static struct process_table *tasks;
static struct unwind *unwind;

static int open_nothing(void *arg, const char *path, struct file *ret)
{
	return -ENOENT; /* a file without tables: addresses are offsets into it */
}

static int open_self(void *arg, const char *path, struct file *ret)
{
	return file_take(fd_open(AT_FDCWD, "/proc/self/exe", O_RDONLY, 0), ret);
}

static struct module *resolve(void *arg, const struct module_key *key)
{
	struct module *anonymous, *self;
	if (!strcmp(key->path, "/self"))
		return modules_get(modules, key, open_self, NULL, &self) == 0 ? self : NULL;
	if (!strcmp(key->path, "//anon"))
		return modules_get(modules, key, open_nothing, NULL, &anonymous) == 0 ? anonymous : NULL;
	if (!module)
		ck_assert_int_eq(modules_get(modules, key, open_nothing, NULL, &module), 0);
	return module_ref(module);
}

static void begin(void)
{
	fds = fd_count();
	ck_assert_int_eq(modules_new(64 << 20, &modules), 0);
	ck_assert_int_eq(process_table_new(resolve, NULL, &tasks), 0);
	ck_assert_int_eq(unwind_new(&unwind), 0);
	int held = fd_count(); /* libunwind keeps a pipe for the life of the process */
	ck_assert_int_le(held, fds + 2);
	fds = held;
	module = NULL;
	struct record r = {.type = PERF_RECORD_MMAP2, .pid = 7, .tid = 7};
	r.mmap = (struct record_mmap){
		.start = 0x400000, .len = 0x1000, .pgoff = 0x3000, .ino = 7, .path = "/bin/app", .exec = true};
	process_table_record(tasks, &r);
	r.mmap = (struct record_mmap){.start = 0x700000, .len = 0x1000, .path = "//anon", .exec = true};
	process_table_record(tasks, &r);
}

static void end(void)
{
	unwind = unwind_free(unwind);
	tasks = process_table_free(tasks);
	module = module_unref(module);
	modules = modules_free(modules);
	ck_assert_int_eq(fd_count(), fds);
	ck_assert_uint_eq(jit_room.left, 1 << 20);
}

/* "K81000010 U3010 J700010 U? [truncated: stack]": kernel address, offset in the file, address of code without a file,
 * unknown, special. */
static const char *describe(const struct stack_frame *frames, size_t n)
{
	static char text[32768];
	size_t at = 0;
	text[0] = 0;
	for (size_t i = 0; i < n && at < sizeof(text); i++) {
		const struct stack_frame *f = &frames[i];
		const char *sep = i ? " " : "";
		if (f->kind == FRAME_SPECIAL)
			at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%s", sep, f->name);
		else if (f->kind == FRAME_USER && !f->module)
			at += (size_t)snprintf(text + at, sizeof(text) - at, "%sU?", sep);
		else
			at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%c%llx", sep,
				f->kind == FRAME_USER  ? 'U'
				: f->kind == FRAME_JIT ? 'J'
						       : 'K',
				(unsigned long long)f->vaddr);
	}
	return text;
}

static const struct {
	const char *scenario;
	uint64_t chain[10];
	uint32_t misc;
	uint64_t ip;
	const char *expect;
	enum unwind_stop stop;
} chains[] = {
	{"kernel and user: the leaf as it is, callers at their calls", {K, 0x90, 0x91, U, 0x400010, 0x400020, 0x400030},
		PERF_RECORD_MISC_KERNEL, 0x90, "K90 K91 U3010 U301f U302f", UNWIND_END},
	{"code made at run time keeps its addresses", {U, 0x700010, 0x400020, 0x700030}, PERF_RECORD_MISC_USER,
		0x700010, "J700010 U301f J70002f", UNWIND_END},
	{"user only", {U, 0x400010, 0x400020}, PERF_RECORD_MISC_USER, 0x400010, "U3010 U301f", UNWIND_END},
	{"kernel only, as for its threads", {K, 0x90, 0x91}, PERF_RECORD_MISC_KERNEL, 0x90, "K90 K91", UNWIND_END},
	{"a return address that is the first byte behind the code", {U, 0x400010, 0x401000}, PERF_RECORD_MISC_USER,
		0x400010, "U3010 U3fff", UNWIND_END},
	{"a leaf behind the code is none of it", {U, 0x401000}, PERF_RECORD_MISC_USER, 0x401000, "U?", UNWIND_END},
	{"a return address at the first byte of the code is none of it", {U, 0x400010, 0x400000, 0x400020},
		PERF_RECORD_MISC_USER, 0x400010, "U3010 [truncated: unknown mapping]", UNWIND_UNKNOWN_MAPPING},
	{"code without frame pointers: rubbish ends it", {U, 0x400010, 0x7fff1234, 0x400020}, PERF_RECORD_MISC_USER,
		0x400010, "U3010 [truncated: unknown mapping]", UNWIND_UNKNOWN_MAPPING},
	{"an unknown leaf is no rubbish", {U, 0x7fff1234, 0x400020}, PERF_RECORD_MISC_USER, 0x7fff1234, "U? U301f",
		UNWIND_END},
	{"a return to address 0", {U, 0x400010, 1}, PERF_RECORD_MISC_USER, 0x400010,
		"U3010 [truncated: unknown mapping]", UNWIND_UNKNOWN_MAPPING},
	{"what a guest ran is not ours", {G, 0x400010, 0x400020, K, 0x90}, PERF_RECORD_MISC_KERNEL, 0x90, "K90",
		UNWIND_END},
	{"addresses that nobody claims", {0x400010, 0x90}, PERF_RECORD_MISC_USER, 0x400020, "U3020", UNWIND_END},
	{"markers alone, in user code", {K, U}, PERF_RECORD_MISC_USER, 0x400020, "U3020", UNWIND_END},
	{"no chain, in user code", {0}, PERF_RECORD_MISC_USER, 0x400020, "U3020", UNWIND_END},
	{"no chain, in unknown code", {0}, PERF_RECORD_MISC_USER, 0x600020, "U?", UNWIND_END},
	{"no chain, in the kernel", {0}, PERF_RECORD_MISC_KERNEL, 0x90, "K90", UNWIND_END},
};

START_TEST(by_the_call_chain)
{
	struct stack_frame frames[AGGREGATE_STACK_MAX];
	struct perf_layout l = {.sample_type = CHAIN};
	struct record r = {.type = PERF_RECORD_SAMPLE, .misc = chains[_i].misc, .pid = 7, .tid = 7};
	enum unwind_stop stop = UNWIND_STOPS;

	r.sample = (struct record_sample){.ip = chains[_i].ip, .chain = chains[_i].chain};
	while (r.sample.n_chain < LENGTH(chains[_i].chain) && chains[_i].chain[r.sample.n_chain])
		r.sample.n_chain++;
	size_t n = sample_stack_frames(unwind, process_table_get(tasks, 7), &r, &l, &jit_room, frames, &stop);
	ck_assert_msg(
		!strcmp(describe(frames, n), chains[_i].expect), "%s: %s", chains[_i].scenario, describe(frames, n));
	ck_assert_msg(stop == chains[_i].stop, "%s", chains[_i].scenario);
}
END_TEST

static const struct {
	const char *scenario;
	bool asked, there; /* registers: in the layout, in the sample */
	uint64_t ip;
	const char *expect; /* its beginning */
	bool stops;
} snapshots[] = {
	{"a kernel thread has no registers", true, false, 0, "K90", false},
	{"registers that the layout does not know of", false, true, 0x400010, "K90", false},
	{"kernel frames, then user frames, then why it ends", true, true, 0x400010, "K90 U3010 [truncated: ", true},
	{"user code that nobody mapped", true, true, 0x600000, "K90 U? [truncated: unknown mapping]", true},
};

START_TEST(by_registers_and_stack)
{
	static const uint64_t chain[] = {K, 0x90};
	static const uint8_t stack[64];
	struct stack_frame frames[AGGREGATE_STACK_MAX];
	struct perf_layout l = {.sample_type = CHAIN | (snapshots[_i].asked ? SNAPSHOT : 0)};
	struct record r = {.type = PERF_RECORD_SAMPLE, .misc = PERF_RECORD_MISC_KERNEL, .pid = 7, .tid = 7};
	enum unwind_stop stop = UNWIND_STOPS;

	r.sample = (struct record_sample){.ip = 0x90, .chain = chain, .n_chain = 2, .has_regs = snapshots[_i].there};
	r.sample.regs.r[UNWIND_IP] = snapshots[_i].ip;
	r.sample.regs.r[UNWIND_SP] = 0x7ffc0000;
	r.sample.stack = stack;
	r.sample.stack_size = sizeof(stack);
	size_t n = sample_stack_frames(unwind, process_table_get(tasks, 7), &r, &l, &jit_room, frames, &stop);
	const char *text = describe(frames, n);
	ck_assert_msg(!strncmp(text, snapshots[_i].expect, strlen(snapshots[_i].expect)), "%s: %s",
		snapshots[_i].scenario, text);
	ck_assert_msg((stop != UNWIND_END) == snapshots[_i].stops, "%s: %s", snapshots[_i].scenario, text);
	if (stop != UNWIND_END)
		ck_assert_str_eq(frames[n - 1].name, unwind_stop_name(stop));
}
END_TEST

/* Kernel frames to the brim: there is room left to say why user frames are missing. */
START_TEST(a_chain_longer_than_any_stack)
{
	static uint64_t chain[8000];
	static struct stack_frame frames[AGGREGATE_STACK_MAX + 1];
	static const uint8_t stack[64];
	struct perf_layout l = {.sample_type = CHAIN | SNAPSHOT};
	struct record r = {.type = PERF_RECORD_SAMPLE, .misc = PERF_RECORD_MISC_KERNEL, .pid = 7, .tid = 7};
	enum unwind_stop stop;

	for (size_t i = 0; i < LENGTH(chain); i++)
		chain[i] = i ? 0x90 : K;
	frames[AGGREGATE_STACK_MAX].name = "behind";
	r.sample = (struct record_sample){.ip = 0x90, .chain = chain, .n_chain = LENGTH(chain), .has_regs = true};
	r.sample.regs.r[UNWIND_IP] = 0x400010;
	r.sample.stack = stack;
	r.sample.stack_size = sizeof(stack);
	size_t n = sample_stack_frames(unwind, process_table_get(tasks, 7), &r, &l, &jit_room, frames, &stop);
	ck_assert_uint_le(n, AGGREGATE_STACK_MAX);
	ck_assert_uint_ge(n, AGGREGATE_STACK_MAX - 2);
	ck_assert_str_eq(frames[AGGREGATE_STACK_MAX].name, "behind");
	ck_assert_uint_eq(frames[0].vaddr, 0x90);
}
END_TEST

/* By frame pointers: `first` is called next to the top, `second` calls what is beyond PERF_STACK_PLACE. */
static size_t callers_of(uint64_t first, uint64_t second, size_t size, uint64_t ret[4])
{
	enum { SP = 0x7ffc0000 };
	static uint64_t stack[64];
	struct record_sample s = {.has_regs = true, .stack = (const uint8_t *)stack, .stack_size = size};
	stack[2] = SP + 20 * 8;
	stack[3] = first;
	stack[20] = SP + 30 * 8;
	stack[21] = second;
	s.regs.r[UNWIND_IP] = 0x400010;
	s.regs.r[UNWIND_SP] = SP;
	s.regs.r[UNWIND_BP] = SP + 2 * 8;
	ret[0] = ret[1] = 0;
	return sample_stack_callers(unwind, process_table_get(tasks, 7), &s, ret, 4);
}

/* A whole sample and the small record of the same place have the same. */
START_TEST(the_callers_next_to_a_place)
{
	uint64_t at[4];
	ck_assert(callers_of(0x400020, 0x400080, 64 * 8, at) == 1 && at[0] == 0x400020);
	ck_assert(callers_of(0x400020, 0x400080, PERF_STACK_PLACE, at) == 1 && at[0] == 0x400020);
	ck_assert(callers_of(0x400030, 0x400090, 64 * 8, at) == 1 && at[0] == 0x400030);
	ck_assert_uint_eq(callers_of(0x400020, 0x400080, 16, at), 0);
	ck_assert_uint_eq(callers_of(0x400020, 0x400080, 0, at), 0);
}
END_TEST

/* A function whose frame is the return address alone; one whose CFA is in a register that small records lack. */
#define BY_RAX_SP 0x10000
__asm__(".text\n"
	".balign 16\n"
	".type frames_of_8_bytes, @function\n"
	"frames_of_8_bytes: .cfi_startproc; nop; nop; ret; .cfi_endproc\n"
	".size frames_of_8_bytes, . - frames_of_8_bytes\n"
	".balign 16\n"
	".type frame_by_rax, @function\n"
	"frame_by_rax: .cfi_startproc; .cfi_def_cfa %rax, 0x10010; nop; nop; ret; .cfi_endproc\n"
	".size frame_by_rax, . - frame_by_rax\n");
void frames_of_8_bytes(void);
void frame_by_rax(void);

/* Maps this program's page of a function as one of the process. */
static void map_own_page(uint64_t function)
{
	struct record r = {.type = PERF_RECORD_MMAP2, .pid = 7, .tid = 7};
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512];
	ck_assert_ptr_nonnull(maps);
	while (fgets(line, sizeof(line), maps)) {
		uint64_t start, end, offset;
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %" SCNx64, &start, &end, &offset) != 3 ||
			function < start || function >= end)
			continue;
		r.mmap = (struct record_mmap){
			.start = start, .len = end - start, .pgoff = offset, .ino = 9, .path = "/self", .exec = true};
		process_table_record(tasks, &r);
	}
	fclose(maps);
}

static const struct {
	size_t max, size, expect;
} most_callers[] = {
	{4, PERF_STACK_PLACE, 4},
	{1, PERF_STACK_PLACE, 1},
	{0, PERF_STACK_PLACE, 0},
	{4, 24, 3},
	{8, PERF_STACK_PLACE, 8},
	{9, PERF_STACK_PLACE, 8}, /* there would be 16 */
	{SIZE_MAX - 1, 4096, 8},
};

/* The number is bounded by `max`, by the bytes of the stack and by the function itself. */
START_TEST(callers_are_as_many_as_wanted)
{
	static uint64_t stack[512];
	uint64_t ret[16], leaf = (uintptr_t)frames_of_8_bytes;
	struct record_sample s = {
		.has_regs = true, .stack = (const uint8_t *)stack, .stack_size = most_callers[_i].size};
	map_own_page(leaf);
	for (size_t i = 0; i < LENGTH(stack); i++)
		stack[i] = leaf + 1 + i % 2;
	for (size_t i = 0; i < LENGTH(ret); i++)
		ret[i] = 7;
	s.regs.r[UNWIND_IP] = leaf;
	s.regs.r[UNWIND_SP] = 0x7ffc0000;
	size_t n = sample_stack_callers(unwind, process_table_get(tasks, 7), &s, ret, most_callers[_i].max);
	ck_assert_uint_eq(n, most_callers[_i].expect);
	for (size_t i = 0; i < LENGTH(ret); i++)
		ck_assert_uint_eq(ret[i], i < n ? leaf + 1 + i % 2 : 7);
}
END_TEST

/* BP, SP and IP are a small record's: with the others, which it has as 0, a whole sample would have other callers. */
START_TEST(the_callers_of_a_place_depend_on_no_other_register)
{
	static const uint64_t stack[16] = {[1] = 0x400020, [2] = 0x400040};
	struct record_sample s = {.has_regs = true, .stack = (const uint8_t *)stack, .stack_size = sizeof(stack)};
	map_own_page((uintptr_t)frame_by_rax);
	s.regs.r[UNWIND_IP] = (uintptr_t)frame_by_rax;
	s.regs.r[UNWIND_SP] = BY_RAX_SP;
	for (uint64_t rax = 0; rax <= 8; rax += 8) {
		uint64_t ret[4] = {0};
		s.regs.r[UNWIND_AX] = rax;
		ck_assert_uint_eq(sample_stack_callers(unwind, process_table_get(tasks, 7), &s, ret, 4), 1);
		ck_assert_uint_eq(ret[0], 0x400020); /* at 0 + 0x10010 - 8 */
	}
}
END_TEST

UNIT_SUITE(sample_stack)
{
	Suite *s = suite_create("sample_stack");
	TCase *t = tcase_create("sample_stack");

	tcase_add_checked_fixture(t, begin, end);
	tcase_add_loop_test(t, by_the_call_chain, 0, LENGTH(chains));
	tcase_add_loop_test(t, by_registers_and_stack, 0, LENGTH(snapshots));
	tcase_add_test(t, a_chain_longer_than_any_stack);
	tcase_add_test(t, the_callers_next_to_a_place);
	tcase_add_loop_test(t, callers_are_as_many_as_wanted, 0, LENGTH(most_callers));
	tcase_add_test(t, the_callers_of_a_place_depend_on_no_other_register);
	suite_add_tcase(s, t);
	return s;
}
