/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/libpillion/crash/crash_handler.h"

#include "shim/libpillion/calltree/calltree.h"
#include "shim/libpillion/core/altstack.h"
#include "shim/libpillion/core/connection.h"
#include "shim/libpillion/core/feature.h"
#include "shim/libpillion/core/stack_copy.h"
#include "shim/libpillion/core/sys_clock.h"
#include "shim/libpillion/core/thread_name.h"
#include "shim/libpillion/maps/maps_send.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>

#define HEAD ((uint32_t)(sizeof(struct shm_record) + sizeof(struct shm_crash)))
#define PAGE 4096u
#define GAP (16 * PAGE) /* from a stack pointer to the first memory that is there */
#define PAUSE_MS 5
#define FAULTS_MAX 64
#define AT_WORK 16 /* threads that crash at once and have a record */

/* `faults`: the kernel says more of the signal than that it came, and it comes again. */
static const struct row {
	int signal;
	bool faults;
} rows[] = {{SIGSEGV, true}, {SIGBUS, true}, {SIGILL, true}, {SIGFPE, true}, {SIGABRT, false}, {SIGTRAP, false}};
#define ROWS (sizeof(rows) / sizeof(rows[0]))

static uint32_t on, over;
static struct kernel_action theirs[ROWS]; /* where the kernel has ours: the application's */
static struct code code;
static uint32_t telling_maps; /* the process at work; 0: none */

/* By thread, and not in the thread's own memory: that may be missing or wrong. */
static struct at_work {
	uint32_t tid;
	uint32_t faults; /* our own so far */
	void *back[5];	 /* the way out of one */
} at_work[AT_WORK];

static int row_of(int sig)
{
	for (unsigned i = 0; i < ROWS; i++)
		if (rows[i].signal == sig)
			return (int)i;
	return -1;
}

/* --- the record ------------------------------------------------------------------------------------------------ */

static void fill_shm_record(struct shm_record *to, uint32_t tid, const ucontext_t *c)
{
	*to = (struct shm_record){
		.kind = SHM_CRASH, .tid = tid, .time = sys_clock_ns(CLOCK_MONOTONIC), .more = sizeof(struct shm_crash)};
	ucontext_fill(&to->regs, c);
}

static void fill_crash(struct shm_crash *to, int sig, const siginfo_t *info, const ucontext_t *c)
{
	const int row = row_of(sig);
	memset(to, 0, sizeof(*to));
	thread_name_read(&to->more);
	ucontext_fill_more(&to->more.regs, c);
	to->signal = (uint32_t)sig;
	to->code = info->si_code;
	if (info->si_code > 0 && rows[row].faults)
		to->address = (uint64_t)(uintptr_t)info->si_addr;
	if (info->si_code <= 0) {
		to->sender = (uint32_t)info->si_pid;
		to->user = info->si_uid;
	}
	ucontext_fill_exception(to, c);
}

/* *n: bytes copied so far, for when a fault ends it. */
static void copy_pages(uint64_t sp, uint8_t *to, uint32_t most, volatile uint32_t *n)
{
	while (*n < most) {
		const uint32_t step = PAGE - (uint32_t)((sp + *n) % PAGE), all = most - *n;
		memcpy(to + *n, (const void *)(uintptr_t)(sp + *n), step < all ? step : all);
		*n += step < all ? step : all;
	}
}
/* The compiler believes in a second return only of calls, and only of those that it cannot look into. */
static void (*volatile copying)(uint64_t, uint8_t *, uint32_t, volatile uint32_t *) = copy_pages;

/*
 * If process_vm_readv(2) is forbidden (by a runtime's list of system calls): copies directly, until a fault of ours
 * ends it.
 */
static __attribute__((noinline)) uint32_t copy_until_fault(struct at_work *w, uint64_t sp, uint8_t *to, uint32_t most)
{
	void *back[5];
	volatile uint32_t n = 0;
	memcpy(back, w->back, sizeof(back));
	if (__builtin_setjmp(w->back) == 0)
		copying(sp, to, most, &n);
	memcpy(w->back, back, sizeof(back));
	return n & ~7u;
}

static bool is_forbidden(uint32_t tid)
{
	return sys_call(process_vm_readv, tid, 0, 0, 0, 0, 0) < 0;
}

/*
 * A function may make room for its variables behind the end of the stack: then nothing is mapped at its stack pointer.
 */
static uint32_t copy_stack(struct at_work *w, uint64_t sp, uint8_t *to)
{
	const uint32_t most = stack_copy_size(sp, thread_pointer());
	const bool forbidden = is_forbidden(w->tid);
	uint32_t gap = 0, n = 0;
	while (gap < most && gap < GAP &&
		!(n = forbidden ? copy_until_fault(w, sp + gap, to + gap, most - gap)
				: stack_copy(w->tid, sp + gap, to + gap, most - gap))) {
		const uint32_t step = PAGE - (uint32_t)((sp + gap) % PAGE);
		memset(to + gap, 0, step < most - gap ? step : most - gap);
		gap += step;
	}
	return n ? (gap + n) & ~7u : 0;
}

/* Records that the profiler has not read yet may take the room: wakes it and waits. */
static bool reserve_record(struct connection *p, struct shm_place *ret)
{
	const struct timespec pause = {0, PAUSE_MS * 1000000};
	bool wake;
	for (unsigned ms = 0; ms <= CRASH_HANDLER_PATIENCE_MS; ms += PAUSE_MS) {
		if (shm_reserve(&p->area, HEAD + STACK_COPY_MAX, ret, &wake))
			return true;
		connection_wake(p);
		sys_call(nanosleep, &pause, NULL);
	}
	return false;
}

/* One thread at a time. In a child, `telling_maps` may be of a thread of its parent, which is not there any more. */
static void tell_maps(struct connection *p)
{
	uint32_t had = __atomic_load_n(&telling_maps, __ATOMIC_RELAXED);
	if (had == p->pid ||
		!__atomic_compare_exchange_n(&telling_maps, &had, p->pid, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return;
	maps_send_tell(p, &code);
	__atomic_store_n(&telling_maps, 0, __ATOMIC_RELEASE);
}

/* The program's own account, in the thread's own memory. After a fault in it: none. */
static __attribute__((noinline)) void tell_calls(struct at_work *w, struct shm_crash *to)
{
	void *back[5];
	memcpy(back, w->back, sizeof(back));
	if (__builtin_setjmp(w->back) == 0)
		to->calls_n = calltree_path(to->calls, SHM_CALLS_MAX);
	memcpy(w->back, back, sizeof(back));
}

static void record_crash(struct at_work *w, int sig, const siginfo_t *info, const ucontext_t *c)
{
	struct connection *p = connection_get_at_once();
	struct shm_place place;
	if (!p)
		return;
	tell_maps(p);
	if (!reserve_record(p, &place))
		return;
	struct shm_record *to = (struct shm_record *)place.at;
	struct shm_crash *crash = (struct shm_crash *)(to + 1);
	fill_shm_record(to, w->tid, c);
	fill_crash(crash, sig, info, c);
	tell_calls(w, crash);
	to->stack = copy_stack(w, to->regs.sp, place.at + HEAD);
	place.size = HEAD + to->stack;
	shm_publish(&p->area, &place);
	connection_wake(p);
}

/* --- the handlers -------------------------------------------------------------------------------------------- */

static struct at_work *find_crashing_thread(uint32_t tid)
{
	for (unsigned i = 0; i < AT_WORK; i++)
		if (__atomic_load_n(&at_work[i].tid, __ATOMIC_RELAXED) == tid)
			return &at_work[i];
	return NULL;
}

static struct at_work *begin_work(uint32_t tid)
{
	for (unsigned i = 0; i < AT_WORK; i++) {
		uint32_t nobody = 0;
		if (__atomic_compare_exchange_n(
			    &at_work[i].tid, &nobody, tid, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			return &at_work[i];
	}
	return NULL;
}

static __attribute__((noinline, noreturn)) void back_to(struct at_work *w)
{
	__builtin_longjmp(w->back, 1);
}

static __attribute__((noinline)) void try_record_crash(
	struct at_work *w, int sig, const siginfo_t *info, const ucontext_t *c)
{
	if (__builtin_setjmp(w->back) == 0)
		record_crash(w, sig, info, c);
}

/* Sets the application's disposition: the kernel follows it as soon as we have returned, at the same instruction. */
static void go_on(int sig, siginfo_t *info)
{
	const int row = row_of(sig);
	const bool again = rows[row].faults && info->si_code > 0 && !(sig == SIGBUS && info->si_code == BUS_MCEERR_AO);
	const uint64_t mask = 1ull << (sig - 1);
	sigaction_set(sig, &theirs[row], NULL);
	if (again)
		return;
	sys_call(rt_sigprocmask, SIG_BLOCK, &mask, NULL, sizeof(mask)); /* until we return */
	const long pid = sys_call(getpid), tid = sys_call(gettid);
	sys_call(rt_tgsigqueueinfo, pid, tid, sig, info);
}

static void on_crash(int sig, siginfo_t *info, void *context)
{
	const uint32_t tid = (uint32_t)sys_call(gettid);
	struct at_work *w = find_crashing_thread(tid);
	if (w && ++w->faults <= FAULTS_MAX)
		back_to(w);
	if (w) {
		go_on(sig, info);
		return;
	}
	if (info->si_code <= 0 && sys_call(getpid) == 1)
		return;
	w = begin_work(tid);
	if (w) {
		w->faults = 0;
		try_record_crash(w, sig, info, context);
		__atomic_store_n(&w->tid, 0, __ATOMIC_RELEASE);
	}
	go_on(sig, info);
}

/* Blocks all signals but those that we may cause ourselves while we write the record. */
static uint64_t mask_of_all_else(void)
{
	uint64_t mask = ~0ull;
	for (unsigned i = 0; i < ROWS; i++)
		if (rows[i].faults || rows[i].signal == SIGTRAP)
			mask &= ~(1ull << (rows[i].signal - 1));
	return mask;
}

static void on_reset(int sig, siginfo_t *info, void *context);

/* `had`: the application's disposition. */
static void install_handler(int row, const struct kernel_action *had, void (*handler)(int, siginfo_t *, void *))
{
	const struct kernel_action first = {.handler = handler,
		.flags = (had->flags & ~(unsigned long)SA_RESETHAND) | SA_SIGINFO | SIGACTION_RESTORER,
		.restorer = had->restorer ? had->restorer : sigaction_restorer,
		.mask = had->mask};
	const struct kernel_action last = {.handler = handler,
		.flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER | SA_RESTART | SIGACTION_RESTORER,
		.restorer = sigaction_restorer,
		.mask = mask_of_all_else()};
	theirs[row] = *had;
	sigaction_set(rows[row].signal, handler == on_reset ? &first : &last, NULL);
}

/* Calls the application's handler, which the kernel would have reset by now. */
static void on_reset(int sig, siginfo_t *info, void *context)
{
	const int row = row_of(sig);
	const struct kernel_action once = theirs[row];
	struct kernel_action none = once;
	none.plain = SIG_DFL;
	if (once.plain == SIG_DFL) { /* another thread was first */
		on_crash(sig, info, context);
		return;
	}
	install_handler(row, &none, on_crash);
	once.handler(sig, info, context);
}

/* --- dispositions ---------------------------------------------------------------------------------------------- */

static bool has_ours(int sig, struct kernel_action *now)
{
	return sigaction_set(sig, NULL, now) == 0 && (now->handler == on_crash || now->handler == on_reset);
}

bool crash_handler_is_on(void)
{
	return __atomic_load_n(&on, __ATOMIC_ACQUIRE);
}

bool crash_handler_shows(int sig, struct kernel_action *ret)
{
	struct kernel_action now;
	const int row = crash_handler_is_on() ? row_of(sig) : -1;
	if (row < 0 || !has_ours(sig, &now))
		return false;
	*ret = theirs[row];
	return true;
}

void crash_handler_was_set(int sig)
{
	struct kernel_action now;
	const int row = crash_handler_is_on() ? row_of(sig) : -1;
	if (row < 0 || connection_is_borrowed() || has_ours(sig, &now))
		return;
	if (now.plain == SIG_DFL)
		install_handler(row, &now, on_crash);
	else if (now.plain != SIG_IGN && now.flags & SA_RESETHAND)
		install_handler(row, &now, on_reset);
}

static void take_away(void)
{
	struct kernel_action now;
	for (unsigned i = 0; i < ROWS; i++)
		if (has_ours(rows[i].signal, &now))
			sigaction_set(rows[i].signal, &theirs[i], NULL);
}

/* --- beginning and end ----------------------------------------------------------------------------------------- */

/* Go's linker adds a note of its build (cmd/link, ELF_NOTE_GO_NAME). */
static bool has_go_note(const uint8_t *at, uint64_t size)
{
	const Elf64_Nhdr *h = (const Elf64_Nhdr *)at;
	for (; size >= sizeof(*h) + 4; h = (const Elf64_Nhdr *)at) {
		const uint64_t n = sizeof(*h) + ((h->n_namesz + 3) & ~3ull) + ((h->n_descsz + 3) & ~3ull);
		if (h->n_namesz == 4 && !memcmp(h + 1, "Go", 3))
			return true;
		if (n > size)
			return false;
		at += n;
		size -= n;
	}
	return false;
}

static bool is_go(void)
{
	uint64_t pair[2], headers = 0, n = 0, base = 0;
	const long fd = sys_call(open, "/proc/self/auxv", O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && sys_call(read, fd, pair, sizeof(pair)) == sizeof(pair)) {
		headers = pair[0] == AT_PHDR ? pair[1] : headers;
		n = pair[0] == AT_PHNUM ? pair[1] : n;
	}
	if (fd >= 0)
		sys_call(close, fd);
	const Elf64_Phdr *p = (const Elf64_Phdr *)headers;
	for (uint64_t i = 0; p && i < n; i++)
		if (p[i].p_type == PT_PHDR)
			base = headers - p[i].p_vaddr;
	for (uint64_t i = 0; p && i < n; i++)
		if (p[i].p_type == PT_NOTE && has_go_note((const uint8_t *)(base + p[i].p_vaddr), p[i].p_memsz))
			return true;
	return false;
}

void crash_handler_want(bool wanted)
{
	if (!wanted && crash_handler_is_on()) {
		take_away();
		__atomic_store_n(&on, 0, __ATOMIC_RELEASE);
	}
	if (!wanted || over || crash_handler_is_on() || is_go())
		return;
	__atomic_store_n(&on, 1, __ATOMIC_RELEASE);
	altstack_give();
	for (unsigned i = 0; i < ROWS; i++)
		crash_handler_was_set(rows[i].signal);
}

void crash_handler_end(void)
{
	const bool was = crash_handler_is_on();
	over = 1;
	if (was && !connection_is_borrowed())
		take_away();
	__atomic_store_n(&on, 0, __ATOMIC_RELEASE);
}

static void take_welcome(struct connection *p, const struct shm_welcome *w)
{
	crash_handler_want(w->crash);
}

static __attribute__((constructor(101))) void register_crash_handler(void)
{
	static struct feature crashes = {.welcome = take_welcome, .quiet = crash_handler_end};
	feature_register(&crashes);
}
