/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code of known shape for test_unwind: a recursion without frame pointers, and what may happen at its bottom.
 */
#pragma once

#include <check.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

typedef void bottom_fn(void);

static __attribute__((noinline, noclone)) unsigned long recursion(unsigned n, bottom_fn *bottom)
{
	unsigned long r = n;
	if (n > 1)
		r += recursion(n - 1, bottom);
	else
		bottom();
	__asm__ volatile("" : "+r"(r)); /* no tail call */
	return r;
}

static __attribute__((noinline, noclone)) void spin(void)
{
	for (volatile unsigned i = 0;; i++)
		;
}

static void on_signal(int number)
{
	spin();
}

static __attribute__((noinline, noclone)) void spin_in_signal_handler(void)
{
	signal(SIGUSR1, on_signal);
	raise(SIGUSR1);
	__asm__ volatile("");
}

/* push %rbp; mov %rsp,%rbp; call *%rdi; pop %rbp; ret: code that has a frame pointer and nothing else */
static const uint8_t jit_code[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3};

static void (*jit)(bottom_fn *);

/* The call is the last instruction here: its return address belongs to whatever comes next. */
static __attribute__((noinline, noclone)) void spin_below_jit_code(void)
{
	jit(spin);
	__builtin_unreachable();
}

static void jit_prepare(void)
{
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(p, MAP_FAILED);
	memcpy(p, jit_code, sizeof(jit_code));
	ck_assert_int_eq(mprotect(p, 4096, PROT_READ | PROT_EXEC), 0);
	memcpy(&jit, &p, sizeof(p));
}

/*
 * faults_at_once: the address of the fault is the function's first byte, and one less is another function. liar: a
 * description by which the frame ends where it began (CFA = rsp, return address at rsp + 16). popper: keeps its return
 * address in a register, as vfork does. restored: its frame pointer is popped, and its description still says where it
 * was, below the stack pointer, as gcc writes it. long_way: its CFA is rsp + 8 by an expression of 130 bytes, which is
 * more than a table takes.
 */
#define NOPS_8 ",0x96,0x96,0x96,0x96,0x96,0x96,0x96,0x96"
#define NOPS_64 NOPS_8 NOPS_8 NOPS_8 NOPS_8 NOPS_8 NOPS_8 NOPS_8 NOPS_8
__asm__(".text\n"
	".type other_function, @function\n"
	"other_function: nop; ret\n"
	".size other_function, . - other_function\n"
	".type faults_at_once, @function\n"
	"faults_at_once: .cfi_startproc; ud2; ret; .cfi_endproc\n"
	".size faults_at_once, . - faults_at_once\n"
	".type liar, @function\n"
	"liar: .cfi_startproc\n"
	".cfi_escape 0x0f, 2, 0x77, 0, 0x10, 16, 2, 0x77, 16\n"
	"nop; nop; ret; .cfi_endproc\n"
	".size liar, . - liar\n"
	".type popper, @function\n"
	"popper: .cfi_startproc\n"
	"pop %rdi; .cfi_adjust_cfa_offset -8; .cfi_register %rip, %rdi\n"
	"nop; nop; jmp *%rdi; .cfi_endproc\n"
	".size popper, . - popper\n"
	".type restored, @function\n"
	"restored: .cfi_startproc\n"
	"push %rbp; .cfi_def_cfa_offset 16; .cfi_offset %rbp, -16\n"
	"pop %rbp; .cfi_def_cfa 7, 8\n"
	"nop; ret; .cfi_endproc\n"
	".size restored, . - restored\n"
	".type long_way, @function\n"
	"long_way: .cfi_startproc\n"
	".cfi_escape 0x0f, 0x82, 1, 0x77, 8" NOPS_64 NOPS_64 "\n"
	"nop; nop; ret; .cfi_endproc\n"
	".size long_way, . - long_way\n");
void long_way(void);

/* As musl has it: no description, a frame pointer that is a number. And one of another name. */
__asm__(".text\n"
	".type libc_start_main_stage2, @function\n"
	"libc_start_main_stage2: nop; nop; ret\n"
	".size libc_start_main_stage2, . - libc_start_main_stage2\n"
	".type nothing_known, @function\n"
	"nothing_known: nop; nop; ret\n"
	".size nothing_known, . - nothing_known\n");
void libc_start_main_stage2(void);
void nothing_known(void);

/* A signal's trampoline: what it interrupted has its stack where r8 says. */
__asm__(".text\n"
	".type on_other_stack, @function\n"
	"on_other_stack: .cfi_startproc; .cfi_signal_frame\n"
	".cfi_escape 0x16, 7, 2, 0x78, 0\n"
	"nop; nop; ret; .cfi_endproc\n"
	".size on_other_stack, . - on_other_stack\n");
void on_other_stack(void);
void restored(void);
void faults_at_once(void);
void liar(void);
void popper(void);

static __attribute__((noinline, noclone)) void spin_after_a_fault(void)
{
	signal(SIGILL, on_signal);
	faults_at_once();
	__asm__ volatile("");
}
