/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/libpillion/core/connection.h"

#include "shim/libpillion/core/feature.h"
#include "shim/libpillion/core/sys_clock.h"
#include "shim/libpillion/core/syscall.h"

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
#define AGAIN_NS (1 * NSEC) /* where there was a profiler */
#define SOON_NS (NSEC / 20) /* where it has just gone */
#define LATER_NS (10 * NSEC)
#define SOCKET_ENV "PILLION_SOCKET="

extern char **environ __attribute__((weak));
extern int clock_gettime(clockid_t, struct timespec *) __attribute__((weak)); /* the vDSO's: no system call */

__thread struct thread_state thread_own;
int connection_answer_ms = 100;
static struct connection *own;	     /* emptied by a fork */
static struct owned_fd inherited[2]; /* not emptied: in a child, its parent's */
static uint32_t quiet;
static uint64_t stack_end;
static uint32_t begun;
static char path[sizeof(((struct sockaddr_un *)0)->sun_path)]; /* "": there is none */

int64_t connection_clock(void)
{
	struct timespec t = {0};
	if (clock_gettime && !connection_is_quiet())
		clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * NSEC + t.tv_nsec;
}

uint64_t connection_cpu(void)
{
	return sys_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

void connection_quiet(bool off)
{
	struct connection *p = __atomic_load_n(&own, __ATOMIC_ACQUIRE);
	feature_tell_quiet();
	__atomic_store_n(&quiet, 1, __ATOMIC_RELEASE);
	if (off && p)
		__atomic_store_n(&p->state, CONNECTION_OFF, __ATOMIC_RELEASE);
}

bool connection_is_quiet(void)
{
	return __atomic_load_n(&quiet, __ATOMIC_ACQUIRE);
}

/* The program's environment lies above its first stack, unless it has been replaced. */
uint64_t connection_stack_end(void)
{
	return stack_end;
}

/*
 * Called before the program begins: later, the program may be about to change its environment, and free strings of it,
 * as it calls us (bash does).
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

/* A constructor of the program's has asked for a profiler (pillion_start(3)) before the parts were there. */
static void tell_late_parts(void)
{
	struct connection *p = connection_now();
	if (p)
		feature_tell_connected(p);
	if (p && __atomic_load_n(&p->told, __ATOMIC_RELAXED))
		feature_tell_welcome(p, &p->welcome);
}

/* Before the constructors that ask, and after those of feature.h. */
__attribute__((constructor(102))) static void init_connection(void)
{
	stack_end = (uint64_t)(uintptr_t)environ;
	find_path();
	__atomic_store_n(&begun, 1, __ATOMIC_RELEASE);
	tell_late_parts();
}

/* --- the area --------------------------------------------------------------------------------------------- */

/* The caller lets go of *p, also on failure. So below. */
static int make_area(struct connection *p)
{
	void *at;
	const int r = owned_fd_memory("pillion-area", SHM_SIZE, &p->memory, &at);
	if (r < 0)
		return r;
	shm_on(at, &p->area);
	struct shm_head *h = p->area.head;
	h->magic = SHM_MAGIC;
	h->version = SHM_VERSION;
	h->pid = p->pid;
	h->cpu = connection_cpu();
	h->wake = SHM_BYTES / SHM_UNIT / 4;
	sys_call(getrandom, &h->cookie, sizeof(h->cookie), 1 /* GRND_NONBLOCK */);
	return 0;
}

/* --- the socket ------------------------------------------------------------------------------------------- */

int connection_secure(void)
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

/* The peer is root or our own user: no other user may get our stacks. */
static bool is_trusted(int sock)
{
	struct ucred who;
	socklen_t len = sizeof(who);
	return sys_call(getsockopt, sock, SOL_SOCKET, SO_PEERCRED, &who, &len) == 0 &&
	       (who.uid == 0 || who.uid == (uid_t)sys_call(geteuid) || who.uid == (uid_t)sys_call(getuid));
}

static int say_hello(const struct connection *p)
{
	const struct shm_hello hello = {SHM_MAGIC, SHM_VERSION, SHM_SIZE};
	return owned_fd_pass(&p->memory, p->sock.fd, &hello, sizeof(hello));
}

static int connect_socket(struct connection *p)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	if (path[0] != '/')
		return -EINVAL;
	memcpy(at.sun_path, path, sizeof(path));
	const long fd = sys_call(socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return (int)fd;
	int r = owned_fd_take(&p->sock, (int)fd);
	if (r == 0)
		r = (int)sys_call(connect, p->sock.fd, &at, sizeof(at));
	if (r == 0 && !is_trusted(p->sock.fd))
		r = -EPERM;
	return r;
}

static int connect_to(struct connection *p)
{
	const int r = connect_socket(p);
	return r < 0 ? r : say_hello(p);
}

/* Sent once: then nothing more comes from this process. */
static void say_why_not(struct connection *p, int error)
{
	const struct shm_none none = {SHM_NONE_MAGIC, SHM_VERSION, error};
	if (connect_socket(p) == 0)
		sys_call(sendto, p->sock.fd, &none, sizeof(none), MSG_NOSIGNAL | MSG_DONTWAIT, 0, 0);
}

/* Reads the profiler's welcome. -EAGAIN: none yet. */
static int hear_welcome(struct connection *p)
{
	struct shm_welcome w;
	const long n = sys_call(recvfrom, p->sock.fd, &w, sizeof(w), MSG_DONTWAIT, 0, 0);
	if (n != sizeof(w))
		return n < 0 ? (int)n : -EPIPE;
	if (w.magic != SHM_MAGIC || w.version != SHM_VERSION)
		return -EPROTO;
	__atomic_store_n(&p->mean, w.alloc, __ATOMIC_RELEASE);
	p->welcome = w;
	__atomic_store_n(&p->told, 1, __ATOMIC_RELAXED);
	feature_tell_welcome(p, &w);
	return 0;
}

static int await_welcome(struct connection *p)
{
	const int64_t until = connection_clock() + connection_answer_ms * NSEC / 1000;
	int r;
	while ((r = hear_welcome(p)) == -EAGAIN && connection_clock() < until) {
		struct pollfd ready = {.fd = p->sock.fd, .events = POLLIN};
		struct timespec left = {0, 10 * NSEC / 1000};
		sys_call(ppoll, &ready, 1, &left, 0, 8);
	}
	return r == -EAGAIN ? -ETIMEDOUT : r;
}

/* --- states ----------------------------------------------------------------------------------------------- */

static struct connection *make_own(void)
{
	struct connection *none = NULL;
	const long at = sys_call(mmap, 0, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at < 0 && at > -PAGE)
		return NULL;
	if (sys_call(madvise, at, PAGE, MADV_WIPEONFORK) < 0 ||
		!__atomic_compare_exchange_n(
			&own, &none, (struct connection *)at, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
		sys_call(munmap, at, PAGE);
		return none;
	}
	return (struct connection *)at;
}

static bool is_worth_another_try(int r)
{
	return r == -ECONNREFUSED || r == -ENOENT || r == -EAGAIN || r == -ETIMEDOUT || r == -EPIPE ||
	       r == -ECONNRESET || r == -EINTR || r == -EMFILE || r == -ENFILE;
}

/* In a process that has just been forked, lets go of its parent's descriptors, and makes an area. */
static int prepare_area(struct connection *p)
{
	if (p->area.head)
		return 0;
	owned_fd_let_go(&inherited[0]);
	owned_fd_let_go(&inherited[1]);
	p->sock.fd = p->memory.fd = -1;
	p->pid = (uint32_t)sys_call(getpid);
	const int r = make_area(p);
	if (r < 0)
		owned_fd_let_go(&p->memory);
	return r;
}

/* answer: wait for the profiler's welcome. */
static int connect_first(struct connection *p, bool answer)
{
	const bool wanted = path[0] && connection_secure() == 0;
	int r = wanted ? prepare_area(p) : -ENOENT;
	if (wanted && r < 0 && !is_worth_another_try(r))
		say_why_not(p, r);
	if (r == 0)
		r = connect_to(p);
	if (r == 0 && answer)
		r = await_welcome(p);
	const bool late = r == -ETIMEDOUT; /* the profiler has our memory, and may be busy: its welcome is read later */
	r = late ? 0 : r;
	if (r < 0) {
		owned_fd_let_go(&p->sock);
		owned_fd_let_go(&p->memory);
		if (p->area.head)
			sys_call(munmap, p->area.head, SHM_SIZE);
		p->area.head = NULL;
	}
	inherited[0] = p->sock;
	inherited[1] = p->memory;
	if (r == 0)
		feature_tell_connected(p);
	p->look_again = connection_clock() + (r < 0 ? LATER_NS : late ? SOON_NS : AGAIN_NS);
	__atomic_store_n(&p->state,
		r == 0				    ? CONNECTION_ON
		: wanted && is_worth_another_try(r) ? CONNECTION_NEW
						    : CONNECTION_OFF,
		__ATOMIC_RELEASE);
	if (late)
		feature_tell_unanswered();
	return r;
}

/* False in a child of vfork(2), which has its parent's memory. */
static bool is_it(const struct connection *p)
{
	return connection_is_quiet() || (uint32_t)sys_call(getpid) == p->pid;
}

bool connection_is_borrowed(void)
{
	const struct connection *p = __atomic_load_n(&own, __ATOMIC_ACQUIRE);
	return p && p->pid && !is_it(p);
}

struct connection *connection_now(void)
{
	struct connection *p = __atomic_load_n(&own, __ATOMIC_ACQUIRE);
	return p && __atomic_load_n(&p->state, __ATOMIC_ACQUIRE) == CONNECTION_ON ? p : NULL;
}

bool connection_is_asked(void)
{
	return path[0] != 0;
}

bool connection_is_off(void)
{
	struct connection *p = __atomic_load_n(&own, __ATOMIC_ACQUIRE);
	return p && __atomic_load_n(&p->state, __ATOMIC_ACQUIRE) == CONNECTION_OFF;
}

bool connection_is_awaited(void)
{
	struct connection *p = __atomic_load_n(&own, __ATOMIC_ACQUIRE);
	if (!connection_is_asked() || connection_is_quiet())
		return false;
	const enum connection_state state = p ? __atomic_load_n(&p->state, __ATOMIC_ACQUIRE) : CONNECTION_NEW;
	if (state == CONNECTION_NEW)
		return !p || !__atomic_load_n(&p->look_again, __ATOMIC_RELAXED);
	return state != CONNECTION_OFF && !__atomic_load_n(&p->told, __ATOMIC_RELAXED);
}

bool connection_has_begun(void)
{
	return __atomic_load_n(&begun, __ATOMIC_ACQUIRE);
}

static struct connection *open_connection(bool answer)
{
	struct connection *p = __atomic_load_n(&own, __ATOMIC_ACQUIRE);
	uint32_t fresh = CONNECTION_NEW;
	if (!p && !connection_is_quiet() && connection_has_begun())
		p = make_own();
	if (!p)
		return NULL;
	uint32_t state = __atomic_load_n(&p->state, __ATOMIC_ACQUIRE);
	if (state == CONNECTION_NEW && !connection_is_quiet() && connection_clock() >= p->look_again &&
		!connection_is_borrowed() &&
		__atomic_compare_exchange_n(
			&p->state, &fresh, CONNECTION_CONNECTING, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
		connect_first(p, answer);
		state = __atomic_load_n(&p->state, __ATOMIC_ACQUIRE);
	}
	return state == CONNECTION_ON && is_it(p) ? p : NULL;
}

struct connection *connection_get(void)
{
	return open_connection(true);
}

struct connection *connection_get_at_once(void)
{
	return open_connection(false);
}

static bool is_gone(int r)
{
	return r < 0 && r != -EAGAIN;
}

/* With the same area: it has the records that the last profiler has not read. */
static void connect_again(struct connection *p)
{
	__atomic_store_n(&p->tried, connection_clock(), __ATOMIC_RELAXED);
	owned_fd_let_go(&p->sock);
	if (owned_fd_is(&p->memory) && connect_to(p) < 0)
		owned_fd_let_go(&p->sock);
	else
		feature_tell_connected(p);
	inherited[0] = p->sock;
}

/* Reads pending welcomes. Whether the profiler has hung up behind them. */
static bool has_hung_up(struct connection *p)
{
	int r = 0;
	for (int i = 0; i < 4 && r == 0; i++)
		r = hear_welcome(p);
	return is_gone(r);
}

/* A socket that the application has closed stays closed. */
static void look_for_profiler(struct connection *p)
{
	if (owned_fd_is(&p->sock) ? has_hung_up(p) : p->sock.fd == -1)
		connect_again(p);
}

void connection_tend(struct connection *p, int64_t now)
{
	uint32_t nobody = 0;
	if (now < __atomic_load_n(&p->look_again, __ATOMIC_RELAXED) || connection_is_quiet() ||
		!__atomic_compare_exchange_n(&p->reconnecting, &nobody, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return;
	look_for_profiler(p);
	const int64_t step = __atomic_load_n(&p->told, __ATOMIC_RELAXED) ? AGAIN_NS : SOON_NS;
	__atomic_store_n(&p->look_again, now + step, __ATOMIC_RELAXED);
	__atomic_store_n(&p->reconnecting, 0, __ATOMIC_RELEASE);
}

/* The program ends: a profiler that has come meanwhile gets the records that the last one has not read. */
__attribute__((destructor)) static void reconnect_at_exit(void)
{
	struct thread_state *t = &thread_own;
	struct connection *p = connection_now();
	uint32_t nobody = 0;
	if (!p || connection_is_quiet() || !is_it(p) || !thread_state_enter(t))
		return;
	if (__atomic_compare_exchange_n(&p->reconnecting, &nobody, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
		look_for_profiler(p);
		__atomic_store_n(&p->reconnecting, 0, __ATOMIC_RELEASE);
	}
	thread_state_leave(t);
}

void connection_wake(struct connection *p)
{
	const char byte = 1;
	if (connection_is_quiet() || !owned_fd_is(&p->sock))
		return;
	const long r = sys_call(sendto, p->sock.fd, &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT, 0, 0);
	if (r < 0 && r != -EAGAIN && r != -EINTR)
		__atomic_store_n(
			&p->look_again, __atomic_load_n(&p->tried, __ATOMIC_RELAXED) + SOON_NS, __ATOMIC_RELAXED);
}

/* --- of a program that asks for a profiler ------------------------------------------------------------------ */

static bool is_there(const struct connection *p)
{
	char byte;
	const long n =
		owned_fd_is(&p->sock) ? sys_call(recvfrom, p->sock.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT, 0, 0) : 0;
	return n > 0 || n == -EAGAIN;
}

static void wait_a_little(void)
{
	const struct timespec t = {0, NSEC / 1000};
	sys_call(nanosleep, &t, 0);
}

/* For a state that another thread keeps for connection_answer_ms at most. */
static bool change_state(uint32_t *state, uint32_t from, uint32_t to)
{
	uint32_t had = from;
	for (int i = 0; i < 2 * connection_answer_ms; i++, had = from) {
		if (__atomic_compare_exchange_n(state, &had, to, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
			return true;
		wait_a_little();
	}
	return false;
}

bool connection_is_connected(void)
{
	for (int i = 0; i < 2 * connection_answer_ms; i++) {
		const struct connection *p = connection_get();
		const bool busy = own && __atomic_load_n(&own->state, __ATOMIC_ACQUIRE) == CONNECTION_CONNECTING;
		if (p || !busy)
			return p && is_there(p);
		wait_a_little();
	}
	return false;
}

/* Takes an unconnected state for this thread alone: CONNECTION_CONNECTING. NULL and *ret_error 0: it is connected. */
static struct connection *claim_connection(int *ret_error)
{
	struct connection *p = __atomic_load_n(&own, __ATOMIC_ACQUIRE);
	p = p ? p : make_own();
	*ret_error = !p ? -ENOMEM : connection_is_quiet() ? -EACCES : 0;
	if (*ret_error < 0)
		return NULL;
	const uint32_t state = __atomic_load_n(&p->state, __ATOMIC_ACQUIRE);
	if (state == CONNECTION_ON)
		return NULL;
	*ret_error = change_state(&p->state, state == CONNECTION_OFF ? CONNECTION_OFF : CONNECTION_NEW,
			     CONNECTION_CONNECTING)
			     ? 0
			     : -EBUSY;
	return *ret_error < 0 ? NULL : p;
}

int connection_prepare(void)
{
	int r;
	struct connection *p = claim_connection(&r);
	if (!p)
		return r;
	r = prepare_area(p);
	__atomic_store_n(&p->state, CONNECTION_OFF, __ATOMIC_RELEASE);
	return r;
}

static void set_path(const char *to)
{
	const size_t n = strlen(to);
	memset(path, 0, sizeof(path));
	memcpy(path, to, n < sizeof(path) ? n : 0);
}

/* The area stays the same: other threads may be writing there. */
static int move_on(struct connection *p, const char *to)
{
	if (!change_state(&p->reconnecting, 0, 1))
		return -EBUSY;
	set_path(to);
	owned_fd_let_go(&p->sock);
	int r = owned_fd_is(&p->memory) ? connect_to(p) : -EBADF;
	if (r == 0)
		r = await_welcome(p);
	if (r < 0)
		owned_fd_let_go(&p->sock);
	else
		feature_tell_connected(p);
	inherited[0] = p->sock;
	__atomic_store_n(&p->reconnecting, 0, __ATOMIC_RELEASE);
	return r;
}

int connection_move(const char *to)
{
	int r;
	struct connection *p = claim_connection(&r);
	if (p) {
		set_path(to);
		return connect_first(p, true);
	}
	return r < 0 ? r : is_it(own) ? move_on(own, to) : -EBUSY;
}

/* Waits until the profiler has hung up: then its last profile is written. */
static int await_end(struct connection *p, int64_t until)
{
	int r;
	while (!is_gone(r = hear_welcome(p)) && connection_clock() < until) {
		struct pollfd ready = {.fd = p->sock.fd, .events = POLLIN};
		struct timespec left = {0, NSEC / 10};
		sys_call(ppoll, &ready, 1, &left, 0, 8);
	}
	return is_gone(r) ? 0 : -ETIMEDOUT;
}

int connection_leave(int64_t until)
{
	const struct shm_stop stop = {.magic = SHM_MAGIC};
	struct connection *p = connection_now();
	if (!p || !is_it(p) || connection_is_quiet() || !is_there(p))
		return -ENOTCONN;
	if (!change_state(&p->reconnecting, 0, 1))
		return -EBUSY;
	const long n = sys_call(sendto, p->sock.fd, &stop, sizeof(stop), MSG_NOSIGNAL, 0, 0);
	const int r = n == sizeof(stop) ? await_end(p, until) : -EPIPE;
	set_path("");
	owned_fd_let_go(&p->sock);
	inherited[0] = p->sock;
	__atomic_store_n(&p->mean, 0, __ATOMIC_RELEASE);
	feature_tell_left();
	__atomic_store_n(&p->reconnecting, 0, __ATOMIC_RELEASE);
	return r;
}
