#include "shim/libpillion/core/connection.h"

#include "shim/libpillion/calltree/calltree_share.h"
#include "shim/libpillion/core/labels.h"
#include "shim/libpillion/core/syscall.h"
#include "shim/libpillion/cputime/cpu_timers.h"
#include "shim/libpillion/crash/crash_handler.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif
#define PAGE 4096
#define NSEC 1000000000ll
#define ANSWER_MS 100	    /* for a profiler that may be stopped */
#define AGAIN_NS (1 * NSEC) /* where there was a profiler */
#define SOON_NS (NSEC / 20) /* where it has just gone */
#define LATER_NS (10 * NSEC)
#define SOCKET_ENV "PILLION_SOCKET="

extern char **environ __attribute__((weak));
extern int clock_gettime(clockid_t, struct timespec *) __attribute__((weak)); /* the vDSO's: no system call */

__thread struct thread thread_own;
static struct process *own;	 /* emptied by a fork */
static struct held inherited[2]; /* not emptied: a child's, of its parent's */
static uint32_t quiet;
static uint64_t stack_end;
static uint32_t begun;
static char path[sizeof(((struct sockaddr_un *)0)->sun_path)]; /* "": there is none */

int64_t process_clock(void)
{
	struct timespec t = {0};
	if (clock_gettime && !process_is_quiet())
		clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * NSEC + t.tv_nsec;
}

uint64_t process_cpu(void)
{
	struct timespec t = {0};
	sys_call(clock_gettime, CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)(t.tv_sec * NSEC + t.tv_nsec);
}

void process_quiet(bool off)
{
	struct process *p = __atomic_load_n(&own, __ATOMIC_ACQUIRE);
	timers_end();
	crash_end();
	__atomic_store_n(&quiet, 1, __ATOMIC_RELEASE);
	if (off && p)
		__atomic_store_n(&p->state, PROCESS_OFF, __ATOMIC_RELEASE);
}

bool process_is_quiet(void)
{
	return __atomic_load_n(&quiet, __ATOMIC_ACQUIRE);
}

/* The program's environment lies above its first stack, as long as nobody has made another one. */
uint64_t process_stack_end(void)
{
	return stack_end;
}

/*
 * Before the program begins: later it may be about to change its environment, and free strings of it, as it calls us
 * (bash does).
 */
static void find_path(void)
{
	for (char **e = environ; e && *e; e++)
		if (!strncmp(*e, SOCKET_ENV, sizeof(SOCKET_ENV) - 1)) {
			const char *at = *e + sizeof(SOCKET_ENV) - 1;
			const size_t len = strlen(at);
			if (len && len < sizeof(path))
				memcpy(path, at, len + 1);
			return;
		}
}

__attribute__((constructor(101))) static void begin(void) /* before those that ask */
{
	stack_end = (uint64_t)(uintptr_t)environ;
	find_path();
	__atomic_store_n(&begun, 1, __ATOMIC_RELEASE);
}

/* --- the area --------------------------------------------------------------------------------------------- */

/* What it holds is the caller's to let go of, also on failure. So below. */
static int make_area(struct process *p)
{
	void *at;
	const int r = held_memory("pillion-area", AREA_SIZE, &p->memory, &at);
	if (r < 0)
		return r;
	area_on(at, &p->area);
	struct area_head *h = p->area.head;
	h->magic = AREA_MAGIC;
	h->version = AREA_VERSION;
	h->pid = p->pid;
	h->cpu = process_cpu();
	h->wake = AREA_BYTES / AREA_UNIT / 4;
	sys_call(getrandom, &h->cookie, sizeof(h->cookie), 1 /* GRND_NONBLOCK */);
	return 0;
}

/* --- the socket ------------------------------------------------------------------------------------------- */

int process_secure(void)
{
	uint64_t pair[2];
	int secure = 0;
	const long fd = sys_call(open, "/proc/self/auxv", O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && sys_call(read, fd, pair, sizeof(pair)) == sizeof(pair))
		secure |= pair[0] == 23 /* AT_SECURE */ && pair[1];
	if (fd >= 0)
		sys_call(close, fd);
	return fd < 0 ? (int)fd : secure;
}

/* Root's, or of the user that we are: nobody else has business with our stacks. */
static bool is_trusted(int sock)
{
	struct ucred who;
	socklen_t len = sizeof(who);
	return sys_call(getsockopt, sock, SOL_SOCKET, SO_PEERCRED, &who, &len) == 0 &&
	       (who.uid == 0 || who.uid == (uid_t)sys_call(geteuid) || who.uid == (uid_t)sys_call(getuid));
}

static int say_hello(const struct process *p)
{
	const struct area_hello hello = {AREA_MAGIC, AREA_VERSION, AREA_SIZE};
	return held_pass(&p->memory, p->sock.fd, &hello, sizeof(hello));
}

static int reach(struct process *p)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	if (path[0] != '/')
		return -EINVAL;
	memcpy(at.sun_path, path, sizeof(path));
	const long fd = sys_call(socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return (int)fd;
	int r = held_take(&p->sock, (int)fd);
	if (r == 0)
		r = (int)sys_call(connect, p->sock.fd, &at, sizeof(at));
	if (r == 0 && !is_trusted(p->sock.fd))
		r = -EPERM;
	return r;
}

static int connect_to(struct process *p)
{
	const int r = reach(p);
	return r < 0 ? r : say_hello(p);
}

/* Once: then there is nothing more from here. */
static void say_why_not(struct process *p, int error)
{
	const struct area_none none = {AREA_NONE_MAGIC, AREA_VERSION, error};
	if (reach(p) == 0)
		sys_call(sendto, p->sock.fd, &none, sizeof(none), MSG_NOSIGNAL | MSG_DONTWAIT, 0, 0);
}

/* 0: it said what it wants. -EAGAIN: nothing yet. */
static int hear_welcome(struct process *p)
{
	struct area_welcome w;
	const long n = sys_call(recvfrom, p->sock.fd, &w, sizeof(w), MSG_DONTWAIT, 0, 0);
	if (n != sizeof(w))
		return n < 0 ? (int)n : -EPIPE;
	if (w.magic != AREA_MAGIC || w.version != AREA_VERSION)
		return -EPROTO;
	__atomic_store_n(&p->mean, w.alloc, __ATOMIC_RELEASE);
	__atomic_store_n(&p->told, 1, __ATOMIC_RELAXED);
	timers_want(w.cpu);
	tree_shared_welcome(p, w.calls);
	crash_want(w.crash);
	return 0;
}

static int await_welcome(struct process *p)
{
	const int64_t until = process_clock() + ANSWER_MS * NSEC / 1000;
	int r;
	while ((r = hear_welcome(p)) == -EAGAIN && process_clock() < until) {
		struct pollfd ready = {.fd = p->sock.fd, .events = POLLIN};
		struct timespec left = {0, 10 * NSEC / 1000};
		sys_call(ppoll, &ready, 1, &left, 0, 8);
	}
	return r == -EAGAIN ? -ETIMEDOUT : r;
}

/* --- states ----------------------------------------------------------------------------------------------- */

static struct process *make_own(void)
{
	struct process *none = NULL;
	const long at = sys_call(mmap, 0, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at < 0 && at > -PAGE)
		return NULL;
	if (sys_call(madvise, at, PAGE, MADV_WIPEONFORK) < 0 ||
		!__atomic_compare_exchange_n(
			&own, &none, (struct process *)at, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
		sys_call(munmap, at, PAGE);
		return none;
	}
	return (struct process *)at;
}

static bool is_worth_another_try(int r)
{
	return r == -ECONNREFUSED || r == -ENOENT || r == -EAGAIN || r == -ETIMEDOUT || r == -EPIPE ||
	       r == -ECONNRESET || r == -EINTR || r == -EMFILE || r == -ENFILE;
}

/* In a process that has just been forked: what it has is its parent's. */
static int prepare(struct process *p)
{
	if (p->area.head)
		return 0;
	held_let_go(&inherited[0]);
	held_let_go(&inherited[1]);
	p->sock.fd = p->memory.fd = -1;
	p->pid = (uint32_t)sys_call(getpid);
	const int r = make_area(p);
	if (r < 0)
		held_let_go(&p->memory);
	return r;
}

/* answer: what the profiler wants is waited for. */
static int connect_first(struct process *p, bool answer)
{
	const bool wanted = path[0] && process_secure() == 0;
	int r = wanted ? prepare(p) : -ENOENT;
	if (wanted && r < 0 && !is_worth_another_try(r))
		say_why_not(p, r);
	if (r == 0)
		r = connect_to(p);
	if (r == 0 && answer)
		r = await_welcome(p);
	const bool late = r == -ETIMEDOUT; /* it has our memory, and may be busy: what it wants is heard later */
	r = late ? 0 : r;
	if (r < 0) {
		held_let_go(&p->sock);
		held_let_go(&p->memory);
		if (p->area.head)
			sys_call(munmap, p->area.head, AREA_SIZE);
		p->area.head = NULL;
	}
	inherited[0] = p->sock;
	inherited[1] = p->memory;
	if (r == 0)
		labels_tell_all(p);
	p->look_again = process_clock() + (r < 0 ? LATER_NS : late ? SOON_NS : AGAIN_NS);
	__atomic_store_n(&p->state,
		r == 0				    ? PROCESS_ON
		: wanted && is_worth_another_try(r) ? PROCESS_NEW
						    : PROCESS_OFF,
		__ATOMIC_RELEASE);
	if (late)
		timers_await();
	return r;
}

/* vfork(2)'s child has all that its parent has. */
static bool is_it(const struct process *p)
{
	return process_is_quiet() || (uint32_t)sys_call(getpid) == p->pid;
}

bool process_is_borrowed(void)
{
	const struct process *p = __atomic_load_n(&own, __ATOMIC_ACQUIRE);
	return p && p->pid && !is_it(p);
}

struct process *process_now(void)
{
	struct process *p = __atomic_load_n(&own, __ATOMIC_ACQUIRE);
	return p && __atomic_load_n(&p->state, __ATOMIC_ACQUIRE) == PROCESS_ON ? p : NULL;
}

bool process_is_asked(void)
{
	return path[0] != 0;
}

bool process_is_off(void)
{
	struct process *p = __atomic_load_n(&own, __ATOMIC_ACQUIRE);
	return p && __atomic_load_n(&p->state, __ATOMIC_ACQUIRE) == PROCESS_OFF;
}

bool process_has_begun(void)
{
	return __atomic_load_n(&begun, __ATOMIC_ACQUIRE);
}

static struct process *get(bool answer)
{
	struct process *p = __atomic_load_n(&own, __ATOMIC_ACQUIRE);
	uint32_t fresh = PROCESS_NEW;
	if (!p && !process_is_quiet() && process_has_begun())
		p = make_own();
	if (!p)
		return NULL;
	uint32_t state = __atomic_load_n(&p->state, __ATOMIC_ACQUIRE);
	if (state == PROCESS_NEW && !process_is_quiet() && process_clock() >= p->look_again && !process_is_borrowed() &&
		__atomic_compare_exchange_n(
			&p->state, &fresh, PROCESS_CONNECTING, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
		connect_first(p, answer);
		state = __atomic_load_n(&p->state, __ATOMIC_ACQUIRE);
	}
	return state == PROCESS_ON && is_it(p) ? p : NULL;
}

struct process *process_get(void)
{
	return get(true);
}

struct process *process_get_at_once(void)
{
	return get(false);
}

static bool is_gone(int r)
{
	return r < 0 && r != -EAGAIN;
}

/* With the same area: what the last one has not read is in it. */
static void connect_again(struct process *p)
{
	__atomic_store_n(&p->tried, process_clock(), __ATOMIC_RELAXED);
	held_let_go(&p->sock);
	if (held_is(&p->memory) && connect_to(p) < 0)
		held_let_go(&p->sock);
	else
		labels_tell_all(p);
	inherited[0] = p->sock;
}

/* What it wants, and whether it has hung up behind that. */
static bool has_hung_up(struct process *p)
{
	int r = 0;
	for (int i = 0; i < 4 && r == 0; i++)
		r = hear_welcome(p);
	return is_gone(r);
}

/* That which the application has closed stays closed. */
static void look_for_profiler(struct process *p)
{
	if (held_is(&p->sock) ? has_hung_up(p) : p->sock.fd == -1)
		connect_again(p);
}

void process_tend(struct process *p, int64_t now)
{
	uint32_t nobody = 0;
	if (now < __atomic_load_n(&p->look_again, __ATOMIC_RELAXED) || process_is_quiet() ||
		!__atomic_compare_exchange_n(&p->reconnecting, &nobody, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return;
	look_for_profiler(p);
	const int64_t step = __atomic_load_n(&p->told, __ATOMIC_RELAXED) ? AGAIN_NS : SOON_NS;
	__atomic_store_n(&p->look_again, now + step, __ATOMIC_RELAXED);
	__atomic_store_n(&p->reconnecting, 0, __ATOMIC_RELEASE);
}

/* The program ends: what the last profiler has not read is for the one that has come meanwhile. */
__attribute__((destructor)) static void end(void)
{
	struct thread *t = &thread_own;
	struct process *p = process_now();
	uint32_t nobody = 0;
	if (!p || process_is_quiet() || !is_it(p) || !thread_enter(t))
		return;
	if (__atomic_compare_exchange_n(&p->reconnecting, &nobody, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
		look_for_profiler(p);
		__atomic_store_n(&p->reconnecting, 0, __ATOMIC_RELEASE);
	}
	thread_leave(t);
}

void process_wake(struct process *p)
{
	const char byte = 1;
	if (process_is_quiet() || !held_is(&p->sock))
		return;
	const long r = sys_call(sendto, p->sock.fd, &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT, 0, 0);
	if (r < 0 && r != -EAGAIN && r != -EINTR)
		__atomic_store_n(
			&p->look_again, __atomic_load_n(&p->tried, __ATOMIC_RELAXED) + SOON_NS, __ATOMIC_RELAXED);
}

/* --- of a program that asks for a profiler ------------------------------------------------------------------ */

static bool is_there(const struct process *p)
{
	char byte;
	const long n = held_is(&p->sock) ? sys_call(recvfrom, p->sock.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT, 0, 0) : 0;
	return n > 0 || n == -EAGAIN;
}

static void wait_a_little(void)
{
	const struct timespec t = {0, NSEC / 1000};
	sys_call(nanosleep, &t, 0);
}

/* Of what takes another thread 100 ms at most. */
static bool take(uint32_t *state, uint32_t from, uint32_t to)
{
	uint32_t had = from;
	for (int i = 0; i < 2 * ANSWER_MS; i++, had = from) {
		if (__atomic_compare_exchange_n(state, &had, to, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
			return true;
		wait_a_little();
	}
	return false;
}

bool process_is_connected(void)
{
	for (int i = 0; i < 2 * ANSWER_MS; i++) {
		const struct process *p = process_get();
		const bool busy = own && __atomic_load_n(&own->state, __ATOMIC_ACQUIRE) == PROCESS_CONNECTING;
		if (p || !busy)
			return p && is_there(p);
		wait_a_little();
	}
	return false;
}

/* One that is not connected, for us alone: PROCESS_CONNECTING. */
static struct process *claim(int *ret_error)
{
	struct process *p = __atomic_load_n(&own, __ATOMIC_ACQUIRE);
	p = p ? p : make_own();
	*ret_error = !p ? -ENOMEM : process_is_quiet() ? -EACCES : 0;
	if (*ret_error < 0)
		return NULL;
	const uint32_t state = __atomic_load_n(&p->state, __ATOMIC_ACQUIRE);
	if (state == PROCESS_ON)
		return NULL;
	*ret_error = take(&p->state, state == PROCESS_OFF ? PROCESS_OFF : PROCESS_NEW, PROCESS_CONNECTING) ? 0 : -EBUSY;
	return *ret_error < 0 ? NULL : p;
}

int process_prepare(void)
{
	int r;
	struct process *p = claim(&r);
	if (!p)
		return r;
	r = prepare(p);
	__atomic_store_n(&p->state, PROCESS_OFF, __ATOMIC_RELEASE);
	return r;
}

static void set_path(const char *to)
{
	const size_t n = strlen(to);
	memset(path, 0, sizeof(path));
	memcpy(path, to, n < sizeof(path) ? n : 0);
}

/* The area is the same: others may be writing there. */
static int move_on(struct process *p, const char *to)
{
	if (!take(&p->reconnecting, 0, 1))
		return -EBUSY;
	set_path(to);
	held_let_go(&p->sock);
	int r = held_is(&p->memory) ? connect_to(p) : -EBADF;
	if (r == 0)
		r = await_welcome(p);
	if (r < 0)
		held_let_go(&p->sock);
	else
		labels_tell_all(p);
	inherited[0] = p->sock;
	__atomic_store_n(&p->reconnecting, 0, __ATOMIC_RELEASE);
	return r;
}

int process_move(const char *to)
{
	int r;
	struct process *p = claim(&r);
	if (p) {
		set_path(to);
		return connect_first(p, true);
	}
	return r < 0 ? r : is_it(own) ? move_on(own, to) : -EBUSY;
}

/* Until it has hung up: then its last profile is written. */
static int await_end(struct process *p, int64_t until)
{
	int r;
	while (!is_gone(r = hear_welcome(p)) && process_clock() < until) {
		struct pollfd ready = {.fd = p->sock.fd, .events = POLLIN};
		struct timespec left = {0, NSEC / 10};
		sys_call(ppoll, &ready, 1, &left, 0, 8);
	}
	return is_gone(r) ? 0 : -ETIMEDOUT;
}

int process_leave(int64_t until)
{
	const struct area_stop stop = {.magic = AREA_MAGIC};
	struct process *p = process_now();
	if (!p || !is_it(p) || process_is_quiet() || !is_there(p))
		return -ENOTCONN;
	if (!take(&p->reconnecting, 0, 1))
		return -EBUSY;
	const long n = sys_call(sendto, p->sock.fd, &stop, sizeof(stop), MSG_NOSIGNAL, 0, 0);
	const int r = n == sizeof(stop) ? await_end(p, until) : -EPIPE;
	set_path("");
	held_let_go(&p->sock);
	inherited[0] = p->sock;
	__atomic_store_n(&p->mean, 0, __ATOMIC_RELEASE);
	timers_want(0);
	__atomic_store_n(&p->reconnecting, 0, __ATOMIC_RELEASE);
	return r;
}
