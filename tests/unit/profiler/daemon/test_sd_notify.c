/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/daemon/sd_notify.h"

#include "oci/base/clock_driven.h"
#include "oci/base/fd.h"
#include "tests/unit/support/child.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))

static int fds;

static void count_fds(void)
{
	fds = fd_count();
	for (const char *const *v = (const char *const[]){"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "NOTIFY_SOCKET",
		     "WATCHDOG_USEC", "WATCHDOG_PID", NULL};
		*v; v++)
		unsetenv(*v);
}

static void same_fds(void)
{
	ck_assert_int_eq(fd_count(), fds);
}

static void set_number(const char *name, long value)
{
	char text[24];
	snprintf(text, sizeof(text), "%ld", value);
	setenv(name, text, 1);
}

/* --- the socket that is handed over --------------------------------------------------------------------- */

enum { LISTENS, TALKS, STREAMS, DATAGRAMS, NETWORK, FILE_, NOTHING };

static int make(int what)
{
	static const struct {
		int domain, type;
	} kinds[] = {[LISTENS] = {AF_UNIX, SOCK_SEQPACKET},
		[TALKS] = {AF_UNIX, SOCK_SEQPACKET},
		[STREAMS] = {AF_UNIX, SOCK_STREAM},
		[DATAGRAMS] = {AF_UNIX, SOCK_DGRAM},
		[NETWORK] = {AF_INET, SOCK_STREAM}};
	struct sockaddr_un any = {.sun_family = AF_UNIX}; /* the kernel chooses an abstract name */
	if (what == FILE_)
		return open("/dev/null", O_RDONLY);
	if (what == NOTHING)
		return -1;
	int fd = socket(kinds[what].domain, kinds[what].type, 0);
	if (kinds[what].domain == AF_UNIX)
		MUST(bind(fd, (struct sockaddr *)&any, sizeof(sa_family_t)) == 0);
	if (what == LISTENS || what == STREAMS || what == NETWORK)
		MUST(listen(fd, 1) == 0);
	return fd;
}

static const struct given {
	const char *scenario;
	int what[4], n;
	const char *names, *count; /* NULL: none; the true one */
	long pid;		   /* 0: ours */
	int got;		   /* descriptor, or -1 */
	const char *sentence;
} given[] = {
	{"one socket", {LISTENS}, 1, NULL, NULL, 0, 3, NULL},
	{"one socket, by name", {LISTENS}, 1, "control", NULL, 0, 3, NULL},
	{"one socket of any name", {LISTENS}, 1, "pilliond.socket", NULL, 0, 3, NULL},
	{"the second of three", {STREAMS, LISTENS, FILE_}, 3, "a:control:b", NULL, 0, 4, NULL},
	{"the last of three", {STREAMS, FILE_, LISTENS}, 3, "a::control", NULL, 0, 5, NULL},
	{"names that begin alike", {STREAMS, LISTENS}, 2, "controls:control", NULL, 0, 4, NULL},
	{"two without a name", {LISTENS, LISTENS}, 2, NULL, NULL, 0, -1,
		"hands over 2 sockets, and none has FileDescriptorName=control"},
	{"fewer names than sockets", {LISTENS, LISTENS}, 2, "x", NULL, 0, -1, "hands over 2 sockets"},
	{"none", {NOTHING}, 0, NULL, "0", 0, -1, NULL},
	{"a count that is no number", {LISTENS}, 1, NULL, "one", 0, -1, NULL},
	{"a negative count", {LISTENS}, 1, NULL, "-1", 0, -1, NULL},
	{"a count beyond all reason", {LISTENS}, 1, NULL, "4000000000", 0, -1, "hands over 4000000000 sockets"},
	{"for another process", {LISTENS}, 1, NULL, NULL, 1, -1, NULL},
	{"a stream", {STREAMS}, 1, NULL, NULL, 0, -1, "descriptor 3 of the service manager is no listening"},
	{"datagrams", {DATAGRAMS}, 1, NULL, NULL, 0, -1, "is no listening Unix socket of packets"},
	{"one that does not listen", {TALKS}, 1, NULL, NULL, 0, -1, "is no listening"},
	{"the network", {NETWORK}, 1, NULL, NULL, 0, -1, "is no listening"},
	{"a file", {FILE_}, 1, NULL, NULL, 0, -1, "is no listening"},
	{"a descriptor that is closed", {NOTHING}, 1, NULL, NULL, 0, -1, "is no listening"},
};

/* Where a manager puts them: from 3 on, open across exec. */
static void take_over(const void *arg)
{
	const struct given *c = arg;
	struct err e = {0};
	struct inherited_fds h;
	fd_close_all_but(NULL, 0);
	for (int i = 0; i < c->n; i++)
		MUST(make(c->what[i]) == (c->what[i] == NOTHING ? -1 : 3 + i));
	set_number("LISTEN_PID", c->pid ? c->pid : getpid());
	set_number("LISTEN_FDS", c->n);
	if (c->count)
		setenv("LISTEN_FDS", c->count, 1);
	if (c->names)
		setenv("LISTEN_FDNAMES", c->names, 1);
	int r = sd_notify_handed(&h, &e), fd = h.listener;
	MUST(fd == c->got);
	MUST(!h.n_kept);
	sd_notify_handed_done(&h);
	MUST(r == (c->sentence ? -EINVAL : 0));
	MUST(!c->sentence || strstr(e.text, c->sentence));
	MUST(!getenv("LISTEN_PID") && !getenv("LISTEN_FDS") && !getenv("LISTEN_FDNAMES"));
	for (int i = 0; c->got >= 0 && i < c->n; i++)
		MUST(fd_is(3 + i) == (3 + i == c->got));
	MUST(fd < 0 || ((fcntl(fd, F_GETFD) & FD_CLOEXEC) && (fcntl(fd, F_GETFL) & O_NONBLOCK)));
}

START_TEST(a_socket_that_is_handed_over)
{
	ck_assert_msg(in_child(take_over, &given[_i]) == 0, "%s", given[_i].scenario);
}
END_TEST

static const struct mixed {
	const char *scenario, *names;
	int what[5], n, listener, n_kept;
	const char *kept; /* "NAME=DESCRIPTOR " of each */
} mixed[] = {
	{"kept ones behind the socket", "control:pillion.a.1:pillion.b", {LISTENS, FILE_, FILE_}, 3, 3, 2,
		"pillion.a.1=4 pillion.b=5 "},
	{"before it", "pillion.a:control", {FILE_, LISTENS}, 2, 4, 1, "pillion.a=3 "},
	{"a socket of another name beside them", "pillion.a:x:pillion.b", {FILE_, LISTENS, FILE_}, 3, 4, 2,
		"pillion.a=3 pillion.b=5 "},
	{"nothing but them", "pillion.a:pillion.a", {FILE_, FILE_}, 2, -1, 2, "pillion.a=3 pillion.a=4 "},
	{"one of somebody else's", "stored:control:pillion.a", {FILE_, LISTENS, FILE_}, 3, 4, 1, "pillion.a=5 "},
};

static void take_kept(const void *arg)
{
	const struct mixed *c = arg;
	struct err e = {0};
	struct inherited_fds h;
	char text[200] = "";
	fd_close_all_but(NULL, 0);
	for (int i = 0; i < c->n; i++)
		MUST(make(c->what[i]) == 3 + i);
	set_number("LISTEN_PID", getpid());
	set_number("LISTEN_FDS", c->n);
	setenv("LISTEN_FDNAMES", c->names, 1);
	MUST(sd_notify_handed(&h, &e) == 0);
	MUST(h.listener == c->listener && (int)h.n_kept == c->n_kept);
	for (size_t i = 0; i < h.n_kept; i++) {
		MUST(fcntl(h.kept[i].fd, F_GETFD) & FD_CLOEXEC);
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s=%d ", h.kept[i].name, h.kept[i].fd);
	}
	MUST(!strcmp(text, c->kept));
	sd_notify_handed_done(&h);
	for (int i = 0; i < c->n; i++)
		MUST(fd_is(3 + i) == (3 + i == c->listener));
}

START_TEST(descriptors_that_it_kept)
{
	ck_assert_msg(in_child(take_kept, &mixed[_i]) == 0, "%s", mixed[_i].scenario);
}
END_TEST

START_TEST(without_a_manager)
{
	struct sd_notify m;
	struct err e = {0};
	struct inherited_fds h;

	ck_assert_int_eq(sd_notify_handed(&h, &e), 0);
	ck_assert_int_eq(h.listener, -1);
	ck_assert_uint_eq(h.n_kept, 0);
	ck_assert_int_eq(sd_notify_keep(&(struct sd_notify){.sock = -1}, "pillion.x", 0), -ENOTCONN);
	ck_assert_int_eq(sd_notify_open(&m, &e), 0);
	ck_assert_int_eq(m.sock, -1);
	sd_notify_say(&m, "READY=1");
	ck_assert_int_eq(sd_notify_round(&m, 1), -1);
	sd_notify_close(&m);
}
END_TEST

/* --- what it hears -------------------------------------------------------------------------------------- */

static char dir[64], path[96];
static int ear;

/* A manager's ear, at a path or an abstract name, which NOTIFY_SOCKET then says. */
static void listen_at(bool abstract)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	size_t len;
	snprintf(dir, sizeof(dir), "/tmp/test_manager.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s%s/notify", abstract ? "@" : "", dir);
	len = strlen(path);
	memcpy(un.sun_path, path, len + 1);
	if (abstract)
		un.sun_path[0] = 0;
	ear = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	ck_assert_int_eq(bind(ear, (struct sockaddr *)&un,
				 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + !abstract)),
		0);
	setenv("NOTIFY_SOCKET", path, 1);
}

static void listen_no_more(void)
{
	ear = fd_close(ear);
	unlink(path);
	rmdir(dir);
}

static const char *heard(void)
{
	static char text[600];
	ssize_t n = recv(ear, text, sizeof(text) - 1, 0);
	text[n < 0 ? 0 : n] = 0;
	return text;
}

START_TEST(it_hears_us)
{
	struct sd_notify m;
	struct err e = {0};

	listen_at(_i);
	int r = sd_notify_open(&m, &e);
	ck_assert_msg(r == 0, "%s", e.text);
	ck_assert_int_eq(fcntl(m.sock, F_GETFD), FD_CLOEXEC);
	ck_assert_ptr_null(getenv("NOTIFY_SOCKET"));
	sd_notify_say(&m, "READY=1\nSTATUS=%s", "fine");
	ck_assert_str_eq(heard(), "READY=1\nSTATUS=fine");
	ck_assert_int_eq(sd_notify_round(&m, 1), -1); /* it has no watchdog */
	ck_assert_str_eq(heard(), "");
	sd_notify_close(&m);
	sd_notify_say(&m, "STOPPING=1");
	ck_assert_str_eq(heard(), "");
	listen_no_more();
	same_fds();
}
END_TEST

START_TEST(it_keeps_what_we_ask_it_to)
{
	struct sd_notify m;
	struct err e = {0};
	char text[200] = "";
	int fd = -1;
	size_t n = 0;

	listen_at(false);
	ck_assert_int_eq(sd_notify_open(&m, &e), 0);
	ck_assert_int_eq(sd_notify_keep(&m, "pillion.target.1.0", m.sock), 0);
	ck_assert_int_gt(fd_recv(ear, text, sizeof(text) - 1, &fd, 1, &n), 0);
	ck_assert_str_eq(text, "FDSTORE=1\nFDPOLL=0\nFDNAME=pillion.target.1.0");
	ck_assert_uint_eq(n, 1);
	fd_close(fd);
	sd_notify_drop(&m, "pillion.target.1.0");
	ck_assert_str_eq(heard(), "FDSTOREREMOVE=1\nFDNAME=pillion.target.1.0");
	while (send(m.sock, "x", 1, 0) == 1)
		;
	ck_assert_int_eq(sd_notify_keep(&m, "pillion.target.1.0", m.sock), -EAGAIN);
	sd_notify_close(&m);
	listen_no_more();
	same_fds();
}
END_TEST

static const struct {
	const char *scenario, *address;
	int error;
} addresses[] = {
	{"a relative path", "run/notify", -EINVAL},
	{"nothing but the sign", "@", -EINVAL},
	{"nobody there", "/nonexistent/notify", -ENOENT},
	{"nobody there, abstract", "@pillion-test-nobody", -ECONNREFUSED},
	{"a path that is too long",
		"/xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
		"xxxxxxxxxxx",
		-EINVAL},
};

START_TEST(an_address_that_is_none)
{
	struct sd_notify m;
	struct err e = {0};

	setenv("NOTIFY_SOCKET", addresses[_i].address, 1);
	ck_assert_msg(sd_notify_open(&m, &e) == addresses[_i].error, "%s", addresses[_i].scenario);
	ck_assert_ptr_nonnull(strstr(e.text, "cannot speak to the service manager at "));
	sd_notify_say(&m, "READY=1"); /* without harm */
	ck_assert_int_eq(sd_notify_round(&m, 1), -1);
	sd_notify_close(&m);
	same_fds();
}
END_TEST

static const struct {
	const char *scenario, *usec;
	long pid; /* 0: not said, -1: ours */
	int64_t period_ns;
} watchdogs[] = {
	{"half of what it waits for", "30000000", 0, 15 * NSEC_PER_SEC},
	{"for us", "30000000", -1, 15 * NSEC_PER_SEC},
	{"for another process", "30000000", 1, 0},
	{"none", "0", 0, 0},
	{"no number", "soon", 0, 0},
	{"more than time has", "18446744073709551615", 0, 0},
};

START_TEST(a_watchdog_is_fed_in_time)
{
	struct sd_notify m;
	struct err e = {0};

	listen_at(false);
	setenv("WATCHDOG_USEC", watchdogs[_i].usec, 1);
	if (watchdogs[_i].pid)
		set_number("WATCHDOG_PID", watchdogs[_i].pid < 0 ? getpid() : watchdogs[_i].pid);
	ck_assert_int_eq(sd_notify_open(&m, &e), 0);
	ck_assert_msg(m.watchdog_ns == watchdogs[_i].period_ns, "%s: %lld ns", watchdogs[_i].scenario,
		(long long)m.watchdog_ns);
	ck_assert(!getenv("WATCHDOG_USEC") && !getenv("WATCHDOG_PID"));
	int wait = sd_notify_round(&m, 3);
	if (m.watchdog_ns) {
		ck_assert_int_gt(wait, 14000);
		ck_assert_int_le(wait, 15000);
		ck_assert_str_eq(heard(), "WATCHDOG=1\nSTATUS=targets: 3");
		ck_assert_int_gt(sd_notify_round(&m, 3), 14000); /* not yet */
		ck_assert_str_eq(heard(), "");
		m.due = clock_now() - 1;
		ck_assert_int_gt(sd_notify_round(&m, 4), 14000);
		ck_assert_str_eq(heard(), "WATCHDOG=1\nSTATUS=targets: 4");
	} else {
		ck_assert_int_eq(wait, -1);
	}
	sd_notify_close(&m);
	listen_no_more();
	same_fds();
}
END_TEST

static struct clock_driven leaping = {.leaps = true};

START_TEST(one_that_does_not_read_holds_nobody_up)
{
	struct sd_notify m;
	struct err e = {0};

	listen_at(false);
	setenv("WATCHDOG_USEC", "30000000", 1);
	ck_assert_int_eq(sd_notify_open(&m, &e), 0);
	while (send(m.sock, "x", 1, 0) == 1)
		;
	clock_drive(&leaping);
	int64_t began = clock_now();
	ck_assert_int_gt(sd_notify_round(&m, 1), 14000);
	ck_assert_int_eq(clock_now(), began);
	sd_notify_say(&m, "READY=1");
	ck_assert_int_eq(clock_now() - began, SD_NOTIFY_PATIENCE_MS * NSEC_PER_MSEC);
	clock_drive(NULL);
	listen_no_more(); /* and when it has gone, no signal */
	sd_notify_say(&m, "READY=1");
	sd_notify_close(&m);
	same_fds();
}
END_TEST

UNIT_SUITE(sd_notify)
{
	Suite *s = suite_create("sd_notify");
	TCase *t = tcase_create("sd_notify");

	tcase_add_checked_fixture(t, count_fds, NULL);
	tcase_add_loop_test(t, a_socket_that_is_handed_over, 0, LENGTH(given));
	tcase_add_loop_test(t, descriptors_that_it_kept, 0, LENGTH(mixed));
	tcase_add_test(t, without_a_manager);
	tcase_add_loop_test(t, it_hears_us, 0, 2);
	tcase_add_test(t, it_keeps_what_we_ask_it_to);
	tcase_add_loop_test(t, an_address_that_is_none, 0, LENGTH(addresses));
	tcase_add_loop_test(t, a_watchdog_is_fed_in_time, 0, LENGTH(watchdogs));
	tcase_add_test(t, one_that_does_not_read_holds_nobody_up);
	suite_add_tcase(s, t);
	return s;
}
