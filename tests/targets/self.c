/*
 * self MODE [KEY=NUMBER...] - a program that profiles itself (<pillion.h>) while its threads come and go, and tells
 * what it has seen beside what really was. Every mode ends with status 0 unless something cannot be; the figures are
 * the row's business.
 *
 *	count	threads=200 seconds=2 pages=6 turns=5 rest=5 attach=0 strategy=0 flags=0 nofile=0 events=1 ring=4194304
 *		percent=50
 *		Threads that each fault so many pages in at each of their turns, rest for so many ms between them, then
 *		make the next one and end. attach=1: they are there already when the session is attached. nofile:
 *		RLIMIT_NOFILE, soft.
 *		Each thread's faults by its own account (getrusage(2)) are compared with its samples.
 *	stop	A run is stopped by another thread, by a signal handler, and before it begins; interval=60000 ms
 *	fields	Faults at known places: address, code, registers, stack and callchain of their samples
 *	records	What each callback of a listener is told
 *	leader	The thread that attached is gone: who reads does not spin, and reads all
 *	child	A forked child has no session
 *	adding	events=100: so many more are added to a reader by its first callback
 *	switches	A session of context switches
 *	again	Attached and detached in turn: nothing is left of it
 *	errors	Every mistake and what is said of it
 *	naive	The same by events that are opened on all threads of two looks, with nothing that knows what is
 *		inherited.
 */
#include <errno.h>
#include <linux/perf_event.h>
#include <dirent.h>
#include <pillion.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096
#define SAMPLES_MAX (16u << 20)
#define FEW 2
#define RECORD_MOST 256 /* a quarter of that is a sample; threads that begin and end have records, too */
#define LIVES_MAX (1u << 20)
#define UNREAD_MOST 500 /* threads that end before rings are read: any ring has room for their records */

static struct {
	const char *name;
	long value;
} keys[] = {
	{"threads", 200},
	{"seconds", 2},
	{"pages", 6},
	{"attach", 0},
	{"strategy", PILLION_PER_CORE},
	{"flags", 0},
	{"nofile", 0},
	{"events", 1},
	{"ring", 4 << 20},
	{"percent", 50},
	{"turns", 5},
	{"rest", 5},
	{"passes", 0},
	{"budget", 0},
	{"interval", 0},
};

static long key(const char *name)
{
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (!strcmp(keys[i].name, name))
			return keys[i].value;
	abort();
}

static void take_key(const char *arg)
{
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		const size_t n = strlen(keys[i].name);
		if (!strncmp(arg, keys[i].name, n) && arg[n] == '=') {
			keys[i].value = strtol(arg + n + 1, NULL, 0);
			return;
		}
	}
	fprintf(stderr, "self: what is %s?\n", arg);
	exit(2);
}

static uint64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void fail(const char *what, int error)
{
	printf("%s: %d: %s\n", what, error, pillion_error());
	exit(3);
}

/* --- threads that come and go ------------------------------------------------------------------------------- */

struct life {
	uint32_t tid;
	uint64_t begin, end;
	long faults;
};
static struct life *lives;
static atomic_uint n_lives, alive, unread_lives;
static atomic_bool counting, over;
static char *pages_of_all;
/* Of these, since then: faults that a thread has begun, and samples of them. */
static atomic_ulong counting_from, made, read_back;
static unsigned long ahead_most; /* no more are under way: a ring has room for them; 0: whatever becomes of them */

static long faults_of_thread(void)
{
	struct rusage u;
	getrusage(RUSAGE_THREAD, &u);
	return u.ru_minflt + u.ru_majflt;
}

static void note_life(uint64_t begin, uint64_t end, long faults)
{
	const unsigned i = atomic_fetch_add(&n_lives, 1);
	if (i < LIVES_MAX)
		lives[i] = (struct life){(uint32_t)syscall(SYS_gettid), begin, end, faults};
}

/* Until who reads has room for so many more. */
static void await_room(unsigned long more)
{
	unsigned long had = made;
	while (ahead_most && !over &&
		(had + more > read_back + ahead_most || !atomic_compare_exchange_strong(&made, &had, had + more))) {
		usleep(1000);
		had = made;
	}
}

static void *live(void *arg)
{
	const size_t size = (size_t)key("pages") * PAGE;
	char *pages = arg;
	uint64_t begin = 0;
	long before = 0;
	for (long i = 0; i < key("turns") && !over; i++) {
		if (!begin && counting) {
			before = faults_of_thread();
			begin = now();
		}
		if (begin)
			await_room((unsigned long)key("pages"));
		madvise(pages, size, MADV_DONTNEED);
		for (size_t at = 0; begin && at < size; at += PAGE)
			*(volatile char *)(pages + at) = 1;
		usleep((useconds_t)key("rest") * 1000);
	}
	if (begin) {
		const long faults = faults_of_thread() - before;
		note_life(begin, now(), faults);
	} else if (unread_lives++ >= UNREAD_MOST) { /* however long it takes to attach */
		while (!counting && !over)
			usleep(1000);
	}
	pthread_t next;
	if (over || pthread_create(&next, NULL, live, pages))
		alive--;
	else
		pthread_detach(next);
	return NULL;
}

static void begin_lives(void)
{
	const size_t size = (size_t)key("pages") * PAGE, all = size * (size_t)key("threads");
	alive = (unsigned)key("threads");
	pages_of_all = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	madvise(pages_of_all, all, MADV_NOHUGEPAGE);
	for (unsigned i = 0; i < (unsigned)key("threads"); i++) {
		pthread_t t;
		if (pthread_create(&t, NULL, live, pages_of_all + i * size)) {
			perror("self: no thread");
			exit(3);
		}
		pthread_detach(t);
	}
}

static void end_lives(void)
{
	over = true;
	while (alive)
		usleep(1000);
	usleep(5000);
}

/* --- what is seen of them ----------------------------------------------------------------------------------- */

struct seen {
	uint32_t tid;
	uint64_t time;
};
static struct seen *seen;
static size_t n_seen, of_spec[PILLION_EVENTS_MAX + 1], forks, exits, comms, mmaps, switches, unknown, throttles;
static uint64_t lost;
static bool naive;

static void on_sample(void *arg, const struct pillion_record *r)
{
	of_spec[r->spec < PILLION_EVENTS_MAX ? r->spec : PILLION_EVENTS_MAX]++;
	read_back += (r->spec == 0 || naive) && r->time >= counting_from &&
		     r->addr - (uintptr_t)pages_of_all < (uint64_t)(key("pages") * key("threads") * PAGE);
	if ((r->spec == 0 || naive) && n_seen < SAMPLES_MAX)
		seen[n_seen++] = (struct seen){r->tid, r->time};
}
static void on_lost(void *arg, const struct pillion_record *r)
{
	lost += r->lost;
}
static void on_count(void *arg, const struct pillion_record *r)
{
	switch (r->type) {
	case PERF_RECORD_FORK:
		forks++;
		break;
	case PERF_RECORD_EXIT:
		exits++;
		break;
	case PERF_RECORD_COMM:
		comms++;
		break;
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2:
		mmaps++;
		break;
	case PERF_RECORD_SWITCH:
		switches++;
		break;
	case PERF_RECORD_THROTTLE:
		throttles++;
		break;
	default:
		unknown++;
		break;
	}
}

static const struct pillion_listener listener = {.size = sizeof(listener),
	.sample = on_sample,
	.lost = on_lost,
	.mmap = on_count,
	.comm = on_count,
	.fork = on_count,
	.exit = on_count,
	.throttle = on_count,
	.context_switch = on_count,
	.unknown = on_count};

static int by_tid_and_time(const void *a, const void *b)
{
	const struct seen *p = a, *q = b;
	if (p->tid != q->tid)
		return p->tid < q->tid ? -1 : 1;
	return (p->time > q->time) - (p->time < q->time);
}

static size_t first_from(uint32_t tid, uint64_t time)
{
	const struct seen key = {tid, time};
	size_t low = 0, high = n_seen;
	while (low < high) {
		const size_t mid = (low + high) / 2;
		if (by_tid_and_time(&seen[mid], &key) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static void compare(void)
{
	const unsigned n = n_lives < LIVES_MAX ? n_lives : LIVES_MAX;
	double worst = 0, off = 0;
	long faults = 0;
	size_t samples = 0, missed = 0, more = 0;
	qsort(seen, n_seen, sizeof(*seen), by_tid_and_time);
	for (unsigned i = 0; i < n; i++) {
		const struct life *l = &lives[i];
		const size_t got = first_from(l->tid, l->end + 1) - first_from(l->tid, l->begin);
		faults += l->faults;
		samples += got;
		off = l->faults ? 100.0 * ((double)got - (double)l->faults) / (double)l->faults : 0;
		/* within 2 %, or the few that come between the account and the clock, and those that the kernel counts
		 * but did not serve (mm_account_fault) */
		missed += off < -2 && (long)got < l->faults - FEW;
		more += off > 2 && (long)got > l->faults + FEW;
		if (off * off > worst * worst)
			worst = off;
	}
	printf("lives %u faults %ld samples %zu off %.2f worst %.2f missed %zu more %zu lost %llu all %zu\n", n, faults,
		samples, faults ? 100.0 * ((double)samples - (double)faults) / (double)faults : 0, worst, missed, more,
		(unsigned long long)lost, n_seen);
	printf("records forks %zu exits %zu comms %zu mmaps %zu switches %zu throttles %zu unknown %zu\n", forks, exits,
		comms, mmaps, switches, throttles, unknown);
	printf("specs");
	for (long i = 0; i < key("events"); i++)
		printf(" %zu", of_spec[i]);
	printf(" other %zu\n", of_spec[PILLION_EVENTS_MAX]);
}

/* --- a session ---------------------------------------------------------------------------------------------- */

static const struct pillion_event_spec events[] = {
	{.size = sizeof(events[0]),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_PAGE_FAULTS,
		.period = 1,
		.fields = PILLION_ADDR},
	{.size = sizeof(events[0]), .type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_PAGE_FAULTS_MIN, .period = 1},
	{.size = sizeof(events[0]), .type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_CPU_CLOCK, .period = 10000000},
	{.size = sizeof(events[0]),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_PAGE_FAULTS,
		.period = 1,
		.fields = PILLION_ADDR},
};

static void print_status(struct pillion_session *s)
{
	struct pillion_session_status t = {.size = sizeof(t)};
	if (pillion_session_status(s, &t) < 0)
		fail("status", -1);
	printf("status threads %u inherited %u late %u left_out %u refused %u passes %u stable %u events %u rings %u "
	       "fds %u "
	       "ring_bytes %u user_only %u timed %u raised %u offline %u superfluous %u twice %llu clock_error %llu\n",
		t.threads, t.inherited, t.late, t.left_out, t.refused, t.passes, t.stable, t.events, t.rings, t.fds,
		t.ring_bytes, t.user_only, t.timed, t.raised, t.cpus_offline, t.superfluous,
		(unsigned long long)t.twice, (unsigned long long)t.clock_error);
	ahead_most = t.ring_bytes / RECORD_MOST;
}

static void *stop_later(void *arg)
{
	struct pillion_session *s = arg;
	sleep((unsigned)key("seconds"));
	end_lives();
	pillion_session_stop(s);
	return NULL;
}

static int mode_count(void)
{
	struct pillion_session_spec spec = {.size = sizeof(spec),
		.strategy = (uint32_t)key("strategy"),
		.events = events,
		.n_events = (uint32_t)key("events"),
		.flags = (uint32_t)key("flags"),
		.fd_percent = (uint32_t)key("percent"),
		.passes = (uint32_t)key("passes"),
		.budget_ms = (uint32_t)key("budget"),
		.ring_bytes = (uint32_t)key("ring")};
	struct pillion_session *s;
	pthread_t stopper;
	int r = pillion_session_open(&spec, &listener, &s);
	if (r < 0)
		fail("open", r);
	if (key("attach")) {
		begin_lives();
		usleep(100000);
	}
	const uint64_t before = now();
	if ((r = pillion_session_attach(s)) < 0)
		fail("attach", r);
	printf("attached in %.1f ms\n", (double)(now() - before) / 1e6);
	print_status(s);
	counting_from = now();
	counting = true;
	if (!key("attach"))
		begin_lives();
	pthread_create(&stopper, NULL, stop_later, s);
	if ((r = pillion_session_run(s)) < 0)
		fail("run", r);
	pthread_join(stopper, NULL);
	print_status(s);
	if ((r = pillion_session_detach(s)) < 0)
		fail("detach", r);
	pillion_session_close(s);
	compare();
	return 0;
}

/* --- what everybody would write ----------------------------------------------------------------------------- */

static struct pillion_event *leaders[64];

static void open_on(struct pillion_reader *r, pid_t tid)
{
	for (int cpu = 0; cpu < sysconf(_SC_NPROCESSORS_CONF) && cpu < 64; cpu++) {
		struct pillion_event *e;
		int error = pillion_event_open(&events[0], tid, cpu, PILLION_INHERIT, &e);
		if (error == -ESRCH)
			continue;
		if (error == 0)
			error = leaders[cpu] ? pillion_event_redirect(e, leaders[cpu])
					     : pillion_event_map(e, (size_t)key("ring"));
		if (error == 0)
			error = pillion_reader_add(r, e);
		if (error < 0)
			fail("naive", error);
		if (!leaders[cpu])
			leaders[cpu] = e;
	}
}

static int list(pid_t *ret, int max)
{
	DIR *d = opendir("/proc/self/task");
	int n = 0;
	for (struct dirent *de; d && n < max && (de = readdir(d));)
		if (de->d_name[0] != '.')
			ret[n++] = (pid_t)atoi(de->d_name);
	closedir(d);
	return n;
}

static void *stop_reader_later(void *arg)
{
	sleep((unsigned)key("seconds"));
	end_lives();
	pillion_reader_stop(arg);
	return NULL;
}

static int mode_naive(void)
{
	static pid_t known[65536], found[65536];
	struct pillion_reader *r;
	pthread_t stopper;
	int n = 0;
	naive = true;
	ahead_most = (unsigned long)key("ring") / RECORD_MOST / 2;
	if (pillion_reader_open(&listener, 0, 0, &r) < 0)
		fail("naive", -1);
	for (int look = 0; look < 3; look++) {
		if (look == 1) { /* threads that are made in between, by one that has its events */
			begin_lives();
			usleep(100000);
		}
		const int m = list(found, 65536);
		for (int i = 0; i < m; i++) {
			int k = 0;
			while (k < n && known[k] != found[i])
				k++;
			if (k == n && n < 65536) {
				known[n++] = found[i];
				open_on(r, found[i]);
			}
		}
	}
	printf("threads %d\n", n);
	counting_from = now();
	counting = true;
	pthread_create(&stopper, NULL, stop_reader_later, r);
	pillion_reader_run(r);
	pthread_join(stopper, NULL);
	compare();
	return 0;
}

/* --- the rest ----------------------------------------------------------------------------------------------- */

static struct pillion_session *open_session(
	const struct pillion_event_spec *specs, uint32_t n, const struct pillion_listener *l)
{
	const struct pillion_session_spec spec = {.size = sizeof(spec),
		.strategy = (uint32_t)key("strategy"),
		.events = specs,
		.n_events = n,
		.flags = (uint32_t)key("flags"),
		.interval_ms = (uint32_t)key("interval"),
		.ring_bytes = (uint32_t)key("ring")};
	struct pillion_session *s;
	const int r = pillion_session_open(&spec, l, &s);
	if (r < 0)
		fail("open", r);
	return s;
}

static void attach(struct pillion_session *s)
{
	const int r = pillion_session_attach(s);
	if (r < 0)
		fail("attach", r);
}

static struct pillion_session *stoppable;
static void *stop_soon(void *arg)
{
	usleep(200000);
	pillion_session_stop(stoppable);
	return NULL;
}
static void stop_by_signal(int sig)
{
	pillion_session_stop(stoppable);
}

static void run_and_tell(const char *how)
{
	const uint64_t begin = now();
	const int r = pillion_session_run(stoppable);
	printf("%s: %d after %llu ms\n", how, r, (unsigned long long)(now() - begin) / 1000000);
}

static int mode_stop(void)
{
	pthread_t t;
	stoppable = open_session(events, 1, &listener);
	attach(stoppable);
	pthread_create(&t, NULL, stop_soon, NULL);
	run_and_tell("by another thread");
	pthread_join(t, NULL);
	signal(SIGALRM, stop_by_signal);
	alarm(1);
	run_and_tell("by a signal handler");
	pillion_session_stop(stoppable);
	pillion_session_stop(stoppable);
	run_and_tell("before it begins");
	pthread_create(&t, NULL, stop_soon, NULL);
	run_and_tell("the next one");
	pthread_join(t, NULL);
	pillion_session_close(stoppable);
	return 0;
}

static char *marked; /* pages that are faulted in */
#define MARK 0x5eed5eed5eed5eedull
static struct {
	unsigned addr, ip, sp, stack, chain, all;
} right;

static __attribute__((noinline)) void touch(size_t i)
{
	*(volatile char *)(marked + i * PAGE) = 1;
}

static __attribute__((noinline)) void mark_and_touch(size_t i)
{
	volatile uint64_t mark = MARK; /* not below the stack pointer, as what calls nothing may have it */
	touch(i);
	(void)mark;
}

static void on_fields(void *arg, const struct pillion_record *r)
{
	const uint64_t code = (uintptr_t)touch;
	if (r->addr - (uintptr_t)marked >= 100 * PAGE)
		return;
	right.all++;
	right.addr += r->fields & PILLION_ADDR && r->addr % PAGE == 0;
	right.ip += r->ip - code < 200;
	right.sp +=
		r->fields & PILLION_REGS && r->regs_mask >> 7 & 1 && r->regs[8] == r->ip; /* AX to SP are 8, then IP */
	for (uint64_t i = 0; i + 8 <= r->n_stack; i += 8)
		if (!memcmp(r->stack + i, &(uint64_t){MARK}, 8)) {
			right.stack++;
			break;
		}
	for (uint64_t i = 0; i < r->n_chain; i++)
		if (r->chain[i] == r->ip) {
			right.chain++;
			break;
		}
}

static int mode_fields(void)
{
	static const struct pillion_event_spec spec[] = {
		{.size = sizeof(spec[0]),
			.type = PERF_TYPE_SOFTWARE,
			.config = PERF_COUNT_SW_PAGE_FAULTS,
			.period = 1,
			.fields = PILLION_ADDR | PILLION_REGS | PILLION_STACK | PILLION_CALLCHAIN,
			.stack = 512},
		{.size = sizeof(spec[0]),
			.type = PERF_TYPE_SOFTWARE,
			.config = PERF_COUNT_SW_PAGE_FAULTS_MIN,
			.period = 1,
			.fields = PILLION_REGS}};
	const struct pillion_listener l = {.size = sizeof(l), .sample = on_fields};
	marked = mmap(NULL, 100 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	madvise(marked, 100 * PAGE, MADV_NOHUGEPAGE);
	struct pillion_session *s = open_session(spec, 2, &l);
	attach(s);
	for (size_t i = 0; i < 100; i++)
		mark_and_touch(i);
	pillion_session_detach(s);
	pillion_session_close(s);
	printf("samples %u addr %u ip %u regs %u stack %u chain %u\n", right.all, right.addr, right.ip, right.sp,
		right.stack, right.chain);
	return 0;
}

static void *short_life(void *arg)
{
	pthread_setname_np(pthread_self(), "short");
	usleep(1000);
	return NULL;
}

static void make_records(void)
{
	for (int i = 0; i < 20; i++) {
		pthread_t t;
		pthread_create(&t, NULL, short_life, NULL);
		pthread_join(t, NULL);
		munmap(mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), PAGE);
	}
}

static int mode_records(void)
{
	static const struct pillion_event_spec spec[] = {{.size = sizeof(spec[0]),
								 .type = PERF_TYPE_SOFTWARE,
								 .config = PERF_COUNT_SW_PAGE_FAULTS,
								 .period = 1,
								 .flags = PILLION_SWITCHES},
		{.size = sizeof(spec[0]),
			.type = PERF_TYPE_SOFTWARE,
			.config = PERF_COUNT_SW_CPU_CLOCK,
			.period = 10000000}};
	const size_t n = key("ring") / 16; /* a record is larger: more than two CPUs' rings hold */
	char *pages = mmap(NULL, n * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	madvise(pages, n * PAGE, MADV_NOHUGEPAGE);
	struct pillion_session *s = open_session(spec, 2, &listener);
	attach(s);
	make_records();
	pillion_session_stop(s);
	pillion_session_run(s);
	printf("forks %zu exits %zu comms %zu mmaps %zu switches %zu unknown %zu lost %llu\n", forks, exits, comms,
		mmaps, switches, unknown, (unsigned long long)lost);
	for (size_t i = 0; i < n; i++)
		*(volatile char *)(pages + i * PAGE) = 1;
	pillion_session_stop(s);
	pillion_session_run(s);
	usleep(1000); /* what was lost is told with the next record */
	make_records();
	pillion_session_detach(s);
	printf("then lost %llu\n", (unsigned long long)lost);
	pillion_session_close(s);
	return 0;
}

static void *attach_and_end(void *arg)
{
	attach(arg);
	return NULL;
}

static uint64_t cpu_used(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int mode_leader(void)
{
	pthread_t t;
	struct pillion_session *s = open_session(events, 1, &listener);
	begin_lives();
	pthread_create(&t, NULL, attach_and_end, s);
	pthread_join(t, NULL);
	print_status(s);
	counting_from = now();
	counting = true;
	pthread_create(&t, NULL, stop_later, s);
	const uint64_t before = cpu_used(), begin = now();
	pillion_session_run(s);
	printf("who reads used %.1f %% of a CPU\n", 100.0 * (double)(cpu_used() - before) / (double)(now() - begin));
	pthread_join(t, NULL);
	print_status(s);
	pillion_session_detach(s);
	pillion_session_close(s);
	compare();
	return 0;
}

static int mode_child(void)
{
	struct pillion_event *e;
	struct pillion_count c;
	struct pillion_session *s = open_session(events, 1, &listener);
	attach(s);
	if (pillion_event_open(&events[0], 0, -1, 0, &e) < 0)
		fail("event", -1);
	const pid_t pid = fork();
	if (pid == 0) {
		const int run = pillion_session_run(s), read_ = pillion_event_read(e, &c),
			  detach = pillion_session_detach(s);
		printf("child: run %d read %d detach %d: %s\n", run, read_, detach, pillion_error());
		pillion_session_close(s);
		pillion_event_close(e);
		fflush(stdout);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	n_seen = 0;
	for (int i = 0; i < 10; i++)
		*(volatile char *)mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) = 1;
	pillion_session_stop(s);
	const int run = pillion_session_run(s);
	printf("parent: run %d, %s, read %d\n", run, n_seen >= 10 ? "samples" : "no samples",
		pillion_event_read(e, &c));
	pillion_session_close(s);
	pillion_event_close(e);
	return 0;
}

/* --- a reader that grows while it reads --------------------------------------------------------------------- */

static struct {
	struct pillion_reader *reader;
	struct pillion_event *events[1000];
	long n;
	size_t samples;
} adding;

static void add_many(void *arg, const struct pillion_record *r)
{
	static const struct pillion_event_spec nothing = {
		.size = sizeof(nothing), .type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_DUMMY};
	adding.samples += r->addr != 0;
	for (; adding.n < key("events") && adding.n < 1000; adding.n++) {
		struct pillion_event **e = &adding.events[adding.n];
		if (pillion_event_open(&nothing, 0, -1, 0, e) < 0 || pillion_event_map(*e, PAGE) < 0 ||
			pillion_reader_add(adding.reader, *e) < 0)
			fail("adding", -1);
	}
}

static int mode_adding(void)
{
	const struct pillion_listener l = {.size = sizeof(l), .sample = add_many};
	struct pillion_event *e;
	if (pillion_event_open(&events[0], 0, -1, 0, &e) < 0 || pillion_event_map(e, 1 << 16) < 0 ||
		pillion_reader_open(&l, 0, 0, &adding.reader) < 0 || pillion_reader_add(adding.reader, e) < 0)
		fail("adding", -1);
	for (int i = 0; i < 10; i++)
		*(volatile char *)mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) = 1;
	pillion_event_disable(e);
	pillion_reader_stop(adding.reader);
	pillion_reader_run(adding.reader);
	printf("added %ld, samples %s\n", adding.n, adding.samples >= 10 ? "all" : "lost");
	pillion_reader_close(adding.reader);
	while (adding.n)
		pillion_event_close(adding.events[--adding.n]);
	pillion_event_close(e);
	return 0;
}

static int lines_of(const char *path)
{
	FILE *f = fopen(path, "r");
	int n = 0, c;
	while (f && (c = fgetc(f)) != EOF)
		n += c == '\n';
	if (f)
		fclose(f);
	return n;
}
static int files(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;
	while (d && readdir(d))
		n++;
	closedir(d);
	return n;
}

static int mode_switches(void)
{
	static const struct pillion_event_spec spec[] = {{.size = sizeof(spec[0]),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_CONTEXT_SWITCHES,
		.period = 1}};
	struct pillion_session *s = open_session(spec, 1, &listener);
	attach(s);
	make_records();
	pillion_session_detach(s);
	printf("switches %zu\n", of_spec[0]);
	pillion_session_close(s);
	return 0;
}

static int mode_again(void)
{
	lines_of("/proc/self/maps");
	const int fds = files(), maps = lines_of("/proc/self/maps");
	for (int i = 0; i < 20; i++) {
		struct pillion_session *s = open_session(events, 2, &listener);
		for (int k = 0; k < 3; k++) {
			attach(s);
			pillion_session_stop(s);
			pillion_session_run(s);
			if (pillion_session_detach(s) < 0)
				fail("detach", -1);
		}
		pillion_session_close(s);
	}
	printf("left: descriptors %d mappings %d\n", files() - fds, lines_of("/proc/self/maps") - maps);
	return 0;
}

static void tell_error(const char *what, int r)
{
	printf("%s: %d %s\n", what, r, r < 0 ? pillion_error() : "");
}

static int mode_errors(void)
{
	struct pillion_session *s = NULL;
	struct pillion_event *e = NULL, *f = NULL;
	struct pillion_event_spec many[6], one = events[0];
	struct pillion_session_spec spec = {.size = sizeof(spec), .events = &one, .n_events = 1};
	struct pillion_listener l = listener;
	spec.size = 0;
	tell_error("no size", pillion_session_open(&spec, &listener, &s));
	spec.size = sizeof(spec);
	spec.strategy = 9;
	tell_error("no such strategy", pillion_session_open(&spec, &listener, &s));
	spec.strategy = 0;
	spec.n_events = 0;
	tell_error("no events", pillion_session_open(&spec, &listener, &s));
	spec.n_events = 1;
	spec.ring_bytes = 5000;
	tell_error("odd rings", pillion_session_open(&spec, &listener, &s));
	spec.ring_bytes = 0;
	l.size = 0;
	tell_error("no listener", pillion_session_open(&spec, &l, &s));
	one.size = 0;
	tell_error("event without a size", pillion_session_open(&spec, &listener, &s));
	one = events[0];
	one.frequency = 99;
	tell_error("period and frequency", pillion_session_open(&spec, &listener, &s));
	one = events[0];
	one.fields = PILLION_STACK;
	one.stack = 7;
	tell_error("odd stack", pillion_session_open(&spec, &listener, &s));
	one = events[0];
	for (int i = 0; i < 6; i++)
		many[i] = events[0];
	spec.events = many;
	spec.n_events = 6;
	tell_error("six faults", pillion_session_open(&spec, &listener, &s));
	spec.events = &one;
	spec.n_events = 1;
	if (pillion_session_open(&spec, &listener, &s) < 0)
		fail("open", -1);
	tell_error("run before attach", pillion_session_run(s));
	tell_error("detach before attach", pillion_session_detach(s));
	attach(s);
	tell_error("attached twice", pillion_session_attach(s));
	pillion_session_close(s);
	tell_error("no such thread", pillion_event_open(&one, 0x3fffffff, -1, 0, &e));
	tell_error("no such flag", pillion_event_open(&one, 0, -1, 1u << 30, &e));
	one.frequency = 1000000000;
	one.period = 0;
	tell_error("too often", pillion_event_open(&one, 0, -1, 0, &e));
	one = events[0];
	if (pillion_event_open(&one, 0, -1, 0, &e) < 0 || pillion_event_open(&one, 0, 0, 0, &f) < 0)
		fail("event", -1);
	tell_error("odd ring", pillion_event_map(e, 5000));
	tell_error("close_fd without a ring", pillion_event_close_fd(e));
	tell_error("redirect to no ring", pillion_event_redirect(f, e));
	tell_error("map", pillion_event_map(e, PAGE));
	tell_error("mapped twice", pillion_event_map(e, PAGE));
	tell_error("redirect to another CPU", pillion_event_redirect(f, e));
	tell_error("close_fd", pillion_event_close_fd(e));
	tell_error("enable without descriptor", pillion_event_enable(e));
	tell_error("redirect to a closed one", pillion_event_redirect(f, e));
	pillion_event_close(e);
	pillion_event_close(f);
	/* in an order that would be a mistake elsewhere */
	if (pillion_event_open(&one, 0, 0, 0, &e) < 0 || pillion_event_open(&one, 0, 0, 0, &f) < 0 ||
		pillion_event_map(e, PAGE) < 0)
		fail("event", -1);
	tell_error("redirect", pillion_event_redirect(f, e));
	pillion_event_close(e);
	pillion_event_close(f);
	return 0;
}

static const struct {
	const char *name;
	int (*fn)(void);
} modes[] = {{"count", mode_count}, {"naive", mode_naive}, {"stop", mode_stop}, {"fields", mode_fields},
	{"records", mode_records}, {"leader", mode_leader}, {"child", mode_child}, {"again", mode_again},
	{"switches", mode_switches}, {"errors", mode_errors}, {"adding", mode_adding}};

int main(int argc, char **argv)
{
	for (int i = 2; i < argc; i++)
		take_key(argv[i]);
	if (key("nofile")) {
		struct rlimit most;
		getrlimit(RLIMIT_NOFILE, &most);
		most.rlim_cur = (rlim_t)key("nofile");
		setrlimit(RLIMIT_NOFILE, &most);
	}
	seen = mmap(NULL, SAMPLES_MAX * sizeof(*seen), PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	lives = mmap(NULL, LIVES_MAX * sizeof(*lives), PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	for (size_t i = 0; argc > 1 && i < sizeof(modes) / sizeof(modes[0]); i++)
		if (!strcmp(modes[i].name, argv[1])) {
			const int r = modes[i].fn();
			fflush(stdout);
			return r;
		}
	fprintf(stderr, "usage: self MODE [KEY=NUMBER...]\n");
	return 2;
}
