/*
 * crasher HOW [TIMES] - ends by a signal, or as a handler of its own wants it. Each way is one row of the table; the
 * function where it happens is called at_HOW.
 */
#include <alloca.h>
#include <asm/prctl.h>
#include <assert.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define WAY __attribute__((noinline, noclone)) static void

static const char *self;
static volatile uint64_t sink;
static volatile int zero;

WAY at_null(void)
{
	__asm__ volatile("movl $1, 0" ::: "memory"); /* the compiler is not to know */
}

WAY at_read(void)
{
	sink = *(volatile uint64_t *)0xdead0000;
}

static const char constant[4096] __attribute__((aligned(4096))) = "constant";
WAY at_constant(void)
{
	*(volatile char *)constant = 1;
}

WAY at_noncanonical(void)
{
	sink = *(volatile uint64_t *)0xdeadbeefdeadbeef;
}

static void (*volatile nobody)(void);
WAY at_call0(void)
{
	nobody();
	sink++;
}

WAY at_callgarbage(void)
{
	nobody = (void (*)(void))0xdeadbeefdeadbeef;
	nobody();
	sink++;
}

static char data[4096] __attribute__((aligned(4096)));
WAY at_calldata(void)
{
	data[0] = (char)0xc3;
	nobody = (void (*)(void))(uintptr_t)data;
	nobody();
	sink++;
}

WAY at_divide(void)
{
	__asm__ volatile("cltd\n\tidivl %0" : : "r"(zero), "a"(1) : "rdx");
}

WAY at_illegal(void)
{
	__asm__ volatile("ud2");
}

WAY at_breakpoint(void)
{
	__asm__ volatile("int3");
	sink++;
}

WAY at_bus(void)
{
	FILE *f = tmpfile();
	if (!f || ftruncate(fileno(f), 4096) < 0)
		exit(2);
	char *at = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(f), 0);
	at[4096] = 1;
}

WAY at_abort(void)
{
	abort();
}

WAY at_assert(void)
{
	assert(zero);
}

WAY at_raise(void)
{
	raise(SIGFPE);
	sink++;
}

WAY at_queue(void)
{
	sigqueue(getpid(), SIGSEGV, (union sigval){.sival_int = 7});
	sink++;
}

WAY at_wait(void) /* for somebody who sends one */
{
	puts("waits");
	fflush(stdout);
	pause();
}

WAY at_stackpointer(void)
{
	__asm__ volatile("movq $0x1234, %%rsp\n\tpushq %%rax" ::: "memory");
}

WAY at_threadpointer(void)
{
	syscall(SYS_arch_prctl, ARCH_SET_FS, 0xdead0000);
	__asm__ volatile("movl $1, 0");
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winfinite-recursion"
__attribute__((noinline, noclone)) static uint64_t at_deep(uint64_t n)
{
	volatile char room[512];
	room[n % sizeof(room)] = (char)n;
	return at_deep(n + 1) + (uint64_t)room[0];
}
#pragma GCC diagnostic pop
WAY deep(void)
{
	sink = at_deep(0);
}
WAY at_wide(void) /* its stack pointer is beyond what is there */
{
	volatile char *room = alloca(64ull << 20);
	room[0] = 1;
}

static void *run(void *way)
{
	pthread_setname_np(pthread_self(), "worker");
	((void (*)(void))way)();
	return NULL;
}
static void in_thread(void (*way)(void))
{
	pthread_t t;
	pthread_create(&t, NULL, run, (void *)way);
	pthread_join(t, NULL);
}
WAY thread(void)
{
	in_thread(at_null);
}
WAY thread_deep(void)
{
	in_thread(deep);
}
static pthread_barrier_t barrier;
static void *together(void *arg)
{
	pthread_barrier_wait(&barrier);
	at_null();
	return NULL;
}
WAY threads(void)
{
	pthread_t t;
	pthread_barrier_init(&barrier, NULL, 8);
	for (int i = 0; i < 8; i++)
		pthread_create(&t, NULL, together, NULL);
	pthread_join(t, NULL);
}

static void on_usr1(int sig)
{
	at_null();
}
WAY handler(void)
{
	signal(SIGUSR1, on_usr1);
	raise(SIGUSR1);
}

/* Of a child: its status becomes ours. */
static void await(pid_t pid)
{
	int status = 0;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	printf("child %d: signal %d, core %d\n", (int)pid, WTERMSIG(status), WCOREDUMP(status) != 0);
}
WAY forked(void)
{
	pid_t pid = fork();
	if (pid == 0)
		at_null();
	await(pid);
}
WAY execed(void)
{
	pid_t pid = fork();
	if (pid == 0) {
		execl(self, self, "null", NULL);
		_exit(127);
	}
	await(pid);
}
WAY vforked(void)
{
	pid_t pid = vfork();
	if (pid == 0)
		at_null();
	await(pid);
	at_divide();
}

WAY at_heap(void) /* what malloc believes is wrong, and it says so */
{
	volatile char *p = malloc(24);
	for (int i = 0; i < 64; i++)
		p[i] = (char)0xff;
	for (int i = 0; i < 100; i++)
		sink += (uintptr_t)malloc(100000 + (size_t)i);
}
WAY at_malloc(void) /* the same, and it does not know */
{
	char *p[16];
	for (int i = 0; i < 16; i++)
		p[i] = malloc(0x1000);
	const uintptr_t at = (uintptr_t)p[0] + 3 * (uintptr_t)(p[1] - p[0]); /* of the fourth */
	free(p[3]);
	free(p[5]);
	((volatile uint64_t *)at)[0] = ((volatile uint64_t *)at)[1] = 0xdeadbeef000;
	for (int i = 0; i < 16; i++)
		sink += (uintptr_t)malloc(0x1000);
}

/* --- handlers of its own */

static volatile int handled;
static sigjmp_buf back;

static void say(int sig, siginfo_t *info, void *context)
{
	char text[96];
	int n = snprintf(text, sizeof(text), "handler: %d code %d address %p\n", sig, info->si_code,
		info->si_code > 0 && (uintptr_t)info->si_addr < 1 << 20 ? info->si_addr : NULL);
	if (write(1, text, (size_t)n) < 0)
		_exit(2);
}
static void say_and_exit(int sig, siginfo_t *info, void *context)
{
	say(sig, info, context);
	_exit(3);
}
static void say_and_default(int sig, siginfo_t *info, void *context)
{
	say(sig, info, context);
	signal(sig, SIG_DFL);
}
static void say_and_raise(int sig, siginfo_t *info, void *context)
{
	say(sig, info, context);
	signal(sig, SIG_DFL);
	raise(sig);
}
static void say_and_crash(int sig, siginfo_t *info, void *context)
{
	say(sig, info, context);
	signal(sig, SIG_DFL);
	at_divide();
}
static void jump_back(int sig)
{
	siglongjmp(back, 1);
}
static void mend(int sig, siginfo_t *info, void *context)
{
	handled++;
	mprotect((void *)((uintptr_t)info->si_addr & ~4095ul), 4096, PROT_READ | PROT_WRITE);
}

static void own(void (*handler_of)(int, siginfo_t *, void *), int flags, int sig)
{
	struct sigaction to = {.sa_sigaction = handler_of, .sa_flags = SA_SIGINFO | flags};
	sigaction(sig, &to, NULL);
}
WAY own_exit(void)
{
	own(say_and_exit, 0, SIGSEGV);
	at_null();
}
WAY own_default(void)
{
	own(say_and_default, 0, SIGSEGV);
	at_null();
}
WAY own_raise(void)
{
	own(say_and_raise, 0, SIGSEGV);
	at_null();
}
WAY own_reset(void)
{
	own(say, (int)SA_RESETHAND, SIGSEGV);
	at_null();
}
WAY own_crash(void)
{
	own(say_and_crash, 0, SIGSEGV);
	at_null();
}
WAY own_sysv(void) /* reset by itself, and not blocked meanwhile */
{
	sysv_signal(SIGSEGV, on_usr1);
	at_null();
}
WAY own_stack(void)
{
	const stack_t s = {.ss_sp = malloc(65536), .ss_size = 65536};
	sigaltstack(&s, NULL);
	own(say_and_default, SA_ONSTACK, SIGSEGV);
	deep();
}
WAY own_jump(void)
{
	signal(SIGSEGV, jump_back);
	for (volatile int i = 0; i < 1000; i++)
		if (sigsetjmp(back, 1) == 0)
			at_null();
	puts("lived");
}
WAY own_mend(void) /* faults that are no mistakes: 100,000 of them */
{
	const size_t n = 1000;
	char *at = mmap(NULL, n * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	own(mend, 0, SIGSEGV);
	for (int times = 0; times < 100; times++) {
		for (size_t i = 0; i < n; i++)
			at[i * 4096] = 1;
		mprotect(at, n * 4096, PROT_NONE);
	}
	printf("mended %d\n", handled);
}
WAY ignored(void)
{
	signal(SIGABRT, SIG_IGN);
	raise(SIGABRT);
	puts("lived");
	fflush(stdout);
	abort();
}
WAY shown(void) /* what it is told of dispositions and stacks, and what a child inherits */
{
	static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGUSR1};
	const struct sigaction dfl = {.sa_handler = SIG_DFL, .sa_flags = SA_RESTART | SA_NODEFER};
	struct sigaction had;
	stack_t s;
	for (unsigned i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		for (int round = 0; round < 3; round++) {
			if (round == 1)
				signal(signals[i], on_usr1);
			sigaction(signals[i], round == 2 ? &dfl : NULL, &had);
			printf("%d: %s flags %x mask %d\n", signals[i],
				had.sa_handler == SIG_DFL   ? "default"
				: had.sa_handler == on_usr1 ? "own"
							    : "other",
				(unsigned)had.sa_flags, sigismember(&had.sa_mask, signals[i]));
		}
	for (unsigned i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		sigaction(signals[i], NULL, &had);
		printf("%d: flags %x; signal %s\n", signals[i], (unsigned)had.sa_flags,
			signal(signals[i], SIG_DFL) == SIG_DFL ? "default" : "other");
	}
	printf("kept: %d\n", sigaction(SIGKILL, &dfl, NULL));
	sigaltstack(NULL, &s);
	printf("stack: %d\n", s.ss_flags);
	const stack_t own_one = {.ss_sp = data, .ss_size = sizeof(data)}, none = {.ss_flags = SS_DISABLE};
	printf("set: %d", sigaltstack(&own_one, &s));
	printf(", had: %d", s.ss_flags);
	printf(", none: %d", sigaltstack(&none, &s));
	printf(", had: %d", s.ss_sp == data);
	printf(", now: %d", sigaltstack(NULL, &s));
	printf(" %d\n", s.ss_flags);
}
WAY sandboxed(void) /* in which what we would ask the kernel for ends it by another signal */
{
	const struct sock_filter list[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)};
	const struct sock_fprog filter = {sizeof(list) / sizeof(list[0]), (struct sock_filter *)list};
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) < 0)
		exit(2);
	at_null();
}
WAY at_secret(void) /* on its stack there is what nobody is to read */
{
	volatile char secret[64];
	for (int i = 0; i < 63; i++)
		secret[i] = "SwordfishSwordfishSwordfishSwordfishSwordfishSwordfishSwordfish"[i];
	secret[63] = 0;
	at_null();
	sink = (uint64_t)secret[5];
}
WAY init(void) /* as PID 1 */
{
	raise(SIGSEGV);
	raise(SIGABRT);
	puts("lived");
	fflush(stdout);
	abort();
}
WAY fine(void)
{
	puts("lived");
}

static const struct {
	const char *name;
	void (*way)(void);
} ways[] = {{"null", at_null}, {"read", at_read}, {"constant", at_constant}, {"noncanonical", at_noncanonical},
	{"call0", at_call0}, {"callgarbage", at_callgarbage}, {"calldata", at_calldata}, {"divide", at_divide},
	{"illegal", at_illegal}, {"breakpoint", at_breakpoint}, {"bus", at_bus}, {"abort", at_abort},
	{"assert", at_assert}, {"raise", at_raise}, {"queue", at_queue}, {"wait", at_wait},
	{"stackpointer", at_stackpointer}, {"threadpointer", at_threadpointer}, {"deep", deep}, {"wide", at_wide},
	{"thread", thread}, {"thread_deep", thread_deep}, {"threads", threads}, {"handler", handler},
	{"forked", forked}, {"execed", execed}, {"vforked", vforked}, {"heap", at_heap}, {"malloc", at_malloc},
	{"own_exit", own_exit}, {"own_default", own_default}, {"own_raise", own_raise}, {"own_reset", own_reset},
	{"own_crash", own_crash}, {"own_sysv", own_sysv}, {"own_stack", own_stack}, {"own_jump", own_jump},
	{"own_mend", own_mend}, {"ignored", ignored}, {"sandboxed", sandboxed}, {"secret", at_secret}, {"init", init},
	{"shown", shown}, {"fine", fine}};

static void go(const char *name)
{
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		if (!strcmp(ways[i].name, name))
			ways[i].way();
}

/* TIMES: so many children go that way, one after the other, each connecting by itself. */
int main(int argc, char **argv)
{
	self = argv[0];
	if (argc < 3) {
		go(argc > 1 ? argv[1] : "fine");
		return 0;
	}
	int ended = 0, status;
	for (int i = atoi(argv[2]); i > 0; i--) {
		pid_t pid = fork();
		if (pid == 0) {
			go(argv[1]);
			_exit(0);
		}
		waitpid(pid, &status, 0);
		ended += WIFSIGNALED(status);
	}
	printf("%d ended by a signal\n", ended);
	return 0;
}
