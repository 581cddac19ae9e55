/* SPDX-License-Identifier: Apache-2.0 */
/* keeping: a target as a socket whose other end is closed, and what becomes of it again. */
#include "profiler/daemon/fd_store.h"

#include "oci/base/fd.h"
#include "oci/base/journal.h"
#include "profiler/daemon/supervisor.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))

static int fds;

static void count_fds(void)
{
	fds = fd_count();
}

static void same_fds(void)
{
	ck_assert_int_eq(fd_count(), fds);
}

/* A file that can be told from others. */
static int mark(unsigned what)
{
	int fd = memfd_create("mark", MFD_CLOEXEC);
	ck_assert_int_eq(write(fd, &what, sizeof(what)), sizeof(what));
	return fd;
}

static unsigned marked(int fd)
{
	unsigned what = 0;
	ck_assert_int_eq(pread(fd, &what, sizeof(what), 0), sizeof(what));
	return what;
}

static struct registered_target *make(uint32_t n_events)
{
	static struct target_desc d;
	static struct msg_events m;
	int files[] = {mark(1000), mark(1001)}, events[PROTOCOL_BATCH_MAX];
	d = (struct target_desc){.id = "one", .name = "its name", .init_pid = 7, .host_pid = 4711, .start_time = 99};
	d.fds = TARGET_PIDFD | TARGET_TREE;
	d.strategy = STRATEGY_CGROUP;
	d.window_s = 60;
	d.n_events = 1;
	d.events[0] = (struct event_spec){.kind = 0, .period = 1000};
	struct registered_target *r = registered_new(&d, files);
	for (uint32_t i = 0; i < n_events; i += m.n) {
		m.n = n_events - i < PROTOCOL_BATCH_MAX ? n_events - i : PROTOCOL_BATCH_MAX;
		m.total = i + m.n == n_events ? n_events : 0;
		for (uint32_t k = 0; k < m.n; k++) {
			m.events[k] = (struct event_desc){.role = PERF_SAMPLES, .cpu = (int32_t)(i + k)};
			events[k] = mark(i + k);
		}
		ck_assert_int_eq(registered_add(r, &m, events), 0);
	}
	r->armed = true;
	return r;
}

static int unpack(int sock, struct registered_target **ret)
{
	ck_assert_int_eq(fd_peek_from_first(sock), 0);
	return fd_store_load_target(sock, ret);
}

/* On one message, or several. */
static const uint32_t sizes[] = {1, 2, PROTOCOL_BATCH_MAX, PROTOCOL_BATCH_MAX + 1, 700};

START_TEST(it_comes_back_as_it_was)
{
	const uint32_t n = sizes[_i];
	struct registered_target *r = make(n), *back = NULL;
	int packed = fd_store_save_target(r);
	ck_assert_int_ge(packed, 0);
	registered_free(r); /* what it held is in the queue alone */
	ck_assert_int_eq(fd_count(), fds + 1);
	ck_assert_int_eq(unpack(packed, &back), 0);
	ck_assert_str_eq(back->desc.id, "one");
	ck_assert_str_eq(back->desc.name, "its name");
	ck_assert_int_eq(back->desc.host_pid, 4711);
	ck_assert_uint_eq(back->n_events, n);
	ck_assert_uint_eq(back->total, n);
	ck_assert_uint_eq(marked(back->fds[0]), 1000);
	ck_assert_uint_eq(marked(back->fds[1]), 1001);
	for (uint32_t i = 0; i < n; i++) {
		ck_assert_uint_eq(marked(back->event_fds[i]), i);
		ck_assert_int_eq(back->events[i].cpu, (int32_t)i);
	}
	registered_free(back);
	ck_assert_int_eq(fd_store_load_target(packed, &back), -EPIPE); /* this far it was read, */
	ck_assert_int_eq(unpack(packed, &back), 0);		       /* and all of it is there */
	ck_assert_uint_eq(marked(back->event_fds[n - 1]), n - 1);
	registered_free(back);
	fd_close(packed);
	same_fds();
}
END_TEST

START_TEST(events_that_are_closed_are_left_out)
{
	struct registered_target *r = make(PROTOCOL_BATCH_MAX + 3), *back = NULL;
	r->event_fds[0] = fd_close(r->event_fds[0]);
	r->event_fds[PROTOCOL_BATCH_MAX + 2] = fd_close(r->event_fds[PROTOCOL_BATCH_MAX + 2]);
	r->event_fds[9] = fd_close(r->event_fds[9]);
	int packed = fd_store_save_target(r);
	registered_free(r);
	ck_assert_int_eq(unpack(packed, &back), 0);
	ck_assert_uint_eq(back->n_events, PROTOCOL_BATCH_MAX);
	ck_assert_uint_eq(back->total, PROTOCOL_BATCH_MAX);
	ck_assert_uint_eq(marked(back->event_fds[0]), 1);
	ck_assert_uint_eq(marked(back->event_fds[8]), 10);
	registered_free(back);
	fd_close(packed);
	same_fds();
}
END_TEST

enum { NOTHING, WORDS, NO_EVENTS, NOT_ALL_EVENTS, EVENTS_FIRST, TWO_TARGETS };

static const struct {
	const char *scenario;
	int what, error;
} bad[] = {
	{"nothing in it", NOTHING, -EPIPE},
	{"words", WORDS, -EPROTO},
	{"a target without events", NO_EVENTS, -EPROTO},
	{"it ends before its last events", NOT_ALL_EVENTS, -EPROTO},
	{"events first", EVENTS_FIRST, -EPROTO},
	{"two targets", TWO_TARGETS, -EPROTO},
};

static void put_target(int sock, const struct registered_target *r)
{
	static union msg m;
	m.target.desc = r->desc;
	ck_assert_int_eq(msg_send(sock, &m, MSG_TARGET, r->fds, 2), 0);
}

static void put_event(int sock, const struct registered_target *r)
{
	static union msg m;
	m.events.n = 1;
	m.events.total = 0;
	m.events.events[0] = r->events[0];
	ck_assert_int_eq(msg_send(sock, &m, MSG_EVENTS, r->event_fds, 1), 0);
}

START_TEST(what_is_no_target)
{
	struct registered_target *r = make(2), *back = NULL;
	int pair[2], what = bad[_i].what;
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	if (what == WORDS)
		ck_assert_int_eq(send(pair[0], "words", 5, 0), 5);
	if (what == EVENTS_FIRST)
		put_event(pair[0], r);
	if (what >= NO_EVENTS)
		put_target(pair[0], r);
	if (what == NOT_ALL_EVENTS)
		put_event(pair[0], r);
	if (what == TWO_TARGETS)
		put_target(pair[0], r);
	fd_close(pair[0]);
	registered_free(r);
	ck_assert_msg(unpack(pair[1], &back) == bad[_i].error, "%s", bad[_i].scenario);
	fd_close(pair[1]);
	same_fds();
}
END_TEST

START_TEST(more_than_a_queue_takes)
{
	struct registered_target *r = make(1);
	static struct msg_events m;
	int events[PROTOCOL_BATCH_MAX], packed = 0;
	r->total = 0;
	m.n = PROTOCOL_BATCH_MAX;
	for (unsigned k = 0; k < m.n; k++)
		m.events[k] = (struct event_desc){.role = PERF_SAMPLES, .cpu = 0};
	for (unsigned i = 0; i < 50 && packed >= 0; i++) {
		for (unsigned k = 0; k < m.n; k++)
			events[k] = fcntl(r->fds[0], F_DUPFD_CLOEXEC, 3);
		ck_assert_int_eq(registered_add(r, &m, events), 0);
		packed = fd_store_save_target(r);
		fd_close(packed);
	}
	ck_assert_int_eq(packed, -EAGAIN);
	ck_assert_uint_gt(r->n_events, 2000);
	registered_free(r);
	same_fds();
}
END_TEST

/* --- a service manager, and supervisors that are killed */

#define STORE_MAX 16

static struct stored_fd store[STORE_MAX];
static size_t stored;

static void store_drop(const char *name)
{
	size_t n = 0;
	for (size_t i = 0; i < stored; i++)
		if (strcmp(store[i].name, name) == 0)
			fd_close(store[i].fd);
		else
			store[n++] = store[i];
	stored = n;
}

/* Of what the supervisor said the manager hears so many messages: it was killed before it said more. */
static void hear(int sock, unsigned most)
{
	char text[256] = "";
	int fd = -1;
	size_t n;
	for (unsigned i = 0; i < most && fd_recv(sock, text, sizeof(text) - 1, &fd, 1, &n) > 0; i++) {
		const char *name = strstr(text, "FDNAME=") + strlen("FDNAME=");
		if (n) {
			ck_assert_uint_lt(stored, STORE_MAX);
			snprintf(store[stored].name, SD_NOTIFY_NAME_MAX, "%s", name);
			store[stored++].fd = fd;
		} else {
			store_drop(name);
		}
		memset(text, 0, sizeof(text));
	}
}

/* Copies, as pilliond gets them when it is started. */
static struct inherited_fds hand_over(void)
{
	struct inherited_fds h = {.listener = -1, .kept = calloc(STORE_MAX, sizeof(*h.kept)), .n_kept = stored};
	for (size_t i = 0; i < stored; i++) {
		h.kept[i] = store[i];
		h.kept[i].fd = fcntl(store[i].fd, F_DUPFD_CLOEXEC, 3);
		fd_peek_from_first(h.kept[i].fd); /* as profiler/daemon/startup.c does */
	}
	return h;
}

struct life { /* of a supervisor */
	struct engine engine;
	struct sd_notify manager;
	struct supervisor s;
	int heard; /* the manager's end */
};

static void life_begin(struct life *l)
{
	static const struct settings settings;
	struct err e = {0};
	int pair[2];
	memset(l, 0, sizeof(*l));
	l->engine = (struct engine){.symbols.kallsyms_fd = -1,
		.symbols.root = -1,
		.host.statm = -1,
		.host.handover = -1,
		.host.channel = -1};
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
	l->manager = (struct sd_notify){.sock = pair[0]};
	l->heard = pair[1];
	l->s = (struct supervisor){.engine = &l->engine, .settings = &settings, .manager = &l->manager};
	l->s.symbolizer = (struct symbolizer_manager)SYMBOLIZER_MANAGER_NONE;
	l->s.exporter = (struct exporter_manager){
		.setup = {.spool = -1, .http.fd = -1}, .process = {.sock = -1}, .pidfd = -1, .source = {.fd = -1}};
	ck_assert_int_eq(supervisor_new(&l->s, &e), 0);
}

/* Killed: nobody hears of what it lets go of. */
static void life_end(struct life *l, unsigned messages)
{
	hear(l->heard, messages);
	l->s.manager = NULL;
	supervisor_done(&l->s);
	event_loop_free(l->s.loop);
	sd_notify_close(&l->manager);
	fd_close(l->heard);
}

static ino_t inode(int fd)
{
	struct stat st;
	ck_assert_int_eq(fstat(fd, &st), 0);
	return st.st_ino;
}

/*
 * One keeps a target and is killed with its worker; the next is killed behind its Nth word to the manager; a third one
 * has the target and the journal, whatever N is.
 */
START_TEST(whenever_it_is_killed_nothing_is_lost)
{
	struct life l;
	life_begin(&l);
	supervisor_restore(&l.s, make(3), 7);
	ck_assert_int_eq(fd_store_round(&l.s), -1);
	const ino_t journals[] = {inode(l.engine.host.journal[0]), inode(l.engine.host.journal[1])};
	life_end(&l, 100);
	ck_assert_uint_eq(stored, 3);

	life_begin(&l);
	struct inherited_fds h = hand_over();
	ck_assert(!fd_store_has_journal(&h)); /* it is empty */
	ck_assert_int_eq(pwrite(h.kept[1].fd, (uint64_t[8]){0x6c616e72756f6a70ull, JOURNAL_VERSION, 1}, 64, 0), 64);
	ck_assert(fd_store_has_journal(&h));
	ck_assert(!fd_store_has_journal(&(struct inherited_fds){.kept = h.kept, .n_kept = 1}));
	ck_assert_uint_eq(fd_store_restore(&l.s, &h, true), 1);
	fd_store_round(&l.s);
	life_end(&l, (unsigned)_i);

	life_begin(&l);
	h = hand_over();
	ck_assert_uint_eq(fd_store_restore(&l.s, &h, true), 1);
	const struct registered_target *r = supervisor_find(&l.s, 7);
	ck_assert_ptr_nonnull(r);
	ck_assert(r->detached && r->armed);
	ck_assert_uint_eq(r->n_events, 3);
	ck_assert_uint_eq(marked(r->event_fds[2]), 2);
	for (unsigned i = 0; i < 2; i++)
		ck_assert_uint_eq(inode(l.engine.host.journal[i]), journals[i]);
	fd_store_forget(&l.s, l.s.targets); /* it has ended: nobody keeps it any more */
	life_end(&l, 100);
	ck_assert_uint_eq(stored, 2);
	while (stored)
		fd_close(store[--stored].fd);
	same_fds();
}
END_TEST

UNIT_SUITE(fd_store)
{
	Suite *s = suite_create("fd_store");
	TCase *t = tcase_create("fd_store");
	tcase_set_timeout(t, 30);
	tcase_add_checked_fixture(t, count_fds, NULL);
	tcase_add_loop_test(t, it_comes_back_as_it_was, 0, LENGTH(sizes));
	tcase_add_test(t, events_that_are_closed_are_left_out);
	tcase_add_loop_test(t, what_is_no_target, 0, LENGTH(bad));
	tcase_add_test(t, more_than_a_queue_takes);
	tcase_add_loop_test(t, whenever_it_is_killed_nothing_is_lost, 0, 9);
	suite_add_tcase(s, t);
	return s;
}
