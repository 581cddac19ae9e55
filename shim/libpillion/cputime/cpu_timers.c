/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/libpillion/cputime/cpu_timers.h"

#include "shim/libpillion/core/atfork.h"
#include "shim/libpillion/core/connection.h"
#include "shim/libpillion/core/feature.h"
#include "shim/libpillion/core/labels.h"
#include "shim/libpillion/core/sigaction.h"
#include "shim/libpillion/core/stack_copy.h"
#include "shim/libpillion/core/sys_clock.h"
#include "shim/libpillion/core/syscall.h"
#include "shim/libpillion/core/thread_name.h"
#include "shim/libpillion/maps/code_ranges.h"
#include "shim/libpillion/maps/maps_send.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <ucontext.h>

#define NSEC 1000000000ull
#define SIGNALS_FROM 64 /* downwards, to those that no libc keeps for itself: musl keeps 32 to 34 */
#define SIGNALS_TO 36
#define KNOWN 4096 /* threads; beyond that they have no samples */
#define NEAR 32	   /* places for a tid */
#define LOOK_NS (NSEC / 100)
#define LOOK_ANYWAY 256 /* samples: then a look even if their number has not changed */
#define LONG_PERIODS 8	/* one sample stands for so many at most, or LONG_NS: more is not known */
#define LONG_NS (NSEC / 5)
#define HEAD ((uint32_t)(sizeof(struct shm_record) + sizeof(struct shm_more)))
#define MAPS_NS (NSEC / 10) /* between two tellings */
#define MAPS_MOST_NS (2 * NSEC)
#define PATIENCE_MS 200
#define ASK_NS (NSEC / 50) /* of CPU time, while the profiler has sent no welcome */

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

struct known {
	uint32_t tid, seen; /* 0: a free place; the look that saw it last */
	int32_t timer;
	uint32_t reserved;
	uint64_t last; /* ns of its CPU time that are in samples */
};

static struct {
	uint64_t period;
	uint32_t pid; /* the process of these timers: a child has none of them */
	uint32_t signal;
	int32_t timer;	 /* of the process; -1: none */
	uint32_t asking; /* it waits for the profiler's welcome */
	uint32_t lock;
	uint32_t over, ignored;
	uint32_t look, n; /* number of the last look; threads with a timer */
	uint32_t ticks;	  /* since the last look */
	uint64_t maps_told, maps_next, maps_step;
} timers = {.timer = -1};
static struct known known[KNOWN];
static struct code code;
static char entries[4096]; /* of a directory; for the holder of the lock */

/* --- clocks and timers ----------------------------------------------------------------------------------------- */

/* CPUCLOCK_SCHED | CPUCLOCK_PERTHREAD_MASK (include/linux/posix-timers.h) */
static clockid_t thread_clock(uint32_t tid)
{
	return (clockid_t)(~tid << 3 | 6);
}

static struct itimerspec make_itimerspec(uint64_t first, uint64_t every)
{
	return (struct itimerspec){
		{(time_t)(every / NSEC), (long)(every % NSEC)}, {(time_t)(first / NSEC), (long)(first % NSEC)}};
}

static int32_t start_timer(clockid_t clock, uint32_t tid, void *value, uint64_t first, uint64_t every)
{
	struct sigevent e;
	int32_t timer;
	memset(&e, 0, sizeof(e));
	e.sigev_value.sival_ptr = value;
	e.sigev_signo = (int)timers.signal;
	e.sigev_notify = tid ? SIGEV_THREAD_ID : SIGEV_SIGNAL;
	if (tid)
		e.sigev_notify_thread_id = (int)tid;
	const struct itimerspec when = make_itimerspec(first, every);
	if (sys_call(timer_create, clock, &e, &timer) < 0)
		return -1;
	if (sys_call(timer_settime, timer, 0, &when, 0) == 0)
		return timer;
	sys_call(timer_delete, timer);
	return -1;
}

/* --- one thread at a time, without signals ---------------------------------------------------------------------- */

static bool try_lock_timers(uint64_t *ret_mask)
{
	const uint64_t all = ~0ull;
	uint32_t nobody = 0;
	if (sys_call(rt_sigprocmask, SIG_BLOCK, &all, ret_mask, 8) < 0)
		return false;
	if (__atomic_compare_exchange_n(&timers.lock, &nobody, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return true;
	sys_call(rt_sigprocmask, SIG_SETMASK, ret_mask, 0, 8);
	return false;
}

/*
 * The holder is looking for threads, or at the mappings: that does not take long. In a child it may be a thread of the
 * parent.
 */
static bool enter_soon(uint64_t *ret_mask)
{
	const struct timespec pause = {0, NSEC / 1000};
	for (unsigned ms = 0; ms < PATIENCE_MS; ms++) {
		if (try_lock_timers(ret_mask))
			return true;
		sys_call(nanosleep, &pause, NULL);
	}
	return false;
}

static void unlock_timers(const uint64_t *mask)
{
	__atomic_store_n(&timers.lock, 0, __ATOMIC_RELEASE);
	sys_call(rt_sigprocmask, SIG_SETMASK, mask, 0, 8);
}

/* --- threads ------------------------------------------------------------------------------------------------- */

static struct known *find_known_thread(uint32_t tid)
{
	for (uint32_t i = 0; i < NEAR; i++)
		if (known[(tid + i) % KNOWN].tid == tid)
			return &known[(tid + i) % KNOWN];
	return NULL;
}

/* Somewhere in its first period: else all threads that began together are sampled together. */
static uint64_t first_period(uint32_t tid)
{
	const uint64_t random = (tid ^ (uint64_t)connection_clock()) * 0x9e3779b97f4a7c15;
	return 1 + (uint64_t)((unsigned __int128)random * timers.period >> 64);
}

static void let_go(struct known *k)
{
	sys_call(timer_delete, k->timer);
	__atomic_store_n(&k->tid, 0, __ATOMIC_RELEASE);
	timers.n--;
}

static void start_thread_timer(struct known *k)
{
	k->timer = start_timer(thread_clock(k->tid), k->tid, k, first_period(k->tid), timers.period);
	timers.n += k->timer >= 0;
	if (k->timer < 0)
		k->tid = 0;
}

/* `last`: CPU time of the thread that samples leave out, ns. */
static void add_thread(uint32_t tid, uint64_t last)
{
	struct known *k = find_known_thread(tid);
	for (uint32_t i = 0; !k && i < NEAR; i++)
		if (!known[(tid + i) % KNOWN].tid)
			k = &known[(tid + i) % KNOWN];
	if (k && !k->tid) {
		*k = (struct known){.tid = tid, .last = last};
		start_thread_timer(k);
	}
	if (k)
		k->seen = timers.look;
}

struct entry {
	uint64_t ino;
	int64_t off;
	uint16_t len;
	uint8_t type;
	char name[];
};

static uint32_t number_of(const char *name)
{
	uint32_t n = 0;
	for (; *name >= '0' && *name <= '9'; name++)
		n = 10 * n + (uint32_t)(*name - '0');
	return *name ? 0 : n;
}

static uint32_t look_at_entries(long n, bool first)
{
	uint32_t threads = 0;
	for (long at = 0; at < n;) {
		const struct entry *d = (const struct entry *)(entries + at);
		const uint32_t tid = number_of(d->name);
		threads += tid != 0;
		if (tid)
			add_thread(tid, first ? sys_clock_ns(thread_clock(tid)) : 0);
		at += d->len;
	}
	return threads;
}

static void remove_ended_threads(void)
{
	for (uint32_t i = 0; i < KNOWN; i++)
		if (known[i].tid && known[i].seen != timers.look)
			let_go(&known[i]);
}

/* first: the threads have been there before us. */
static void look_for_threads(bool first)
{
	long n = 0;
	uint32_t threads = 0;
	const long fd = sys_call(open, "/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	timers.look++;
	while (fd >= 0 && (n = sys_call(getdents64, fd, entries, sizeof(entries))) > 0)
		threads += look_at_entries(n, first);
	if (fd >= 0)
		sys_call(close, fd);
	if (threads && n == 0 && threads != timers.n)
		remove_ended_threads();
}

/* The link count of /proc/PID/task is the number of threads plus two (fs/proc/base.c, proc_task_getattr). */
static bool is_changed(void)
{
	struct stat st;
	return sys_call(stat, "/proc/self/task", &st) < 0 || st.st_nlink != timers.n + 2;
}

static void check_threads(bool anyway)
{
	uint64_t mask;
	anyway |= ++timers.ticks >= LOOK_ANYWAY;
	if (timers.over || (!anyway && !is_changed()) || !try_lock_timers(&mask))
		return;
	if (!timers.over)
		look_for_threads(false);
	timers.ticks = 0;
	unlock_timers(&mask);
}

/*
 * Three periods of all known threads without a sample: an unknown thread runs. Each sample puts the timer off, so it
 * seldom expires.
 */
static void watch_process(void)
{
	const uint64_t period = timers.period > LOOK_NS ? timers.period : LOOK_NS;
	const uint64_t span = 3 * period * (timers.n ? timers.n : 1);
	const struct itimerspec when = make_itimerspec(span, span);
	if (timers.timer < 0)
		timers.timer = start_timer(CLOCK_PROCESS_CPUTIME_ID, 0, &timers, span, span);
	else
		sys_call(timer_settime, timers.timer, 0, &when, 0);
}

/* --- mappings --------------------------------------------------------------------------------------------------- */

static void tell_maps(struct connection *p, uint64_t wanted)
{
	uint64_t mask;
	if (!try_lock_timers(&mask))
		return;
	maps_send_tell(p, &code);
	timers.maps_told = wanted;
	unlock_timers(&mask);
}

/* Sends the mappings before a sample at an unknown address, or when the reader has met one. */
static void keep_maps(struct connection *p, uint64_t ip, uint64_t now)
{
	const uint64_t wanted = __atomic_load_n(&p->area.head->maps, __ATOMIC_RELAXED);
	const bool first = timers.maps_told == UINT64_MAX;
	if (!first && ((wanted == timers.maps_told && code_has(&code, ip)) || now < timers.maps_next))
		return;
	tell_maps(p, wanted);
	/* code that comes and goes all the time is not worth it */
	timers.maps_step = first ? MAPS_NS : timers.maps_step < MAPS_MOST_NS ? 2 * timers.maps_step : MAPS_MOST_NS;
	timers.maps_next = now + timers.maps_step;
}

/* --- samples ------------------------------------------------------------------------------------------------- */

uint32_t cpu_timers_more(void)
{
	return timers.period && !connection_is_quiet() ? sizeof(struct shm_more) : 0;
}

static void raise_to(uint64_t *most, uint64_t to)
{
	uint64_t had = __atomic_load_n(most, __ATOMIC_RELAXED);
	while (had < to && !__atomic_compare_exchange_n(most, &had, to, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

static void update_cpu_time(struct connection *p)
{
	raise_to(&p->area.head->cpu, connection_cpu());
}

static void fill_shm_record(
	struct shm_record *to, const struct known *k, const ucontext_t *c, uint64_t now, uint64_t weight)
{
	*to = (struct shm_record){
		.kind = SHM_CPU, .tid = k->tid, .time = now, .bytes = weight, .more = sizeof(struct shm_more)};
	ucontext_fill(&to->regs, c);
	thread_name_read((struct shm_more *)(to + 1));
	ucontext_fill_more(&((struct shm_more *)(to + 1))->regs, c);
}

/*
 * CPU time since the last sample. If it is more than one stack can stand for: one period; the process' account has the
 * rest.
 */
static uint64_t compute_weight(struct known *k)
{
	const uint64_t used = sys_clock_ns(CLOCK_THREAD_CPUTIME_ID), since = used - k->last;
	const uint64_t most = timers.period * LONG_PERIODS > LONG_NS ? timers.period * LONG_PERIODS : LONG_NS;
	k->last = used;
	return since < most ? since : timers.period;
}

static void sample_thread(struct connection *p, struct known *k, const ucontext_t *c)
{
	const uint64_t now = (uint64_t)connection_clock(), sp = ucontext_sp(c);
	const uint64_t tp = thread_pointer();
	const uint32_t most = stack_copy_size(sp, tp);
	struct shm_place place;
	bool wake;
	keep_maps(p, ucontext_ip(c), now);
	const uint64_t weight = compute_weight(k);
	if (shm_reserve(&p->area, HEAD + most, &place, &wake)) {
		struct shm_record *to = (struct shm_record *)place.at;
		fill_shm_record(to, k, c, now, weight);
		to->labels = tp ? labels_in(&p->area, thread_own.labels) : 0;
		to->stack = stack_copy(k->tid, sp, place.at + HEAD, most);
		place.size = HEAD + to->stack;
		shm_publish(&p->area, &place);
	}
	update_cpu_time(p);
	if (wake)
		connection_wake(p);
	connection_tend(p, (int64_t)now);
}

/* By kill(2), sigqueue(3): the signal does what it would do without us, as soon as we return. */
static void by_somebody_else(int sig)
{
	const struct kernel_action none = {.plain = SIG_DFL};
	if (timers.ignored)
		return;
	sigaction_set(sig, &none, NULL);
	const long pid = sys_call(getpid), tid = sys_call(gettid);
	sys_call(tgkill, pid, tid, sig);
}

static void end_for_good(void);

static void on_signal(int sig, siginfo_t *info, void *context)
{
	const uintptr_t of = (uintptr_t)info->si_value.sival_ptr, first = (uintptr_t)known;
	const bool process = of == (uintptr_t)&timers;
	if (info->si_code != SI_TIMER || (!process && of - first >= sizeof(known))) {
		by_somebody_else(sig);
		return;
	}
	struct connection *p = timers.over ? NULL : connection_get();
	struct known *k = process ? NULL : (struct known *)of;
	if (!p && connection_is_off())
		end_for_good();
	if (p && timers.asking) {
		update_cpu_time(p);
		connection_tend(p, connection_clock());
	}
	if (p && k && k->tid == (uint32_t)sys_call(gettid))
		sample_thread(p, k, context);
	if (timers.over || !timers.period)
		return;
	check_threads(process);
	watch_process();
}

/* --- beginning and end ----------------------------------------------------------------------------------------- */

static bool is_free(int sig)
{
	struct kernel_action now;
	return sigaction_set(sig, NULL, &now) == 0 && now.plain == SIG_DFL;
}

/* Takes a signal that is not in use and not in the mask. 0: there is none. */
static uint32_t take_signal(uint64_t mask)
{
	const struct kernel_action ours = {.handler = on_signal,
		.flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK | SIGACTION_RESTORER,
		.restorer = sigaction_restorer,
		.mask = ~0ull};
	for (int sig = SIGNALS_FROM; sig >= SIGNALS_TO; sig--)
		if (!(mask >> (sig - 1) & 1) && is_free(sig) && sigaction_set(sig, &ours, NULL) == 0)
			return (uint32_t)sig;
	return 0;
}

static void stop_all(void)
{
	if (timers.timer >= 0)
		sys_call(timer_delete, timers.timer);
	timers.timer = -1;
	timers.asking = 0;
	for (uint32_t i = 0; i < KNOWN; i++)
		if (known[i].tid)
			let_go(&known[i]);
}

/* Forgets the parent's timers: a child has none of them. */
static void forget_all(void)
{
	for (uint32_t i = 0; timers.n && i < KNOWN; i++) {
		timers.n -= known[i].tid != 0;
		if (known[i].tid)
			known[i].tid = 0;
	}
	timers.n = 0;
	timers.timer = -1;
	timers.asking = 0;
}

/* False: all signals are in use. */
static bool init_timers(uint64_t mask)
{
	forget_all();
	timers.pid = (uint32_t)sys_call(getpid);
	timers.maps_told = UINT64_MAX;
	timers.signal = timers.signal ? timers.signal : take_signal(mask);
	return timers.signal != 0;
}

static void start_sampling(uint64_t period, uint64_t mask, bool child)
{
	if (!init_timers(mask))
		return;
	timers.period = period;
	if (child)
		add_thread((uint32_t)sys_call(gettid), 0);
	else
		look_for_threads(true);
	watch_process();
}

static void start_poll_timer(uint64_t mask)
{
	if (!init_timers(mask))
		return;
	timers.timer = start_timer(CLOCK_PROCESS_CPUTIME_ID, 0, &timers, ASK_NS, ASK_NS);
	timers.asking = timers.timer >= 0;
}

/* Whether this process has timers. */
static bool is_on(void)
{
	return (timers.period || timers.asking) && timers.pid == (uint32_t)sys_call(getpid);
}

/* Ignores the signal for a moment: so pending ones are discarded, too (kernel/signal.c, do_sigaction). */
static void give_back(void)
{
	struct kernel_action to = {.plain = SIG_IGN};
	sigaction_set(timers.signal, &to, NULL);
	if (!timers.ignored)
		to.plain = SIG_DFL;
	sigaction_set(timers.signal, &to, NULL);
	timers.signal = timers.ignored = 0;
}

/* period: ns of CPU time from sample to sample; 0: none are wanted. */
static void set_period(uint64_t period)
{
	uint64_t mask;
	const bool on = is_on(), asked = on && timers.asking;
	const bool same = period == timers.period && !asked && timers.pid == (uint32_t)sys_call(getpid);
	if (timers.over || same || (!period && !timers.period && !asked) || !enter_soon(&mask))
		return;
	if (on)
		stop_all();
	timers.period = 0;
	if (period)
		start_sampling(period, mask, false);
	else if (asked)
		give_back();
	unlock_timers(&mask);
}

static void take_welcome(struct connection *p, const struct shm_welcome *w)
{
	set_period(w->cpu);
}

static void stop_sampling(void)
{
	set_period(0);
}

/* The profiler has not said so yet: hear it as soon as this process uses CPU time. */
static void await_welcome(void)
{
	uint64_t mask;
	if (timers.over || is_on() || !enter_soon(&mask))
		return;
	start_poll_timer(mask);
	unlock_timers(&mask);
}

static void end_for_good(void)
{
	uint64_t mask;
	const bool any = is_on();
	timers.over = 1;
	if (!any || !enter_soon(&mask))
		return;
	stop_all();
	unlock_timers(&mask);
}

int cpu_timers_signal(void)
{
	return timers.signal && !connection_is_quiet() && is_on() ? (int)timers.signal : 0;
}

void cpu_timers_ignore(bool theirs)
{
	timers.ignored = theirs;
}

void cpu_timers_yield(int signal)
{
	uint64_t mask;
	if (!enter_soon(&mask))
		return;
	const uint64_t period = timers.period;
	const bool asked = timers.asking;
	if (timers.signal != (uint32_t)signal || (!period && !asked)) { /* another thread was first */
		unlock_timers(&mask);
		return;
	}
	stop_all();
	const uint64_t not_that = mask | 1ull << (timers.signal - 1);
	give_back();
	timers.period = 0;
	if (asked)
		start_poll_timer(not_that);
	else
		start_sampling(period, not_that, false);
	unlock_timers(&mask);
}

static void begin_in_child(void)
{
	uint64_t mask;
	timers.lock = 0; /* its holder is in another process */
	const bool any = timers.period || timers.asking;
	if (timers.over || !any || timers.pid == (uint32_t)sys_call(getpid) || !try_lock_timers(&mask))
		return;
	if (timers.period)
		start_sampling(timers.period, mask, true);
	else
		start_poll_timer(mask);
	unlock_timers(&mask);
}

static __attribute__((constructor(101))) void register_cpu_timers(void)
{
	static struct feature timers_of_threads = {.welcome = take_welcome,
		.unanswered = await_welcome,
		.left = stop_sampling,
		.quiet = end_for_good,
		.in_child = begin_in_child};
	feature_register(&timers_of_threads);
}

__attribute__((constructor)) static void begin_early(void)
{
	struct thread_state *t = &thread_own;
	if (!connection_is_asked())
		return;
	atfork_follow();
	if (!thread_state_enter(t))
		return;
	struct connection *p = connection_get();
	if (p && is_on())
		update_cpu_time(p); /* the process may end before its first sample */
	thread_state_leave(t);
}

__attribute__((destructor)) static void end_late(void)
{
	struct connection *p = !timers.over && !connection_is_quiet() && is_on() ? connection_now() : NULL;
	if (p)
		update_cpu_time(p);
}
